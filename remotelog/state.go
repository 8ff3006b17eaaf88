package remotelog

import "fmt"

// State is the state of a remote log segment (Kafka: RemoteLogSegmentState). The numbers are those of the wire.
type State int8

// The states, in the order of a segment's life.
const (
	CopySegmentStarted    State = 0
	CopySegmentFinished   State = 1
	DeleteSegmentStarted  State = 2
	DeleteSegmentFinished State = 3
)

var stateNames = [...]string{"COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"}

// String is Kafka's name of the state.
func (s State) String() string {
	if !s.Valid() {
		return fmt.Sprintf("State(%d)", int8(s))
	}
	return stateNames[s]
}

// Valid reports whether s is one of the four states.
func (s State) Valid() bool { return s >= CopySegmentStarted && s <= DeleteSegmentFinished }

// CanFollow reports whether a segment in state from may go to state s (Kafka 4.4,
// RemoteLogSegmentState.isValidTransition). A segment that does not exist yet may only be started: see [State.CanBegin]. A state may follow
// itself: events are delivered more than once.
func (s State) CanFollow(from State) bool {
	if !s.Valid() || !from.Valid() {
		return false
	}
	switch from {
	case CopySegmentStarted:
		return s != DeleteSegmentFinished
	case CopySegmentFinished:
		return s == CopySegmentFinished || s == DeleteSegmentStarted
	case DeleteSegmentStarted:
		return s == DeleteSegmentStarted || s == DeleteSegmentFinished
	default:
		return s == DeleteSegmentFinished
	}
}

// CanBegin reports whether a segment that is not known may enter the log in state s.
func (s State) CanBegin() bool { return s == CopySegmentStarted }

// DeleteState is the delete state of a partition (Kafka: RemotePartitionDeleteState). The numbers are those of the wire.
type DeleteState int8

// The delete states in their order.
const (
	DeletePartitionMarked   DeleteState = 0
	DeletePartitionStarted  DeleteState = 1
	DeletePartitionFinished DeleteState = 2
)

var deleteStateNames = [...]string{"DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED"}

// String is Kafka's name of the state.
func (s DeleteState) String() string {
	if !s.Valid() {
		return fmt.Sprintf("DeleteState(%d)", int8(s))
	}
	return deleteStateNames[s]
}

// Valid reports whether s is one of the three states.
func (s DeleteState) Valid() bool { return s >= DeletePartitionMarked && s <= DeletePartitionFinished }

// CanFollow reports whether a partition in delete state from may go to s: each state may follow itself and the one before it.
func (s DeleteState) CanFollow(from DeleteState) bool {
	return s.Valid() && from.Valid() && (s == from || s == from+1)
}

// CanBegin reports whether a partition without a delete state may enter s.
func (s DeleteState) CanBegin() bool { return s == DeletePartitionMarked }

// IndexType names one of the five indexes of a segment. The numbers are those of Kafka's enum IndexType, the order that of the
// parts in an .indexes object.
type IndexType int8

// The index types in Kafka's enum order (org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType).
const (
	OffsetIndex IndexType = iota
	TimestampIndex
	ProducerSnapshotIndex
	TransactionIndex
	LeaderEpochIndex
)

var indexNames = [...]string{"offset", "timestamp", "producer-snapshot", "transaction", "leader-epoch"}

// String is the name on the command line: offset, timestamp, producer-snapshot, transaction, leader-epoch.
func (t IndexType) String() string {
	if !t.Valid() {
		return fmt.Sprintf("IndexType(%d)", int8(t))
	}
	return indexNames[t]
}

// Valid reports whether t is one of the five types.
func (t IndexType) Valid() bool { return t >= OffsetIndex && t <= LeaderEpochIndex }

// IndexTypes returns the five types in Kafka's enum order.
func IndexTypes() []IndexType {
	return []IndexType{OffsetIndex, TimestampIndex, ProducerSnapshotIndex, TransactionIndex, LeaderEpochIndex}
}

// ParseIndexType reads the name that String writes.
func ParseIndexType(s string) (IndexType, error) {
	for i, n := range indexNames {
		if n == s {
			return IndexType(i), nil
		}
	}
	return 0, fmt.Errorf("%w: index type %q is none of offset, timestamp, producer-snapshot, leader-epoch, transaction", ErrInvalidArgument, s)
}
