package rlmm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
)

// Scenarios 46 to 55: the life of segments through the manager (Kafka: RemoteLogSegmentLifecycleTest).

func lifecycle(t *testing.T) (*rlmm.Manager, remotelog.TopicIDPartition) {
	t.Helper()
	m := newManager(t, memlog.New(memlog.Options{Partitions: 5}), rlmm.Options{})
	tp := kafkaTopic(t, 0)
	follow(t, m, tp)
	return m, tp
}

func TestScenario46To49_SegmentsOverSeveralEpochs(t *testing.T) {
	m, tp := lifecycle(t)
	seg0 := seg(tp, 0, 0, 100, 0, 0, 1, 20, 2, 80)
	mustAdd(t, m, seg0)
	wantAt(t, m, tp, 1, 40, nil) // 46
	for e := range int32(3) {
		wantHighest(t, m, tp, e, -1)
	}
	mustUpdate(t, m, seg0, finished) // 47
	seg1, seg2, seg3 := seg(tp, 1, 101, 200, 2, 101), seg(tp, 2, 201, 300, 2, 201, 3, 240), seg(tp, 3, 250, 400, 3, 250, 4, 370)
	for _, s := range []remotelog.SegmentMetadata{seg1, seg2, seg3} {
		mustAdd(t, m, s, finished)
	}
	for _, c := range []struct {
		epoch  int32
		offset int64
		want   *remotelog.SegmentMetadata
	}{{1, 40, &seg0}, {2, 110, &seg1}, {3, 240, &seg2}, {3, 250, &seg3}, {4, 375, &seg3}, {1, 110, nil}, {4, 401, nil}, {5, 301, nil}} {
		wantAt(t, m, tp, c.epoch, c.offset, c.want)
	}
	mustUpdate(t, m, seg0, delStarted) // 48
	wantAt(t, m, tp, 0, 10, nil)
	mustUpdate(t, m, seg0, delDone) // 49
	wantAt(t, m, tp, 0, 10, nil)
	for e, want := range []int64{19, 79, 239, 369, 400, -1} {
		wantHighest(t, m, tp, int32(e), want)
	}
}

func TestScenario50To53_EachStateInBothListings(t *testing.T) {
	for _, c := range []struct {
		name   string
		start  int64
		end    int64
		at     int64
		states []remotelog.State
		found  bool
		listed bool
	}{
		{"50", 0, 50, 0, nil, false, true},
		{"51", 101, 200, 150, []remotelog.State{finished}, true, true},
		{"52", 201, 300, 250, []remotelog.State{delStarted}, false, true},
		{"53", 301, 400, 350, []remotelog.State{delStarted, delDone}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, tp := lifecycle(t)
			s := seg(tp, 1, c.start, c.end, 0, c.start)
			mustAdd(t, m, s, c.states...)
			var found *remotelog.SegmentMetadata
			if c.found {
				found = &s
			}
			wantAt(t, m, tp, 0, c.at, found)
			var listed []remotelog.SegmentMetadata
			if c.listed {
				listed = append(listed, s)
			}
			wantIDs(t, "Segments", list(t, m.Segments(t.Context(), tp)), listed...)
			wantIDs(t, "SegmentsOfEpoch", list(t, m.SegmentsOfEpoch(t.Context(), tp, 0)), listed...)
		})
	}
}

func TestScenario54_Listings(t *testing.T) {
	m, tp := lifecycle(t)
	a, b, c := seg(tp, 1, 0, 100, 0, 0), seg(tp, 2, 101, 200, 0, 101), seg(tp, 3, 201, 400, 0, 201, 1, 301)
	for _, s := range []remotelog.SegmentMetadata{a, b, c} {
		mustAdd(t, m, s, finished)
	}
	wantIDs(t, "epoch 0", list(t, m.SegmentsOfEpoch(t.Context(), tp, 0)), a, b, c)
	wantIDs(t, "all", list(t, m.Segments(t.Context(), tp)), a, b, c)
	wantIDs(t, "epoch 1", list(t, m.SegmentsOfEpoch(t.Context(), tp, 1)), c)
	wantIDs(t, "epoch 2", list(t, m.SegmentsOfEpoch(t.Context(), tp, 2)))
}

func TestScenario55_LookupReturnsTheRecordWithTheUpdateApplied(t *testing.T) {
	m, tp := lifecycle(t)
	s := seg(tp, 1, 101, 200, 0, 101)
	s.TxnIndexEmpty = true
	mustAdd(t, m, s)
	wantAt(t, m, tp, 0, 150, nil)
	u := upd(s, finished)
	u.CustomMetadata = remotelog.CustomMetadata("where")
	if err := m.Update(within(t), u); err != nil {
		t.Fatal(err)
	}
	want := s
	want.State, want.BrokerID, want.EventTimestampMs, want.CustomMetadata = finished, u.BrokerID, u.EventTimestampMs, u.CustomMetadata
	got, ok, err := m.Segment(t.Context(), tp, 0, 150)
	if err != nil || !ok {
		t.Fatalf("Segment: %v, %v", ok, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestScenario33_ALongChainOfEmptyTransactionIndexes(t *testing.T) {
	m, tp := lifecycle(t)
	var last remotelog.SegmentMetadata
	for i := range 201 {
		last = seg(tp, i, int64(10*i), int64(10*i+9), 0, int64(10*i))
		last.TxnIndexEmpty = i < 200
		mustAdd(t, m, last, finished)
	}
	got, ok, err := m.NextSegmentWithTxnIndex(t.Context(), tp, 0, 5)
	if err != nil || !ok || got.ID != last.ID {
		t.Errorf("next = [%d-%d], %v, %v, want [%d-%d]", got.StartOffset, got.EndOffset, ok, err, last.StartOffset, last.EndOffset)
	}
	mustUpdate(t, m, last, delStarted)
	if got, ok, err := m.NextSegmentWithTxnIndex(t.Context(), tp, 0, 5); ok || err != nil {
		t.Errorf("next = [%d-%d], %v, want none", got.StartOffset, got.EndOffset, err)
	}
}
