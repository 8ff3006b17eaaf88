package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// errSource is what the bodies of cases fail with.
var errSource = errors.New("the source broke")

// shown is an error with its code.
func shown(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%s (%v)", backends.CodeOf(err).Label(), err)
}

// difference tells where got is not want.
func difference(got, want []byte) string {
	n := min(len(got), len(want))
	for i := range n {
		if got[i] != want[i] {
			return fmt.Sprintf("got other bytes: %d came, want the %d that were stored, the first difference is at %d", len(got), len(want), i)
		}
	}
	if len(got) == len(want) {
		return "got the bytes that were stored"
	}
	return fmt.Sprintf("got %d bytes, want the %d that were stored", len(got), len(want))
}

// reader hides everything of a body but Read.
type reader struct{ io.Reader }

// plain is a body of these bytes that can only be read.
func plain(data []byte) io.Reader { return reader{bytes.NewReader(data)} }

// readerFunc is a body made of a function.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// startsWith calls first before the first Read.
type startsWith struct {
	r     io.Reader
	first func()
}

func (s *startsWith) Read(p []byte) (int, error) {
	if s.first != nil {
		s.first()
		s.first = nil
	}
	return s.r.Read(p)
}

// barrier is where several meet, so that what each has done before is done by all before any goes on.
type barrier struct {
	ctx  context.Context
	most time.Duration // a driver may have a limit that keeps some of them out
	left atomic.Int64
	open chan struct{}
}

func newBarrier(ctx context.Context, n int, most time.Duration) *barrier {
	b := &barrier{ctx: ctx, most: most, open: make(chan struct{})}
	b.left.Store(int64(n))
	return b
}

// arrive counts one more, who does not wait. Arrivals beyond the number do not matter.
func (b *barrier) arrive() {
	if b.left.Add(-1) == 0 {
		close(b.open)
	}
}

// wait is arrive for those who do.
func (b *barrier) wait() {
	b.arrive()
	timer := time.NewTimer(b.most)
	defer timer.Stop()
	select {
	case <-b.open:
	case <-timer.C:
	case <-b.ctx.Done():
	}
}

// zeros is n zero bytes.
func zeros(n int64) io.Reader {
	return io.LimitReader(readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil }), n)
}

// guarded is a body that fails the case when it is used against the rules: closed, read by two at a time, or touched after over.
type guarded struct {
	t      T
	r      io.Reader
	mu     sync.Mutex
	n      int64
	isOver bool
}

func (g *guarded) Read(p []byte) (int, error) {
	if !g.mu.TryLock() {
		g.t.Errorf("the body: got two readers at the same time, want one")
		return 0, io.EOF
	}
	defer g.mu.Unlock()
	if g.isOver {
		g.t.Errorf("the body: got a read after Put returned, want none")
		return 0, errSource
	}
	n, err := g.r.Read(p)
	g.n += int64(n)
	return n, err
}

// Close is there to be found by a driver that should not look.
func (g *guarded) Close() error {
	g.t.Errorf("the body: got a Close, want none")
	return nil
}

// over is called when Put returned. It reports how much was read.
func (g *guarded) over() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOver = true
	return g.n
}
