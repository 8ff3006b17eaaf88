package fault

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
)

// Blackhole is a server that takes connections and is of no use: it answers nothing, or begins an answer and never ends it. What stands still there
// stands still on a real connection.
type Blackhole struct {
	listener net.Listener
	hole     Hole
	ctx      context.Context // ends with Close, and with it every connection
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	total int
}

// Hole is what a Blackhole does with a connection. The zero value reads all that is sent, and says nothing.
type Hole struct {
	Deaf bool   // it does not read: what is sent fills the buffers of the system, then it stands still
	Says string // what it says when the head of a request has come, and nothing after that
}

// NewBlackhole returns one that listens on a loopback port of its own.
func NewBlackhole(ctx context.Context, h Hole) (*Blackhole, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Blackhole{listener: l, hole: h}
	b.ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	b.wg.Go(b.accept)
	return b, nil
}

// Addr is where it listens.
func (b *Blackhole) Addr() string { return b.listener.Addr().String() }

// Connections is how many connections were made.
func (b *Blackhole) Connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Close ends it and every connection, and waits for that.
func (b *Blackhole) Close() {
	_ = b.listener.Close() // nobody else has it
	b.stop()
	b.wg.Wait()
}

func (b *Blackhole) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.total++
		b.mu.Unlock()
		b.wg.Go(func() {
			defer context.AfterFunc(b.ctx, func() { reset(c) })()
			defer reset(c)
			b.serve(c)
		})
	}
}

func (b *Blackhole) serve(c net.Conn) {
	if b.hole.Deaf {
		<-b.ctx.Done()
		return
	}
	in := bufio.NewReader(c)
	for line := "x"; line != "\r\n"; { // the head ends with an empty line
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
	}
	if _, err := io.WriteString(c, b.hole.Says); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, in) // until somebody gives up
}
