package rlmm

import (
	"context"
	"strconv"
)

// MaxEventBytes is the size up to which every Log takes events. Kafka's default max.message.bytes is 1,048,588 (ServerLogConfigs,
// 4.x) and counts the batch around the value.
const MaxEventBytes = 1_000_000

// LogID names one life of a log: a log that was deleted and made again has another one. It is compared, stored in snapshots
// and shown to people, and has no inner structure. Kafka: cluster id and topic id; file: the random id in its header;
// memory: random.
type LogID string

// Position is a place between two events of one partition.
type Position struct {
	// Offset is the next offset to read.
	Offset int64
	// Epoch is the leader epoch in which what precedes Offset was written; -1: nothing precedes it, or it is not known.
	Epoch int32
}

// Event is one record of a metadata partition. Key and Value may be shared between readers and are never modified; a receiver
// that keeps a part of them for long copies it, since they may be a piece of a bigger buffer.
type Event struct {
	Partition int32
	Offset    int64
	// Epoch is the leader epoch in which the event was written, -1 where the log does not say.
	Epoch int32
	// TimestampMs is when it was appended, for people and for gauges. Nothing is decided by it.
	TimestampMs int64
	// Key is nil for everything that Append writes; foreign writers may set it.
	Key []byte
	// Value is nil in a tombstone and only there. Append never writes one.
	Value []byte
}

// Bounds are the offsets that a partition holds at one moment: [First, Next).
type Bounds struct {
	// First is the first offset that can still be read.
	First int64
	// Next is the high watermark: what is below it is durable and is shown to every reader, transactions that are open or
	// were aborted included (read_uncommitted, as the brokers read).
	Next int64
}

// Batch is what one step of a Follower found. At least one of its fields is not empty.
type Batch struct {
	// Events are in order within each partition; partitions may be mixed.
	Events []Event
	// Next tells for each partition that moved how far it has been read, Events included. It also moves over offsets that
	// have no event (control records, aborted data, compacted ones), so that a reader reaches Bounds.Next.
	Next map[int32]Position
	// Lost is to be handled before those Events that are of the same partition.
	Lost []Loss
}

// LossKind says what happened to a position.
type LossKind uint8

const (
	// HeadGone: the events from the position to Resume have left the log (retention). What was read of them before still
	// holds.
	HeadGone LossKind = iota + 1
	// Truncated: what precedes the position is not, or may not be, what the log holds now; other events may have taken the
	// same offsets. Whatever was derived from the partition is to be built again from Resume.
	Truncated
)

// String returns the name of the kind.
func (k LossKind) String() string {
	switch k {
	case HeadGone:
		return "head gone"
	case Truncated:
		return "truncated"
	default:
		return "loss kind " + strconv.Itoa(int(k))
	}
}

// Loss says that a position is not on the log any more.
type Loss struct {
	Partition int32
	// From is the position that was lost.
	From Position
	// Resume is where reading goes on: for both kinds the first offset of the log at the moment of the finding, with epoch -1.
	Resume Position
	Kind   LossKind
}

// Log is the durable thing below a Manager: a fixed number of partitions, each a sequence of events with ascending offsets.
// It is implemented by memlog (tests, many brokers in one process), filelog (the embedded default) and kafkalog
// (__remote_log_metadata), and by authors of brokers of their own; what follows is the contract for them. Package logtest has
// the test table that an implementation MUST pass; the names in parentheses are its cases.
//
// An implementation MUST be safe for concurrent use, and several managers may share one Log. Every method that takes a context
// MUST return soon after it ends. Partitions outside [0, Partitions()) are remotelog.ErrInvalidArgument (invalid-arguments).
// After Close every method but Identity and Partitions returns remotelog.ErrClosed (close-log).
type Log interface {
	// Identity returns the name of this life of the log. It MUST NOT change while the Log is open, MUST be the same when the
	// same log is opened again, and MUST differ for every other log (identity).
	Identity() LogID

	// Partitions returns the number of partitions, fixed for the life of the Log.
	Partitions() int32

	// Append adds one event at the end of partition p and returns the position behind it: its Offset is that of the event
	// plus one, its Epoch that of the event, or -1 where the log does not learn it in time (Kafka's answer to a writer has no
	// leader epoch). A reader whose Next for p has reached that offset has seen the event (append-position).
	//
	// The error decides what a caller may conclude, and callers undo work on the strength of it:
	//   - nil: the event is durable. Every Follower delivers it; Bounds counts it already (append-visible).
	//   - an error that matches remotelog.ErrOutcomeUnknown: the event may be, or may later become, part of the log. A caller
	//     may only wait for it or for proof of the contrary.
	//   - any other error, those of ctx included: the event is not and will never be part of the log (append-cancelled).
	//
	// When ctx ends while the event is already on its way, the error MUST match both remotelog.ErrOutcomeUnknown and the error
	// of ctx (append-cancelled). So it is with Close: an Append that it ended returns remotelog.ErrClosed, and where the event
	// is already on its way an error that matches remotelog.ErrOutcomeUnknown as well (close-log). Append MUST take events of 1 to MaxEventBytes bytes; larger ones MAY be, and empty ones MUST
	// be, remotelog.ErrInvalidArgument (invalid-arguments). The slice is the caller's again when Append returns: a Log that
	// still needs it copies it (append-copies). Events that one goroutine appends one after the other MUST be in that order
	// (in-order). That includes events in doubt: one whose Append returned ErrOutcomeUnknown MUST NOT become part of the log
	// behind an event whose Append began afterwards and returned nil. The manager relies on it to find out that an event never
	// landed; a Log that cannot keep it (a producer that begins a new session while old requests are on the wire) fails the
	// later Append.
	Append(ctx context.Context, p int32, event []byte) (Position, error)

	// Bounds asks for the bounds of the partitions now. An answer MUST count every event whose Append returned nil before
	// the call (append-visible). A partition whose answer cannot be had makes the call an error; there is no partial answer.
	Bounds(ctx context.Context, ps []int32) (map[int32]Bounds, error)

	// Check answers whether the positions are still on this log, without following it; the result lists those that are not,
	// as a Follower that starts there would report them. A position whose Epoch is -1 is checked by its offset alone (head-gone,
	// truncated-and-regrown).
	Check(ctx context.Context, at map[int32]Position) ([]Loss, error)

	// Follow reads partitions from the positions given, first what is there and then what comes. It does no I/O. An invalid
	// partition is reported by Next. The caller closes the Follower; Close of the Log ends it too.
	Follow(from map[int32]Position) Follower

	// Close ends every Follower and every waiting Append and releases what the Log holds. Events whose Append is waiting end
	// as Append's contract says. It is idempotent (close-log).
	Close() error
}

// Follower reads a set of partitions. Next is called by one goroutine at a time; Assign and Close may be called by any
// goroutine at any time, also during Next.
type Follower interface {
	// Next waits until there is something to report and returns it.
	//
	// For each partition events come in the order of their offsets and each offset at most once, starting at the position
	// given; after a Loss they start again at its Resume (in-order, head-gone, truncated-and-regrown). Nothing is left out
	// however late or slowly Next is called, except by retention, which is a Loss (slow-reader). A batch is bounded: an
	// implementation MUST NOT gather more than a few megabytes for one. No partition MUST starve another (fair).
	//
	// Retriable errors (leader changes, reconnects) stay inside. What comes out is: the error of ctx; remotelog.ErrClosed
	// after Close of the Follower or the Log (close-follower, close-log); anything else means that the log cannot be read on
	// as it is (no authorization, damage as remotelog.ErrCorrupt, a log that was replaced by another). An error loses
	// nothing: no partition has moved, and Next may be called again (next-cancelled).
	Next(ctx context.Context) (Batch, error)

	// Assign replaces the set of partitions and never waits for I/O. A partition that stays goes on where it is, and the
	// position given for it is ignored; one that was removed and comes back starts at the position given. A Next that runs at
	// the same time continues with the new set without being called again, and it may still return what it had read of the
	// old one; a Next that begins after Assign returned has nothing of the partitions removed (assign).
	Assign(from map[int32]Position)

	// Close wakes a waiting Next and releases what the Follower holds. It is idempotent (close-follower).
	Close() error
}
