package fault

import (
	"io"
	"net/http"
	"sync/atomic"
)

// Wrap puts the plan between a driver and its network; it is what Env.WrapTransport wants. Everything of the driver is above it: retries, signing, token
// requests. So each attempt is seen. next is usually the driver's *http.Transport.
func (p *Plan) Wrap(next http.RoundTripper) http.RoundTripper { return &Transport{plan: p, next: next} }

// Transport is an http.RoundTripper that does what a plan says.
type Transport struct {
	plan *Plan
	next http.RoundTripper
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e, do := t.plan.begin(r)
	out := r
	if hasBody(r) {
		out = r.WithContext(r.Context())
		out.Body = &counted{ReadCloser: r.Body, saw: func(n int) { t.plan.update(e, func(e *Event) { e.Sent += int64(n) }) }, end: func() {}}
	}
	var resp *http.Response
	var err error
	if do == nil {
		resp, err = t.next.RoundTrip(out)
	} else {
		resp, err = do.act(&call{plan: t.plan, step: e.Step, next: t.next}, out)
	}
	if err != nil {
		t.plan.update(e, func(e *Event) { e.Err = err })
		t.plan.end(e)
		return nil, err
	}
	t.plan.update(e, func(e *Event) { e.Status = resp.StatusCode })
	if resp.Body == nil || resp.Body == http.NoBody {
		t.plan.end(e)
		return resp, nil
	}
	resp.Body = &counted{ReadCloser: resp.Body, saw: func(n int) { t.plan.update(e, func(e *Event) { e.Got += int64(n) }) }, end: func() { t.plan.end(e) }}
	return resp, nil
}

// CloseIdleConnections passes the wish on.
func (t *Transport) CloseIdleConnections() {
	closeIdle(t.next)
	t.plan.Close()
}

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// counted counts what is read, and tells when it is over.
type counted struct {
	io.ReadCloser
	saw  func(n int)
	end  func()
	over atomic.Bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if n > 0 {
		c.saw(n)
	}
	if err != nil {
		c.finish()
	}
	return n, err
}

func (c *counted) Close() error {
	err := c.ReadCloser.Close()
	c.finish()
	return err
}

func (c *counted) finish() {
	if c.over.CompareAndSwap(false, true) {
		c.end()
	}
}
