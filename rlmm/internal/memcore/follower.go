package memcore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// A batch ends at the first event at which one of these is reached.
const (
	batchEvents = 1024
	batchBytes  = 1 << 20
)

// follower reads a Log. Lock order: follower.mu, Log.mu.
type follower struct {
	log  *Log
	wake chan struct{} // holds a token after Assign
	done chan struct{}

	mu     sync.Mutex
	closed bool
	at     map[int32]rlmm.Position
	last   int32 // the partition that filled the last batch; the next batch begins behind it
}

var _ rlmm.Follower = (*follower)(nil)

// Next implements rlmm.Follower.
func (f *follower) Next(ctx context.Context) (rlmm.Batch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return rlmm.Batch{}, err
		}
		b, changed, err := f.read()
		if err != nil || len(b.Next) > 0 {
			return b, err
		}
		select {
		case <-changed:
		case <-f.wake:
		case <-f.done:
		case <-ctx.Done():
		}
	}
}

// Assign implements rlmm.Follower.
func (f *follower) Assign(from map[int32]rlmm.Position) {
	f.mu.Lock()
	next := maps.Clone(from)
	for p := range next {
		if at, ok := f.at[p]; ok {
			next[p] = at
		}
	}
	f.at = next
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Close implements rlmm.Follower.
func (f *follower) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.done)
	}
	return nil
}

// read takes what is there, and returns the channel that closes at the next change.
func (f *follower) read() (rlmm.Batch, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	b := rlmm.Batch{Next: map[int32]rlmm.Position{}}
	if f.closed || f.log.closed {
		return b, nil, fmt.Errorf("follower of a metadata log in memory: %w", remotelog.ErrClosed)
	}
	order := slices.Sorted(maps.Keys(f.at))
	for _, p := range order {
		if err := f.log.valid(p); err != nil {
			return rlmm.Batch{}, nil, err
		}
	}
	// The partition behind the one that filled the last batch comes first, so that none starves.
	i := sort.Search(len(order), func(i int) bool { return order[i] > f.last })
	order = append(order[i:len(order):len(order)], order[:i]...)
	events, bytes := batchEvents, batchBytes
	for _, p := range order {
		if events <= 0 || bytes <= 0 {
			break
		}
		f.last = p
		f.take(p, &b, &events, &bytes)
	}
	return b, f.log.changed, nil
}

// take moves one partition on.
func (f *follower) take(p int32, b *rlmm.Batch, events, bytes *int) {
	pt, start := &f.log.parts[p], f.at[p]
	pos := start
	if loss, ok := pt.lost(p, pos); ok {
		b.Lost = append(b.Lost, loss)
		pos = loss.Resume
		b.Next[p] = pos
	}
	i := sort.Search(len(pt.events), func(i int) bool { return pt.events[i].Offset >= pos.Offset })
	for ; i < len(pt.events) && *events > 0 && *bytes > 0; i++ {
		e := pt.events[i]
		b.Events = append(b.Events, e)
		*events--
		*bytes -= len(e.Key) + len(e.Value)
		pos = rlmm.Position{Offset: e.Offset + 1, Epoch: e.Epoch}
	}
	if i == len(pt.events) && pos.Offset < pt.next { // offsets without events at the end
		pos = rlmm.Position{Offset: pt.next, Epoch: pt.epochOf(pt.next - 1)}
	}
	if pos != start {
		b.Next[p] = pos
	}
	f.at[p] = pos
}
