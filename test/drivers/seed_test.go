package drivers

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/conformance/fault/gcsserver"
)

// says is what a run says of each case: what became of it, the plans that it has drawn, and its requests but for names that no seed decides. At the scale quick
// cases end in any order.
func says(t *testing.T, seed uint64, scale conformance.Scale) []string {
	t.Helper()
	srv := httptest.NewServer(gcsserver.New("box"))
	defer srv.Close()
	h := onGCS(srv.URL, "box")
	h.Seed, h.Scale = seed, scale
	h.Only = regexp.MustCompile(`^(fault/(random|permanent-4xx|5xx-once|throttle-once)|get/random-ranges|keys|retry/recovers)/`)
	var out []string
	if err := conformance.Report(t.Context(), h, func(r conformance.Result) {
		var sent []string
		for _, q := range r.Wire {
			if r.Case == "fault/random" {
				break // the plan is drawn; which of its workers meets a fault is a race
			}
			sent = append(sent, fmt.Sprint(q.Method, " ", q.Step, q.Status, " ", q.Err != ""))
		}
		slices.Sort(sent) // parts of an upload are sent at the same time
		out = append(out, fmt.Sprint(r.Name(), r.Outcome, r.Why, r.Log, sent))
	}); err != nil {
		t.Fatal(err)
	}
	if scale == conformance.Quick {
		slices.Sort(out)
	}
	return out
}

// TestSeed_SameSeedSameRun: two runs of one seed have the same cases in the same order, which send the same requests, meet the same faults and end the same way.
func TestSeed_SameSeedSameRun(t *testing.T) {
	for name, scale := range map[string]conformance.Scale{"quick": conformance.Quick, "full": conformance.Full} {
		t.Run(name, func(t *testing.T) {
			first, again, other := says(t, 4711, scale), says(t, 4711, scale), says(t, 4712, scale)
			if len(first) < 20 || len(first) != len(again) {
				t.Fatalf("two runs of one seed have %d and %d results", len(first), len(again))
			}
			for i := range first {
				if first[i] != again[i] {
					t.Errorf("two runs of one seed differ:\n%s\n%s", first[i], again[i])
				}
			}
			if slices.Equal(first, other) {
				t.Error("two seeds give the same run: nothing that it says comes from the seed")
			}
		})
	}
}
