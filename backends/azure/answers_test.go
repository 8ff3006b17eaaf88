package azure

import (
	"bytes"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/conformance/fault"
	"github.com/tierkit/tierkit/internal/testbed"
)

// planned opens a driver on Azurite whose requests meet a plan.
func planned(t *testing.T, rules ...fault.Rule) (*Driver, *fault.Plan) {
	t.Helper()
	srv := testbed.Azurite(t)
	plan := fault.NewPlan(dialect.Azure{})
	d := open(t, Options{
		Container: srv.Container(t), ConnectionString: backends.NewSecret(srv.ConnectionString()), BlockBytes: 100 << 10, MaxAttempts: 2, RetryDelay: 1,
	}, backends.Env{WrapTransport: plan.Wrap})
	mustPut(t, d, "k", []byte("old"))
	plan.Add(rules...)
	t.Cleanup(func() {
		if err := plan.Check(); err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, plan)
		}
	})
	return d, plan
}

// TestAnswers_OfSomebodyElseAreNoSuccess: of a hotel's page came an object of its bytes.
func TestAnswers_OfSomebodyElseAreNoSuccess(t *testing.T) {
	put := func(d *Driver, size int) error {
		_, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(size)), backends.PutOptions{Size: int64(size)})
		return err
	}
	large := func(d *Driver) error { return put(d, 300<<10) }
	for step, f := range map[string]func(d *Driver) error{
		fault.Put: func(d *Driver) error { return put(d, 10) }, fault.BlockStage: large, fault.BlockCommit: large,
		fault.Get: func(d *Driver) error {
			_, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			return err
		},
		fault.Stat:   func(d *Driver) error { _, err := d.Stat(t.Context(), "k"); return err },
		fault.List:   func(d *Driver) error { _, err := d.List(t.Context(), backends.ListOptions{}); return err },
		fault.Delete: func(d *Driver) error { return d.Delete(t.Context(), "k") },
	} {
		t.Run(step, func(t *testing.T) {
			d, plan := planned(t, fault.Rule{Step: step, Times: fault.Forever, Do: fault.Garbage{Code: 200, Type: "text/html", Body: "<html>Welcome to the hotel</html>"}})
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

// TestRetries_OfBytesThatHaveChanged on their way.
func TestRetries_OfBytesThatHaveChanged(t *testing.T) {
	for step, size := range map[string]int{fault.Put: 1000, fault.BlockStage: 300 << 10} {
		d, _ := planned(t, fault.Rule{Step: step, Do: fault.Corrupt{Of: fault.Request, Offset: 900}})
		mustPut(t, d, "k", pattern(size))
		if !bytes.Equal(mustGet(t, d, "k"), pattern(size)) {
			t.Errorf("%s: other bytes are stored", step)
		}
		d, _ = planned(t, fault.Rule{Step: step, Times: fault.Forever, Do: fault.Corrupt{Of: fault.Request, Offset: 900}})
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(size)), backends.PutOptions{Size: int64(size)}); backends.CodeOf(err) != backends.Corrupt {
			t.Errorf("%s, again and again: %v", step, err)
		}
	}
}
