package rsm

import (
	"fmt"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
)

// gate is what streams have in common: one Read at a time, an error that stays, and a Close that may come from another goroutine
// and frees what the stream holds only when no Read uses it.
type gate struct {
	mu     sync.Mutex // held by Read
	closed bool
	err    error
}

// lock begins a Read, or returns the error that the stream ended with.
func (g *gate) lock() error {
	g.mu.Lock()
	err := g.err
	if g.closed {
		err = fmt.Errorf("%w: read of a closed stream", remotelog.ErrClosed)
	}
	if err != nil {
		g.mu.Unlock()
	}
	return err
}

func (g *gate) unlock() { g.mu.Unlock() }

// failed makes err the answer of every Read from here on. Called between lock and unlock.
func (g *gate) failed(err error) error {
	g.err = err
	return err
}

// shut closes the stream once: free runs when no Read is in progress. The caller has made a Read that waits return.
func (g *gate) shut(free func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	free()
}
