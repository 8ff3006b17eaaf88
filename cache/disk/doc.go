// Package disk is the tier of a cache that lies in a directory: entries survive a restart, and are lost without harm. It keeps bytes as
// it gets them and knows nothing of what they are. A tier in memory lies above it, the source of the bytes below.
//
// # Layout
//
// The directory that the user names is theirs; the cache makes one of its own in it, [DirName], with mode 0700, and touches nothing outside:
//
//	lock          held with flock(2) by the process that uses the cache; a second one is refused with ErrInUse
//	tmp/          entries that are being written; what a crash leaves there is removed at the next start
//	00/ ... ff/   entries: one file each, whose name is its key in hexadecimal, in the directory of its first byte
//
// A file of another name is left alone and not counted. An entry has a header of 64 bytes, then its bytes: magic "tierkit\x00", version,
// CRC-32C and length of the bytes, the key, and a CRC-32C of the header itself. Integers are big-endian.
//
// # What a reader can rely on
//
// What [Cache.Read] returns is what was written under that key: header, key, length and checksum are looked at each time. Anything
// else is deleted, counted as damaged, and not there. Entries are written to tmp, then renamed, so that a process that is killed leaves no
// half of one; nothing is synced, because the checksum finds what a power failure tears. No error of the disk is an error of a
// reader: after a failed write (disk full, read-only, broken) writing is suspended for a while, longer each time, and counted as
// bypassed. While a read does not come back, as on a disk that hangs, nothing else is read or written: the next who asks is sent to the source.
//
// # Memory
//
// Entries to be written wait in a queue whose buffers are charged to the memory budget as class Fetch. Nothing waits: where there is no room in the
// queue or no memory, the entry is dropped and counted. The cache is a reclaimer: whoever waits for memory takes what is queued, but for the
// one entry that is being written. Reading needs no memory but the caller's. The index takes at most
// [IndexBytes] for each of [Options.MaxEntries], which the caller sets aside of its budget.
//
// # Policy
//
// The limit holds for all files of the cache, counted in blocks of 4 KiB: entries, the one being written, and those not yet removed. Everything that was read from
// the source is admitted. Entries are in two lists, each by last use: those that were used once and those that were used again later.
// Eviction takes the former first, and the latter are never more than four fifths. So a reader that goes once through
// everything drives out its like, and not what others come back to. Uses within a minute count as one: a reader that comes back within
// a moment is the same reader. The time of last use is the file's time of modification, so that the order survives a restart, to a
// minute or an eighth of the retention.
package disk
