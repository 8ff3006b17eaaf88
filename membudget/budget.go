package membudget

import (
	"context"
	"fmt"
	"sync"
)

// Budget is the limit and everything that is held of it. It is safe for concurrent use.
type Budget struct {
	limit       int64
	avail       int64 // A: limit - needs.Fixed
	needs       Needs
	copyCeiling int64 // A - F
	fetchCeil   int64 // A - C
	rules       rules

	mu         sync.Mutex
	copies     int64       // held by class Copy
	fetches    int64       // held by Fetch and Ahead, caches included
	queue      []*waiter   // in order of arrival
	reclaimers []*reclaims // in order of registration; the slice is replaced, never changed in place
	reclaiming bool        // a goroutine is in reclaim; others leave word with again
	again      bool
	pool       pool
	counts     counts
}

// waiter is one Reserve that has not been granted yet.
type waiter struct {
	class Class
	min   int64
	ready chan struct{} // closed when granted
	got   *Reservation  // set before ready is closed
	dry   bool          // reclaim was tried for it, did not free enough, and nothing has changed since
	pass  uint64        // the last pass of reclaim that tried
}

// New returns a budget of limit bytes. It fails, naming the sum, if a copy and a fetch cannot run side by side within it.
func New(limit int64, n Needs) (*Budget, error) {
	return newBudget(limit, n, allRules())
}

func newBudget(limit int64, n Needs, r rules) (*Budget, error) {
	if err := n.validate(limit); err != nil {
		return nil, err
	}
	b := &Budget{limit: limit, avail: limit - n.Fixed, needs: n, rules: r}
	b.copyCeiling, b.fetchCeil = n.ceilings(b.avail)
	if !r.fetchFloor {
		b.copyCeiling = b.avail
	}
	if !r.copyFloor {
		b.fetchCeil = b.avail
	}
	b.pool.init(b.avail, r.idleCounts)
	return b, nil
}

// Needs returns what the budget was made with: what one copy and one fetch may rely on.
func (b *Budget) Needs() Needs { return b.needs }

// Ceiling returns the most that class c can ever hold, and so the largest min that Reserve accepts.
func (b *Budget) Ceiling(c Class) int64 {
	if c == Copy {
		return b.copyCeiling
	}
	return b.fetchCeil
}

// Reserve takes min bytes for an operation of class Copy or Fetch, and waits until they are there or ctx ends. The caller MUST NOT hold bytes of this
// budget, an operation slot or a codec while it calls. A min above the ceiling of the class fails at once with ErrTooLarge.
func (b *Budget) Reserve(ctx context.Context, c Class, min int64) (*Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w, err := b.enter(c, min)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
		return w.got, nil
	default:
	}
	select {
	case <-w.ready:
		return w.got, nil
	case <-ctx.Done():
	}
	if b.leave(w) {
		return nil, ctx.Err()
	}
	return w.got, nil // granted at the same moment: the caller sees its context by itself
}

// enter puts a request into the queue and runs the queue: the part of Reserve before the wait.
func (b *Budget) enter(c Class, min int64) (*waiter, error) {
	if c != Copy && c != Fetch {
		return nil, fmt.Errorf("reserve in class %s: %w", c, ErrClass)
	}
	if min < 0 {
		return nil, fmt.Errorf("reserve %d bytes: the number is negative", min)
	}
	if ceiling := b.Ceiling(c); min > ceiling && b.rules.refuseTooLarge {
		return nil, &SizeError{What: "the need of a " + c.String(), Need: min, Have: ceiling, Limit: b.needs.limitFor(c, min, b.limit)}
	}
	w := &waiter{class: c, min: min, ready: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, w)
	b.dispatch()
	b.settle(atWait)
	select {
	case <-w.ready:
	default:
		b.mu.Lock()
		b.counts.waits++
		b.mu.Unlock()
	}
	return w, nil
}

// leave takes a request that nobody waits for any more out of the queue; false if it has been granted.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	if w.got != nil {
		b.mu.Unlock()
		return false
	}
	b.remove(w)
	b.counts.cancelled++
	if !b.rules.cancelReruns {
		b.mu.Unlock()
		return true
	}
	b.dispatch()
	b.settle(atCancel)
	return true
}

// TryReserve takes n bytes if they can be had without waiting and without going before anybody who waits, else it returns nil. For Copy and Fetch the
// caches give back first. Class Ahead gets bytes only while nobody waits at all and one fetch's need stays free, and never takes from caches.
func (b *Budget) TryReserve(c Class, n int64) *Reservation {
	if n < 0 || c < Copy || c > Ahead {
		return nil
	}
	if !b.tryTake(c, n) {
		return nil
	}
	return &Reservation{b: b, class: c, size: n}
}

// Idle says that a cache may now have something to give back: an entry came in, or a pin ended. Caches MUST call it then, off their locks; else a waiter
// sleeps beside bytes that it could have.
func (b *Budget) Idle() {
	b.mu.Lock()
	b.settle(atIdle)
}

// Reclaimer registers a cache. free gives back at least want bytes if it can (whole entries, so possibly more) by releasing their reservations,
// and returns how many it released. It is called on goroutines that call the budget, off the budget's locks, possibly several at a time; it must not wait for
// anything but short locks of its own, and may call Release and Return but nothing else of the budget. Caches are asked in the order of
// registration: register first what costs least to load again. The function returned takes the registration back.
func (b *Budget) Reclaimer(free func(want int64) (freed int64)) (remove func()) {
	rc := &reclaims{free: free}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reclaimers = append(b.reclaimers[:len(b.reclaimers):len(b.reclaimers)], rc)
	return func() { b.removeReclaimer(rc) }
}

func (b *Budget) removeReclaimer(rc *reclaims) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keep []*reclaims
	for _, r := range b.reclaimers {
		if r != rc {
			keep = append(keep, r)
		}
	}
	b.reclaimers = keep
}
