package membudget

import (
	"runtime"
	"slices"
	"unsafe"
)

// Reservation is bytes held of a budget. Its methods are safe for concurrent use. Exactly one owner releases it, on every path.
type Reservation struct {
	b     *Budget
	class Class

	// guarded by b.mu
	parent  *Reservation // of a Split that was not detached
	lent    int64        // what parent gave
	size    int64        // bytes held, without what was split off
	charged int64        // of these: occupied by buffers and by Charge
	out     []handed
	closed  bool
}

// handed is a buffer handed out and not returned. It is kept here so that Return can tell whose it is, and need not trust the slice it is given.
type handed struct {
	first  *byte
	size   int64 // what it occupies
	charge int64 // what it was charged: the same
}

// Size returns the bytes held, without those split off.
func (r *Reservation) Size() int64 {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.size
}

// Unused returns the bytes that neither a buffer nor Charge occupies: what Buffer, Charge and Split can still take.
func (r *Reservation) Unused() int64 {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.size - r.charged
}

// TryGrow takes n more bytes if they can be had without waiting and without going before anybody who waits. Caches give back first, but for class
// Ahead. An operation that gets false finishes with what it has.
func (r *Reservation) TryGrow(n int64) bool {
	if n < 0 || r.isClosed() {
		return false
	}
	if n == 0 {
		return true
	}
	if !r.b.tryTake(r.class, n) {
		return false
	}
	r.b.mu.Lock()
	if r.closed { // released meanwhile: a mistake of the caller, but no bytes may be lost
		r.b.giveBack(r.class, n)
		return false
	}
	r.size += n
	r.b.mu.Unlock()
	return true
}

// Shrink gives n unused bytes back to the budget, or as many as are unused: the other direction of TryGrow. A long operation that shrinks and grows
// again at each step lets those who wait go before it.
func (r *Reservation) Shrink(n int64) {
	b := r.b
	b.mu.Lock()
	n = min(n, r.size-r.charged)
	if r.closed || n <= 0 {
		b.mu.Unlock()
		return
	}
	r.size -= n
	b.giveBack(r.class, n)
}

func (r *Reservation) isClosed() bool {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.closed
}

// Split moves n unused bytes into a reservation of their own; nil if there are not so many. Released, they return to r while r is open, so that the next
// step of the same operation finds them, else to the budget. Bytes that the new reservation grew by go to the budget in any case. See Detach for
// one that outlives the operation.
func (r *Reservation) Split(n int64) *Reservation {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed || n < 0 || n > r.size-r.charged {
		return nil
	}
	r.size -= n
	return &Reservation{b: b, class: r.class, parent: r, lent: n, size: n}
}

// Detach cuts the tie to the reservation that r was split from: released, its bytes go to the budget, whoever is open. What is handed over to an owner
// that outlives the operation MUST be detached, as caches do with their entries. Otherwise what a cache gives back while the load that brought it still
// runs goes to that load, which does not need it, and not to the one that waits.
func (r *Reservation) Detach() {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.b.rules.detachCuts {
		r.parent, r.lent = nil, 0
	}
}

// Buffer returns a buffer of n bytes and of capacity Capacity(n), which it takes from the reservation; nil if that is more than is unused. Its contents
// are arbitrary. It never waits.
func (r *Reservation) Buffer(n int) []byte {
	if n <= 0 {
		if n < 0 {
			return nil
		}
		return []byte{}
	}
	b, size := r.b, Capacity(n)
	charge := size
	if !b.rules.chargeCapacity {
		charge = int64(n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed || charge > r.size-r.charged {
		return nil
	}
	r.charged += charge
	buf := b.pool.get(size)
	if buf == nil {
		buf = b.fresh(size)
		if r.closed { // the lock was given up while the memory was made, and Release has counted it back
			return nil
		}
	}
	r.out = append(r.out, handed{first: unsafe.SliceData(buf), size: size, charge: charge})
	return buf[:n]
}

// fresh makes a buffer that is counted already, off the lock: the runtime may have to clear megabytes, or to collect what was dropped first.
func (b *Budget) fresh(size int64) []byte {
	collect := b.pool.takeGarbage()
	b.mu.Unlock()
	defer b.mu.Lock()
	if collect {
		runtime.GC()
	}
	return make([]byte, size)
}

// Return gives a buffer of this reservation back to be used again; its bytes are then unused bytes of the reservation. The slice may have been shortened but
// must begin where the buffer begins. Nobody may touch the buffer any more. Return panics if the buffer is not one that this reservation has handed
// out, or is returned twice: two owners would then write into one buffer, and data would be wrong silently. A slice without capacity is ignored, and
// so is any buffer once the reservation is released.
func (r *Reservation) Return(buf []byte) {
	if cap(buf) == 0 {
		return
	}
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed {
		return
	}
	first := unsafe.SliceData(buf)
	i := slices.IndexFunc(r.out, func(h handed) bool { return h.first == first })
	if i < 0 {
		panic("membudget: Return of a buffer that this reservation has not handed out")
	}
	h, last := r.out[i], len(r.out)-1
	r.out[i], r.out[last] = r.out[last], handed{}
	r.out = r.out[:last]
	r.charged -= h.charge
	b.pool.put(unsafe.Slice(h.first, h.size))
}

// Charge takes n unused bytes for memory that the caller got elsewhere, such as a decoded manifest, until Release; false if there are not so many.
// Idle buffers make room for it: reserved bytes that are not charged do not keep pooled buffers out of memory.
func (r *Reservation) Charge(n int64) bool {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed || n < 0 || n > r.size-r.charged {
		return false
	}
	r.charged += n
	b.pool.occupy(n)
	return true
}

// Release gives everything back. Buffers that were not returned are left to the garbage collector, never to another owner: a transport that was cancelled may
// still read them. It may be called several times.
func (r *Reservation) Release() {
	b := r.b
	b.mu.Lock()
	if r.closed {
		b.mu.Unlock()
		return
	}
	r.closed = true
	b.pool.forget(r.charged)
	toParent := int64(0)
	if p := r.parent; p != nil && !p.closed && b.rules.splitReturns {
		toParent = min(r.size, r.lent)
		p.size += toParent
	}
	n := r.size - toParent
	r.size, r.charged, r.out, r.parent = 0, 0, nil, nil
	if n == 0 {
		b.mu.Unlock()
		return
	}
	b.giveBack(r.class, n)
}

// giveBack returns n bytes of class c to the budget and lets the queue run. It is called with mu held and returns with it released.
func (b *Budget) giveBack(c Class, n int64) {
	account, _ := b.held(c)
	*account -= n
	b.dispatch()
	b.settle(atRelease)
}
