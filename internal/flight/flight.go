package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// The errors that Do adds to those of the load.
var (
	// ErrClosed is the answer of a group that was closed, to those who wait as well.
	ErrClosed = errors.New("loads have been shut down")
	// ErrTimeout is a load that took longer than Options.Timeout. It is not a context error, since no caller's context has ended.
	ErrTimeout = errors.New("load timed out")
)

// PanicError is a panic of a load, given to all who waited for it. A load runs on a goroutine that none of them owns, where a panic would end the
// process for the fault of one value.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows the value and where it was thrown.
func (e *PanicError) Error() string { return fmt.Sprintf("load panicked: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Options of a group. The zero value is usable.
type Options[V any] struct {
	// Timeout ends the context of a load; 0: only the callers do. A load that first waits for memory sets a deadline of its own once it has it.
	Timeout time.Duration
	// Share is called once for each value that was loaded, before any caller gets it, with the number of callers that will: each owns one share and
	// gives it back by means of its own. 0: all have left, the value is Share's. Not called for errors.
	Share func(v V, callers int)
}

// Group is a set of loads, one at a time for each key. Make it with New.
type Group[K comparable, V any] struct {
	opts Options[V]

	mu      sync.Mutex
	calls   map[K]*call[V]
	cancels map[*call[V]]context.CancelCauseFunc // of every load that runs, abandoned ones too
	closed  bool
	running sync.WaitGroup
}

// call is one load.
type call[V any] struct {
	callers int  // who wait; guarded by Group.mu
	ended   bool // callers is final: each has a share; guarded by Group.mu
	done    chan struct{}
	value   V // both set before done is closed
	err     error
}

// New returns an empty group.
func New[K comparable, V any](opts Options[V]) *Group[K, V] {
	return &Group[K, V]{opts: opts, calls: make(map[K]*call[V]), cancels: make(map[*call[V]]context.CancelCauseFunc)}
}

// Do returns what load returns for key. If such a load runs already, its result is shared and the load given here is not called. When ctx ends first, its error is
// returned; a value that arrives at that very moment may be returned instead, so that no share is lost. The context of load
// is cancelled when nobody waits any more; load must honour it.
func (g *Group[K, V]) Do(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	var none V
	if err := ctx.Err(); err != nil {
		return none, err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return none, ErrClosed
	}
	c := g.calls[key]
	if c == nil {
		c = g.start(ctx, key, load)
	}
	c.callers++
	g.mu.Unlock()

	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
	}
	if g.leave(key, c) {
		return none, ctx.Err()
	}
	<-c.done // at most as long as Share takes
	return c.value, c.err
}

// start begins a load. Called with mu held.
func (g *Group[K, V]) start(ctx context.Context, key K, load func(context.Context) (V, error)) *call[V] {
	c := &call[V]{done: make(chan struct{})}
	loadCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g.calls[key], g.cancels[c] = c, cancel
	g.running.Add(1)
	go g.run(loadCtx, key, c, load)
	return c
}

// leave takes one caller off c; false if c has ended and the caller has a share of it. The last caller cancels the load and makes way for the next.
func (g *Group[K, V]) leave(key K, c *call[V]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.ended {
		return false
	}
	if c.callers--; c.callers == 0 {
		g.cancels[c](context.Canceled)
		if g.calls[key] == c {
			delete(g.calls, key)
		}
	}
	return true
}

// run loads and hands over. Everything behind the load is deferred: runtime.Goexit, as a test's FailNow calls it, cannot be stopped, only survived.
func (g *Group[K, V]) run(ctx context.Context, key K, c *call[V], load func(context.Context) (V, error)) {
	defer g.running.Done()
	defer g.finish(key, c)
	if g.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.opts.Timeout, ErrTimeout)
		defer cancel()
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == nil {
			p = "runtime.Goexit was called"
		}
		c.err = &PanicError{Value: p, Stack: debug.Stack()}
	}()
	value, err := load(ctx)
	returned = true
	switch cause := context.Cause(ctx); {
	case err == nil:
		c.value = value
	case errors.Is(err, ctx.Err()) && (errors.Is(cause, ErrTimeout) || errors.Is(cause, ErrClosed)):
		c.err = fmt.Errorf("%w: %s", cause, err.Error()) // not wrapped: no caller's context has ended
	default:
		c.err = err
	}
}

// finish fixes who shares the result, and gives it to them.
func (g *Group[K, V]) finish(key K, c *call[V]) {
	g.mu.Lock()
	c.ended = true
	callers := c.callers
	if g.calls[key] == c {
		delete(g.calls, key)
	}
	g.cancels[c](nil)
	delete(g.cancels, c)
	g.mu.Unlock()

	if c.err == nil && g.opts.Share != nil {
		g.opts.Share(c.value, callers)
	}
	close(c.done)
}

// Forget makes later callers of the keys that match start loads of their own, because what runs may read what has been replaced since. Who waits
// already goes on waiting. match is called under a lock.
func (g *Group[K, V]) Forget(match func(K) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.calls {
		if match(key) {
			delete(g.calls, key)
		}
	}
}

// Close cancels every load, gives ErrClosed to later callers, and returns when no load runs any more. It may be called several times.
func (g *Group[K, V]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, cancel := range g.cancels {
		cancel(ErrClosed)
	}
	g.mu.Unlock()
	g.running.Wait()
}
