package rlm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/remotelog"
)

// Fetcher is the reading half of a StorageManager.
type Fetcher interface {
	Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error)
	FetchIndex(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (io.ReadCloser, error)
}

// maxIndexBytes bounds what is read of an index: Kafka's segment.index.bytes is an int, and its entries describe a .log below 2^31.
const maxIndexBytes = 256 << 20

// ViewOptions configures Open. The zero value works.
type ViewOptions struct {
	OnNotice func(Notice) // what is skipped, and why; nil: none
}

// View is what is tiered of one partition at the moment of Open: the lineage of leader epochs and the unbroken chain of segments that
// ends at the highest offset. It is read by one goroutine at a time.
type View struct {
	tp      remotelog.TopicIDPartition
	meta    remotelog.MetadataReader
	store   Fetcher
	o       ViewOptions
	lineage Lineage
	chain   []remotelog.SegmentMetadata // in the lineage, by start offset; copies may overlap
	start   int64
	end     int64                   // inclusive
	bad     map[remotelog.UUID]bool // segments found corrupt, where another copy was there
}

// RangeError reports an offset outside what is tiered. It is also remotelog.ErrNotFound.
type RangeError struct {
	Partition  remotelog.TopicIDPartition
	Offset     int64
	Start, End int64 // what is tiered, inclusive
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d of %s is not tiered: offsets %d to %d are", e.Offset, e.Partition, e.Start, e.End)
}

// Is makes a RangeError match remotelog.ErrNotFound.
func (e *RangeError) Is(target error) bool { return target == remotelog.ErrNotFound }

// Open lists the finished segments of a partition, reads the lineage from the leader epoch index of the one with the highest (epoch,
// end offset), and finds what can be read without a hole. ErrNotFound: nothing is tiered.
func Open(ctx context.Context, meta remotelog.MetadataReader, store Fetcher, tp remotelog.TopicIDPartition, o ViewOptions) (*View, error) {
	v := &View{tp: tp, meta: meta, store: store, o: o, bad: map[remotelog.UUID]bool{}}
	segments, err := finished(ctx, meta, tp)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("%w: nothing of %s is tiered", remotelog.ErrNotFound, tp)
	}
	if err := v.readLineage(ctx, segments); err != nil {
		return nil, err
	}
	for _, md := range segments {
		if v.lineage.Contains(&md, math.MaxInt64) {
			v.chain = append(v.chain, md)
		} else {
			v.notice("segment %s [%d, %d] is outside the lineage of leader epochs and is not read", md.ID, md.StartOffset, md.EndOffset)
		}
	}
	if len(v.chain) == 0 {
		return nil, fmt.Errorf("%w: no segment of %s belongs to the lineage of its own leader epoch index", remotelog.ErrCorrupt, tp)
	}
	v.findRange()
	return v, nil
}

// Range returns the first and the last offset that can be read, both inclusive.
func (v *View) Range() (start, end int64) { return v.start, v.end }

// Lineage returns the leader epochs of the partition.
func (v *View) Lineage() Lineage { return slices.Clone(v.lineage) }

func (v *View) notice(format string, args ...any) {
	if v.o.OnNotice != nil {
		v.o.OnNotice(Notice{Text: fmt.Sprintf(format, args...)})
	}
}

// readLineage takes the leader epoch index of the first candidate that can be read. Behind it are the epochs that the metadata of those
// say whose index cannot be read: they are read too.
func (v *View) readLineage(ctx context.Context, segments []remotelog.SegmentMetadata) error {
	byEpoch := slices.Clone(segments)
	lastEpoch := func(md *remotelog.SegmentMetadata) int32 { return md.LeaderEpochs[len(md.LeaderEpochs)-1].Epoch }
	slices.SortStableFunc(byEpoch, func(a, b remotelog.SegmentMetadata) int {
		return cmp.Or(cmp.Compare(lastEpoch(&b), lastEpoch(&a)), cmp.Compare(b.EndOffset, a.EndOffset), newerFirst(&a, &b))
	})
	var errs []error
	for _, md := range byEpoch {
		l, err := v.epochIndex(ctx, md)
		if err == nil {
			for _, unread := range slices.Backward(byEpoch[:len(errs)]) {
				l = logfiles.ExtendLeaderEpochs(l, unread.LeaderEpochs)
			}
			v.lineage = l
			return nil
		}
		if !errors.Is(err, remotelog.ErrCorrupt) && !errors.Is(err, remotelog.ErrNotFound) {
			return err
		}
		errs = append(errs, err)
		if len(errs) < len(byEpoch) {
			v.notice("the leader epoch index of segment %s cannot be read, the lineage before it is taken from another one: %v", md.ID, err)
		}
	}
	return errs[0]
}

// epochIndex reads the leader epoch index of a segment.
func (v *View) epochIndex(ctx context.Context, md remotelog.SegmentMetadata) (Lineage, error) {
	b, err := v.index(ctx, md, remotelog.LeaderEpochIndex)
	if err != nil {
		return nil, err
	}
	l, err := logfiles.ParseLeaderEpochs(b)
	if err == nil && len(l) == 0 {
		err = fmt.Errorf("%w: it names no epoch", remotelog.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("leader epoch index of segment %s: %w", md.SegmentID, err)
	}
	return l, nil
}

// newerFirst is the order of equal candidates: latest event, then segment id.
func newerFirst(a, b *remotelog.SegmentMetadata) int {
	return cmp.Or(cmp.Compare(b.EventTimestampMs, a.EventTimestampMs), a.ID.Compare(b.ID))
}

// index reads one index of a segment whole.
func (v *View) index(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (b []byte, err error) {
	r, err := v.store.FetchIndex(ctx, md, t)
	if err != nil {
		return nil, fmt.Errorf("%s index of segment %s: %w", t, md.SegmentID, err)
	}
	defer func() { _ = r.Close() }() // read only
	b, err = io.ReadAll(io.LimitReader(r, maxIndexBytes+1))
	if err == nil && len(b) > maxIndexBytes {
		err = fmt.Errorf("%w: it has more than %d bytes", remotelog.ErrCorrupt, maxIndexBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s index of segment %s: %w", t, md.SegmentID, err)
	}
	return b, nil
}

// findRange finds the unbroken chain that ends at the highest offset, and drops what lies before a hole.
func (v *View) findRange() {
	slices.SortFunc(v.chain, func(a, b remotelog.SegmentMetadata) int {
		return cmp.Or(cmp.Compare(b.EndOffset, a.EndOffset), cmp.Compare(a.StartOffset, b.StartOffset), newerFirst(&a, &b))
	})
	v.start, v.end = v.chain[0].StartOffset, v.chain[0].EndOffset
	n := slices.IndexFunc(v.chain, func(md remotelog.SegmentMetadata) bool {
		if md.EndOffset < v.start-1 {
			return true
		}
		v.start = min(v.start, md.StartOffset)
		return false
	})
	if n >= 0 {
		v.notice("%d segments that end at offset %d or before lie behind a hole and are not read", len(v.chain)-n, v.chain[n].EndOffset)
		v.chain = v.chain[:n]
	}
	v.start = max(v.start, v.lineage[0].StartOffset)
	slices.SortStableFunc(v.chain, func(a, b remotelog.SegmentMetadata) int { return cmp.Compare(a.StartOffset, b.StartOffset) })
}

// segment finds the segment that holds offset: the metadata's answer if it belongs to this view, else the best copy in the chain.
func (v *View) segment(ctx context.Context, offset int64) (remotelog.SegmentMetadata, error) {
	epoch, ok := v.lineage.EpochAt(offset)
	if !ok || offset < v.start || offset > v.end {
		return remotelog.SegmentMetadata{}, &RangeError{Partition: v.tp, Offset: offset, Start: v.start, End: v.end}
	}
	md, ok, err := v.meta.Segment(ctx, v.tp, epoch, offset)
	if err != nil {
		return md, fmt.Errorf("looking up offset %d of %s: %w", offset, v.tp, err)
	}
	if ok && md.StartOffset <= offset && offset <= md.EndOffset && !v.bad[md.ID] && v.lineage.Contains(&md, math.MaxInt64) {
		return md, nil
	}
	if md, ok := v.best(offset); ok {
		return md, nil
	}
	return md, fmt.Errorf("%w: no segment of %s holds offset %d any more", remotelog.ErrNotFound, v.tp, offset)
}

// best returns the copy that serves offset: the one with the greatest end offset in that epoch, then the latest event, then the
// segment id, without those found corrupt.
func (v *View) best(offset int64) (md remotelog.SegmentMetadata, ok bool) {
	// Beyond the end of its epoch in the lineage a copy has no advantage.
	epochEnd := int64(math.MaxInt64)
	for _, e := range v.lineage {
		if e.StartOffset > offset {
			epochEnd = e.StartOffset - 1
			break
		}
	}
	for _, c := range v.chain {
		if c.StartOffset > offset || c.EndOffset < offset || v.bad[c.ID] {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(min(md.EndOffset, epochEnd), min(c.EndOffset, epochEnd)), newerFirst(&c, &md)) < 0 {
			md, ok = c, true
		}
	}
	return md, ok
}

// replace handles a damaged segment: if another copy holds offset the damaged one is not used again.
func (v *View) replace(md remotelog.SegmentMetadata, offset int64, err error) bool {
	if !errors.Is(err, remotelog.ErrCorrupt) || v.bad[md.ID] {
		return false
	}
	v.bad[md.ID] = true
	other, ok := v.best(offset)
	if !ok {
		delete(v.bad, md.ID)
		return false
	}
	v.notice("segment %s is damaged, offset %d is read from %s: %v", md.ID, offset, other.ID, err)
	return true
}
