package rsm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/remotelog"
)

// storeView is what can be read of a partition in one piece, at one moment. It is not modified once made.
type storeView struct {
	read   time.Time
	chain  []remotelog.SegmentMetadata // in the lineage, without a hole; copies may overlap
	epochs map[int32][]epochRange
}

// epochRange is the part of a segment that one leader epoch wrote. Those of an epoch are in the order of their starts; of equal ones the
// one that answers lookups is first.
type epochRange struct {
	start, end int64
	highest    int64 // greatest end of this and all before it
	md         *remotelog.SegmentMetadata
}

// newView finds the lineage and the chain of the segments of a partition.
func (x *StoreIndex) newView(ctx context.Context, tp remotelog.TopicIDPartition, all []StoredSegment) (*storeView, error) {
	v := &storeView{epochs: map[int32][]epochRange{}}
	if len(all) == 0 {
		return v, nil
	}
	lineage, err := x.lineage(ctx, tp, all)
	if err != nil {
		return nil, err
	}
	var inside []StoredSegment
	for _, s := range all {
		if within(lineage, &s.SegmentMetadata) {
			inside = append(inside, s)
			continue
		}
		x.notice(NoticeLineage, s.Key, "segment %s [%d, %d] is outside the lineage of leader epochs and is not read", s.ID, s.StartOffset, s.EndOffset)
	}
	for _, s := range x.unbroken(inside) {
		v.chain = append(v.chain, s.SegmentMetadata)
	}
	v.index(lineage[0].StartOffset)
	return v, nil
}

// lineage returns the leader epochs of a partition: the index of the segment with the highest (epoch, end offset) that can be read, and
// behind it what the manifests of those say whose index cannot be read.
func (x *StoreIndex) lineage(ctx context.Context, tp remotelog.TopicIDPartition, all []StoredSegment) ([]remotelog.LeaderEpoch, error) {
	candidates := slices.Clone(all)
	lastEpoch := func(s *StoredSegment) int32 { return s.LeaderEpochs[len(s.LeaderEpochs)-1].Epoch }
	slices.SortFunc(candidates, func(a, b StoredSegment) int {
		return cmp.Or(cmp.Compare(lastEpoch(&b), lastEpoch(&a)), cmp.Compare(b.EndOffset, a.EndOffset), newerFirst(&a.SegmentMetadata, &b.SegmentMetadata))
	})
	var first error
	for i, s := range candidates {
		epochs, err := x.epochIndex(ctx, s.SegmentMetadata)
		if err == nil {
			for _, unread := range slices.Backward(candidates[:i]) {
				epochs = logfiles.ExtendLeaderEpochs(epochs, unread.LeaderEpochs)
			}
			return epochs, nil
		}
		if !errors.Is(err, remotelog.ErrCorrupt) && !errors.Is(err, remotelog.ErrNotFound) {
			return nil, err
		}
		if first == nil {
			first = err
		}
		x.notice(NoticeLineage, s.Key, "the lineage before segment %s is taken from another one: %v", s.ID, err)
	}
	return nil, fmt.Errorf("%w: no leader epoch index of %s can be read: %w", remotelog.ErrCorrupt, tp, first)
}

// epochIndex reads the leader epoch index of a segment.
func (x *StoreIndex) epochIndex(ctx context.Context, md remotelog.SegmentMetadata) ([]remotelog.LeaderEpoch, error) {
	r, err := x.m.FetchIndex(ctx, md, remotelog.LeaderEpochIndex)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read only
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	epochs, err := logfiles.ParseLeaderEpochs(b)
	if err == nil && len(epochs) == 0 {
		err = fmt.Errorf("%w: it names no epoch", remotelog.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("leader epoch index of segment %s: %w", md.SegmentID, err)
	}
	return epochs, nil
}

// newerFirst is the order of copies that are equally good: latest event, then segment id.
func newerFirst(a, b *remotelog.SegmentMetadata) int {
	return cmp.Or(cmp.Compare(b.EventTimestampMs, a.EventTimestampMs), a.ID.Compare(b.ID))
}

// within reports whether the offsets of a segment were written under the epochs that they have in the lineage, as far as the lineage goes
// back. What lies below it altogether was deleted.
func within(lineage []remotelog.LeaderEpoch, md *remotelog.SegmentMetadata) bool {
	from := max(md.StartOffset, lineage[0].StartOffset)
	return from <= md.EndOffset && slices.Equal(epochsIn(lineage, from, md.EndOffset), epochsIn(md.LeaderEpochs, from, md.EndOffset))
}

// epochsIn returns the epochs of the offsets from to to, both inclusive, without those that have none.
func epochsIn(epochs []remotelog.LeaderEpoch, from, to int64) (in []remotelog.LeaderEpoch) {
	for i, e := range epochs {
		last := to
		if i+1 < len(epochs) {
			last = min(to, epochs[i+1].StartOffset-1)
		}
		if start := max(e.StartOffset, from); start <= last {
			in = append(in, remotelog.LeaderEpoch{Epoch: e.Epoch, StartOffset: start})
		}
	}
	return in
}

// unbroken drops what lies before a hole, and returns the rest by start offset.
func (x *StoreIndex) unbroken(segments []StoredSegment) []StoredSegment {
	slices.SortFunc(segments, func(a, b StoredSegment) int {
		return cmp.Or(cmp.Compare(b.EndOffset, a.EndOffset), cmp.Compare(a.StartOffset, b.StartOffset), newerFirst(&a.SegmentMetadata, &b.SegmentMetadata))
	})
	var start int64
	for i, s := range segments {
		if i > 0 && s.EndOffset < start-1 {
			x.notice(NoticeHole, s.Key, "%d segments that end at offset %d or before lie before a hole and are not read", len(segments)-i, s.EndOffset)
			segments = segments[:i]
			break
		}
		if i == 0 || s.StartOffset < start {
			start = s.StartOffset
		}
	}
	slices.SortStableFunc(segments, func(a, b StoredSegment) int { return cmp.Compare(a.StartOffset, b.StartOffset) })
	return segments
}

// index makes the tables of lookups, of the offsets from first on: what lies below the lineage was deleted.
func (v *storeView) index(first int64) {
	for i := range v.chain {
		md := &v.chain[i]
		for j, e := range md.LeaderEpochs {
			if start, end := max(e.StartOffset, first), md.EpochEnd(j); start <= end {
				v.epochs[e.Epoch] = append(v.epochs[e.Epoch], epochRange{start: start, end: end, md: md})
			}
		}
	}
	for _, ranges := range v.epochs {
		slices.SortFunc(ranges, func(a, b epochRange) int { return cmp.Or(cmp.Compare(a.start, b.start), a.better(b)) })
		highest := int64(-1)
		for i := range ranges {
			highest = max(highest, ranges[i].end)
			ranges[i].highest = highest
		}
	}
}

// better orders ranges that hold the same offset: the one that answers first.
func (r epochRange) better(o epochRange) int {
	return cmp.Or(cmp.Compare(o.end, r.end), newerFirst(r.md, o.md))
}

// lookup returns the segment that answers for an offset of an epoch.
func (v *storeView) lookup(epoch int32, offset int64) (remotelog.SegmentMetadata, bool) {
	ranges := v.epochs[epoch]
	var best *epochRange
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].start > offset }) - 1
	for ; i >= 0 && ranges[i].highest >= offset; i-- {
		if r := &ranges[i]; r.end >= offset && (best == nil || r.better(*best) < 0) {
			best = r
		}
	}
	if best == nil {
		return remotelog.SegmentMetadata{}, false
	}
	return *best.md, true
}
