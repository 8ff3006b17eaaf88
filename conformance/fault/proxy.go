package fault

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Proxy is a listener in front of a server. What it does happens to real connections: a reset arrives as a reset, a stall fills the buffers of the
// system. Close ends it and every connection.
type Proxy struct {
	listener net.Listener
	target   string
	plan     *Plan // nil: bytes go through, see Link
	upstream *http.Transport

	refuse atomic.Bool
	link   atomic.Pointer[Link]

	ctx  context.Context // ends with Close, and with it what stalls
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	total int
}

// Link is what happens to every connection made from now on, whatever it carries.
type Link struct {
	UpAfter   int64 // the connection is reset after so many bytes from the client; 0: never
	DownAfter int64 // and after so many bytes from the server; 0: never
	UpStop    int64 // nothing more is passed on after so many bytes from the client, and the connection stays open; 0: never
	DownStop  int64 // and after so many bytes from the server; 0: never
	Silent    bool  // it is accepted, and then nothing is read or written
	Half      bool  // what the client sends is passed on, the server's bytes are not, and the server's end is: a half-close
	PerSec    int64 // bytes a second in each direction; 0: as they come
}

// NewProxy returns a proxy for target ("host:port") on a loopback port of its own. With a plan it reads HTTP/1.1 and does what the plan says for each
// request; without one it looks into nothing.
func NewProxy(ctx context.Context, target string, plan *Plan) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, plan: plan, conns: make(map[net.Conn]bool)}
	p.ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", target)
	}
	p.upstream = &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetLink says what happens to the connections made from now on. Only a proxy without a plan looks at it.
func (p *Proxy) SetLink(l Link) { p.link.Store(&l) }

// Refuse makes the proxy reset every connection as soon as it is made, or take them again.
func (p *Proxy) Refuse(yes bool) { p.refuse.Store(yes) }

// Connections is how many connections were made.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// CutAll resets every connection that is open.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// Close ends the proxy and waits for it.
func (p *Proxy) Close() {
	_ = p.listener.Close() // nobody else has it
	p.stop()
	p.CutAll()
	p.wg.Wait()
	p.upstream.CloseIdleConnections()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		link := p.link.Load() // before it is counted: who waits for the count may change the link
		if p.refuse.Load() || !p.add(c) {
			reset(c)
			continue
		}
		p.wg.Go(func() {
			defer p.drop(c)
			if p.plan != nil {
				p.http(c)
				return
			}
			p.bytes(c, link)
		})
	}
}

func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	p.total++
	return p.ctx.Err() == nil
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // over
}

// reset ends a connection with RST rather than FIN.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // then Close sends RST
	}
	_ = c.Close() // that is the point
}

// http serves the requests of one connection. An error in place of an answer, or in the middle of one, resets the connection; a body that ends early
// closes it.
func (p *Proxy) http(c net.Conn) {
	rt := p.plan.Wrap(p.upstream)
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(p.ctx)
		ok := p.exchange(ctx, rt, r, c)
		cancel()
		if !ok {
			return
		}
	}
}

// exchange reports whether the connection can go on.
func (p *Proxy) exchange(ctx context.Context, rt http.RoundTripper, r *http.Request, c net.Conn) bool {
	if r.Header.Get("Expect") == "100-continue" {
		r.Header.Del("Expect")
		if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	sent := r.Body
	out := r.WithContext(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", p.target // r.Host stays: signatures hold it
	resp, err := rt.RoundTrip(out)
	if err != nil {
		reset(c)
		return false
	}
	defer resp.Body.Close()
	broken := &remembering{ReadCloser: resp.Body}
	resp.Body = broken
	resp.Close = false
	resp.Header.Del("Connection")
	if err := resp.Write(c); err != nil || broken.err != nil {
		if broken.err != nil && !errors.Is(broken.err, io.ErrUnexpectedEOF) {
			reset(c)
		}
		return false
	}
	_, err = io.Copy(io.Discard, sent) // what the server did not want
	return err == nil || errors.Is(err, http.ErrBodyReadAfterClose)
}

// remembering keeps the error with which a body ended.
type remembering struct {
	io.ReadCloser
	err error
}

func (b *remembering) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// bytes passes bytes on in both directions, as the link says; nil changes nothing.
func (p *Proxy) bytes(c net.Conn, link *Link) {
	if link == nil {
		link = new(Link)
	}
	if link.Silent {
		<-p.ctx.Done()
		return
	}
	server, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		reset(c)
		return
	}
	stop := context.AfterFunc(p.ctx, func() { reset(server) })
	defer stop()
	var wg sync.WaitGroup
	up, down := *link, *link
	down.UpAfter, down.UpStop = link.DownAfter, link.DownStop
	up.Half = false
	wg.Go(func() { p.pump(server, c, up) })
	wg.Go(func() { p.pump(c, server, down) })
	wg.Wait()
	_ = server.Close() // over
}

// pump copies in one direction, which the link calls up, until one side ends. After its last byte the other one is told; behind a limit both are reset, or hear nothing more.
func (p *Proxy) pump(to, from net.Conn, link Link) {
	limit := max(link.UpAfter, link.UpStop)
	var src io.Reader = from
	if limit > 0 {
		src = io.LimitReader(from, limit)
	}
	if link.PerSec > 0 {
		src = &pace{ReadCloser: io.NopCloser(src), ctx: p.ctx, rate: link.PerSec, closed: make(chan struct{})}
	}
	var dst io.Writer = to
	if link.Half {
		dst = io.Discard
	}
	n, err := io.Copy(dst, src)
	if link.UpStop > 0 && n >= link.UpStop && err == nil {
		<-p.ctx.Done()
	}
	if limit > 0 && n >= limit || err != nil {
		reset(from)
		reset(to)
		return
	}
	if t, ok := to.(*net.TCPConn); ok {
		_ = t.CloseWrite() // the other side may still be talking
	}
}

// Unanswered returns the address of a listener whose backlog is full: connecting to it takes until the caller gives up. The returned function ends it.
func Unanswered(ctx context.Context) (addr string, end func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var open []net.Conn
	end = func() {
		for _, c := range open {
			_ = c.Close() // nothing was sent
		}
		_ = l.Close() // nothing was accepted
	}
	if err := shrinkBacklog(l); err != nil {
		end()
		return "", nil, err
	}
	d := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 64 {
		c, derr := d.DialContext(ctx, "tcp", l.Addr().String())
		if derr != nil {
			return l.Addr().String(), end, nil //nolint:nilerr // full: that is what we want
		}
		open = append(open, c)
	}
	end()
	return "", nil, errors.New("fault: the backlog of a listener takes everything")
}

// shrinkBacklog makes the queue of a listener as short as the system allows: Go asks for the longest.
func shrinkBacklog(l net.Listener) error {
	raw, err := l.(*net.TCPListener).SyscallConn() //nolint:errcheck // the type that Listen returns for tcp
	if err != nil {
		return err
	}
	var lerr error
	if err := raw.Control(func(fd uintptr) { lerr = syscall.Listen(int(fd), 0) }); err != nil {
		return err
	}
	return lerr
}
