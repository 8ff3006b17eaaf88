package remotelog

import (
	"context"
	"io"
	"iter"
	"math"
)

// ToEnd is the end position of an open-ended Fetch.
const ToEnd int64 = math.MaxInt64

// StorageManager moves the bytes of segments to and from an object store (Kafka: RemoteStorageManager). Implementations are
// safe for concurrent use and honour ctx in every wait.
type StorageManager interface {
	// Copy stores data under md's segment id and returns what is to be recorded with COPY_SEGMENT_FINISHED (nil: nothing).
	// md's state must be COPY_SEGMENT_STARTED. Copying the same id again replaces what is there. When Copy fails the segment
	// does not exist and what was stored has been removed, or the error says that it could not be.
	Copy(ctx context.Context, md SegmentMetadata, data SegmentData) (CustomMetadata, error)
	// Fetch streams the .log bytes from start to end, both inclusive; ToEnd means open-ended, an end behind the file is
	// clipped. start = size gives an empty stream; start > size, start < 0, end < start and end < 0 are ErrInvalidArgument.
	// The stream delivers every byte asked for and then io.EOF, or an error: it never ends early without one. The caller
	// closes it, at any time, cheaply.
	Fetch(ctx context.Context, md SegmentMetadata, start, end int64) (io.ReadCloser, error)
	// FetchIndex streams one index. ErrNoIndex: the segment was stored without it (transaction only).
	FetchIndex(ctx context.Context, md SegmentMetadata, t IndexType) (io.ReadCloser, error)
	// Delete removes everything of the segment, half-copied ones too. Absent is success.
	Delete(ctx context.Context, md SegmentMetadata) error
}

// MetadataReader answers which segments exist. A listing shows the moment of its first step; no lock is held while it yields,
// and every method may be called from inside the loop. A partition that is not followed is ErrNotAssigned, one that is still
// loading ErrNotReady: an empty answer always means "none".
type MetadataReader interface {
	// Segment returns the finished segment that holds offset in that leader epoch.
	Segment(ctx context.Context, tp TopicIDPartition, epoch int32, offset int64) (SegmentMetadata, bool, error)
	// NextSegmentWithTxnIndex returns the first finished segment of the epoch, from the one holding offset on, that may have a
	// transaction index. It stops at a gap and never crosses epochs (Kafka 4.0, KIP-1058).
	NextSegmentWithTxnIndex(ctx context.Context, tp TopicIDPartition, epoch int32, offset int64) (SegmentMetadata, bool, error)
	// HighestOffset returns the highest offset, inclusive, that was ever copied for the epoch.
	HighestOffset(ctx context.Context, tp TopicIDPartition, epoch int32) (int64, bool, error)
	// Partitions lists the partitions that are known and assigned, in the order of TopicIDPartition.Compare.
	Partitions(ctx context.Context) iter.Seq2[TopicIDPartition, error]
	// Segments lists the segments of a partition that are not DELETE_SEGMENT_FINISHED, started and deleting ones included, in
	// the order of SegmentMetadata.Compare.
	Segments(ctx context.Context, tp TopicIDPartition) iter.Seq2[SegmentMetadata, error]
	// SegmentsOfEpoch lists those of one leader epoch by start offset; at equal starts the one that Segment answers from comes
	// first, then the greater end offset, then the segment id.
	SegmentsOfEpoch(ctx context.Context, tp TopicIDPartition, epoch int32) iter.Seq2[SegmentMetadata, error]
}

// MetadataManager also writes. A write returns once it is durable and visible to this manager's own reads.
type MetadataManager interface {
	MetadataReader
	// Add records a new segment; its state must be COPY_SEGMENT_STARTED.
	Add(ctx context.Context, md SegmentMetadata) error
	// Update moves a segment to another state. ErrConflict: another write was first; the error names the state found.
	Update(ctx context.Context, u SegmentUpdate) error
	// PutPartitionDelete moves the delete state of a partition.
	PutPartitionDelete(ctx context.Context, d PartitionDelete) error
}
