package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/metrics"
)

func TestBackend_CountsTheOperationsOfAStore(t *testing.T) {
	b := metrics.NewBackend("mem")
	reg := registry(t, b)
	var drivers backends.Registry
	if err := drivers.Register(mem.Factory()); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	store, err := drivers.Open(ctx, map[string]string{"storage.backend": "mem"}, backends.Options{Observer: b})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	before := series(t, reg)
	if _, err := store.Put(ctx, "k", strings.NewReader("four"), backends.PutOptions{Size: 4}); err != nil {
		t.Fatal(err)
	}
	obj, err := store.Get(ctx, "k", backends.GetOptions{Range: backends.Range{Offset: 1, Length: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(obj.Body); err != nil || string(got) != "ou" {
		t.Fatalf("read %q, %v", got, err)
	}
	if err := obj.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Stat(ctx, "missing"); !errors.Is(err, backends.NotFound) {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := store.Stat(cancelled, "k"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	after := series(t, reg)
	wantNoNew(t, before, after)
	got := changes(before, after)
	for name := range got {
		if strings.HasPrefix(name, "tierkit_backend_waited_seconds_total") { // depends on the clock
			delete(got, name)
		}
	}
	want := map[string]float64{
		"tierkit_backend_ops_total{code=ok,driver=mem,op=put}":         1,
		"tierkit_backend_ops_total{code=ok,driver=mem,op=get}":         1,
		"tierkit_backend_ops_total{code=ok,driver=mem,op=read}":        1,
		"tierkit_backend_ops_total{code=not_found,driver=mem,op=stat}": 1,
		"tierkit_backend_ops_total{code=cancelled,driver=mem,op=stat}": 1,
		"tierkit_backend_op_seconds_count{driver=mem,op=put}":          1,
		"tierkit_backend_op_seconds_count{driver=mem,op=get}":          1,
		"tierkit_backend_op_seconds_count{driver=mem,op=read}":         1,
		"tierkit_backend_op_seconds_count{driver=mem,op=stat}":         2,
		"tierkit_backend_attempts_total{driver=mem,op=put}":            1,
		"tierkit_backend_attempts_total{driver=mem,op=get}":            1,
		"tierkit_backend_attempts_total{driver=mem,op=stat}":           2,
		"tierkit_backend_bytes_total{direction=up,driver=mem}":         4,
		"tierkit_backend_bytes_total{direction=down,driver=mem}":       2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed series, want (-), got (+):\n%s", diff)
	}
}

func TestBackend_EventsRaiseTheirSeries(t *testing.T) {
	coded := func(c backends.Code) error { return backends.Errorf(c, "no") }
	for _, tc := range []struct {
		name string
		e    backends.OpEvent
		want map[string]float64
	}{
		{"resumed stream", backends.OpEvent{Op: backends.OpRead, Bytes: 10, Attempts: 3, Resumes: 2}, map[string]float64{
			"ops_total{code=ok,driver=mem,op=read}": 1, "op_seconds_count{driver=mem,op=read}": 1, "resumes_total{driver=mem}": 2,
			"attempts_total{driver=mem,op=read}": 2, "bytes_total{direction=down,driver=mem}": 10,
		}},
		{"throttled listing", backends.OpEvent{
			Op: backends.OpList, Bytes: 5, Attempts: 4, Waited: 1500 * time.Millisecond, Err: coded(backends.Throttled), Code: backends.Throttled,
		}, map[string]float64{
			"ops_total{code=throttled,driver=mem,op=list}": 1, "op_seconds_count{driver=mem,op=list}": 1,
			"attempts_total{driver=mem,op=list}": 4, "waited_seconds_total{driver=mem,op=list}": 1.5,
		}},
		{"deadline of the caller", backends.OpEvent{Op: backends.OpStat, Attempts: 1, Err: fmt.Errorf("x: %w", context.DeadlineExceeded)},
			map[string]float64{
				"ops_total{code=cancelled,driver=mem,op=stat}": 1, "op_seconds_count{driver=mem,op=stat}": 1,
				"attempts_total{driver=mem,op=stat}": 1,
			}},
		{"unknown error", backends.OpEvent{Op: backends.OpStat, Attempts: 1, Err: errors.New("no")}, map[string]float64{
			"ops_total{code=unknown,driver=mem,op=stat}": 1, "op_seconds_count{driver=mem,op=stat}": 1,
			"attempts_total{driver=mem,op=stat}": 1,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := metrics.NewBackend("mem")
			reg := registry(t, b)
			before := series(t, reg)
			tc.e.Driver = "mem"
			b.OnOp(t.Context(), tc.e)
			after := series(t, reg)
			wantNoNew(t, before, after)
			want := map[string]float64{}
			for k, v := range tc.want {
				want["tierkit_backend_"+k] = v
			}
			if diff := cmp.Diff(want, changes(before, after)); diff != "" {
				t.Errorf("changed series, want (-), got (+):\n%s", diff)
			}
		})
	}
}
