package rlmm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// The pauses after an error that came out of a Follower: what is retriable at once stays inside it.
const (
	readRetryFirst = 100 * time.Millisecond
	readRetryMost  = 10 * time.Second
)

// role says for whom a reader applies events.
type role uint8

const (
	liveRole role = iota // for all but those that are loading
	loadRole             // for those that the load is for
)

// reader is a goroutine with a Follower. It alone calls Next and Assign, one after the other, so that a batch never holds
// what was read for an older assignment: a change of the set ends the Next that waits, which loses nothing.
type reader struct {
	m      *Manager
	stream func(*metaPartition) *stream
	role   role

	mu     sync.Mutex
	dirty  bool
	cancel context.CancelFunc // ends the round

	failure atomic.Pointer[error] // why Next does not go on, nil if it does

	// Of the goroutine alone.
	follower Follower
	have     map[int32]uint64 // what the follower reads, by the generation of the stream
	decoder  decoder
	report   report
}

func newReader(m *Manager, s func(*metaPartition) *stream, r role) *reader {
	return &reader{m: m, stream: s, role: r, cancel: func() {}}
}

func (mp *metaPartition) liveStream() *stream { return &mp.live }
func (mp *metaPartition) loadStream() *stream { return &mp.load }

// wake makes the goroutine look at the set again.
func (r *reader) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty = true
	r.cancel()
}

// cause returns why the log cannot be read, nil if it can.
func (r *reader) cause() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// round begins a round: a context that the next wake ends, and whether the set may have changed since the last one.
func (r *reader) round(ctx context.Context) (rctx context.Context, end context.CancelFunc, dirty bool) {
	rctx, end = context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	dirty, r.dirty, r.cancel = r.dirty, false, end
	return rctx, end, dirty
}

func (r *reader) run(ctx context.Context) {
	defer r.release()
	retry := readRetryFirst
	for ctx.Err() == nil {
		rctx, end, dirty := r.round(ctx)
		if dirty {
			r.assign()
		}
		if len(r.have) == 0 {
			<-rctx.Done()
			end()
			continue
		}
		b, err := r.follower.Next(rctx)
		woken := rctx.Err() != nil
		end()
		switch {
		case err == nil:
			retry = readRetryFirst
			r.failed(nil)
			r.apply(&b)
		case woken:
		default:
			r.failed(err)
			retry = r.pause(ctx, retry)
		}
	}
}

// pause waits until the next attempt or a wake.
func (r *reader) pause(ctx context.Context, d time.Duration) (next time.Duration) {
	rctx, end, dirty := r.round(ctx)
	defer end()
	if dirty {
		r.assign()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-rctx.Done():
		r.mu.Lock()
		r.dirty = true // the wake was meant for the next round
		r.mu.Unlock()
	}
	return min(2*d, readRetryMost)
}

// failed keeps the error for those who ask why nothing goes on, and says so once.
func (r *reader) failed(err error) {
	before := r.cause()
	switch {
	case err == nil && before == nil:
		return
	case err == nil:
		r.failure.Store(nil)
		r.m.opts.Logger.Info("metadata log is read again")
	default:
		r.failure.Store(&err)
		if before == nil || before.Error() != err.Error() {
			level := r.m.opts.Logger.Error
			if errors.Is(err, remotelog.ErrClosed) {
				level = r.m.opts.Logger.Warn
			}
			level("metadata log cannot be read; partitions that are ready serve what they have, others stay not ready; trying again", "error", err)
		}
	}
	r.m.changed.raise()
}

// assign gives the follower the set of streams that are on. One that stopped and started again is taken out first, since the
// follower would otherwise go on where it is.
func (r *reader) assign() {
	set, have := map[int32]Position{}, map[int32]uint64{} // have: afterwards, what the follower had before
	again := false
	for _, mp := range r.m.parts {
		mp.mu.Lock()
		if s := r.stream(mp); s.on {
			set[mp.index], have[mp.index] = s.next, s.gen
			if gen, ok := r.have[mp.index]; ok && gen != s.gen {
				again = true
			}
		}
		mp.mu.Unlock()
	}
	r.have, have = have, r.have
	if len(set) == 0 {
		r.release()
		return
	}
	if r.follower == nil {
		r.follower = r.m.log.Follow(set)
		return
	}
	if again {
		stay := map[int32]Position{}
		for p, at := range set {
			if gen, ok := have[p]; ok && gen == r.have[p] {
				stay[p] = at
			}
		}
		r.follower.Assign(stay)
	}
	r.follower.Assign(set)
}

// release closes the follower while there is nothing to read: it may hold connections.
func (r *reader) release() {
	if r.follower != nil {
		_ = r.follower.Close() // nothing is written through it
		r.follower = nil
	}
}
