package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/rlmm"
)

// missingAfter is how many times in a row a partition has to be missing before a reader says that there is no topic: a broker
// that has just started may not know of it yet. With the pauses in between that is about ten seconds.
const missingAfter = 14

// cursor is where a follower is in one partition. It is replaced when the partition was taken away and given again.
type cursor struct {
	part int32
	pos  rlmm.Position
	// vetted is the leader epoch in which pos was last found to be on the log, noEpoch if it is to be looked up.
	vetted int32
	busy   bool // a task has it
	fails  int  // retriable errors in a row
	told   bool // the end of the log was reported
}

const noEpoch = -2

// follower reads a Log. For each leader one task is on its way: see work. A task keeps its result until Next takes it.
type follower struct {
	log     *Log
	ctx     context.Context //nolint:containedctx // the life of its tasks, ended by Close
	stop    context.CancelFunc
	wake    chan struct{} // holds a token after Assign
	results chan step

	mu      sync.Mutex
	closed  bool
	client  *kgo.Client // nil until the first Next
	tasks   sync.WaitGroup
	at      map[int32]*cursor
	running map[int32]bool // by leader
	turn    int32          // the partition asked first; moves with each task so that none starves
	err     error          // to be returned by the next Next
}

var _ rlmm.Follower = (*follower)(nil)

// Follow implements rlmm.Log. Each Follower has connections of its own, since a fetch waits on the broker's side.
func (l *Log) Follow(from map[int32]rlmm.Position) rlmm.Follower {
	f := &follower{log: l, wake: make(chan struct{}, 1), results: make(chan step), running: map[int32]bool{}}
	f.ctx, f.stop = context.WithCancel(l.ctx)
	f.Assign(from)
	return f
}

// Assign implements rlmm.Follower.
func (f *follower) Assign(from map[int32]rlmm.Position) {
	f.mu.Lock()
	next := make(map[int32]*cursor, len(from))
	for p, pos := range from {
		if next[p] = f.at[p]; next[p] == nil {
			next[p] = &cursor{part: p, pos: pos, vetted: noEpoch}
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
	f.closed = true
	f.stop()
	return nil
}

// Next implements rlmm.Follower.
func (f *follower) Next(ctx context.Context) (rlmm.Batch, error) {
	for {
		b, err := f.begin(ctx)
		if err != nil || len(b.Lost) > 0 {
			return b, err
		}
		select {
		case s := <-f.results:
			if b, err := f.take(s); err != nil || len(b.Next) > 0 { //nolint:contextcheck // tasks outlive a call of Next
				return b, err
			}
		case <-f.wake:
		case <-f.log.failed:
		case <-f.ctx.Done():
		case <-ctx.Done():
		}
	}
}

// begin finds out whether there is anything to wait for, and starts what is to be waited for.
func (f *follower) begin(ctx context.Context) (rlmm.Batch, error) {
	if err := ctx.Err(); err != nil {
		return rlmm.Batch{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.log.ctx.Err() != nil {
		return rlmm.Batch{}, fmt.Errorf("follower: %w", errClosed)
	}
	for p := range f.at {
		if err := f.log.valid(p); err != nil {
			return rlmm.Batch{}, err
		}
	}
	if err := f.log.Err(); err != nil {
		return f.replaced(err)
	}
	if err := f.err; err != nil {
		f.err = nil
		return rlmm.Batch{}, err
	}
	if err := f.connect(); err != nil {
		return rlmm.Batch{}, err
	}
	f.launch() //nolint:contextcheck // tasks outlive a call of Next
	return rlmm.Batch{}, nil
}

// replaced reports every partition as truncated, once, so that nothing is served of what was read from the old topic, and then
// the error. It needs f.mu.
func (f *follower) replaced(err error) (rlmm.Batch, error) {
	b := rlmm.Batch{Next: map[int32]rlmm.Position{}}
	for _, p := range slices.Sorted(maps.Keys(f.at)) {
		c := f.at[p]
		if c.told {
			continue
		}
		resume := rlmm.Position{Offset: 0, Epoch: -1}
		b.Lost = append(b.Lost, rlmm.Loss{Partition: p, From: c.pos, Resume: resume, Kind: rlmm.Truncated})
		b.Next[p] = resume
		c.pos, c.told = resume, true
	}
	if len(b.Lost) > 0 {
		return b, nil
	}
	return rlmm.Batch{}, err
}

// connect makes the client. It needs f.mu.
func (f *follower) connect() error {
	if f.client != nil {
		return nil
	}
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	cl, err := l.opts.newClient(l.opts.Config.Consumer)
	if err != nil {
		return err
	}
	f.client = cl
	l.wg.Go(func() {
		<-f.ctx.Done()
		f.mu.Lock()
		f.closed = true // Close of the Log ends ctx, too
		f.mu.Unlock()
		f.tasks.Wait() // none begins any more
		cl.Close()
	})
	return nil
}

// launch starts a task for each leader that has none. It needs f.mu.
func (f *follower) launch() {
	byNode := map[int32][]work{}
	order := slices.Sorted(maps.Keys(f.at))
	i, _ := slices.BinarySearch(order, f.turn)
	for _, p := range append(order[i:len(order):len(order)], order[:i]...) {
		c := f.at[p]
		if c.busy {
			continue
		}
		to, version := f.log.topo.of(p)
		w := work{cursor: c, pos: c.pos, leader: to.epoch, version: version, vet: c.vetted != to.epoch}
		switch {
		case to.node < 0:
			f.penalize(w)
		case !f.running[to.node]:
			byNode[to.node] = append(byNode[to.node], w)
		}
	}
	for node, ws := range byNode {
		f.running[node] = true
		f.turn = ws[0].cursor.part + 1
		for _, w := range ws {
			w.cursor.busy = true
		}
		f.tasks.Go(func() { f.deliver(f.work(node, ws)) })
	}
}

// deliver hands a result to Next.
func (f *follower) deliver(s step) {
	select {
	case f.results <- s:
	case <-f.ctx.Done():
	}
}

// penalize keeps a partition out for a while, in which the leader is asked for again. It needs f.mu.
func (f *follower) penalize(w work) {
	c := w.cursor
	c.busy = true
	c.fails++
	pause := min(retryFirst<<min(c.fails-1, 10), retryMost)
	fails := c.fails
	f.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, f.log.opts.Config.Admin.RequestTimeout)
		defer cancel()
		err := f.log.refresh(ctx, w.version)
		o := outcome{work: w}
		if err != nil && (surfaced(err) || errors.Is(err, ErrNoTopic) && fails >= missingAfter) {
			o.err = fmt.Errorf("metadata partition %d cannot be read: %w", c.part, err)
		}
		sleep(f.ctx, pause)
		f.deliver(step{node: -1, outcomes: []outcome{o}})
	})
}

// take moves the cursors behind what a task found, and makes the batch, without partitions that Assign took away meanwhile.
func (f *follower) take(s step) (rlmm.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return rlmm.Batch{}, fmt.Errorf("follower: %w", errClosed)
	}
	if s.node >= 0 {
		f.running[s.node] = false
	}
	b := rlmm.Batch{Next: map[int32]rlmm.Position{}}
	for i := range s.outcomes {
		o := &s.outcomes[i]
		c := o.cursor
		c.busy = false
		if f.at[c.part] != c || c.told {
			continue
		}
		switch {
		case o.err != nil && surfacesFromRead(o.err):
			f.err = errors.Join(f.err, o.err)
			c.vetted = noEpoch
			continue
		case o.err != nil:
			c.vetted = noEpoch
			f.penalize(o.work)
			continue
		case s.node < 0: // a penalty is over
			continue
		}
		c.fails = 0
		c.vetted = o.leader
		if o.loss != nil {
			b.Lost = append(b.Lost, *o.loss)
			c.vetted = noEpoch
		}
		if b.Events == nil {
			b.Events = o.events
		} else {
			b.Events = append(b.Events, o.events...)
		}
		if o.next != c.pos {
			c.pos = o.next
			b.Next[c.part] = o.next
		}
	}
	if len(b.Next) == 0 && f.err != nil {
		err := f.err
		f.err = nil
		return rlmm.Batch{}, err
	}
	return b, nil
}

// idleWait is how long a broker holds a fetch that finds nothing.
const idleWait = 250 * time.Millisecond
