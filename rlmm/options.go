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
	// SnapshotDir is a directory for snapshots, so that the next manager over the same log reads only what came after; "" means
	// none is written or read. A snapshot is never more than a help: one that does not fit the log, or is damaged, is passed over.
	// Each log has a file of its own there (SnapshotFile); managers over the same log may share the directory, the last one to
	// write wins.
	SnapshotDir string
	// SnapshotEvery is how often one is written, besides at Close, if something has changed; 0 means DefaultSnapshotEvery, less
	// means only at Close.
	SnapshotEvery time.Duration
	// Logger gets what an operator should know; nil means nothing is logged.
	Logger *slog.Logger
	// Hooks report what happens, for metrics.
	Hooks Hooks
	// Now is the clock by which Hooks.Wrote and Hooks.Snapshot measure; nil means the system's.
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
	// Snapshot: a snapshot of that many bytes was written, or could not be. At Close it is called before Close returns.
	Snapshot func(d time.Duration, bytes int64, err error)
}
