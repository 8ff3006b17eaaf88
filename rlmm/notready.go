package rlmm

import (
	"context"
	"fmt"
	"iter"

	"github.com/tierkit/tierkit/remotelog"
)

// NotReady stands in for a metadata manager that cannot be had yet, and fails closed: every read and every write is
// remotelog.ErrNotReady, which is retriable, so that a broker waits, and nothing is tiered with metadata that is not durable.
// Assignments succeed and are not kept; Swappable keeps them. Context errors come first, as with a Manager. It has no state.
type NotReady struct {
	// Cause is why, for the text of the errors, which match ErrNotReady only; nil: nothing is said.
	Cause error
}

func (n NotReady) err(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return n.late()
}

func (n NotReady) late() error {
	if n.Cause == nil {
		return fmt.Errorf("%w: the metadata manager is not there yet", remotelog.ErrNotReady)
	}
	// The text alone: a cause that is ErrNotFound must not make an answer "not found".
	return fmt.Errorf("%w: the metadata manager is not there yet: %v", remotelog.ErrNotReady, n.Cause) //nolint:errorlint // see above
}

// OnLeadershipChange does nothing.
func (n NotReady) OnLeadershipChange(_, _ []remotelog.TopicIDPartition) error { return nil }

// OnStop does nothing.
func (n NotReady) OnStop([]remotelog.TopicIDPartition) error { return nil }

// Reconcile does nothing.
func (n NotReady) Reconcile(context.Context, []remotelog.TopicIDPartition) error { return nil }

// IsReady is false.
func (n NotReady) IsReady(remotelog.TopicIDPartition) bool { return false }

// WaitReady does not wait: it never becomes ready.
func (n NotReady) WaitReady(ctx context.Context, _ ...remotelog.TopicIDPartition) error {
	return n.err(ctx)
}

// RemoteLogSize is ErrNotReady.
func (n NotReady) RemoteLogSize(ctx context.Context, _ remotelog.TopicIDPartition, _ int32) (int64, error) {
	return 0, n.err(ctx)
}

// Close does nothing.
func (n NotReady) Close(context.Context) error { return nil }

// Segment implements remotelog.MetadataReader.
func (n NotReady) Segment(ctx context.Context, _ remotelog.TopicIDPartition, _ int32, _ int64) (remotelog.SegmentMetadata, bool, error) {
	return remotelog.SegmentMetadata{}, false, n.err(ctx)
}

// NextSegmentWithTxnIndex implements remotelog.MetadataReader.
func (n NotReady) NextSegmentWithTxnIndex(ctx context.Context, _ remotelog.TopicIDPartition, _ int32, _ int64) (remotelog.SegmentMetadata, bool, error) {
	return remotelog.SegmentMetadata{}, false, n.err(ctx)
}

// HighestOffset implements remotelog.MetadataReader.
func (n NotReady) HighestOffset(ctx context.Context, _ remotelog.TopicIDPartition, _ int32) (int64, bool, error) {
	return 0, false, n.err(ctx)
}

// Partitions implements remotelog.MetadataReader.
func (n NotReady) Partitions(ctx context.Context) iter.Seq2[remotelog.TopicIDPartition, error] {
	return func(yield func(remotelog.TopicIDPartition, error) bool) {
		yield(remotelog.TopicIDPartition{}, n.err(ctx))
	}
}

// Segments implements remotelog.MetadataReader.
func (n NotReady) Segments(ctx context.Context, _ remotelog.TopicIDPartition) iter.Seq2[remotelog.SegmentMetadata, error] {
	return func(yield func(remotelog.SegmentMetadata, error) bool) {
		yield(remotelog.SegmentMetadata{}, n.err(ctx))
	}
}

// SegmentsOfEpoch implements remotelog.MetadataReader.
func (n NotReady) SegmentsOfEpoch(ctx context.Context, tp remotelog.TopicIDPartition, _ int32) iter.Seq2[remotelog.SegmentMetadata, error] {
	return n.Segments(ctx, tp)
}

// Add implements remotelog.MetadataManager.
func (n NotReady) Add(ctx context.Context, _ remotelog.SegmentMetadata) error { return n.err(ctx) }

// Update implements remotelog.MetadataManager.
func (n NotReady) Update(ctx context.Context, _ remotelog.SegmentUpdate) error { return n.err(ctx) }

// PutPartitionDelete implements remotelog.MetadataManager.
func (n NotReady) PutPartitionDelete(ctx context.Context, _ remotelog.PartitionDelete) error {
	return n.err(ctx)
}
