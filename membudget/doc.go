// Package membudget is the one place that hands out big buffers: uploads, fetches, caches and read-ahead share a single limit in bytes (setting
// memory.budget.bytes). It is a leaf: it knows nothing of segments, stores or caches.
//
// # The one rule for callers
//
// Whoever holds bytes never waits for bytes, and whoever holds an operation slot or a codec does not wait for them either. [Budget.Reserve] is the only
// call that waits; everything else answers at once. An operation therefore reserves the least it can work with in one step, takes more with
// [Reservation.TryGrow] when there is more, and finishes with what it has when there is not. Two holders that wait for each other would deadlock, and
// no rule of the budget could help them.
//
// Reserve, TryReserve, TryGrow, Release and Idle may call the caches' reclaimers, on the calling goroutine. They must not be called under a lock that
// a reclaimer takes.
//
// # Floors and ceilings
//
// A = limit - Needs.Fixed is what there is to share. F = max(Needs.Fetch, min(A/4, A - Needs.Copy)) is kept free of copies and
// C = max(Needs.Copy, min(A/4, A - F)) is kept free of fetches: copies never hold more than A - F, and fetches, caches and read-ahead never more
// than A - C. Why: a store that takes no more uploads leaves every running copy holding its bytes for as long as it stalls, and without F no
// consumer could read meanwhile; without C, caches and slow readers would stop uploads, and disks of brokers fill up. Up to a quarter of the budget
// rather than only the least need, so that the class that is squeezed still runs several operations at a time.
//
// # The queue
//
//   - There is one queue, first in first out, for both classes. Why: without it small requests that fit now keep a large one out for ever.
//   - A waiter is passed over only by the other class, only while its own class is at its ceiling, and only if reclaiming cannot help it. Why: what it
//     waits for is then held by its own class, so keeping the other class out would not bring it nearer; a stalled upload at the head of the queue
//     would stop all reads. A waiter below its ceiling is never passed over, or a stream of the other class keeps it out for ever.
//   - While a class has a waiter, TryGrow and TryReserve fail in that class, and in the other class unless the waiter may be passed over. Why: loads
//     that grow chunk by chunk would eat every byte that comes free before the waiter's whole need is together.
//   - A waiter that gives up makes the queue run again. Why: those behind it may fit, and nobody else would look.
//   - A need above its class's ceiling is refused at once with [ErrTooLarge]. Why: no amount of waiting satisfies it.
//
// # Read-ahead
//
// Class [Ahead] counts as Fetch, gets nothing while anybody waits, never reclaims, and leaves one fetch's need free, in the class and in the budget.
// Why: read-ahead is a guess. Without the free need each reader would find the budget full of guesses; with reclaiming, guesses would push out what
// was really read.
//
// # Caches give back
//
// Every cache is charged as Fetch and registers a reclaimer. Reclaim runs for the first waiter that it could help: before it waits, and again at every
// Release, Idle and cancelled wait while it waits; and before a TryGrow of a copy or a fetch fails. It never runs for a copy at its ceiling.
// Why each: a full cache is the normal state, so without the first, every request would wait for an unrelated operation to end; an entry may be
// pinned by a reader at that moment, so without Idle a waiter would sleep on bytes that have become free to take; a waiter behind one that left or was served
// needs its own reclaim; a load that could not grow into a full cache would fetch chunk by chunk for ever; and bytes taken from caches never help a
// copy that waits for other copies, so a stalled store would empty the caches for nothing.
//
// # Splits
//
// An operation lends a share of its reservation to a step of it, such as one Put of a driver, with [Reservation.Split]; released, the share returns, so that the
// next step finds it. Why: the bytes of the next step were reserved together with those of the first, and nobody may wait for them again. A share that is handed
// to a cache is cut off with [Reservation.Detach]. Why: otherwise what the cache gives back for a waiter ends up with the load that still runs.
//
// # Buffers
//
// [Reservation.Buffer] takes from the reservation what the buffer really occupies, [Capacity] of its length, because the memory of a 4 MiB + 28 byte buffer is
// not 4 MiB. Needs must be computed with Capacity too. A buffer that is returned goes to a free list of its size, not to a [sync.Pool]: a pool is
// emptied by the garbage collector and keeps one set for each processor, so it neither bounds memory nor reuses it reliably, and fresh memory is what costs most
// (on some virtual machines a first touch is slower than compression and encryption together).
//
// Idle buffers stay within the limit: buffers in use + memory charged with [Reservation.Charge] + idle buffers <= A at any time. Bytes that are reserved but not
// yet made into buffers do not count here, so a reservation finds the idle buffers of the last one. When a buffer of a size without idle ones
// is asked for and there is no room, the buffers idle for longest are dropped. They stay resident until the garbage collector runs, so the budget
// runs it once they come to an eighth of A, and at least 8 MiB: what is resident is then within limit + A/8 and what the allocator's fragments add,
// whatever GOGC says. Buffers of a few sizes are never dropped in a steady state, so ask for a whole chunk's buffer where the last chunk is shorter.
package membudget
