package rlm

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// tiered is a log of four segments of three records, copied.
func tiered(t *testing.T) (*builtLog, tier, *fakeMeta, *fakeStore) {
	t.Helper()
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1), threes(9, 1), threes(12, 1))
	tr, mm, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	return l, tr, mm, st
}

func TestDeleteBefore_TakesWhatEndsBelow(t *testing.T) {
	l, tr, _, st := tiered(t)
	for _, c := range []struct{ offset, deleted, start int64 }{{0, 0, 0}, {2, 0, 0}, {3, 1, 3}, {8, 1, 6}, {9, 1, 9}} {
		var results []SegmentResult
		sum, err := DeleteBefore(t.Context(), tr.mm, tr.sm, l.tp, c.offset, DeleteOptions{OnResult: func(r SegmentResult) { results = append(results, r) }})
		if err != nil || int64(sum.Deleted) != c.deleted || len(results) != sum.Deleted || sum.Bytes != 91*c.deleted {
			t.Errorf("before %d: %+v, %v, want %d deleted", c.offset, sum, err, c.deleted)
		}
		v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if start, end := v.Range(); start != c.start || end != 11 {
			t.Errorf("before %d: range [%d, %d], want [%d, 11]", c.offset, start, end, c.start)
		}
	}
	if len(st.segments) != 1 {
		t.Errorf("%d segments stored, want 1", len(st.segments))
	}
}

func TestDelete_GoesOnWhereAnEarlierOneStopped(t *testing.T) {
	for _, step := range []string{"DELETE_SEGMENT_STARTED", "delete", "DELETE_SEGMENT_FINISHED"} {
		l, tr, mm, st := tiered(t)
		mm.before = failAt(step, errDisk)
		st.before = func(op string, md remotelog.SegmentMetadata) error {
			if mm.segments[md.ID].State != remotelog.DeleteSegmentStarted {
				t.Errorf("delete of a segment in state %s", mm.segments[md.ID].State)
			}
			return failAt(step, errDisk)(op)
		}
		sum, err := DeleteBefore(t.Context(), tr.mm, tr.sm, l.tp, 6, DeleteOptions{})
		if !errors.Is(err, errDisk) || sum.Failed != 2 || sum.Deleted != 0 {
			t.Errorf("%s fails: %+v, %v", step, sum, err)
		}
		mm.before, st.before = nil, nil
		if sum, err := DeleteBefore(t.Context(), tr.mm, tr.sm, l.tp, 6, DeleteOptions{}); err != nil || sum.Deleted != 2 || len(st.segments) != 2 {
			t.Errorf("again after %s: %+v, %v, %d stored", step, sum, err, len(st.segments))
		}
	}
}

func TestDelete_UnknownOutcomeOfTheStartDeletesNothing(t *testing.T) {
	l, tr, mm, st := tiered(t)
	mm.after = failAt("DELETE_SEGMENT_STARTED", unknown(errLost))
	if _, err := DeleteAll(t.Context(), tr.mm, tr.sm, l.tp, DeleteOptions{}); !errors.Is(err, remotelog.ErrOutcomeUnknown) || len(st.segments) != 4 {
		t.Errorf("%v, %d stored, want 4", err, len(st.segments))
	}
}

func TestDeleteAll_EveryStateAndEndsTheRunOnWhatFailsForAll(t *testing.T) {
	l, tr, mm, st := tiered(t)
	odd := remotelog.SegmentMetadata{SegmentID: remotelog.SegmentID{TopicIDPartition: l.tp, ID: remotelog.NewUUID()}, StartOffset: 12, EndOffset: 14, LeaderEpochs: lin(0, 12), EventTimestampMs: 1}
	mm.segments[odd.ID] = odd
	for _, end := range []error{remotelog.ErrNotReady, remotelog.ErrClosed, remotelog.ErrNotAssigned} {
		mm.before = failAt("DELETE_SEGMENT_STARTED", end)
		if sum, err := DeleteAll(t.Context(), tr.mm, tr.sm, l.tp, DeleteOptions{}); !errors.Is(err, end) || sum.Failed != 1 {
			t.Errorf("%v: %+v, %v, want one failure", end, sum, err)
		}
	}
	mm.before = nil
	ctx, cancel := context.WithCancel(t.Context())
	sum, err := DeleteAll(ctx, tr.mm, tr.sm, l.tp, DeleteOptions{OnResult: func(SegmentResult) { cancel() }})
	if sum.Deleted != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled after the first: %+v, %v", sum, err)
	}
	if sum, err := DeleteAll(t.Context(), tr.mm, tr.sm, l.tp, DeleteOptions{}); err != nil || sum.Deleted != 4 || len(st.segments) != 0 {
		t.Errorf("%+v, %v, %d stored", sum, err, len(st.segments))
	}
	if sum, err := DeleteAll(t.Context(), tr.mm, tr.sm, l.tp, DeleteOptions{}); err != nil || sum != (Summary{}) {
		t.Errorf("nothing left: %+v, %v", sum, err)
	}
}

func TestDeleteSegment_InsideALoopOverTheListing(t *testing.T) {
	l, tr, _, st := tiered(t)
	n := 0
	for md, err := range tr.mm.Segments(t.Context(), l.tp) {
		if err != nil {
			t.Fatal(err)
		}
		if err := DeleteSegment(t.Context(), tr.mm, tr.sm, md, Protocol{}); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 4 || len(st.segments) != 0 {
		t.Errorf("%d deleted, %d stored", n, len(st.segments))
	}
}

func TestUnfinished_OlderThanTheCutoffInBothStates(t *testing.T) {
	_, mm, _ := fakes()
	tp := remotelog.TopicIDPartition{Topic: "t", TopicID: remotelog.UUID{1}}
	for i, state := range []remotelog.State{remotelog.CopySegmentStarted, remotelog.CopySegmentFinished, remotelog.DeleteSegmentStarted, remotelog.DeleteSegmentFinished} {
		for _, at := range []int64{1000, 2000} {
			id := remotelog.NewUUID()
			mm.segments[id] = remotelog.SegmentMetadata{SegmentID: remotelog.SegmentID{TopicIDPartition: tp, ID: id}, StartOffset: int64(i), State: state, EventTimestampMs: at}
		}
	}
	got, err := Unfinished(t.Context(), mm, tp, time.UnixMilli(2000))
	var starts []int64
	for _, md := range got {
		starts = append(starts, md.StartOffset)
	}
	if err != nil || !slices.Equal(starts, []int64{0, 2}) {
		t.Errorf("%v, %v, want the two of 1000 in started states", starts, err)
	}
}

// On a log that others may write Recover lists and touches nothing.
func TestRecover_OnlyListsUnlessTheLogIsItsOwn(t *testing.T) {
	l, tr, mm, st := tiered(t)
	var ids []remotelog.UUID
	for id, md := range mm.segments {
		switch md.StartOffset {
		case 0:
			md.State = remotelog.CopySegmentStarted
		case 3:
			md.State = remotelog.DeleteSegmentStarted
		default:
			continue
		}
		mm.segments[id] = md
		ids = append(ids, id)
	}
	before := len(mm.events)
	found, err := Recover(t.Context(), tr.mm, tr.sm, RecoverOptions{})
	if err != nil || len(found) != len(ids) || len(st.segments) != 4 || !slices.Equal(mm.events[before:], []string{"list"}) {
		t.Errorf("shared log: %d found, %v, %d stored, events %v", len(found), err, len(st.segments), mm.events[before:])
	}
	found, err = Recover(t.Context(), tr.mm, tr.sm, RecoverOptions{OwnLog: true})
	if err != nil || len(found) != 2 || len(st.segments) != 2 {
		t.Errorf("own log: %d found, %v, %d stored", len(found), err, len(st.segments))
	}
	v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if start, end := v.Range(); start != 6 || end != 11 {
		t.Errorf("range [%d, %d], want [6, 11]", start, end)
	}
}
