package fault

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// StallHeaders is a server that takes the request and says nothing: For that long, or for ever if For is 0. Below the plan there is then the client's own
// http.Transport on a connection that nobody answers, so that it is the client's own timeout that has to end it. The server sees nothing of the request
// that it has to wait for for ever.
type StallHeaders struct{ For time.Duration }

// String implements Action.
func (a StallHeaders) String() string { return fmt.Sprintf("StallHeaders(%s)", a.For) }

func (a StallHeaders) act(c *call, r *http.Request) (*http.Response, error) {
	if a.For > 0 {
		if err := wait(r.Context(), a.For); err != nil {
			closeBody(r)
			return nil, err
		}
		return c.next.RoundTrip(r)
	}
	base := baseOf(c.next)
	if base == nil {
		drain(r)
		return nil, wait(r.Context(), 0)
	}
	silent := base.Clone()
	silent.Proxy = nil
	silent.DialContext = func(context.Context, string, string) (net.Conn, error) { return newMute(), nil }
	c.plan.own(silent)
	out := r.Clone(r.Context())
	out.URL.Scheme = "http" // there is nobody to shake hands with
	return silent.RoundTrip(out)
}

// baseOf looks through other plans.
func baseOf(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *Transport:
			rt = t.next
		case *http.Transport:
			return t
		default:
			return nil
		}
	}
}

func (p *Plan) own(t interface{ CloseIdleConnections() }) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = append(p.owned, t)
}

// mute is a connection that takes everything and says nothing.
type mute struct {
	once sync.Once
	done chan struct{}
}

func newMute() *mute { return &mute{done: make(chan struct{})} }

var _ net.Conn = (*mute)(nil)

func (m *mute) Read([]byte) (int, error) {
	<-m.done
	return 0, net.ErrClosed
}

func (m *mute) Write(p []byte) (int, error) {
	select {
	case <-m.done:
		return 0, net.ErrClosed
	default:
		return len(p), nil
	}
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *mute) LocalAddr() net.Addr              { return muteAddr{} }
func (m *mute) RemoteAddr() net.Addr             { return muteAddr{} }
func (m *mute) SetDeadline(time.Time) error      { return nil }
func (m *mute) SetReadDeadline(time.Time) error  { return nil }
func (m *mute) SetWriteDeadline(time.Time) error { return nil }

type muteAddr struct{}

func (muteAddr) Network() string { return "fault" }
func (muteAddr) String() string  { return "nobody" }

// StallBody is a body that stops after so many bytes: For that long, or for ever if For is 0. Of a request, nobody takes the bytes any more.
type StallBody struct {
	Of    Side
	After int64
	For   time.Duration
}

// String implements Action.
func (a StallBody) String() string { return fmt.Sprintf("StallBody(%s, %d, %s)", a.Of, a.After, a.For) }

func (a StallBody) act(c *call, r *http.Request) (*http.Response, error) {
	return c.paced(r, a.Of, &pace{ctx: r.Context(), stalls: true, after: a.After, hold: a.For})
}

// Slow is a line of so many bytes a second.
type Slow struct {
	Of          Side
	BytesPerSec int64
}

// String implements Action.
func (a Slow) String() string { return fmt.Sprintf("Slow(%s, %d B/s)", a.Of, a.BytesPerSec) }

func (a Slow) act(c *call, r *http.Request) (*http.Response, error) {
	return c.paced(r, a.Of, &pace{ctx: r.Context(), rate: max(1, a.BytesPerSec)})
}

// paced puts a pace on one of the bodies.
func (c *call) paced(r *http.Request, of Side, p *pace) (*http.Response, error) {
	if of == Response {
		resp, err := c.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		p.ReadCloser, p.closed = resp.Body, make(chan struct{})
		resp.Body = p
		return resp, nil
	}
	if !hasBody(r) {
		return c.next.RoundTrip(r)
	}
	if r.ContentLength > 0 {
		p.after = min(p.after, r.ContentLength-1)
	}
	out := r.WithContext(r.Context())
	p.ReadCloser, p.closed = r.Body, make(chan struct{})
	out.Body, out.GetBody = p, nil
	return c.next.RoundTrip(out)
}

// pace is a body that stalls once, or comes slowly.
type pace struct {
	io.ReadCloser
	ctx context.Context // of the request whose body this is

	stalls bool
	after  int64         // bytes before the stall
	hold   time.Duration // how long it lasts; 0: for ever
	rate   int64         // bytes a second; 0: as they come

	once   sync.Once
	closed chan struct{}
}

func (p *pace) Read(b []byte) (int, error) {
	if p.stalls && p.after <= 0 {
		p.stalls = false
		if err := p.wait(p.hold); err != nil {
			return 0, err
		}
	}
	if p.stalls {
		b = b[:min(int64(len(b)), p.after)]
	}
	if p.rate > 0 {
		b = b[:min(int64(len(b)), max(1, p.rate/20))]
	}
	n, err := p.ReadCloser.Read(b)
	p.after -= int64(n)
	if err == io.EOF && p.stalls { // it was shorter: then at its end
		p.stalls = false
		if werr := p.wait(p.hold); werr != nil {
			return n, werr
		}
	}
	if p.rate > 0 && n > 0 {
		if werr := p.wait(time.Duration(n) * time.Second / time.Duration(p.rate)); werr != nil {
			return n, werr
		}
	}
	return n, err
}

// wait ends also with the request, and with Close.
func (p *pace) wait(d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return nil
	case <-p.closed:
		return errClosed
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// Close ends a pause under way.
func (p *pace) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.ReadCloser.Close()
}
