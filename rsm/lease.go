package rsm

import (
	"sync/atomic"
	"time"
)

const (
	// leaseTurn is how long a stream may leave the chunk that it waited for before whoever waits for memory gets it. It is what a
	// reader of several streams loses with each, if memory is for one chunk only.
	leaseTurn = 5 * time.Millisecond
	// leaseTurns bounds how long a slow reader keeps it.
	leaseTurns = 20
)

// lease is a pin on a chunk that a stream had to wait for, a little beyond the first Read of it. Without it, many streams in little memory would take the
// chunk from each other after each Read: each piece of 32 KiB would load 4 MiB. All but the clock's part is guarded by chunkLoads.mu.
type lease struct {
	h     *chunkHandle
	reads *atomic.Uint64 // of the stream
	seen  uint64         // of these, when this turn began
	turns int
	timer *time.Timer // nil: over
}

// lend gives s a lease on the chunk of key, which it has pinned.
func (c *chunkLoads) lend(s *logStream, key chunkKey) {
	h := c.cache.Peek(key)
	if h == nil {
		return // deleted meanwhile
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLease(s.lease)
	if c.closed || s.left {
		h.Release()
		return
	}
	l := &lease{h: h, reads: &s.reads, seen: s.reads.Load() + 1} // the Read that waited is one of them
	l.timer = time.AfterFunc(leaseTurn, func() { c.turn(l) })
	s.lease = l
	c.leases[l] = struct{}{}
}

// turn lets a lease go on for as long as the stream is read.
func (c *chunkLoads) turn(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.timer == nil {
		return
	}
	reads := l.reads.Load()
	if l.turns++; reads == l.seen || l.turns >= leaseTurns {
		c.endLease(l)
		return
	}
	l.seen = reads
	l.timer.Reset(leaseTurn)
}

// endLease gives the pin up. l may be nil, or over already. Called with mu held.
func (c *chunkLoads) endLease(l *lease) {
	if l == nil || l.timer == nil {
		return
	}
	l.timer.Stop()
	l.timer = nil
	delete(c.leases, l)
	l.h.Release()
}
