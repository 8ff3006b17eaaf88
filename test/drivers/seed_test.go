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

// TestSeed_SameSeedSameRun: what a run says of each case, the plans that it has drawn among it, follows from its seed.
func TestSeed_SameSeedSameRun(t *testing.T) {
	says := func(seed uint64) []string {
		srv := httptest.NewServer(gcsserver.New("box"))
		defer srv.Close()
		h := onGCS(srv.URL, "box")
		h.Seed, h.Scale = seed, conformance.Full
		h.Only = regexp.MustCompile(`^(fault/(random|permanent-4xx)|get/random-ranges|keys)/`)
		var out []string
		if err := conformance.Report(t.Context(), h, func(r conformance.Result) {
			out = append(out, fmt.Sprint(r.Name(), r.Outcome, r.Why, r.Log))
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, again, other := says(4711), says(4711), says(4712)
	if len(first) < 20 || !slices.Equal(first, again) {
		t.Errorf("two runs of one seed differ: %d and %d results\n%q\n%q", len(first), len(again), first, again)
	}
	if slices.Equal(first, other) {
		t.Error("two seeds give the same run: nothing that it says comes from the seed")
	}
}
