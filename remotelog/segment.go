package remotelog

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
)

// TopicIDPartition identifies a partition. Two partitions are the same only if id, name and number are the same: a topic that
// was deleted and created again is another one.
type TopicIDPartition struct {
	TopicID   UUID
	Topic     string
	Partition int32
}

// String is "topic-partition" as Kafka's logs print it, without the id.
func (tp TopicIDPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Compare orders by topic name, partition, topic id.
func (tp TopicIDPartition) Compare(o TopicIDPartition) int {
	return cmp.Or(strings.Compare(tp.Topic, o.Topic), cmp.Compare(tp.Partition, o.Partition), tp.TopicID.Compare(o.TopicID))
}

// SegmentID identifies one remote copy of a segment. Every attempt to copy gets an id of its own.
type SegmentID struct {
	TopicIDPartition
	ID UUID
}

// String is "topic-partition/id".
func (s SegmentID) String() string { return s.TopicIDPartition.String() + "/" + s.ID.String() }

// LeaderEpoch is the first offset that a leader epoch has, in the log or inside one segment.
type LeaderEpoch struct {
	Epoch       int32
	StartOffset int64
}

// CustomMetadata is what a StorageManager returned for a segment: opaque bytes that are handed back in every later call. nil
// means none, which Kafka tells apart from empty.
type CustomMetadata []byte

// SegmentMetadata describes one remote log segment (Kafka: RemoteLogSegmentMetadata). It is a value; the slices in it are shared
// and never modified.
type SegmentMetadata struct {
	SegmentID
	StartOffset      int64         // first offset, >= 0
	EndOffset        int64         // last offset, inclusive
	LeaderEpochs     []LeaderEpoch // ascending, at least one; each offset is the first of that epoch inside this segment
	MaxTimestampMs   int64         // largest record timestamp, -1 if no record has one
	BrokerID         int32         // broker that wrote the latest event
	EventTimestampMs int64         // wall clock of the latest event
	SizeBytes        int64         // size of the .log file
	CustomMetadata   CustomMetadata
	State            State
	TxnIndexEmpty    bool // the segment has no aborted transaction; false also means "unknown" (written before Kafka 4.0)
}

// Validate reports, as ErrInvalidArgument, what a record or manifest could not hold or a broker would refuse: sizes above 2^31-1,
// negative or crossing offsets, leader epochs that are missing, out of order or outside the segment.
func (m *SegmentMetadata) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: segment %s: %s", ErrInvalidArgument, m.SegmentID, fmt.Sprintf(format, args...))
	}
	switch {
	case m.Topic == "":
		return bad("topic name is empty")
	case m.Partition < 0:
		return bad("partition %d is negative", m.Partition)
	case m.StartOffset < 0:
		return bad("start offset %d is negative", m.StartOffset)
	case m.EndOffset < m.StartOffset:
		return bad("end offset %d is below start offset %d", m.EndOffset, m.StartOffset)
	case m.SizeBytes < 0 || m.SizeBytes > math.MaxInt32:
		return bad("size %d is outside 0..%d", m.SizeBytes, math.MaxInt32)
	case len(m.LeaderEpochs) == 0:
		return bad("no leader epoch")
	case m.LeaderEpochs[0].StartOffset != m.StartOffset:
		return bad("first leader epoch starts at %d, the segment at %d", m.LeaderEpochs[0].StartOffset, m.StartOffset)
	}
	for i, e := range m.LeaderEpochs {
		switch {
		case e.Epoch < 0:
			return bad("leader epoch %d is negative", e.Epoch)
		case e.StartOffset < m.StartOffset || e.StartOffset > m.EndOffset:
			return bad("leader epoch %d starts at %d, outside the segment [%d, %d]", e.Epoch, e.StartOffset, m.StartOffset, m.EndOffset)
		case i > 0 && (e.Epoch <= m.LeaderEpochs[i-1].Epoch || e.StartOffset < m.LeaderEpochs[i-1].StartOffset):
			return bad("leader epochs are not ascending at epoch %d", e.Epoch)
		}
	}
	return nil
}

// EpochEnd returns the last offset, inclusive, that the i-th leader epoch has in this segment.
func (m *SegmentMetadata) EpochEnd(i int) int64 {
	if i+1 < len(m.LeaderEpochs) {
		return m.LeaderEpochs[i+1].StartOffset - 1
	}
	return m.EndOffset
}

// Compare orders segments as listings show them: topic, partition, start offset, end offset, segment id.
func (m *SegmentMetadata) Compare(o *SegmentMetadata) int {
	return cmp.Or(m.TopicIDPartition.Compare(o.TopicIDPartition), cmp.Compare(m.StartOffset, o.StartOffset),
		cmp.Compare(m.EndOffset, o.EndOffset), m.ID.Compare(o.ID))
}

// SegmentUpdate changes the state of a segment (Kafka: RemoteLogSegmentMetadataUpdate).
type SegmentUpdate struct {
	SegmentID
	EventTimestampMs int64
	CustomMetadata   CustomMetadata
	State            State
	BrokerID         int32
}

// PartitionDelete changes the delete state of a whole partition (Kafka: RemotePartitionDeleteMetadata).
type PartitionDelete struct {
	TopicIDPartition
	State            DeleteState
	EventTimestampMs int64
	BrokerID         int32
}

// Source is one file of a segment as a copy reads it: a local file, or bytes that were made for the copy.
type Source interface {
	// Open returns the bytes and how many there are. The caller reads from one goroutine at a time and closes. A reader that
	// delivers fewer or more bytes than announced makes the copy fail. Open may be called more than once for one copy.
	Open(ctx context.Context) (io.ReadCloser, int64, error)
}

// SegmentData is what a copy stores: the .log and its five indexes (Kafka: LogSegmentData). Kafka requires all but the
// transaction index; a nil TransactionIndex means that the segment has none, which is not the same as an empty one.
type SegmentData struct {
	Log              Source
	OffsetIndex      Source
	TimeIndex        Source
	ProducerSnapshot Source
	TransactionIndex Source
	LeaderEpochs     []byte // the leader-epoch-checkpoint as Kafka hands it over: text, cut at the segment's end offset
}
