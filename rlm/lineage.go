package rlm

import (
	"context"
	"slices"
	"sort"

	"github.com/tierkit/tierkit/remotelog"
)

// Lineage is the leader epochs of a log with the offset at which each begins, ascending: what Kafka calls the leader epoch cache.
// Epochs that begin at the same offset as the next one have no records.
type Lineage []remotelog.LeaderEpoch

// EpochAt returns the leader epoch of an offset; ok is false below the first epoch.
func (l Lineage) EpochAt(offset int64) (epoch int32, ok bool) {
	i := sort.Search(len(l), func(i int) bool { return l[i].StartOffset > offset })
	if i == 0 {
		return 0, false
	}
	return l[i-1].Epoch, true
}

// InRange returns the epochs of the offsets in [from, to), the first one beginning at from if it began before
// (LeaderEpochFileCache.epochEntriesInRange).
func (l Lineage) InRange(from, to int64) Lineage {
	var in Lineage
	for _, e := range l {
		switch {
		case e.StartOffset >= to:
			return in
		case e.StartOffset <= from:
			in = Lineage{{Epoch: e.Epoch, StartOffset: from}}
		default:
			in = append(in, e)
		}
	}
	return in
}

// WithoutEmpty leaves out the epochs that have no records (RemoteLogManager.buildFilteredLeaderEpochMap).
func (l Lineage) WithoutEmpty() Lineage {
	var out Lineage
	for i, e := range l {
		if i+1 == len(l) || l[i+1].StartOffset != e.StartOffset {
			out = append(out, e)
		}
	}
	return out
}

// Contains reports whether a segment belongs to this lineage, given the log's end offset (exclusive): whether its offsets were
// written under the same epochs, as far as the lineage reaches back (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs).
func (l Lineage) Contains(md *remotelog.SegmentMetadata, logEnd int64) bool {
	log, seg := l.WithoutEmpty(), Lineage(md.LeaderEpochs).WithoutEmpty()
	if len(log) == 0 || len(seg) == 0 {
		return false
	}
	last := seg[len(seg)-1].Epoch
	if last < log[0].Epoch || last > log[len(log)-1].Epoch {
		return false
	}
	// Epochs from before the lineage are ignored: the log start has moved over them.
	seg = seg[slices.IndexFunc(seg, func(e remotelog.LeaderEpoch) bool { return e.Epoch >= log[0].Epoch }):]
	for i, e := range seg {
		at := slices.IndexFunc(log, func(o remotelog.LeaderEpoch) bool { return o.Epoch == e.Epoch })
		switch {
		case at < 0:
			return false
		case i == 0 && at > 0 && e.StartOffset < log[at].StartOffset:
			return false
		case i+1 < len(seg) && (at+1 == len(log) || log[at+1] != seg[i+1]):
			return false
		case i+1 == len(seg) && at+1 < len(log) && md.EndOffset >= log[at+1].StartOffset:
			return false
		}
	}
	return md.EndOffset < logEnd
}

// HighestRemoteOffset returns the last offset of the lineage that is tiered, and its epoch; (-1, -1) if none is
// (RemoteLogManager.findHighestRemoteOffset). What was copied beyond the end that an epoch has in the lineage does not count.
func HighestRemoteOffset(ctx context.Context, r remotelog.MetadataReader, tp remotelog.TopicIDPartition, l Lineage) (offset int64, epoch int32, err error) {
	for i := len(l) - 1; i >= 0; i-- {
		h, ok, err := r.HighestOffset(ctx, tp, l[i].Epoch)
		if err != nil {
			return -1, -1, err
		}
		if !ok {
			continue
		}
		if i+1 < len(l) && l[i+1].StartOffset <= h {
			h = l[i+1].StartOffset - 1
			at, _ := l.EpochAt(h)
			return h, at, nil
		}
		return h, l[i].Epoch, nil
	}
	return -1, -1, nil
}

// sameEpochs reports whether md holds all offsets of [start, end] under the epochs that they have in want.
func sameEpochs(md *remotelog.SegmentMetadata, want Lineage, start, end int64) bool {
	if md.StartOffset > start || md.EndOffset < end {
		return false
	}
	have := Lineage(md.LeaderEpochs).WithoutEmpty().InRange(start, end+1)
	return slices.Equal(have, want.WithoutEmpty().InRange(start, end+1))
}
