package rlm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

var (
	errDisk = errors.New("disk on fire")
	errLost = errors.New("answer lost")
)

func unknown(err error) error { return errors.Join(remotelog.ErrOutcomeUnknown, err) }

// failAt makes the n-th event of that kind fail.
func failAt(op string, err error) func(string) error {
	return func(o string) error {
		if o == op {
			return err
		}
		return nil
	}
}

// What each failing step of a copy leaves, and that the next run repairs it: the table is the one at copySegment.
func TestOffload_EachFailingStep(t *testing.T) {
	const started, finished, deleting, deleted = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"
	store := func(op string, err error) func(string, remotelog.SegmentMetadata) error {
		return func(o string, _ remotelog.SegmentMetadata) error { return failAt(op, err)(o) }
	}
	for name, c := range map[string]struct {
		fail   func(*fakeMeta, *fakeStore)
		state  string // of the segment afterwards; "": none
		stored bool
		kind   error
		events []string
	}{
		"add fails":                      {func(m *fakeMeta, _ *fakeStore) { m.before = failAt("add", errDisk) }, "", false, errDisk, nil},
		"add not assigned":               {func(m *fakeMeta, _ *fakeStore) { m.before = failAt("list", remotelog.ErrNotAssigned) }, "", false, remotelog.ErrNotAssigned, nil},
		"not ready":                      {func(m *fakeMeta, _ *fakeStore) { m.before = failAt("list", remotelog.ErrNotReady) }, "", false, remotelog.ErrNotReady, nil},
		"add unknown, happened":          {func(m *fakeMeta, _ *fakeStore) { m.after = failAt("add", unknown(errLost)) }, started, false, remotelog.ErrOutcomeUnknown, []string{"add"}},
		"add unknown, did not happen":    {func(m *fakeMeta, _ *fakeStore) { m.before = failAt("add", unknown(errLost)) }, "", false, remotelog.ErrOutcomeUnknown, nil},
		"copy fails":                     {func(_ *fakeMeta, s *fakeStore) { s.before = store("copy", errDisk) }, deleted, false, errDisk, []string{"add", deleting, deleted}},
		"copy fails at its end":          {func(_ *fakeMeta, s *fakeStore) { s.after = store("copy", errDisk) }, deleted, false, errDisk, []string{"add", deleting, deleted}},
		"finished fails":                 {func(m *fakeMeta, _ *fakeStore) { m.before = failAt(finished, errDisk) }, deleted, false, errDisk, []string{"add", deleting, deleted}},
		"finished unknown, happened":     {func(m *fakeMeta, _ *fakeStore) { m.after = failAt(finished, unknown(errLost)) }, finished, true, remotelog.ErrOutcomeUnknown, []string{"add", finished}},
		"finished unknown, did not":      {func(m *fakeMeta, _ *fakeStore) { m.before = failAt(finished, unknown(errLost)) }, started, true, remotelog.ErrOutcomeUnknown, []string{"add"}},
		"finished lost to another write": {func(m *fakeMeta, _ *fakeStore) { m.before = failAt(finished, remotelog.ErrConflict) }, started, true, remotelog.ErrConflict, []string{"add"}},
		"copy and clean-up fail": {func(m *fakeMeta, s *fakeStore) {
			s.after, m.before = store("copy", errDisk), failAt(deleting, errLost)
		}, started, true, errDisk, []string{"add"}},
		"copy fails, DELETE_STARTED unknown": {func(m *fakeMeta, s *fakeStore) {
			s.after, m.before = store("copy", errDisk), failAt(deleting, unknown(errLost))
		}, started, true, remotelog.ErrOutcomeUnknown, []string{"add"}},
		"copy and delete fail": {func(_ *fakeMeta, s *fakeStore) {
			s.after = store("copy", errDisk)
			s.before = store("delete", errLost)
		}, deleting, true, errLost, []string{"add", deleting}},
		"copy fails, DELETE_FINISHED fails": {func(m *fakeMeta, s *fakeStore) {
			s.after, m.before = store("copy", errDisk), failAt(deleted, errLost)
		}, deleting, false, errLost, []string{"add", deleting}},
	} {
		t.Run(name, func(t *testing.T) {
			l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1))
			tr, mm, st := fakes()
			c.fail(mm, st)
			var results []SegmentResult
			sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{OnResult: func(r SegmentResult) { results = append(results, r) }})
			if !errors.Is(err, c.kind) || sum.Copied != 0 {
				t.Errorf("got %+v, %v, want %v", sum, err, c.kind)
			}
			var states []string
			for _, md := range mm.segments {
				states = append(states, md.State.String())
			}
			if got := strings.Join(states, " "); got != c.state {
				t.Errorf("states %q, want %q", got, c.state)
			}
			if (len(st.segments) == 1) != c.stored || len(st.segments) > 1 {
				t.Errorf("%d segments stored, want any: %v", len(st.segments), c.stored)
			}
			writes := slices.DeleteFunc(mm.events, func(e string) bool { return e == "list" })
			if !slices.Equal(writes, c.events) {
				t.Errorf("events %v, want %v", writes, c.events)
			}
			if len(results) > 1 || len(results) == 1 && (results[0].Result != Failed || results[0].Err == nil || results[0].Segment.StartOffset != 0) {
				t.Errorf("results %+v", results)
			}
			mm.before, mm.after, st.before, st.after = nil, nil, nil, nil
			repaired(t, l, tr, mm, st)
		})
	}
}

// repaired runs the next start: recovery, then the offload again; everything is there once, and nothing else.
func repaired(t *testing.T, l *builtLog, tr tier, mm *fakeMeta, st *fakeStore) {
	t.Helper()
	if _, err := Recover(t.Context(), tr.mm, tr.sm, RecoverOptions{OwnLog: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := offsetsOf(t, v, 0, ReadUncommitted), []int64{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	left := mm.list(func(*remotelog.SegmentMetadata) bool { return true })
	if len(left) != 2 || len(st.segments) != 2 {
		t.Errorf("%d segments in the metadata, %d in the store, want 2", len(left), len(st.segments))
	}
}

// A context that ends while the bytes are stored does not lose the copy; one that ends before stops at once and cleans up.
func TestOffload_ContextEnds(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1))
	ctx, cancel := context.WithCancel(t.Context())
	tr, mm, st := fakes()
	st.after = func(op string, _ remotelog.SegmentMetadata) error { cancel(); return nil }
	sum, err := Offload(ctx, tr.mm, tr.sm, []string{l.dir}, OffloadOptions{})
	if !errors.Is(err, context.Canceled) || sum.Copied != 1 || len(st.segments) != 1 {
		t.Errorf("cancelled at the end of a copy: %+v, %v", sum, err)
	}
	st.after = nil
	ctx, cancel = context.WithCancel(t.Context())
	st.before = func(op string, _ remotelog.SegmentMetadata) error {
		if op != "copy" {
			return nil
		}
		cancel()
		return context.Cause(ctx)
	}
	sum, err = Offload(ctx, tr.mm, tr.sm, []string{l.dir}, OffloadOptions{})
	if !errors.Is(err, context.Canceled) || sum.Copied != 0 || sum.Failed != 1 || len(st.segments) != 1 {
		t.Errorf("cancelled inside a copy: %+v, %v", sum, err)
	}
	if left := mm.list(unfinished); len(left) != 0 {
		t.Errorf("left unfinished: %+v", left)
	}
	if _, err := Offload(ctx, tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// leaving is a metadata log whose caller leaves while STARTED is being written.
type leaving struct {
	*fakeMeta
	cancel context.CancelFunc
}

func (l leaving) Add(ctx context.Context, md remotelog.SegmentMetadata) error {
	l.cancel()
	if ctx.Err() != nil {
		return unknown(ctx.Err())
	}
	return l.fakeMeta.Add(ctx, md)
}

func TestOffload_ContextThatEndsWithinStartedLeavesNothingUnfinished(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tr, mm, st := fakes()
	st.before = func(op string, _ remotelog.SegmentMetadata) error {
		if op == "copy" {
			return ctx.Err()
		}
		return nil
	}
	_, err := Offload(ctx, leaving{mm, cancel}, tr.sm, []string{l.dir}, OffloadOptions{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, remotelog.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	if left := mm.list(unfinished); len(left) != 0 || len(st.segments) != 0 {
		t.Errorf("unfinished %+v, stored %d", left, len(st.segments))
	}
}

// The file grows while it is copied: a broker came to life. The copy is not acknowledged.
func TestOffload_FileThatChangesIsNotAcknowledged(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	tr, mm, st := fakes()
	st.after = func(op string, _ remotelog.SegmentMetadata) error {
		l.write("00000000000000000000.log", append(l.read("00000000000000000000.log"), 0))
		return nil
	}
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); !errors.Is(err, remotelog.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	if len(mm.list(func(*remotelog.SegmentMetadata) bool { return true })) != 0 || len(st.segments) != 0 {
		t.Errorf("left: %v, %d stored", mm.segments, len(st.segments))
	}
}

func TestOffload_EventsCarryTimeBrokerAndCustomMetadata(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	l.beside("meta.properties", "node.id=4\n")
	now := time.UnixMilli(5_000)
	tr, mm, _ := fakes()
	started := 0
	sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.logDir, l.dir}, OffloadOptions{
		Protocol: Protocol{Now: func() time.Time { now = now.Add(time.Second); return now }},
		OnStart: func(md remotelog.SegmentMetadata) {
			if md.State == remotelog.CopySegmentStarted && !md.ID.IsZero() {
				started++
			}
		},
		OnResult: func(r SegmentResult) {
			if r.Result != Copied || r.Duration <= 0 || string(r.Segment.CustomMetadata) != "cm:"+r.Segment.ID.String() ||
				r.Segment.State != remotelog.CopySegmentFinished {
				t.Errorf("result %+v", r)
			}
		},
	})
	if err != nil || sum != (Summary{Copied: 1, Bytes: 91}) || started != 1 {
		t.Errorf("%+v, %v, %d started; a directory named twice counts once", sum, err, started)
	}
	for _, md := range mm.segments {
		if md.BrokerID != 4 || md.EventTimestampMs <= 5_000 || string(md.CustomMetadata) != "cm:"+md.ID.String() {
			t.Errorf("segment %+v", md)
		}
	}
}

// What is tiered from another replica, cut elsewhere, counts as copied only where offsets and epochs are the same.
func TestOffload_SkipsOnlyTheSameOffsetsInTheSameEpochs(t *testing.T) {
	one := buildLog(t, lin(0, 0, 1, 6), threes(0, 2), []batchSpec{{base: 6, epoch: 1}})
	tr, _, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{one.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	finer := buildLog(t, lin(0, 0, 1, 6), threes(0, 1), threes(3, 1), []batchSpec{{base: 6, epoch: 1}})
	if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{finer.dir}, OffloadOptions{}); err != nil || sum.Skipped != 2 || sum.Copied != 0 {
		t.Errorf("the same data in smaller segments: %+v, %v", sum, err)
	}
	other := buildLog(t, lin(0, 0, 2, 3), threes(0, 1), []batchSpec{{base: 3, epoch: 2}}, []batchSpec{{base: 6, epoch: 2}})
	if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{other.dir}, OffloadOptions{}); err != nil || sum.Skipped != 1 || sum.Copied != 1 {
		t.Errorf("another history from 3 on: %+v, %v", sum, err)
	}
	if len(st.segments) != 2 {
		t.Errorf("%d segments stored, want 2", len(st.segments))
	}
}

// Many partitions at a time, replicas of one partition one after the other.
func TestOffload_PartitionsInParallelReplicasInTurn(t *testing.T) {
	var dirs []string
	for _, name := range []string{"orders-0", "orders-1", "orders-2", "invoices-0", "payments-0"} {
		for range 2 {
			dir, _ := load(t, name)
			dirs = append(dirs, dir)
		}
	}
	tr, _, st := fakes()
	sum, err := Offload(t.Context(), tr.mm, tr.sm, dirs, OffloadOptions{Parallel: 3})
	if err != nil || sum.Copied != 22 || sum.Skipped != 22 || len(st.segments) != 22 {
		t.Errorf("%+v, %v, %d stored, want 22 copied and 22 skipped", sum, err, len(st.segments))
	}
}
