package metrics_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rsm"
	"github.com/tierkit/tierkit/serve"
)

// everything has all collectors, and a series of every family.
func everything(t *testing.T) *prometheus.Registry {
	budget, err := membudget.New(1<<20, membudget.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	return registry(t, metrics.NewBackend("mem"), metrics.NewLoad(func() backends.Load { return backends.Load{Driver: "mem"} }),
		metrics.NewMemory(budget.Stats), metrics.NewCaches(func() rsm.CacheStats { return rsm.CacheStats{} }), metrics.NewCopies(), metrics.NewMetadata(),
		metrics.NewFetches(), metrics.NewReadAhead(func() rsm.ReadAheadStats { return rsm.ReadAheadStats{} }), metrics.NewCalls(), metrics.NewServe(func() serve.Stats { return serve.Stats{} }),
		metrics.NewPartitions(func() rlmm.Status { return rlmm.Status{Partitions: []rlmm.PartitionStatus{{Partition: 7}}} }))
}

func TestFamilies_AreWhatIsGathered(t *testing.T) {
	families, err := everything(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []metrics.Family
	for _, f := range families {
		g := metrics.Family{Name: f.GetName(), Help: f.GetHelp(), Type: metrics.Type(strings.ToLower(f.GetType().String()))}
		for _, l := range f.GetMetric()[0].GetLabel() {
			g.Labels = append(g.Labels, l.GetName())
		}
		got = append(got, g)
	}
	want := metrics.Families()
	for i := range want {
		slices.Sort(want[i].Labels)
	}
	slices.SortFunc(want, func(a, b metrics.Family) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Families (-) and what is gathered (+):\n%s", diff)
	}
}

func TestFamilies_PassPromlint(t *testing.T) {
	problems, err := testutil.GatherAndLint(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range metrics.Families() {
		if strings.Count(f.Name, "_") < 2 || !strings.HasPrefix(f.Name, "tierkit_") {
			t.Errorf("%s is not tierkit_<area>_<what>", f.Name)
		}
	}
}

func TestLabels_HaveTheValuesThatAreGathered(t *testing.T) {
	families, err := everything(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(got[l.GetName()], l.GetValue()) {
					got[l.GetName()] = append(got[l.GetName()], l.GetValue())
				}
			}
		}
	}
	for _, l := range metrics.Labels() {
		want := slices.Sorted(slices.Values(l.Values))
		have := slices.Sorted(slices.Values(got[l.Name]))
		if l.Values != nil && !slices.Equal(want, have) || len(have) == 0 {
			t.Errorf("label %s: documented %q, gathered %q", l.Name, want, have)
		}
		delete(got, l.Name)
	}
	if len(got) > 0 {
		t.Errorf("labels without documentation: %v", got)
	}
}

func TestCollectors_AreSafeForConcurrentUse(t *testing.T) {
	backend, copies, metadata := metrics.NewBackend("mem"), metrics.NewCopies(), metrics.NewMetadata()
	reg := registry(t, backend, copies, metadata)
	const workers, rounds = 4, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			h := metadata.Hooks()
			for range rounds {
				backend.OnOp(t.Context(), backends.OpEvent{Driver: "other", Op: backends.OpPut, Bytes: 1, Attempts: 1})
				copies.Hooks().Copied(remotelog.SegmentMetadata{SizeBytes: 1}, 1)
				h.Applied(0, 1)
				h.Wrote(time.Second, nil)
			}
		})
		wg.Go(func() {
			for range rounds / 5 {
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := series(t, reg)
	for _, name := range []string{
		"tierkit_backend_ops_total{code=ok,driver=other,op=put}", "tierkit_backend_bytes_total{direction=up,driver=other}",
		"tierkit_rsm_copied_segments_total{}", "tierkit_rlmm_applied_total{}", "tierkit_rlmm_write_seconds_count{result=ok}",
	} {
		if got[name] != workers*rounds {
			t.Errorf("%s = %v, want %d", name, got[name], workers*rounds)
		}
	}
}

func TestCollectors_AClockThatWentBackIsNoPanic(t *testing.T) {
	backend, metadata := metrics.NewBackend("mem"), metrics.NewMetadata()
	reg := registry(t, backend, metadata)
	backend.OnOp(t.Context(), backends.OpEvent{Driver: "mem", Op: backends.OpPut, Took: -time.Second, Waited: -time.Second})
	metadata.Hooks().Wrote(-time.Second, errors.New("no"))
	got := series(t, reg)
	for name, want := range map[string]float64{
		"tierkit_backend_waited_seconds_total{driver=mem,op=put}":   0,
		"tierkit_backend_op_seconds_count{driver=mem,op=put}":       1,
		"tierkit_rlmm_write_seconds_count{result=error}":            1,
		"tierkit_backend_ops_total{code=ok,driver=mem,op=put}":      1,
		"tierkit_backend_ops_total{code=unknown,driver=mem,op=put}": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v, %v, want %v", name, v, ok, want)
		}
	}
}
