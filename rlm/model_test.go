package rlm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// world is a tier whose every call may fail, in every way that the contracts allow, driven by a seed.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	p    float64 // of a fault per call
	mm   *faultyMeta
	st   *fakeStore
}

// faultyMeta adds to fakeMeta the write that is reported as unknown and becomes part of the log later.
type faultyMeta struct {
	*fakeMeta
	w    *world
	late []func()
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), st: newFakeStore()}
	w.mm = &faultyMeta{fakeMeta: newFakeMeta(), w: w}
	w.mm.before = func(op string) error { return w.fault(op + " before") }
	w.mm.after = func(op string) error {
		w.check(op)
		if w.roll() {
			return unknown(fmt.Errorf("%s after: %w", op, errLost))
		}
		return nil
	}
	w.st.before = func(op string, md remotelog.SegmentMetadata) error {
		if op == "delete" {
			if state := w.mm.segments[md.ID].State; state != remotelog.DeleteSegmentStarted {
				w.t.Fatalf("seed %d: delete of %s in state %s", w.seed, md.ID, state)
			}
		}
		return w.fault(op + " before")
	}
	w.st.after = func(op string, md remotelog.SegmentMetadata) error {
		w.check(op)
		return w.fault(op + " after")
	}
	return w
}

func (w *world) roll() bool { return w.rng.Float64() < w.p }

func (w *world) fault(what string) error {
	if w.roll() {
		return fmt.Errorf("%s: %w", what, errDisk)
	}
	return nil
}

// check is the invariant: what was acknowledged as finished can be read, until its delete was acknowledged to have begun.
func (w *world) check(op string) {
	w.t.Helper()
	for id, md := range w.mm.segments {
		if md.State == remotelog.CopySegmentFinished && w.st.segments[id] == nil {
			w.t.Fatalf("seed %d: after %s: segment [%d, %d] is finished and not in the store", w.seed, op, md.StartOffset, md.EndOffset)
		}
	}
}

func (m *faultyMeta) Add(ctx context.Context, md remotelog.SegmentMetadata) error {
	if m.w.roll() {
		m.later(func() error { return m.quiet().Add(context.WithoutCancel(ctx), md) })
		return unknown(errLost)
	}
	return m.fakeMeta.Add(ctx, md)
}

func (m *faultyMeta) Update(ctx context.Context, u remotelog.SegmentUpdate) error {
	if m.w.roll() {
		m.later(func() error { return m.quiet().Update(context.WithoutCancel(ctx), u) })
		return unknown(errLost)
	}
	return m.fakeMeta.Update(ctx, u)
}

// later lets a write of unknown outcome happen at a later time, or never. One that does not fit the state then is dropped, as every
// reader of the log drops it.
func (m *faultyMeta) later(write func() error) {
	if m.w.rng.IntN(2) == 0 {
		m.late = append(m.late, func() { _ = write() })
	}
}

// quiet is the same metadata without faults.
func (m *faultyMeta) quiet() *fakeMeta { return &fakeMeta{segments: m.segments} }

// settle lets the late writes happen, which they have at the latest when a process starts and has read the log to its end.
func (w *world) settle() {
	for _, f := range w.mm.late {
		f()
	}
	w.mm.late = nil
	w.check("a late write")
}

// Copies, deletes and recoveries under faults at every call, over many seeds: never is a segment deleted that is finished, and the next
// run without faults makes everything whole: each offset not deleted on purpose is there, in one finished segment that is in the
// store, and nothing else is left anywhere.
func TestModel_EveryFaultIsRepairedAndNothingAcknowledgedIsLost(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 2), threes(6, 1), threes(9, 2), threes(15, 1), threes(18, 1))
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 400
	}
	faults, repairs := 0, 0
	for seed := range seeds {
		w := newWorld(t, seed)
		tr := tier{w.mm, w.st}
		from := int64(0)
		for range 1 + w.rng.IntN(4) {
			w.p = []float64{0.02, 0.1, 0.3}[w.rng.IntN(3)]
			if w.rng.IntN(2) == 0 {
				w.settle() // a process starts
				_, err := Recover(t.Context(), tr.mm, tr.sm, RecoverOptions{OwnLog: true})
				faults += count(err)
			}
			switch w.rng.IntN(4) {
			case 0:
				from = []int64{0, 6, 9, 15}[w.rng.IntN(4)]
				_, err := DeleteBefore(t.Context(), tr.mm, tr.sm, l.tp, from, DeleteOptions{})
				faults += count(err)
			default:
				_, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{})
				faults += count(err)
			}
		}
		w.p = 0
		w.settle()
		found, err := Recover(t.Context(), tr.mm, tr.sm, RecoverOptions{OwnLog: true})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		repairs += len(found)
		if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		w.whole(tr, l)
	}
	if faults < int(seeds)/2 || repairs < int(seeds)/20 {
		t.Errorf("%d runs failed and %d segments were repaired in %d seeds: the faults do not bite", faults, repairs, seeds)
	}
	t.Logf("%d runs failed, %d segments were left for recovery, %d seeds", faults, repairs, seeds)
}

func count(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// whole checks the end of a run.
func (w *world) whole(tr tier, l *builtLog) {
	w.t.Helper()
	v, err := Open(w.t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	want := []int64{}
	for o := int64(0); o < 18; o++ {
		want = append(want, o)
	}
	if got := offsetsOf(w.t, v, 0, ReadUncommitted); !slices.Equal(got, want) {
		w.t.Fatalf("seed %d: records %v, want %v", w.seed, got, want)
	}
	left := w.mm.list(func(*remotelog.SegmentMetadata) bool { return true })
	for _, md := range left {
		if md.State != remotelog.CopySegmentFinished || w.st.segments[md.ID] == nil {
			w.t.Fatalf("seed %d: left in state %s: %+v", w.seed, md.State, md)
		}
	}
	if len(left) != len(w.st.segments) {
		w.t.Fatalf("seed %d: %d segments in the metadata, %d in the store", w.seed, len(left), len(w.st.segments))
	}
}

// The model finds each rule broken: a tier that breaks one is caught within a few seeds.
func TestModel_CatchesADeleteBeforeItsRecord(t *testing.T) {
	mm, st := newFakeMeta(), newFakeStore()
	md := *seg(0, 2, lin(0, 0))
	md.ID, md.State = remotelog.NewUUID(), remotelog.CopySegmentFinished
	mm.segments[md.ID] = md
	st.segments[md.ID] = &stored{}
	mm.before = failAt(remotelog.DeleteSegmentStarted.String(), unknown(errLost))
	err := DeleteSegment(t.Context(), mm, st, md, Protocol{})
	if !errors.Is(err, remotelog.ErrOutcomeUnknown) || st.segments[md.ID] == nil {
		t.Errorf("%v, stored %v: bytes must stay until DELETE_SEGMENT_STARTED is durable", err, st.segments[md.ID] != nil)
	}
}
