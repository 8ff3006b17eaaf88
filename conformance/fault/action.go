package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Action is one failure: one of the types of this package. All but Hook are plain data.
type Action interface {
	fmt.Stringer
	act(c *call, r *http.Request) (*http.Response, error)
}

// call is what an action acts in.
type call struct {
	plan *Plan
	step string
	next http.RoundTripper
}

// Side says which half of an exchange an action is about.
type Side string

// The sides.
const (
	Request  Side = "request"
	Response Side = "response"
)

// errReset is a connection that the other side has broken, as the net package says it.
func errReset(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

// drain reads a request's body to its end, as a server does before it answers.
func drain(r *http.Request) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // an error of the body is the sender's
		_ = r.Body.Close()
	}
}

// hasBody reports whether a request that goes out has a body. A ContentLength of 0 beside a Body means that its length is not known.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // a RoundTripper closes it in any case
	}
}

// answer makes resp the answer to r.
func answer(r *http.Request, resp *http.Response) *http.Response {
	resp.Request = r
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
	resp.Status = fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if r.Method == http.MethodHead {
		_ = resp.Body.Close() // nothing of it was read
		resp.Body = http.NoBody
	}
	return resp
}

// NewResponse makes an answer with a body, for dialects.
func NewResponse(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body))}
}

// Status answers with an error of the provider, without the server.
type Status struct {
	Code       int       // 0: as the provider does it
	Kind       ErrorKind // "": an answer without a body
	RetryAfter time.Duration
}

// String implements Action. A Code of 0 is not shown: the status is the provider's.
func (a Status) String() string {
	s := string(a.Kind)
	if a.Code != 0 {
		s = fmt.Sprintf("%d, %s", a.Code, a.Kind)
	}
	if a.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %s", a.RetryAfter)
	}
	return "Status(" + s + ")"
}

func (a Status) act(c *call, r *http.Request) (*http.Response, error) {
	drain(r)
	resp, err := c.forge(a.Kind)
	if err != nil {
		return nil, err
	}
	if a.Code != 0 {
		resp.StatusCode = a.Code
	}
	if a.RetryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int((a.RetryAfter+time.Second-1)/time.Second)))
	}
	return answer(r, resp), nil
}

func (c *call) forge(kind ErrorKind) (*http.Response, error) {
	if kind == "" {
		return NewResponse(http.StatusInternalServerError, ""), nil
	}
	resp := c.plan.dialect.Error(c.step, kind)
	if resp == nil {
		return nil, fmt.Errorf("fault: the dialect has no error %q for %q", kind, c.step)
	}
	if resp.Header == nil {
		resp.Header = make(http.Header)
	}
	return resp, nil
}

// OK200WithError is the provider's error, body and all, under a status of success.
type OK200WithError struct{ Kind ErrorKind }

// String implements Action.
func (a OK200WithError) String() string { return fmt.Sprintf("OK200WithError(%s)", a.Kind) }

func (a OK200WithError) act(c *call, r *http.Request) (*http.Response, error) {
	drain(r)
	resp, err := c.forge(a.Kind)
	if err != nil {
		return nil, err
	}
	resp.StatusCode = http.StatusOK
	return answer(r, resp), nil
}

// Garbage is an answer that no store gives: a proxy's page, nothing at all, megabytes.
type Garbage struct {
	Code int
	Type string // of the content
	Body string
	Size int // of the body: Body again and again; 0: once
}

// HTML502 is what a load balancer says of a server that is gone.
func HTML502() Garbage {
	return Garbage{Code: http.StatusBadGateway, Type: "text/html", Body: "<html><head><title>502 Bad Gateway</title></head><body><hr>nginx</body></html>\r\n"}
}

// HugeErrorBody is an error with 10 MB behind it.
func HugeErrorBody(code int) Garbage {
	return Garbage{Code: code, Type: "text/plain", Body: "All work and no play makes Jack a dull boy. ", Size: 10 << 20}
}

// String implements Action.
func (a Garbage) String() string {
	return fmt.Sprintf("Garbage(%d, %s, %d bytes)", a.Code, a.Type, max(a.Size, len(a.Body)))
}

func (a Garbage) act(_ *call, r *http.Request) (*http.Response, error) {
	drain(r)
	size := max(a.Size, len(a.Body))
	resp := NewResponse(a.Code, "", "Content-Type", a.Type, "Content-Length", strconv.Itoa(size))
	resp.Header.Set("Content-Length", strconv.Itoa(size))
	resp.ContentLength = int64(size)
	if size > 0 {
		resp.Body = io.NopCloser(io.LimitReader(&repeated{text: a.Body}, int64(size)))
	}
	return answer(r, resp), nil
}

// repeated is a text without an end.
type repeated struct {
	text string
	at   int
}

func (b *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], b.text[b.at:])
		n, b.at = n+k, (b.at+k)%len(b.text)
	}
	return n, nil
}

// Redirect sends the client elsewhere.
type Redirect struct {
	Code int // 0: 307
	URL  string
}

// String implements Action.
func (a Redirect) String() string { return fmt.Sprintf("Redirect(%d, %s)", a.Code, a.URL) }

func (a Redirect) act(_ *call, r *http.Request) (*http.Response, error) {
	drain(r)
	code := a.Code
	if code == 0 {
		code = http.StatusTemporaryRedirect
	}
	return answer(r, NewResponse(code, "", "Location", a.URL)), nil
}

// ShiftDate passes the request on and moves the Date of its answer.
type ShiftDate struct{ By time.Duration }

// String implements Action.
func (a ShiftDate) String() string { return fmt.Sprintf("ShiftDate(%s)", a.By) }

func (a ShiftDate) act(c *call, r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, perr := http.ParseTime(resp.Header.Get("Date")); perr == nil {
		resp.Header.Set("Date", at.Add(a.By).UTC().Format(http.TimeFormat))
	}
	return resp, nil
}

// CloseIdle closes the connections that are not in use, then passes the request on.
type CloseIdle struct{}

// String implements Action.
func (CloseIdle) String() string { return "CloseIdle" }

func (CloseIdle) act(c *call, r *http.Request) (*http.Response, error) {
	closeIdle(c.next)
	return c.next.RoundTrip(r)
}

// Hook is anything else. It is bound by the rules of http.RoundTripper.
type Hook struct {
	Name string
	Do   func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

// String implements Action.
func (a Hook) String() string { return "Hook(" + a.Name + ")" }

func (a Hook) act(c *call, r *http.Request) (*http.Response, error) { return a.Do(c.next, r) }

// wait waits for d, or for ever if d is 0, and no longer than ctx lives.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errClosed = errors.New("fault: read after close")
