package rlm

import (
	"slices"
	"testing"

	"github.com/tierkit/tierkit/internal/recordbatch"
)

func fetch(t *testing.T, v *View, offset int64, o FetchOptions) Fetched {
	t.Helper()
	f, err := v.Fetch(t.Context(), offset, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestScenario174_NoBatchAndNoNextSegment(t *testing.T) {
	// Compaction removed what was behind 2 in the last segment; the active one is not taken.
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(9, 1))
	v, _ := l.offloaded(OffloadOptions{})
	f := fetch(t, v, 5, FetchOptions{Isolation: ReadCommitted})
	if f.BaseOffset != 5 || len(f.Records) != 0 || f.Aborted == nil || len(f.Aborted) != 0 {
		t.Errorf("got %+v, want empty records at 5 and an aborted list that is there and empty", f)
	}
	if f := fetch(t, v, 5, FetchOptions{}); f.Aborted != nil {
		t.Errorf("read_uncommitted has an aborted list: %v", f.Aborted)
	}
}

func TestScenario175_FirstBatchAboveTheMaximum(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 3), threes(9, 1))
	v, _ := l.offloaded(OffloadOptions{})
	size := int64(len(threes(0, 1)[0].bytes()))
	if f := fetch(t, v, 3, FetchOptions{MaxBytes: size - 1, AtLeastOne: true}); int64(len(f.Records)) != size || f.BaseOffset != 3 {
		t.Errorf("at least one: %d bytes from %d, want %d from 3", len(f.Records), f.BaseOffset, size)
	}
	if f := fetch(t, v, 3, FetchOptions{MaxBytes: size - 1}); len(f.Records) != 0 {
		t.Errorf("got %d bytes, want none", len(f.Records))
	}
	for limit, want := range map[int64]int64{size: size, 2*size - 1: size, 2 * size: 2 * size, 0: 3 * size} {
		if f := fetch(t, v, 0, FetchOptions{MaxBytes: limit}); int64(len(f.Records)) != want {
			t.Errorf("limit %d: %d bytes, want %d", limit, len(f.Records), want)
		}
	}
}

func TestScenario176_CompactedSegmentGoesOnInTheNext(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(9, 2), threes(15, 1))
	v, _ := l.offloaded(OffloadOptions{})
	if f := fetch(t, v, 4, FetchOptions{}); f.BaseOffset != 9 || len(f.Records) != 2*91 {
		t.Errorf("from the hole: %d bytes from %d, want 182 from 9", len(f.Records), f.BaseOffset)
	}
	if got, want := offsetsOf(t, v, 2, ReadUncommitted), []int64{2, 9, 10, 11, 12, 13, 14}; !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
}

func TestScenario177_BatchThatHoldsTheOffset(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 5), threes(15, 1))
	v, _ := l.offloaded(OffloadOptions{})
	f := fetch(t, v, 10, FetchOptions{})
	h, err := recordbatch.ParseHeader(f.Records)
	if err != nil || f.BaseOffset != 9 || f.Position != 273 || h.BaseOffset != 9 {
		t.Errorf("got base offset %d at %d, %v, want 9 at 273", f.BaseOffset, f.Position, err)
	}
}

// The aborted transactions of a fetch are those that overlap what it returns, also when their marker is in a later segment.
func TestFetch_AbortedTransactionsThatOverlap(t *testing.T) {
	l := buildLog(t, lin(0, 0),
		[]batchSpec{{base: 0, pid: 7, txn: true}, {base: 3}, {base: 6, pid: 8, txn: true}},
		[]batchSpec{{base: 9, pid: 8, marker: "abort"}, {base: 10}, {base: 13, pid: 7, marker: "abort"}},
		threes(14, 1))
	v, _ := l.offloaded(OffloadOptions{})
	seven, eight := AbortedTxn{7, 0, 13}, AbortedTxn{8, 6, 9}
	for _, c := range []struct {
		offset, max int64
		want        []AbortedTxn
	}{{0, 91, []AbortedTxn{seven}}, {0, 0, []AbortedTxn{seven, eight}}, {6, 91, []AbortedTxn{seven, eight}}, {10, 91, []AbortedTxn{seven}}} {
		f := fetch(t, v, c.offset, FetchOptions{MaxBytes: c.max, Isolation: ReadCommitted})
		if !slices.Equal(f.Aborted, c.want) {
			t.Errorf("from %d, %d bytes: %v, want %v", c.offset, c.max, f.Aborted, c.want)
		}
	}
	if got, want := offsetsOf(t, v, 0, ReadCommitted), []int64{3, 4, 5, 10, 11, 12}; !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
}

func TestScenario111To113_HighestRemoteOffset(t *testing.T) {
	for _, c := range []struct {
		name   string
		l      Lineage
		high   int64
		offset int64
		epoch  int32
	}{
		{"111", lin(0, 0, 1, 500), -1, -1, -1},
		{"112", lin(0, 0, 1, 500), 200, 200, 0},
		{"113", lin(0, 0, 1, 150, 2, 300), 200, 149, 0},
	} {
		_, mm, _ := fakes()
		md := seg(0, c.high, lin(0, 0))
		md.State = 1
		if c.high >= 0 {
			mm.segments[md.ID] = *md
		}
		offset, epoch, err := HighestRemoteOffset(t.Context(), mm, md.TopicIDPartition, c.l)
		if err != nil || offset != c.offset || epoch != c.epoch {
			t.Errorf("%s: (%d, %d), %v, want (%d, %d)", c.name, offset, epoch, err, c.offset, c.epoch)
		}
	}
}
