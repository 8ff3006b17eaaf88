// Package filelog is the durable event log of the embedded default: remote log metadata in a directory, without Kafka.
//
// # Format
//
// A directory holds one file for each metadata partition. A file is a header of 64 bytes (magic, version, number of
// partitions, partition, random log id, first offset, CRC-32C) and groups of events:
//
//	length (4) | CRC-32C over length and body (4) | flags (4) | CRC of the group before (4) | epoch (4) |
//	base offset (8) | offsets (4) | events (4) | events: { size (4) | flags (1) | offset delta (4) | timestamp (8) | [key] | value }
//
// A group is what one fsync covers, and the next one is written only after that fsync returned. A crash therefore leaves at
// most one group that is not whole, at the very end, and a broken group with a valid one behind it is damage. The whole
// specification is docs/filelog-format.md; the bytes do not change, a later format has another version.
//
// # Durability
//
// Append returns after the fsync. Appends that come while one is running share the next. A write that fails is cut back and
// the appends in it are definite failures; if the cut fails, or an fsync does, their outcome is unknown and the log refuses
// all writes until it is opened again ([ErrWritesRefused]). Opening for writing cuts a torn tail, with a warning, and makes
// durable what it found before it shows it to anybody.
//
// # Processes
//
// One process writes: it holds a lock on the file "lock" in the directory, and a second one gets [ErrLocked]. The lock is
// flock(2), not fcntl: it belongs to the open file, so a second opening in the same process is refused too and closing some
// other descriptor of the file does not give it up; the kernel drops it when the process dies, however it dies. Linux and
// darwin both have it; on NFS, Linux turns it into a lock on the server. Any number of processes may read at the same time
// ([OpenReadOnly]): they take no lock, change nothing, and follow the file by looking at it again ([Options.PollEvery]).
// They may see a group shortly before it is durable.
//
// # Errors
//
// Damage is a [*CorruptError], which names the file and the position and matches remotelog.ErrCorrupt. A file of a later
// version is [ErrNewerFormat]. Nothing is ever repaired but the torn tail.
//
// # Limits
//
// Events have up to rlmm.MaxEventBytes, groups up to 4 MiB. The whole log is read and verified when it is opened; in memory it
// costs 24 bytes for each 256 KiB of file and 16 bytes for each time it was opened and written to. A Follower reads about
// 1 MiB at a time, at most one group more. There is no retention: files only grow.
package filelog
