package rlm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// batchFunc takes the next batch and the segment that it came from, and says whether to go on.
type batchFunc func(md *remotelog.SegmentMetadata, b recordbatch.Batch) (bool, error)

// batches calls f for the batches that end at from or behind it, in order, over the segments up to the end of the view. Where a
// segment ends before the wanted offset (compaction) the one holding end + 1 is next. A damaged segment is left for another copy of
// the same offsets, if there is one.
func (v *View) batches(ctx context.Context, from int64, f batchFunc) error {
	for next := from; next <= v.end; {
		md, err := v.segment(ctx, next)
		if err != nil {
			return err
		}
		goOn := true
		err = v.segmentBatches(ctx, md, next, func(b recordbatch.Batch) (bool, error) {
			var err error
			if goOn, err = f(&md, b); err == nil {
				next = b.LastOffset() + 1
			}
			return goOn, err
		})
		switch {
		case err != nil && v.replace(md, next, err):
			continue
		case err != nil || !goOn:
			return err
		}
		next = max(next, md.EndOffset+1)
	}
	return nil
}

// segmentBatches calls f for the batches of one segment that end at from or behind it.
func (v *View) segmentBatches(ctx context.Context, md remotelog.SegmentMetadata, from int64, f func(recordbatch.Batch) (bool, error)) error {
	c, err := v.openSegment(ctx, md, from)
	if err != nil {
		return err
	}
	defer func() { _ = c.body.Close() }() // read only
	for {
		b, err := c.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("segment %s: %w", md.SegmentID, err)
		}
		if b.LastOffset() < from {
			continue
		}
		if goOn, err := f(b); err != nil || !goOn {
			return err
		}
	}
}

// cursor reads a segment from a batch on. The CRC of a batch does not cover its base offset and leader epoch, so these are compared
// with what is known otherwise: the batches before and behind, the segment's bounds and its leader epochs, the index entry.
type cursor struct {
	md    remotelog.SegmentMetadata
	body  io.ReadCloser
	r     *recordbatch.Reader
	entry *logfiles.OffsetEntry // that led to the first batch; nil at the start of the segment
	last  int64
}

// openSegment finds the position for an offset in the offset index and begins to fetch there.
func (v *View) openSegment(ctx context.Context, md remotelog.SegmentMetadata, from int64) (*cursor, error) {
	c := &cursor{md: md, last: md.StartOffset - 1}
	position := int64(0)
	if from > md.StartOffset {
		b, err := v.index(ctx, md, remotelog.OffsetIndex)
		if err != nil {
			return nil, err
		}
		x, err := logfiles.ParseOffsetIndex(b, md.StartOffset)
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", md.SegmentID, err)
		}
		if e, ok := x.Lookup(from); ok {
			if e.Position >= md.SizeBytes {
				return nil, fmt.Errorf("segment %s: %w: the offset index leads to position %d of %d", md.SegmentID, remotelog.ErrCorrupt, e.Position, md.SizeBytes)
			}
			c.entry, position = &e, e.Position
		}
	}
	body, err := v.store.Fetch(ctx, md, position, remotelog.ToEnd)
	if err != nil {
		return nil, fmt.Errorf("segment %s from position %d: %w", md.SegmentID, position, err)
	}
	c.body = body
	c.r = recordbatch.NewReader(body, recordbatch.ReaderOptions{Position: position, MaxBatchBytes: md.SizeBytes - position})
	return c, nil
}

// next returns the next batch, checked; io.EOF at the end of the segment.
func (c *cursor) next() (recordbatch.Batch, error) {
	b, err := c.r.Next()
	if errors.Is(err, io.EOF) && c.r.Position() != c.md.SizeBytes {
		return b, fmt.Errorf("%w: its bytes end at position %d of %d", remotelog.ErrCorrupt, c.r.Position(), c.md.SizeBytes)
	}
	if err != nil {
		return b, err
	}
	behind, err := c.r.PeekBaseOffset()
	if errors.Is(err, io.EOF) {
		behind, err = c.md.EndOffset+1, nil
	}
	if err != nil {
		return b, err
	}
	wrong := func(format string, args ...any) (recordbatch.Batch, error) {
		return b, fmt.Errorf("%w: position %d: batch has offsets %d to %d, %s", remotelog.ErrCorrupt, b.Position, b.BaseOffset, b.LastOffset(),
			fmt.Sprintf(format, args...))
	}
	switch epoch, ok := Lineage(c.md.LeaderEpochs).EpochAt(b.BaseOffset); {
	case b.BaseOffset <= c.last:
		return wrong("the one before ends at %d", c.last)
	case b.LastOffset() >= behind || b.LastOffset() > c.md.EndOffset:
		return wrong("what follows begins at %d, the segment ends at %d", behind, c.md.EndOffset)
	case c.entry != nil && b.BaseOffset > c.entry.Offset:
		return wrong("the offset index led here for %d", c.entry.Offset)
	case ok && b.PartitionLeaderEpoch != epoch:
		return wrong("leader epoch %d, the metadata says %d", b.PartitionLeaderEpoch, epoch)
	}
	c.last, c.entry = b.LastOffset(), nil
	return b, nil
}
