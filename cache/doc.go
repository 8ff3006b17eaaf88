// Package cache keeps loaded values in memory, weighed in bytes and charged to the process's memory budget: decoded chunks in pooled buffers as well as
// manifests and indexes. It knows nothing of what they are. A tier on disk keeps bytes as stored and belongs beside this one, under the load function of
// a [Cache], not inside it.
//
// # Memory
//
// An entry owns a reservation of class Fetch or Ahead, which its load took before it read anything, and weighs what that reservation holds. So what
// the cache holds is what the budget was charged, at every moment, and there is no second account that could differ. The cache is a reclaimer of the
// budget: bytes that others wait for are taken from the entries unused for longest.
//
// # Pins
//
// A [Handle] pins its entry: until it is released the entry is neither evicted nor is its buffer used again, whatever the ceiling says or who waits. A
// load hands its value over pinned once for each caller that waits for it, so that no eviction comes between the load and the read. A pin must be
// short: one Read, never a Write to somebody else's connection, because pinned bytes cannot be given back. Who comes back later keeps the entry instead
// ([Handle.Keep]): that holds off eviction, and gives way to whoever waits for memory.
//
// # Policy
//
// Least recently used, over the entries without pins, under one short lock; an entry that its reader has passed for good ([Cache.Spent]) goes before
// all others, so that what was read cannot drive out what was loaded ahead of a reader and is older. The usual choice would be otter/v2 (W-TinyLFU). It does not fit, for three
// reasons. A broker reads a chunk in four or five overlapping steps within a moment and then never again, so frequency says little: an
// admission by frequency refuses the chunk that is being read in favour of one that was, and it is fetched again at each step. A policy
// that does not know pins evicts what gives no byte back, and then forgets a value that is in use. And a reclaimer must give back so many bytes
// now, exactly, which a policy with buffers and tasks of its own only does on a detour over its maximum.
package cache
