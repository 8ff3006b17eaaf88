package rlmm

import (
	"log/slog"
	"time"
)

// Options are the choices of a Manager. The zero value follows what it is told to follow, logs nothing and reports nothing.
type Options struct {
	// All makes the manager follow every partition that the log mentions, without being told: for tools. Partitions may be
	// added all the same (OnLeadershipChange, Reconcile), which matters for those that the log does not mention yet; none is
	// ever removed.
	All bool
	// PartitionDelete allows PutPartitionDelete to publish DELETE_PARTITION_FINISHED. It ends the metadata consumer of a real
	// broker that holds or loads the partition, so it must stay false on a log shared with brokers, unless none has it.
	PartitionDelete bool
	// Logger gets what an operator should know; nil means nothing is logged.
	Logger *slog.Logger
	// Hooks report what happens, for metrics.
	Hooks Hooks
	// Now is the clock by which Hooks.Wrote measures; nil means the system's.
	Now func() time.Time
}

// Hooks are called when something happened; nil ones are left out. They are never called under a lock, may be called from
// several goroutines at once, and must not block: reading the log waits for them.
type Hooks struct {
	// Applied: n events of metadata partition p changed something.
	Applied func(p int32, n int)
	// Dropped: the event at that offset changed nothing, for that reason. Events of partitions that are not followed are not
	// reported.
	Dropped func(p int32, offset int64, r DropReason)
	// Lost: a position was not on the log any more.
	Lost func(Loss)
	// Wrote: an Add, Update or PutPartitionDelete ended.
	Wrote func(d time.Duration, err error)
}
