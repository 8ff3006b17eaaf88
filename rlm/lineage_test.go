package rlm

import (
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// lin builds a lineage of (epoch, start offset) pairs.
func lin(pairs ...int64) Lineage {
	var l Lineage
	for i := 0; i < len(pairs); i += 2 {
		l = append(l, remotelog.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return l
}

func seg(start, end int64, epochs Lineage) *remotelog.SegmentMetadata {
	return &remotelog.SegmentMetadata{StartOffset: start, EndOffset: end, LeaderEpochs: epochs}
}

func TestScenario110_EpochEntriesInRange(t *testing.T) {
	l := lin(0, 0, 1, 100, 2, 200)
	for _, c := range []struct {
		from, to int64
		want     Lineage
	}{{0, 300, l}, {100, 200, lin(1, 100)}, {150, 201, lin(1, 150, 2, 200)}, {250, 300, lin(2, 250)}, {0, 0, nil}} {
		if got := l.InRange(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("[%d, %d): %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestScenario114_EpochsWithoutRecordsAreFiltered(t *testing.T) {
	for _, c := range []struct{ in, want Lineage }{
		{lin(0, 0, 1, 0, 2, 0, 3, 30, 4, 40, 5, 60, 6, 60, 7, 70, 8, 70), lin(2, 0, 3, 30, 4, 40, 6, 60, 8, 70)},
		{lin(0, 0, 1, 0, 2, 0), lin(2, 0)},
	} {
		if got := c.in.WithoutEmpty(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.in, got, c.want)
		}
	}
}

var (
	lineage115 = lin(0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 7, 70)
	lineage117 = lin(7, 51, 9, 100)
)

func checkContains(t *testing.T, l Lineage, logEnd int64, want bool, segments ...*remotelog.SegmentMetadata) {
	t.Helper()
	for _, s := range segments {
		if got := l.Contains(s, logEnd); got != want {
			t.Errorf("[%d-%d]%v within %v, log end %d: %v, want %v", s.StartOffset, s.EndOffset, s.LeaderEpochs, l, logEnd, got, want)
		}
	}
}

func TestScenario115_SegmentsInsideTheLineage(t *testing.T) {
	checkContains(t, lineage115, 90, true,
		seg(15, 35, lin(1, 15, 2, 20, 3, 30)), seg(15, 19, lin(1, 15)), seg(0, 5, lin(0, 0)), seg(70, 75, lin(7, 70)), seg(15, 29, lin(1, 15, 2, 20)))
}

func TestScenario116_SegmentsOutsideTheLineage(t *testing.T) {
	full := lin(1, 15, 2, 20, 3, 30, 4, 40, 5, 50, 7, 70)
	checkContains(t, lineage115, 90, true, seg(15, 89, full))
	checkContains(t, lineage115, 90, false,
		seg(55, 85, lin(5, 55, 6, 60, 7, 70)), seg(15, 45, lin(1, 15, 2, 20, 4, 40)), seg(15, 95, full), seg(15, 90, full),
		seg(5, 25, lin(1, 5, 2, 20)), seg(15, 35, lin(1, 15, 2, 20)))
}

func TestScenario117_OlderEpochsThanTheLineageAreIgnored(t *testing.T) {
	checkContains(t, lineage117, 210, true, seg(14, 150, lin(5, 14, 7, 15, 9, 100)))
}

func TestScenario118_SegmentsOutsideAShortLineage(t *testing.T) {
	checkContains(t, lineage117, 210, false,
		seg(2, 7, lin(2, 5, 3, 6)), seg(15, 250, lin(7, 15, 9, 100, 10, 200)), seg(75, 100, lin(8, 75)), seg(15, 150, lin(7, 15, 9, 101)),
		seg(99, 150, lin(9, 99)))
	checkContains(t, nil, 210, false, seg(0, 5, lin(0, 0)))
}

func TestEpochAt_LastEpochThatBeganIsTheOne(t *testing.T) {
	l := lin(1, 10, 2, 20, 3, 20)
	if _, ok := l.EpochAt(9); ok {
		t.Error("an epoch below the first")
	}
	for offset, want := range map[int64]int32{10: 1, 19: 1, 20: 3, 1000: 3} {
		if got, ok := l.EpochAt(offset); got != want || !ok {
			t.Errorf("EpochAt(%d) = %d, %v, want %d", offset, got, ok, want)
		}
	}
}

func TestSameEpochs_OnlyASegmentThatHoldsAllOfThem(t *testing.T) {
	local := lin(0, 0, 2, 50)
	for _, c := range []struct {
		remote *remotelog.SegmentMetadata
		want   bool
	}{
		{seg(10, 60, lin(0, 10, 2, 50)), true},
		{seg(0, 99, lin(0, 0, 2, 50)), true},
		{seg(0, 99, lin(0, 0, 1, 50, 2, 50)), true}, // epoch 1 has no records
		{seg(11, 60, lin(0, 11, 2, 50)), false},
		{seg(10, 59, lin(0, 10, 2, 50)), false},
		{seg(10, 60, lin(0, 10, 2, 51)), false},
		{seg(10, 60, lin(0, 10)), false},
		{seg(10, 60, lin(0, 10, 1, 50)), false},
	} {
		if got := sameEpochs(c.remote, local, 10, 60); got != c.want {
			t.Errorf("[%d-%d]%v: %v, want %v", c.remote.StartOffset, c.remote.EndOffset, c.remote.LeaderEpochs, got, c.want)
		}
	}
}
