package rlmm

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
)

// Scenarios 19 to 45: the cache of one partition (Kafka: RemoteLogMetadataCacheTest, RemoteLogLeaderEpochStateTest).

// withoutMeaning are scenarios that test what Go does not have, and what stands in their place.
func withoutMeaning() map[int]string {
	return map[int]string{
		8:  "Record is sealed, so that no other message type can be encoded; nil can: TestScenario08_NilRecordIsInvalidArgument",
		19: "an added segment is a value and cannot be null; a zero one is refused: TestScenario19And21_ZeroValuesAreInvalidArgument",
		21: "an update is a value and cannot be null; a zero one is refused: TestScenario19And21_ZeroValuesAreInvalidArgument",
		67: "a Manager is configured by New, once",
		73: "the reader's loop is not public; Close ends a Next that waits: TestScenario58And72And73_CloseWithoutAssignmentAndTwice",
		74: "there is no assignment entry with flags; assigning a partition again changes nothing: TestScenario74_AssigningAgainChangesNothing",
		77: "there is no loop that iterates an assignment: TestScenario77And87_AssignmentAndCloseWhileTheLogIsRead changes it under -race",
		82: "a partition added later is loaded by a second follower: TestScenario82_PartitionAddedLaterIsLoadedFromTheStart checks what was applied",
	}
}

func TestScenarios_WithoutMeaningNameTheirReplacement(t *testing.T) {
	want := []int{8, 19, 21, 67, 73, 74, 77, 82}
	if got := slices.Sorted(maps.Keys(withoutMeaning())); !slices.Equal(got, want) {
		t.Errorf("the table has %v, want %v", got, want)
	}
}

// cacheSegment is a segment of one partition; epochs are pairs of epoch and first offset.
func cacheSegment(n int, start, end int64, epochs ...int64) remotelog.SegmentMetadata {
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: testPartition("orders", 0)}, StartOffset: start, EndOffset: end, BrokerID: 1, SizeBytes: 10,
	}
	binary.BigEndian.PutUint64(md.ID[8:], uint64(n))
	for i := 0; i+1 < len(epochs); i += 2 {
		md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: int32(epochs[i]), StartOffset: epochs[i+1]})
	}
	return md
}

// play applies events; the first is an add if it is STARTED.
func (c *cache) play(t *testing.T, md remotelog.SegmentMetadata, states ...remotelog.State) {
	t.Helper()
	for _, s := range states {
		var r DropReason
		if s == remotelog.CopySegmentStarted {
			r = c.add(&md)
		} else {
			r = c.update(&remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: s})
		}
		if r != 0 {
			t.Fatalf("segment [%d-%d] to %v: dropped as %v", md.StartOffset, md.EndOffset, s, r)
		}
	}
}

const (
	stS  = remotelog.CopySegmentStarted
	stF  = remotelog.CopySegmentFinished
	stDS = remotelog.DeleteSegmentStarted
	stDF = remotelog.DeleteSegmentFinished
)

func (c *cache) listOf(epoch int32) (out []remotelog.SegmentMetadata) {
	for s := range c.epoch(epoch).segments() {
		out = append(out, s.metadata(c.tp))
	}
	return out
}

func (c *cache) listAll() (out []remotelog.SegmentMetadata) {
	c.all.root.walk(func(it item) bool { out = append(out, it.seg.metadata(c.tp)); return true })
	return out
}

func wantSegments(t *testing.T, what string, got []remotelog.SegmentMetadata, want ...remotelog.SegmentMetadata) {
	t.Helper()
	id := func(m remotelog.SegmentMetadata) string { return m.ID.String() }
	var g, w []string
	for _, m := range got {
		g = append(g, id(m))
	}
	for _, m := range want {
		w = append(w, id(m))
	}
	if !slices.Equal(g, w) {
		t.Errorf("%s: got %v, want %v", what, g, w)
	}
}

func wantLookup(t *testing.T, c *cache, epoch int32, offset int64, want *remotelog.SegmentMetadata) {
	t.Helper()
	s := c.epoch(epoch).lookup(offset)
	switch {
	case (s != nil) != (want != nil):
		t.Errorf("lookup(epoch %d, offset %d) = %+v, want found %v", epoch, offset, s, want != nil)
	case s != nil && s.id != want.ID:
		t.Errorf("lookup(epoch %d, offset %d) = [%d-%d], want [%d-%d]", epoch, offset, s.start, s.end, want.StartOffset, want.EndOffset)
	}
}

func wantHighest(t *testing.T, c *cache, epoch int32, want int64) {
	t.Helper()
	got := int64(-1)
	if st := c.epochs[epoch]; st != nil && st.hasHighest {
		got = st.highest
	}
	if got != want {
		t.Errorf("highest of epoch %d = %d, want %d", epoch, got, want)
	}
}

func newTestCache() *cache { return newCache(testPartition("orders", 0)) }

func TestScenario20_OnlyAStartedSegmentIsAdded(t *testing.T) {
	for _, s := range []remotelog.State{stF, stDS, stDF} {
		c, md := newTestCache(), cacheSegment(1, 0, 100, 0, 0)
		md.State = s
		if r := c.add(&md); r != DropInvalidState || len(c.byID) != 0 {
			t.Errorf("add in %v: reason %v, want invalid-state and nothing kept", s, r)
		}
	}
}

// 22: the manager's writes are ErrNotFound (TestScenario71_WriteRefusedBeforePublishing); 23 and foreign records: dropped and counted.
func TestScenario22And23_UpdateForAnUnknownSegmentIsDropped(t *testing.T) {
	for _, s := range []remotelog.State{stF, stDS, stDF} {
		c := newTestCache()
		if r := c.update(&remotelog.SegmentUpdate{SegmentID: cacheSegment(1, 0, 0).SegmentID, State: s}); r != DropUnknownSegment {
			t.Errorf("update to %v: reason %v, want unknown-segment", s, r)
		}
	}
}

func TestScenario24_InvalidTransitionsAreIgnored(t *testing.T) {
	c, md := newTestCache(), cacheSegment(1, 10, 100, 5, 10)
	c.play(t, md, stS)
	steps := []struct {
		apply remotelog.State
		after remotelog.State
	}{{stDF, stS}, {stF, stF}, {stDF, stF}, {stS, stF}, {stDS, stDS}, {stF, stDS}, {stS, stDS}}
	for i, st := range steps {
		r := c.update(&remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: st.apply})
		if (r == 0) != (st.apply == st.after) {
			t.Errorf("step %d, %v: reason %v", i, st.apply, r)
		}
		if l := c.listOf(5); len(l) != 1 || l[0].State != st.after {
			t.Errorf("step %d: list(5) = %v, want one in %v", i, l, st.after)
		}
	}
	c.play(t, md, stDF)
	wantSegments(t, "list(5) at the end", c.listOf(5))
}

func TestScenario26_ShorterCopyOfTheSameStart(t *testing.T) {
	c := newTestCache()
	a, b := cacheSegment(1, 10, 100, 0, 10), cacheSegment(2, 10, 50, 0, 10)
	c.play(t, a, stS, stF)
	c.play(t, b, stS, stF)
	wantLookup(t, c, 0, 20, &b)
	wantLookup(t, c, 0, 60, &a) // Kafka: none
	wantLookup(t, c, 0, 101, nil)
	wantSegments(t, "list(0)", c.listOf(0), b, a) // Kafka: b alone
	wantSegments(t, "list all", c.listAll(), b, a)
	wantHighest(t, c, 0, 100)
	c.play(t, a, stDS)
	wantSegments(t, "list(0), A deleting", c.listOf(0), b, a)
	wantLookup(t, c, 0, 60, nil)
	c.play(t, a, stDF)
	wantSegments(t, "list all, A deleted", c.listAll(), b)
}

func TestScenario27_ShortSegmentInsideALongOne(t *testing.T) {
	c := newTestCache()
	a, b := cacheSegment(1, 0, 200, 0, 0), cacheSegment(2, 50, 100, 0, 50)
	c.play(t, a, stS, stF)
	c.play(t, b, stS, stF)
	wantLookup(t, c, 0, 40, &a)
	wantLookup(t, c, 0, 60, &b)
	wantLookup(t, c, 0, 150, &a) // Kafka: none
	wantHighest(t, c, 0, 200)
}

func TestScenario28_LongerCopyHidesAShorterOneAndHighestOutlivesAll(t *testing.T) {
	c := newTestCache()
	s0, s1, s2 := cacheSegment(1, 10, 90, 0, 10), cacheSegment(2, 5, 100, 0, 5), cacheSegment(3, 101, 200, 0, 101)
	for _, s := range []remotelog.SegmentMetadata{s0, s1, s2} {
		c.play(t, s, stS, stF)
	}
	wantLookup(t, c, 0, 4, nil)
	for _, o := range []int64{5, 50, 95} {
		wantLookup(t, c, 0, o, &s1)
	}
	wantLookup(t, c, 0, 101, &s2)
	wantSegments(t, "list(0)", c.listOf(0), s1, s0, s2)
	c.play(t, s2, stDS)
	wantLookup(t, c, 0, 150, nil)
	wantHighest(t, c, 0, 200)
	c.play(t, s2, stDF)
	c.play(t, s0, stDS, stDF)
	c.play(t, s1, stDS, stDF)
	wantSegments(t, "list(0) at the end", c.listOf(0))
	wantSegments(t, "list all at the end", c.listAll())
	wantHighest(t, c, 0, 200)
}

func TestScenario29_RepeatedFinishedChangesNothing(t *testing.T) {
	c := newTestCache()
	a, b := cacheSegment(1, 0, 100, 0, 0), cacheSegment(2, 101, 200, 0, 101)
	c.play(t, a, stS, stF)
	c.play(t, b, stS, stF)
	for _, s := range []remotelog.SegmentMetadata{a, b} {
		c.play(t, s, stF)
		wantLookup(t, c, 0, 50, &a)
		wantLookup(t, c, 0, 150, &b)
		wantSegments(t, "list(0)", c.listOf(0), a, b)
		wantHighest(t, c, 0, 200)
	}
}

func TestScenario30_FromStartedToDeleting(t *testing.T) {
	c, a := newTestCache(), cacheSegment(1, 0, 100, 0, 0)
	c.play(t, a, stS, stDS)
	wantSegments(t, "list(0)", c.listOf(0), a)
	wantHighest(t, c, 0, -1)
	c.play(t, a, stDF)
	wantSegments(t, "list(0) at the end", c.listOf(0))
	wantHighest(t, c, 0, -1)
}

func TestScenario31_AnUpdateReplacesCustomMetadataEvenByNone(t *testing.T) {
	c, a := newTestCache(), cacheSegment(1, 0, 100, 0, 0)
	a.TxnIndexEmpty = true
	c.play(t, a, stS)
	c.update(&remotelog.SegmentUpdate{SegmentID: a.SegmentID, State: stF, CustomMetadata: remotelog.CustomMetadata{1}, BrokerID: 5, EventTimestampMs: 6})
	c.update(&remotelog.SegmentUpdate{SegmentID: a.SegmentID, State: stDS, BrokerID: 7, EventTimestampMs: 8})
	want := a
	want.State, want.BrokerID, want.EventTimestampMs = stDS, 7, 8
	if d := gocmp.Diff([]remotelog.SegmentMetadata{want}, c.listAll()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestScenario32_SecondStartedAfterFinishedIsIgnored(t *testing.T) {
	c, a := newTestCache(), cacheSegment(1, 0, 100, 0, 0)
	c.play(t, a, stS, stF)
	again := a
	again.EndOffset = 500
	if r := c.add(&again); r != DropInvalidTransition {
		t.Errorf("second STARTED: reason %v, want invalid-transition", r)
	}
	wantLookup(t, c, 0, 50, &a)
	wantLookup(t, c, 0, 150, nil)
}

// A second STARTED for an id with other epochs: Kafka replaces the record and keeps listing it under the epochs that it had; here it is listed
// under those that it has.
func TestCache_SecondStartedReplacesTheFirst(t *testing.T) {
	c, a := newTestCache(), cacheSegment(1, 0, 100, 0, 0)
	c.play(t, a, stS)
	again := cacheSegment(1, 10, 60, 1, 10, 2, 40)
	again.SizeBytes = 3
	c.play(t, again, stS)
	wantSegments(t, "list(0)", c.listOf(0))
	wantSegments(t, "list(1)", c.listOf(1), again)
	wantSegments(t, "list(2)", c.listOf(2), again)
	if d := gocmp.Diff([]remotelog.SegmentMetadata{again}, c.listAll()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if c.epochs[0].size != 0 || c.epochs[1].size != 3 {
		t.Errorf("sizes %d and %d, want 0 and 3", c.epochs[0].size, c.epochs[1].size)
	}
	c.play(t, again, stF)
	wantLookup(t, c, 2, 50, &again)
}

func TestScenario33_NextSegmentWithTxnIndex(t *testing.T) {
	c := newTestCache()
	segs := []remotelog.SegmentMetadata{cacheSegment(0, 0, 99, 0, 0), cacheSegment(1, 100, 199, 0, 100), cacheSegment(2, 200, 299, 0, 200), cacheSegment(3, 300, 399, 1, 300)}
	for i, s := range segs {
		s.TxnIndexEmpty = i < 2
		c.play(t, s, stS, stF)
	}
	for _, q := range []struct {
		epoch int32
		at    int64
		want  int // -1: none
	}{{0, 0, 2}, {0, 50, 2}, {0, 100, 2}, {0, 199, 2}, {0, 200, 2}, {0, 299, 2}, {0, 300, -1}, {1, 300, 3}, {1, 299, -1}} {
		got, _, done := c.epoch(q.epoch).nextWithTxnIndex(q.at, 100)
		if !done || (got != nil) != (q.want >= 0) || got != nil && got.id != segs[q.want].ID {
			t.Errorf("epoch %d from %d: %+v, %v, want T%d", q.epoch, q.at, got, done, q.want)
		}
	}
}

func TestScenario34_NextSegmentWithTxnIndexStopsAtAGap(t *testing.T) {
	c := newTestCache()
	a, b := cacheSegment(1, 0, 99, 0, 0), cacheSegment(2, 150, 199, 0, 150)
	a.TxnIndexEmpty = true
	c.play(t, a, stS, stF)
	c.play(t, b, stS, stF)
	wantLookup(t, c, 0, 120, nil)
	if got, _, done := c.epoch(0).nextWithTxnIndex(0, 100); got != nil || !done {
		t.Errorf("next from 0: %+v, %v, want none", got, done)
	}
}

// A foreign record may say that an epoch goes on behind the end of the segment: following the chain must not go back.
func TestCache_NextSegmentWithTxnIndexEndsOnContradictingRecords(t *testing.T) {
	c := newTestCache()
	a := cacheSegment(1, 0, 10, 0, 0, 1, 1000)
	a.TxnIndexEmpty = true
	c.play(t, a, stS, stF)
	b := cacheSegment(2, 20, math.MaxInt64, 2, 20)
	b.TxnIndexEmpty = true
	c.play(t, b, stS, stF)
	for epoch, at := range map[int32]int64{0: 500, 2: 30} {
		if got, _, done := c.epoch(epoch).nextWithTxnIndex(at, 1000); got != nil || !done {
			t.Errorf("epoch %d: %+v, %v, want none", epoch, got, done)
		}
	}
}

// Scenarios 35 to 45 call Kafka's per-epoch structure with (start, id, epoch end); here they are segments of one epoch.

func TestScenario35And36_EmptyAndUnknown(t *testing.T) {
	c := newTestCache()
	wantSegments(t, "list on empty", c.listOf(0)) // 35
	// 36: an id in the epoch without metadata cannot exist here: the listing holds the segments themselves.
	a := cacheSegment(1, 0, 10, 0, 0)
	c.play(t, a, stS, stF)
	wantSegments(t, "list", c.listOf(0), a)
}

func TestScenario37_ListOrder(t *testing.T) {
	c := newTestCache()
	s1, s2, s3, s4 := cacheSegment(1, 0, 4, 0, 0), cacheSegment(2, 5, 10, 0, 5), cacheSegment(3, 11, 100, 0, 11), cacheSegment(4, 9, 150, 0, 9)
	c.play(t, s1, stS)
	for _, s := range []remotelog.SegmentMetadata{s2, s3, s4} {
		c.play(t, s, stS, stF)
	}
	wantSegments(t, "list", c.listOf(0), s1, s2, s4, s3)
}

func TestScenario38_StartedIsListedAndNotFound(t *testing.T) {
	c, a := newTestCache(), cacheSegment(1, 0, 10, 0, 0)
	c.play(t, a, stS)
	wantSegments(t, "list", c.listOf(0), a)
	wantLookup(t, c, 0, 5, nil)
}

func TestScenario39To43_Superseding(t *testing.T) {
	type found struct {
		at   int64
		want int // number of the segment
	}
	for name, tc := range map[string]struct {
		segs    [][2]int64
		found   []found
		list    []int
		highest int64
	}{
		"39": {[][2]int64{{10, 100}, {101, 200}}, []found{{90, 1}, {150, 2}}, []int{1, 2}, 200},
		"40": {[][2]int64{{10, 100}, {5, 150}}, []found{{11, 2}}, []int{2, 1}, 150},
		"41": {[][2]int64{{10, 100}, {5, 150}, {148, 155}, {4, 200}}, []found{{11, 4}}, []int{4, 2, 1, 3}, 200},
		"42": {[][2]int64{{10, 100}, {10, 100}}, []found{{11, 2}}, []int{2, 1}, 100},
		"43": {[][2]int64{{10, 100}, {10, 150}}, []found{{11, 2}, {111, 2}}, []int{2, 1}, 150},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCache()
			byN := map[int]remotelog.SegmentMetadata{}
			for i, s := range tc.segs {
				md := cacheSegment(i+1, s[0], s[1], 0, s[0])
				byN[i+1] = md
				c.play(t, md, stS, stF)
			}
			for _, f := range tc.found {
				want := byN[f.want]
				wantLookup(t, c, 0, f.at, &want)
			}
			var want []remotelog.SegmentMetadata
			for _, n := range tc.list {
				want = append(want, byN[n])
			}
			wantSegments(t, "list", c.listOf(0), want...)
			wantHighest(t, c, 0, tc.highest)
		})
	}
}

func TestScenario44And45_DeletingIsListedAndDeletedIsGone(t *testing.T) {
	c := newTestCache()
	a, b := cacheSegment(1, 10, 100, 0, 10), cacheSegment(2, 101, 200, 0, 101)
	for _, s := range []remotelog.SegmentMetadata{a, b} {
		c.play(t, s, stS, stF, stDS)
	}
	wantLookup(t, c, 0, 50, nil)
	wantLookup(t, c, 0, 150, nil)
	wantSegments(t, "list", c.listOf(0), a, b)
	c.play(t, a, stDF)
	wantSegments(t, "list", c.listOf(0), b)
}

// The listing of an epoch at equal starts: the one that lookup answers from, then the greater end, then the id.
func TestCache_ListingAtEqualStarts(t *testing.T) {
	c := newTestCache()
	long, shortA, shortB, started := cacheSegment(1, 10, 100, 0, 10), cacheSegment(3, 10, 50, 0, 10), cacheSegment(2, 10, 50, 0, 10), cacheSegment(9, 10, 300, 0, 10)
	c.play(t, long, stS, stF)
	c.play(t, shortA, stS, stF)
	c.play(t, shortB, stS, stF)
	c.play(t, started, stS)
	wantLookup(t, c, 0, 20, &shortB)
	wantSegments(t, "list(0)", c.listOf(0), shortB, started, long, shortA)
	wantSegments(t, "list all", c.listAll(), shortB, shortA, long, started)
	c.play(t, shortB, stDS) // none is referenced: the look-up answers from the longest
	wantLookup(t, c, 0, 20, &long)
	wantSegments(t, "list(0)", c.listOf(0), long, started, shortB, shortA)
}

// An update makes a new segment; one that pointed into the old one would keep both in memory.
func TestSegment_UpdateLeavesTheOldOneToTheCollector(t *testing.T) {
	md := cacheSegment(1, 0, 9, 0, 0)
	a := newSegment(&md)
	b := a.with(&remotelog.SegmentUpdate{State: stF})
	if &a.epochs[0] == &b.epochs[0] || &a.epochs[0] == &md.LeaderEpochs[0] {
		t.Error("the leader epoch is shared with another object")
	}
}
