package logtest_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/logtest"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mutant is a memory log with one thing wrong; a nil field is right.
type mutant struct {
	*memlogtest.Log
	identity func() rlmm.LogID
	append   func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error)
	bounds   func(map[int32]rlmm.Bounds)
	check    func([]rlmm.Loss) []rlmm.Loss
	follow   func(from map[int32]rlmm.Position)
	next     func(f *mutantFollower, ctx context.Context) (rlmm.Batch, error)
	assign   func(f *mutantFollower, from map[int32]rlmm.Position)
	deaf     bool // Close of a follower does nothing
	open     bool // Close of the log does nothing
}

func (m *mutant) Identity() rlmm.LogID {
	if m.identity != nil {
		return m.identity()
	}
	return m.Log.Identity()
}

func (m *mutant) Append(ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
	if m.append != nil {
		return m.append(m.Log, ctx, p, e)
	}
	return m.Log.Append(ctx, p, e)
}

func (m *mutant) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	b, err := m.Log.Bounds(ctx, ps)
	if m.bounds != nil {
		m.bounds(b)
	}
	return b, err
}

func (m *mutant) Check(ctx context.Context, at map[int32]rlmm.Position) ([]rlmm.Loss, error) {
	lost, err := m.Log.Check(ctx, at)
	if m.check != nil {
		lost = m.check(lost)
	}
	return lost, err
}

func (m *mutant) Follow(from map[int32]rlmm.Position) rlmm.Follower {
	from = maps.Clone(from)
	if m.follow != nil {
		m.follow(from)
	}
	return &mutantFollower{Follower: m.Log.Follow(from), m: m, from: from}
}

func (m *mutant) Close() error {
	if m.open {
		return nil
	}
	return m.Log.Close()
}

type mutantFollower struct {
	rlmm.Follower
	m    *mutant
	mu   sync.Mutex
	from map[int32]rlmm.Position
	kept rlmm.Batch
}

func (f *mutantFollower) Next(ctx context.Context) (rlmm.Batch, error) {
	if f.m.next != nil {
		return f.m.next(f, ctx)
	}
	return f.Follower.Next(ctx)
}

func (f *mutantFollower) Assign(from map[int32]rlmm.Position) {
	if f.m.assign != nil {
		f.m.assign(f, from)
		return
	}
	f.Follower.Assign(from)
}

func (f *mutantFollower) Close() error {
	if f.m.deaf {
		return nil
	}
	return f.Follower.Close()
}

// edit makes a next that changes every batch.
func edit(change func(b *rlmm.Batch)) func(*mutantFollower, context.Context) (rlmm.Batch, error) {
	return func(f *mutantFollower, ctx context.Context) (rlmm.Batch, error) {
		b, err := f.Follower.Next(ctx)
		change(&b)
		return b, err
	}
}

var mutants = []struct {
	name   string
	caught []string // the cases that must fail
	m      mutant
}{
	{"none", nil, mutant{}},
	{"every log has one name", []string{"identity"}, mutant{identity: func() rlmm.LogID { return "x" }}},
	{"the position is the event's", []string{"append-position"}, mutant{append: func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
		pos, err := l.Append(ctx, p, e)
		pos.Offset--
		return pos, err
	}}},
	{"the slice is kept", []string{"append-copies"}, mutant{append: func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
		return l.Put(p, nil, e)
	}}},
	{"empty events and dead contexts are taken", []string{"invalid-arguments", "append-cancelled"}, mutant{append: func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
		pos, err := l.Put(p, nil, slices.Clone(e))
		if err == nil {
			err = ctx.Err()
		}
		return pos, err
	}}},
	{"a hanging append says that nothing was written", []string{"append-cancelled/stalled"}, mutant{append: func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
		pos, err := l.Append(ctx, p, e)
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		return pos, err
	}}},
	{"an append ignores its context", []string{"append-cancelled/stalled"}, mutant{append: func(l *memlogtest.Log, ctx context.Context, p int32, e []byte) (rlmm.Position, error) {
		return l.Append(context.WithoutCancel(ctx), p, e)
	}}},
	{"bounds lag", []string{"append-visible"}, mutant{bounds: func(b map[int32]rlmm.Bounds) {
		for p, v := range b {
			v.Next = max(v.Next-1, v.First)
			b[p] = v
		}
	}}},
	{"check finds nothing", []string{"head-gone", "truncated-and-regrown", "truncated"}, mutant{check: func([]rlmm.Loss) []rlmm.Loss { return nil }}},
	{"losses are not reported", []string{"head-gone", "truncated-and-regrown", "truncated"}, mutant{next: edit(func(b *rlmm.Batch) { b.Lost = nil })}},
	{"a loss of another kind", []string{"head-gone", "truncated"}, mutant{next: edit(func(b *rlmm.Batch) {
		for i := range b.Lost {
			b.Lost[i].Kind = 3 - b.Lost[i].Kind
		}
	})}},
	{"holes are waited in", []string{"holes"}, mutant{next: func(f *mutantFollower, ctx context.Context) (rlmm.Batch, error) {
		for {
			if b, err := f.Follower.Next(ctx); err != nil || len(b.Events) > 0 {
				return b, err
			}
		}
	}}},
	{"big batches lose an event", []string{"slow-reader"}, mutant{next: edit(func(b *rlmm.Batch) {
		if len(b.Events) > 500 {
			b.Events = slices.Delete(b.Events, 77, 78)
		}
	})}},
	{"an offset is given twice", []string{"in-order", "slow-reader"}, mutant{next: edit(func(b *rlmm.Batch) {
		for i := range b.Events {
			if b.Events[i].Offset == 7 {
				b.Events[i].Offset = 6
			}
		}
	})}},
	{"two events change places", []string{"slow-reader"}, mutant{next: edit(func(b *rlmm.Batch) {
		if n := len(b.Events); n > 1 {
			b.Events[0], b.Events[n-1] = b.Events[n-1], b.Events[0]
		}
	})}},
	{"every batch comes twice", []string{"append-visible"}, mutant{next: func(f *mutantFollower, ctx context.Context) (b rlmm.Batch, err error) {
		if b, f.kept = f.kept, b; len(b.Next) > 0 {
			return b, nil
		}
		f.kept, err = f.Follower.Next(ctx)
		return f.kept, err
	}}},
	{"a tombstone is an empty value", []string{"in-order/foreign"}, mutant{next: edit(func(b *rlmm.Batch) {
		for i := range b.Events {
			if b.Events[i].Value == nil {
				b.Events[i].Value = []byte{}
			}
		}
	})}},
	{"a follower starts one late", []string{"in-order/from-the-middle"}, mutant{follow: func(from map[int32]rlmm.Position) {
		for p, at := range from {
			if at.Offset > 0 {
				from[p] = rlmm.Position{Offset: at.Offset + 1, Epoch: -1}
			}
		}
	}}},
	{"a cancelled Next loses what it read", []string{"next-cancelled"}, mutant{next: func(f *mutantFollower, ctx context.Context) (rlmm.Batch, error) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		b, err := f.Follower.Next(late)
		if ctx.Err() != nil {
			return rlmm.Batch{}, ctx.Err()
		}
		return b, err
	}}},
	{"the first partition comes first", []string{"fair"}, mutant{next: func(f *mutantFollower, ctx context.Context) (rlmm.Batch, error) {
		f.mu.Lock()
		from := maps.Clone(f.from)
		f.mu.Unlock()
		p := int32(0)
		if b, err := f.m.Log.Bounds(ctx, []int32{0}); err != nil || from[0].Offset == b[0].Next {
			p = 1
		}
		one := f.m.Log.Follow(map[int32]rlmm.Position{p: from[p]})
		b, err := one.Next(ctx)
		f.mu.Lock()
		maps.Copy(f.from, b.Next)
		f.mu.Unlock()
		return b, err
	}}},
	{"Assign puts everything back", []string{"assign"}, mutant{assign: func(f *mutantFollower, from map[int32]rlmm.Position) {
		f.Follower.Assign(nil)
		f.Follower.Assign(from)
	}}},
	{"Assign is ignored", []string{"assign", "assign/during-next"}, mutant{assign: func(*mutantFollower, map[int32]rlmm.Position) {}}},
	{"Close of a follower does nothing", []string{"close-follower"}, mutant{deaf: true}},
	{"Close of the log does nothing", []string{"close-log"}, mutant{open: true}},
}

// TestTable_CatchesMutants: each case of the table is able to fail, for the reason that it is there for.
func TestTable_CatchesMutants(t *testing.T) {
	uncaught := map[string]bool{}
	for _, c := range logtest.Cases() {
		uncaught[c.Name] = true
	}
	delete(uncaught, "reopen") // a memory log cannot
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for _, c := range logtest.Cases() {
				want := slices.Contains(m.caught, c.Name)
				if !want && m.caught != nil || c.Name == "reopen" {
					continue
				}
				delete(uncaught, c.Name)
				if r := runCase(t, c, m.m, want); r.failed != want {
					t.Errorf("case %s: failed = %v, want %v: %s", c.Name, r.failed, want, r.text)
				}
			}
		})
	}
	for name := range uncaught {
		t.Errorf("no mutant for case %s", name)
	}
}

func runCase(t *testing.T, c logtest.Case, m mutant, fails bool) *recorder {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorder{TB: t, ctx: ctx}
	h := harness(m)
	if fails {
		h.Patience = 300 * time.Millisecond // what fails by hanging
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(r, h)
	}()
	<-done
	cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r
}

func harness(m mutant) logtest.Harness {
	do := func(t testing.TB, l rlmm.Log, f func(*memlogtest.Log) error) rlmm.Log {
		if err := f(l.(*mutant).Log); err != nil {
			t.Fatalf("harness: %v", err)
		}
		return l
	}
	return logtest.Harness{
		Open: func(testing.TB) rlmm.Log {
			one := m
			one.Log = memlogtest.New(2)
			return &one
		},
		TrimHead: func(t testing.TB, l rlmm.Log, p int32, first int64) rlmm.Log {
			return do(t, l, func(l *memlogtest.Log) error { return l.TrimHead(p, first) })
		},
		Regrow: func(t testing.TB, l rlmm.Log, p int32, end int64, events ...string) rlmm.Log {
			return do(t, l, func(l *memlogtest.Log) error {
				err := l.Truncate(p, end)
				for _, e := range events {
					if err == nil {
						_, err = l.Put(p, nil, []byte(e))
					}
				}
				return err
			})
		},
		Skip: func(t testing.TB, l rlmm.Log, p int32, n int64) rlmm.Log {
			return do(t, l, func(l *memlogtest.Log) error { return l.Skip(p, n) })
		},
		Foreign: func(t testing.TB, l rlmm.Log, p int32, key, value []byte) rlmm.Log {
			return do(t, l, func(l *memlogtest.Log) error { _, err := l.Put(p, key, value); return err })
		},
		Stall: func(_ testing.TB, l rlmm.Log, _ int32) func() { return stall(l.(*mutant).Log) },
	}
}

// stall makes appends hang as those of a client that has already sent the event. When release returns, all have landed.
func stall(l *memlogtest.Log) (release func()) {
	var mu sync.Mutex
	var landed []chan struct{}
	gate, released := make(chan struct{}), false
	hang := func(ctx context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
		mu.Lock()
		if released {
			mu.Unlock()
			return land()
		}
		var pos rlmm.Position
		var err error
		done := make(chan struct{})
		landed = append(landed, done)
		mu.Unlock()
		go func() {
			defer close(done)
			<-gate
			pos, err = land()
		}()
		select {
		case <-done:
			return pos, err
		case <-ctx.Done():
			return rlmm.Position{}, fmt.Errorf("%w: %w", remotelog.ErrOutcomeUnknown, ctx.Err())
		}
	}
	l.OnAppend(hang)
	return func() {
		mu.Lock()
		released = true
		mu.Unlock()
		close(gate)
		for _, done := range landed {
			<-done
		}
		l.OnAppend(nil)
	}
}

// recorder is a testing.TB that remembers instead of failing.
type recorder struct {
	testing.TB
	ctx      context.Context
	failed   bool
	text     string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.text += fmt.Sprintf(format, args...) + "\n"
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
