package testbed

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Distant returns the same server seen from far away: what is sent either way arrives so much later, at no less than the speed it had. It ends with t.
func (s *S3) Distant(t testing.TB, oneWay time.Duration) *S3 {
	t.Helper()
	scheme, host, _ := strings.Cut(s.Endpoint, "://")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &distance{oneWay: oneWay, to: host}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	d.running.Go(func() { d.accept(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		d.running.Wait()
	})
	return &S3{Name: s.Name + "-distant", Endpoint: scheme + "://" + l.Addr().String(), AccessKey: s.AccessKey, SecretKey: s.SecretKey, CAFile: s.CAFile, caPool: s.caPool}
}

// distance passes connections on, late.
type distance struct {
	oneWay  time.Duration
	to      string
	running sync.WaitGroup
	pieces  sync.Pool
}

// A piece is read at a time; so many may be on their way in one direction of a connection: 64 MiB, which 30 ms do not fill at 2 GB/s.
const (
	distancePiece = 64 << 10
	distanceQueue = 1024
)

// piece is bytes that arrive at a time.
type piece struct {
	buf []byte
	n   int
	due time.Time
}

func (d *distance) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		d.running.Go(func() { d.pass(ctx, c) })
	}
}

// pass serves one connection until either end closes it.
func (d *distance) pass(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.Close()
	var dialer net.Dialer
	to, err := dialer.DialContext(ctx, "tcp", d.to)
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = c.Close(), to.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, to}, {to, c}} {
		both.Go(func() {
			defer cancel()
			d.direction(ctx, way[0], way[1])
		})
	}
	both.Wait()
}

// direction copies from one end to the other.
func (d *distance) direction(ctx context.Context, from, to net.Conn) {
	queue := make(chan piece, distanceQueue)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		for {
			p := piece{buf: d.buffer()}
			var err error
			p.n, err = from.Read(p.buf)
			p.due = time.Now().Add(d.oneWay)
			if p.n == 0 && err != nil {
				return
			}
			select {
			case queue <- p:
			case <-ctx.Done():
				return
			}
		}
	})
	defer reading.Wait()
	defer from.Close()
	for p := range queue {
		if late := time.NewTimer(time.Until(p.due)); !arrives(ctx, late) {
			return
		}
		if _, err := to.Write(p.buf[:p.n]); err != nil {
			return
		}
		d.pieces.Put(&p.buf)
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other direction may still have something to say
	}
}

func arrives(ctx context.Context, t *time.Timer) bool {
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *distance) buffer() []byte {
	if b, ok := d.pieces.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, distancePiece)
}
