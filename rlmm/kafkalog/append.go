package kafkalog

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// What shares one request. Half a megabyte stays below Kafka's default max.message.bytes together with one more event.
const (
	groupEvents = 500
	groupBytes  = 500_000
)

// pending is one Append. Its fields belong to writer.mu until done is closed.
type pending struct {
	event []byte
	taken bool // it is part of a group that is being sent
	left  bool // its caller has gone
	done  chan struct{}
	pos   rlmm.Position
	err   error
}

// writer sends the events of one partition, one group after the other.
type writer struct {
	log  *Log
	part int32

	mu      sync.Mutex
	queue   []*pending
	running bool
	single  int // events at the head of the queue that are to be sent alone

	// Of the goroutine that runs.
	begun bool
	id    int64 // producer id
	epoch int16
	seq   int32 // of the next event
}

// Append implements rlmm.Log. The Epoch of the position is -1: the answer of a broker does not say in which leader epoch it
// appended.
func (l *Log) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	if err := l.valid(p); err != nil {
		return rlmm.Position{}, err
	}
	if len(event) == 0 || len(event) > rlmm.MaxEventBytes {
		return rlmm.Position{}, fmt.Errorf("%w: event of %d bytes for metadata partition %d, want 1 to %d",
			remotelog.ErrInvalidArgument, len(event), p, rlmm.MaxEventBytes)
	}
	if err := l.usable(); err != nil {
		return rlmm.Position{}, err
	}
	if err := ctx.Err(); err != nil {
		return rlmm.Position{}, err
	}
	a := &pending{event: bytes.Clone(event), done: make(chan struct{})}
	if !l.writers[p].add(a) {
		return rlmm.Position{}, errClosed
	}
	select {
	case <-a.done:
		return a.pos, a.err
	case <-ctx.Done():
		return l.writers[p].leave(a, ctx.Err())
	case <-l.failed:
		return l.writers[p].leave(a, l.Err())
	case <-l.ctx.Done():
		return l.writers[p].leave(a, errClosed)
	}
}

// add puts an event into the queue. It reports false for a log that is closed.
func (w *writer) add(a *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		w.log.mu.Lock()
		defer w.log.mu.Unlock()
		if w.log.closed {
			return false
		}
		w.running = true
		w.log.wg.Go(w.run)
	}
	w.queue = append(w.queue, a)
	return true
}

// leave ends the wait of an Append for a reason other than its outcome, if there is none yet.
func (w *writer) leave(a *pending, why error) (rlmm.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-a.done:
		return a.pos, a.err
	default:
	}
	a.left = true
	if !a.taken {
		return rlmm.Position{}, why
	}
	return rlmm.Position{}, fmt.Errorf("%w: the event is on its way to metadata partition %d: %w", remotelog.ErrOutcomeUnknown, w.part, why)
}

// take removes what is sent next from the queue. Nil: there is nothing, and the goroutine ends.
func (w *writer) take() []*pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group []*pending
	size, i := 0, 0
	for ; i < len(w.queue) && len(group) < groupEvents; i++ {
		a := w.queue[i]
		if a.left {
			w.single = max(w.single-1, 0)
			continue
		}
		if len(group) > 0 && (size+len(a.event) > groupBytes || w.single > 0) {
			break
		}
		a.taken = true
		group = append(group, a)
		size += len(a.event)
		if w.single > 0 {
			w.single--
			i++
			break
		}
	}
	w.queue = append([]*pending(nil), w.queue[i:]...)
	w.running = len(group) > 0
	return group
}

// giveBack puts a group that was not appended at the head of the queue, its events to be sent alone.
func (w *writer) giveBack(group []*pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range group {
		a.taken = false
	}
	w.queue = append(append([]*pending(nil), group...), w.queue...)
	w.single += len(group)
}

// resolve ends the Appends of a group.
func (w *writer) resolve(group []*pending, first int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range group {
		if a.err = err; err == nil {
			a.pos = rlmm.Position{Offset: first + int64(i) + 1, Epoch: -1}
		}
		close(a.done)
	}
}

// abandoned reports whether nobody waits for the group.
func (w *writer) abandoned(group []*pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range group {
		if !a.left {
			return false
		}
	}
	return true
}
