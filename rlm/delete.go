package rlm

import (
	"context"
	"errors"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// DeleteOptions configures the deletes and Recover. The zero value works.
type DeleteOptions struct {
	Protocol
	OnResult func(SegmentResult) // called after each segment; nil: none
}

// DeleteSegment deletes one segment in two phases, or goes on where an earlier delete stopped. It may be called from inside a loop over
// a listing.
func DeleteSegment(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, md remotelog.SegmentMetadata, p Protocol) error {
	return p.remove(ctx, mm, sm, md)
}

// DeleteAll deletes every segment of the partition, whatever its state: unfinished copies too, which may be those of a live broker.
func DeleteAll(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, tp remotelog.TopicIDPartition, o DeleteOptions) (Summary, error) {
	return deleteWhere(ctx, mm, sm, tp, o, func(*remotelog.SegmentMetadata) bool { return true })
}

// DeleteBefore deletes the segments whose last offset is below offset, oldest first: finished ones, and those whose delete has begun.
// Copies that are not finished are left alone: see [Unfinished].
func DeleteBefore(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, tp remotelog.TopicIDPartition, offset int64,
	o DeleteOptions,
) (Summary, error) {
	return deleteWhere(ctx, mm, sm, tp, o, func(md *remotelog.SegmentMetadata) bool {
		return md.EndOffset < offset && md.State != remotelog.CopySegmentStarted
	})
}

// Unfinished lists the segments of a partition whose copy or delete has begun, not ended, and had its latest event before cutoff. They
// are what a crash left, or belong to a live broker: only their age tells.
func Unfinished(ctx context.Context, r remotelog.MetadataReader, tp remotelog.TopicIDPartition, cutoff time.Time) ([]remotelog.SegmentMetadata, error) {
	var list []remotelog.SegmentMetadata
	for md, err := range r.Segments(ctx, tp) {
		if err != nil {
			return nil, err
		}
		if unfinished(&md) && md.EventTimestampMs < cutoff.UnixMilli() {
			list = append(list, md)
		}
	}
	return list, nil
}

// unfinished reports whether the segment is between two phases.
func unfinished(md *remotelog.SegmentMetadata) bool {
	return md.State == remotelog.CopySegmentStarted || md.State == remotelog.DeleteSegmentStarted
}

// DeleteSegments deletes the segments of a list, for instance what Unfinished found.
func DeleteSegments(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, list []remotelog.SegmentMetadata,
	o DeleteOptions,
) (Summary, error) {
	d := deletion{mm: mm, sm: sm, o: o}
	for _, md := range list {
		if !d.one(ctx, md) {
			break
		}
	}
	return d.sum, errors.Join(d.errs...)
}

// deleteWhere deletes while it lists: a listing shows the moment of its first step and holds no lock.
func deleteWhere(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, tp remotelog.TopicIDPartition, o DeleteOptions,
	take func(*remotelog.SegmentMetadata) bool,
) (Summary, error) {
	d := deletion{mm: mm, sm: sm, o: o}
	for md, err := range mm.Segments(ctx, tp) {
		if err != nil {
			return d.sum, errors.Join(append(d.errs, err)...)
		}
		if take(&md) && !d.one(ctx, md) {
			break
		}
	}
	return d.sum, errors.Join(d.errs...)
}

// deletion is one run over several segments.
type deletion struct {
	mm   remotelog.MetadataManager
	sm   remotelog.StorageManager
	o    DeleteOptions
	sum  Summary
	errs []error
}

// one deletes a segment and reports whether to go on: one segment that cannot be deleted does not keep the others, but what fails for
// all of them ends the run.
func (d *deletion) one(ctx context.Context, md remotelog.SegmentMetadata) bool {
	if err := ctx.Err(); err != nil {
		d.errs = append(d.errs, err)
		return false
	}
	start := d.o.now()
	err := d.o.remove(ctx, d.mm, d.sm, md)
	r := SegmentResult{Segment: md, Result: Deleted, Duration: d.o.now().Sub(start), Err: err}
	if err != nil {
		r.Result = Failed
		d.errs = append(d.errs, err)
	}
	d.sum.add(r)
	if d.o.OnResult != nil {
		d.o.OnResult(r)
	}
	fatal := errors.Is(err, remotelog.ErrNotReady) || errors.Is(err, remotelog.ErrNotAssigned) || errors.Is(err, remotelog.ErrClosed)
	return !fatal
}
