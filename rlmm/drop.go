package rlmm

import (
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
)

// DropReason says why a record of the metadata topic changed nothing. A manager survives every record: it skips what it cannot
// use, counts it (Hooks.Dropped, Status) and goes on, where a real broker's metadata consumer ends its thread on some of them.
type DropReason uint8

// The reasons. Those up to DropInvalidSegment are also what Decode reports.
const (
	// DropTombstone: the value is null (KIP-1266 proposes such records; no released broker writes them).
	DropTombstone DropReason = iota + 1
	// DropUndecodable: the value is not an envelope of version 1 with one whole message of version 0 in it.
	DropUndecodable
	// DropUnknownMessage: the envelope names a message that does not exist.
	DropUnknownMessage
	// DropInvalidState: the state is unknown, or not the one that a new segment has.
	DropInvalidState
	// DropInvalidSegment: a segment with a negative start offset, an end below its start, or no leader epoch.
	DropInvalidSegment
	// DropSnapshotRecord: a snapshot record, which belongs into the files of brokers before 3.8 only.
	DropSnapshotRecord
	// DropUnknownSegment: an update for a segment that is not known. Normal where the record that added it has left the topic.
	DropUnknownSegment
	// DropInvalidTransition: the state machine does not allow the change.
	DropInvalidTransition
)

// dropReasons is the number of reasons plus one: the size of a table indexed by reason.
const dropReasons = int(DropInvalidTransition) + 1

// DropReasons returns every reason: to make all metric series before the first record.
func DropReasons() []DropReason {
	out := make([]DropReason, 0, dropReasons-1)
	for r := DropTombstone; int(r) < dropReasons; r++ {
		out = append(out, r)
	}
	return out
}

// String returns a short name, fit for a metric's label.
func (r DropReason) String() string {
	switch r {
	case DropTombstone:
		return "tombstone"
	case DropUndecodable:
		return "undecodable"
	case DropUnknownMessage:
		return "unknown-message"
	case DropInvalidState:
		return "invalid-state"
	case DropInvalidSegment:
		return "invalid-segment"
	case DropSnapshotRecord:
		return "snapshot-record"
	case DropUnknownSegment:
		return "unknown-segment"
	case DropInvalidTransition:
		return "invalid-transition"
	default:
		return fmt.Sprintf("reason-%d", uint8(r))
	}
}

// DecodeError is the error of Decode. It matches remotelog.ErrCorrupt.
type DecodeError struct {
	Reason DropReason
	Detail string
}

// Error implements error.
func (e *DecodeError) Error() string { return "metadata record: " + e.Detail }

// Is makes a DecodeError match remotelog.ErrCorrupt.
func (e *DecodeError) Is(target error) bool { return target == remotelog.ErrCorrupt }
