package rlmm_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// What metadata-topic.md section 7 lists, case by case: what a record does to a broker, and what it does here.
func TestAudit_KnowsWhatEndsABrokersConsumer(t *testing.T) {
	tp := kafkaTopic(t, 0)
	s := seg(tp, 1, 0, 9, 0, 0)
	enc := func(r rlmm.Record) []byte { return mustEncode(t, r) }
	add := func(state remotelog.State) []byte {
		md := s
		md.State = state
		return enc(&rlmm.SegmentRecord{Metadata: md})
	}
	update := func(state remotelog.State) []byte { return enc(&rlmm.UpdateRecord{Update: upd(s, state)}) }
	del := func(state remotelog.DeleteState) []byte {
		return enc(&rlmm.PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: tp, State: state}})
	}
	patch := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		if at < 0 {
			at += len(b)
		}
		b[at] = v
		return b
	}
	bad := seg(tp, 1, 5, 4, 0, 0)
	none := seg(tp, 1, 0, 9)
	marked, gone := del(remotelog.DeletePartitionMarked), del(remotelog.DeletePartitionFinished)
	snap := enc(&rlmm.SnapshotRecord{Metadata: s})
	cases := []struct {
		name    string
		before  [][]byte
		value   []byte
		fatal   rlmm.Fatality
		dropped rlmm.DropReason
	}{
		{"segment", nil, add(started), rlmm.Harmless, 0},
		{"tombstone", nil, nil, rlmm.FatalToReaders, rlmm.DropTombstone},
		{"empty", nil, []byte{}, rlmm.FatalToReaders, rlmm.DropUndecodable},
		{"frame 2", nil, patch(add(started), 0, 2), rlmm.FatalToReaders, rlmm.DropUndecodable},
		{"api key 4", nil, patch(add(started), 1, 4), rlmm.FatalToReaders, rlmm.DropUnknownMessage},
		{"version 1", nil, patch(add(started), 2, 1), rlmm.FatalToReaders, rlmm.DropUndecodable},
		{"trailing byte", nil, append(add(started), 0), rlmm.FatalToReaders, rlmm.DropUndecodable},
		{"truncated", nil, add(started)[:50], rlmm.FatalToReaders, rlmm.DropUndecodable},
		{"state 9", nil, patch(update(finished), -2, 9), rlmm.FatalToReaders, rlmm.DropInvalidState},
		{"delete state 7", nil, patch(marked, -2, 7), rlmm.FatalToReaders, rlmm.DropInvalidState},
		{"snapshot record", nil, snap, rlmm.FatalToReaders, rlmm.DropSnapshotRecord},
		{"end below start", nil, enc(&rlmm.SegmentRecord{Metadata: bad}), rlmm.FatalToReaders, rlmm.DropInvalidSegment},
		{"no epochs", nil, enc(&rlmm.SegmentRecord{Metadata: none}), rlmm.FatalToReaders, rlmm.DropInvalidSegment},
		{"segment that begins finished", nil, add(finished), rlmm.FatalToAssigned, rlmm.DropInvalidState},
		{"update to started of a started one", [][]byte{add(started)}, update(started), rlmm.FatalToAssigned, rlmm.DropInvalidTransition},
		{"update to started of a finished one", [][]byte{add(started), update(finished)}, update(started), rlmm.Harmless, rlmm.DropInvalidTransition},
		{"update to started of an unknown one", nil, update(started), rlmm.Harmless, rlmm.DropUnknownSegment},
		{"update of an unknown one", nil, update(finished), rlmm.Harmless, rlmm.DropUnknownSegment},
		{"started to deleted", [][]byte{add(started)}, update(delDone), rlmm.Harmless, rlmm.DropInvalidTransition},
		{"second segment record while started", [][]byte{add(started)}, add(started), rlmm.Harmless, 0},
		{"second segment record", [][]byte{add(started), update(finished)}, add(started), rlmm.Harmless, rlmm.DropInvalidTransition},
		{"partition delete marked", [][]byte{add(started)}, marked, rlmm.Harmless, 0},
		{"partition delete finished", [][]byte{add(started)}, gone, rlmm.FatalToLoading, 0},
		{"segment after it", [][]byte{gone}, add(started), rlmm.FatalToAssigned, 0},
		{"update after it", [][]byte{add(started), gone}, update(finished), rlmm.FatalToAssigned, rlmm.DropUnknownSegment},
	}
	for _, c := range cases {
		var a rlmm.Audit
		for _, b := range c.before {
			a.Apply(b)
		}
		v := a.Apply(c.value)
		if v.Fatal != c.fatal || v.Dropped != c.dropped || (v.Record == nil) == (v.Err == nil) {
			t.Errorf("%s: %q, dropped %v (%v), want %q, dropped %v", c.name, v.Fatal, v.Dropped, v.Err, c.fatal, c.dropped)
		}
		if (v.Fatal.String() == "") != (c.fatal == rlmm.Harmless) {
			t.Errorf("%s: the text is %q", c.name, v.Fatal)
		}
	}
}

// An audit ends where a manager does: same partitions, segments, highest offsets and drops.
func TestAudit_AgreesWithAManager(t *testing.T) {
	for seed := range uint64(100) {
		h := newHistory(t, seed, 2)
		log := memlogtest.New(1)
		var a rlmm.Audit
		dropped := map[rlmm.DropReason]uint64{}
		for range 60 {
			r := h.next()
			raw(t, log, r)
			if v := a.Apply(mustEncode(t, r)); v.Dropped != 0 {
				dropped[v.Dropped]++
			}
		}
		m := begin(t, log, rlmm.Options{All: true}, nil)
		for reason, n := range status(t, m, 0).Dropped {
			if dropped[reason] != n {
				t.Errorf("seed %d: %v dropped %d times, by a manager %d times", seed, reason, dropped[reason], n)
			}
		}
		if got, want := a.Partitions(), list(t, m.Partitions(t.Context())); !slices.Equal(got, want) {
			t.Errorf("seed %d: partitions %v, want %v", seed, got, want)
		}
		for _, tp := range a.Partitions() {
			if state, ok := a.Deleted(tp); ok && state == remotelog.DeletePartitionFinished {
				continue // a manager answers "not found"
			}
			got := slices.Collect(a.Segments(tp))
			if want := list(t, m.Segments(context.Background(), tp)); !slices.Equal(ids(got), ids(want)) {
				t.Errorf("seed %d: segments of %v: %v, want %v", seed, tp, ids(got), ids(want))
			}
			for _, e := range a.HighestOffsets(tp) {
				wantHighest(t, m, tp, e.Epoch, e.Offset)
			}
		}
		closeNow(t, m)
	}
}
