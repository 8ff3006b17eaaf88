package httpstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
)

var errDriverClosed = errors.New("the driver was closed")

func errClosed() error { return &backends.Error{Code: backends.Closed, Err: errDriverClosed} }

// Gate is what a driver's calls go through until it is closed. NewGate makes one.
type Gate struct {
	ctx    context.Context //nolint:containedctx // ends with Close, and with it every call under way
	cancel context.CancelFunc
}

// NewGate returns an open Gate. Of ctx it takes the values alone: it lives as long as the driver.
func NewGate(ctx context.Context) *Gate {
	g := new(Gate)
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return g
}

// Close ends every call under way and refuses new ones. It may be called several times.
func (g *Gate) Close() { g.cancel() }

// Check is the first step of calls that may do nothing: the end of ctx, or Closed.
func (g *Gate) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.ctx.Err() != nil {
		return errClosed()
	}
	return nil
}

type cleanupKey struct{}

// Cleanup returns a context whose calls go through a closed Gate too: those that remove what an operation which Close has ended would leave in the
// store. The context has to end by itself, as that of parts.Target.Abort does.
func Cleanup(ctx context.Context) context.Context { return context.WithValue(ctx, cleanupKey{}, true) }

// Begin opens a call. The one who begins it ends it.
func (g *Gate) Begin(ctx context.Context) (*Call, error) {
	if ctx.Value(cleanupKey{}) != nil && ctx.Err() == nil {
		g = &Gate{ctx: context.WithoutCancel(ctx)}
	}
	if err := g.Check(ctx); err != nil {
		return nil, err
	}
	c := &Call{gate: g, caller: ctx}
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, callKey{}, c))
	stop := context.AfterFunc(g.ctx, func() { cancel(errDriverClosed) })
	c.ctx = inner
	c.end = sync.OnceFunc(func() {
		stop()
		cancel(nil)
	})
	return c, nil
}

type callKey struct{}

// Call is one request of a driver with all its attempts.
type Call struct {
	gate        *Gate
	caller, ctx context.Context //nolint:containedctx // both live as long as the call
	end         func()
	sent        atomic.Int32
	pause       atomic.Pointer[chan struct{}] // closed when the store may be asked again
}

// Context is what the request is to be made with.
func (c *Call) Context() context.Context { return c.ctx }

// End releases the call: its context ends. It may be called several times.
func (c *Call) End() { c.end() }

// Attempts is how many requests were sent with the call's context.
func (c *Call) Attempts() int { return int(c.sent.Load()) }

// Ended returns why the call could not go on: the end of the caller's context, or Closed. It is nil while the call may go on.
func (c *Call) Ended() error {
	if err := c.caller.Err(); err != nil {
		return err
	}
	if c.gate.ctx.Err() != nil {
		return errClosed()
	}
	return nil
}

// leaveAlone keeps the next attempts from the store for a time.
func (c *Call) leaveAlone(d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	time.AfterFunc(d, func() { close(over) })
	c.pause.Store(&over)
}

// leftAlone waits until the store may be asked again.
func (c *Call) leftAlone(ctx context.Context) error {
	over := c.pause.Load()
	if over == nil {
		return nil
	}
	select {
	case <-*over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
