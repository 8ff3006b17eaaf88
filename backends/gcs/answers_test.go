package gcs

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/conformance/fault"
	"github.com/tierkit/tierkit/conformance/fault/gcsserver"
)

// planned opens a driver on a server of our own whose requests meet a plan.
func planned(t *testing.T, rules ...fault.Rule) (*Driver, *fault.Plan) {
	t.Helper()
	srv := httptest.NewServer(gcsserver.New("box"))
	t.Cleanup(srv.Close)
	plan := fault.NewPlan(dialect.GCS{})
	d := open(t, Options{Bucket: "box", Endpoint: srv.URL, Anonymous: true, ChunkBytes: chunk, MaxAttempts: 2, RetryDelay: 1}, backends.Env{WrapTransport: plan.Wrap})
	mustPut(t, d, "k", []byte("old"))
	plan.Add(rules...)
	t.Cleanup(func() {
		if err := plan.Check(); err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, plan)
		}
	})
	return d, plan
}

// TestAnswers_OfSomebodyElseAreNoSuccess: in the middle of an upload one kept Put waiting for ever; of others came empty listings, objects of no bytes and
// removals of what is still there.
func TestAnswers_OfSomebodyElseAreNoSuccess(t *testing.T) {
	put := func(d *Driver, size int) error {
		_, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(size)), backends.PutOptions{Size: int64(size)})
		return err
	}
	large := func(d *Driver) error { return put(d, 5*chunk) }
	for step, f := range map[string]func(d *Driver) error{
		fault.Put:            func(d *Driver) error { return put(d, 10) },
		fault.ResumableBegin: large, fault.ResumableChunk: large, fault.ResumableCommit: large,
		fault.Get: func(d *Driver) error {
			_, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			return err
		},
		fault.Stat:   func(d *Driver) error { _, err := d.Stat(t.Context(), "k"); return err },
		fault.List:   func(d *Driver) error { _, err := d.List(t.Context(), backends.ListOptions{}); return err },
		fault.Delete: func(d *Driver) error { return d.Delete(t.Context(), "k") },
	} {
		for _, do := range []fault.Action{fault.Garbage{Code: 200, Type: "text/html", Body: "<html>Welcome to the hotel</html>"}, fault.OK200WithError{Kind: fault.Internal}} {
			t.Run(step+" "+do.String(), func(t *testing.T) {
				d, plan := planned(t, fault.Rule{Step: step, Times: fault.Forever, Do: do})
				if err := f(d); backends.CodeOf(err) != backends.Corrupt {
					t.Errorf("got %v, want Corrupt", err)
				}
				plan.Stop()
				if got := mustGet(t, d, "k"); string(got) != "old" {
					t.Errorf("the object: %q", got)
				}
			})
		}
	}
}

// TestRetries_OfA403ThatMeans429: of an upload's answers the SDK looks at the status alone.
func TestRetries_OfA403ThatMeans429(t *testing.T) {
	for _, step := range []string{fault.Put, fault.ResumableBegin, fault.ResumableChunk, fault.ResumableCommit} {
		size := 10
		if step != fault.Put {
			size = 2*chunk + 5
		}
		d, _ := planned(t, fault.Rule{Step: step, Do: fault.Status{Kind: fault.RateLimit}})
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(size)), backends.PutOptions{Size: int64(size)}); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		d, _ = planned(t, fault.Rule{Step: step, Do: fault.Status{Kind: fault.Denied}})
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(size)), backends.PutOptions{Size: int64(size)}); !errors.Is(err, backends.Denied) {
			t.Errorf("%s: %v", step, err)
		}
	}
}
