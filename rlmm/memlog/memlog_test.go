package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/logtest"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLog_Contract(t *testing.T) {
	logtest.Run(t, logtest.Harness{Open: func(testing.TB) rlmm.Log { return memlog.New(memlog.Options{Partitions: 2}) }})
}

// TestFaultyLog_Contract runs the table with all that memlogtest can do to a log.
func TestFaultyLog_Contract(t *testing.T) {
	change := func(t testing.TB, l rlmm.Log, f func(*memlogtest.Log) error) rlmm.Log {
		t.Helper()
		if err := f(l.(*memlogtest.Log)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	logtest.Run(t, logtest.Harness{
		Open: func(testing.TB) rlmm.Log { return memlogtest.New(2) },
		TrimHead: func(t testing.TB, l rlmm.Log, p int32, first int64) rlmm.Log {
			return change(t, l, func(m *memlogtest.Log) error { return m.TrimHead(p, first) })
		},
		Regrow: func(t testing.TB, l rlmm.Log, p int32, end int64, events ...string) rlmm.Log {
			return change(t, l, func(m *memlogtest.Log) error {
				if err := m.Truncate(p, end); err != nil {
					return err
				}
				for _, e := range events {
					if _, err := m.Append(t.Context(), p, []byte(e)); err != nil {
						return err
					}
				}
				return nil
			})
		},
		Skip: func(t testing.TB, l rlmm.Log, p int32, n int64) rlmm.Log {
			return change(t, l, func(m *memlogtest.Log) error { return m.Skip(p, n) })
		},
		Foreign: func(t testing.TB, l rlmm.Log, p int32, key, value []byte) rlmm.Log {
			return change(t, l, func(m *memlogtest.Log) error { _, err := m.Put(p, key, value); return err })
		},
		Stall: func(_ testing.TB, l rlmm.Log, _ int32) func() {
			gate := make(chan struct{})
			m := l.(*memlogtest.Log)
			m.OnAppend(func(ctx context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
				select {
				case <-gate:
					return land()
				case <-ctx.Done():
					go func() { <-gate; _, _ = land() }()
					return rlmm.Position{}, fmt.Errorf("%w: %w", remotelog.ErrOutcomeUnknown, ctx.Err())
				}
			})
			return func() { m.OnAppend(nil); close(gate) }
		},
	})
}

// TestLog_ManyManagers: followers of one log, as many brokers have, see the same events at the same offsets.
func TestLog_ManyManagers(t *testing.T) {
	const brokers, each = 5, 200
	l := memlog.New(memlog.Options{})
	defer func() { _ = l.Close() }()
	var wg sync.WaitGroup
	seen := make([][]string, brokers)
	for b := range brokers {
		f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(t.Context(), 0, fmt.Appendf(nil, "%d/%d", b, i)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			defer func() { _ = f.Close() }()
			for len(seen[b]) < brokers*each {
				batch, err := f.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range batch.Events {
					seen[b] = append(seen[b], string(e.Value))
				}
			}
		})
	}
	wg.Wait()
	for b := range brokers {
		if got, want := fmt.Sprint(seen[b]), fmt.Sprint(seen[0]); got != want {
			t.Errorf("broker %d saw another order than broker 0", b)
		}
	}
}

// TestFaults_OutcomeUnknown: what the caller is told and what the log holds.
func TestFaults_OutcomeUnknown(t *testing.T) {
	l := memlogtest.New(1)
	defer func() { _ = l.Close() }()
	next := func() int64 {
		b, err := l.Bounds(t.Context(), []int32{0})
		if err != nil {
			t.Fatal(err)
		}
		return b[0].Next
	}
	try := func() {
		t.Helper()
		if _, err := l.Append(t.Context(), 0, []byte("x")); !errors.Is(err, remotelog.ErrOutcomeUnknown) {
			t.Fatalf("Append: %v, want ErrOutcomeUnknown", err)
		}
	}
	l.OnAppend(memlogtest.Unknown)
	if try(); next() != 1 {
		t.Errorf("Unknown: Next = %d, want 1", next())
	}
	l.OnAppend(memlogtest.UnknownNever)
	if try(); next() != 1 {
		t.Errorf("UnknownNever: Next = %d, want 1", next())
	}
	f, land := memlogtest.UnknownUntil()
	l.OnAppend(f)
	try()
	if try(); next() != 1 {
		t.Errorf("UnknownUntil: Next = %d before, want 1", next())
	}
	if land(); next() != 3 {
		t.Errorf("UnknownUntil: Next = %d after, want 3", next())
	}
	l.OnAppend(nil)
	if _, err := l.Append(t.Context(), 0, []byte("x")); err != nil || next() != 4 {
		t.Errorf("without a fault: %v, Next = %d, want 4", err, next())
	}
}
