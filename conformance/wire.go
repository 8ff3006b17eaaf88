package conformance

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Request is one HTTP request of a case, as it went out: each attempt is one.
type Request struct {
	At     time.Duration // since the case began
	Method string
	URL    string // path and query
	Step   string // from the dialect
	Asked  string // headers that say which bytes, or on which condition
	Status int    // 0: no answer
	Err    string
	Sent   int64 // bytes of the body
	Got    int64 // bytes of the answer's body that were read
}

func (r Request) String() string {
	out := fmt.Sprintf("%9.3fs %-6s %-60s", r.At.Seconds(), r.Method, r.URL)
	if r.Step != "" {
		out += " [" + r.Step + "]"
	}
	if r.Asked != "" {
		out += " {" + r.Asked + "}"
	}
	if r.Err != "" {
		return out + fmt.Sprintf(" -> %s (sent %d)", r.Err, r.Sent)
	}
	return out + fmt.Sprintf(" -> %d (sent %d, got %d)", r.Status, r.Sent, r.Got)
}

// wire is the log of the requests of one case, through all its clients.
type wire struct {
	dialect Dialect
	now     func() time.Time
	began   time.Time

	mu      sync.Mutex
	entries []*entry
}

type entry struct {
	req       Request // but for the counts
	sent, got atomic.Int64
}

// wrap returns a transport that logs.
func (w *wire) wrap(next http.RoundTripper) http.RoundTripper { return &logged{w, next} }

// log returns what happened since the mark.
func (w *wire) log(mark int) []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Request
	for _, e := range w.entries[mark:] {
		r := e.req
		r.Sent, r.Got = e.sent.Load(), e.got.Load()
		out = append(out, r)
	}
	return out
}

func (w *wire) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

type logged struct {
	w    *wire
	next http.RoundTripper
}

func (l *logged) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &entry{req: Request{At: l.w.now().Sub(l.w.began), Method: r.Method, URL: public(r.URL), Asked: asked(r.Header)}}
	if l.w.dialect != nil {
		e.req.Step = l.w.dialect.Step(r)
	}
	l.w.mu.Lock()
	l.w.entries = append(l.w.entries, e)
	l.w.mu.Unlock()
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Body = &counted{r.Body, &e.sent}
		if get := r.GetBody; get != nil {
			r.GetBody = func() (io.ReadCloser, error) {
				b, err := get()
				if err != nil {
					return nil, err
				}
				return &counted{b, &e.sent}, nil
			}
		}
	}
	resp, err := l.next.RoundTrip(r)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if err != nil {
		e.req.Err = err.Error()
		return nil, err
	}
	e.req.Status = resp.StatusCode
	resp.Body = &counted{resp.Body, &e.got}
	return resp, nil
}

// asked are the headers of a request without which its answer cannot be understood.
func asked(h http.Header) string {
	var out []string
	for _, name := range []string{"Range", "X-Ms-Range", "Content-Range", "If-Match", "If-None-Match"} {
		if v := h.Get(name); v != "" {
			out = append(out, name+": "+v)
		}
	}
	return strings.Join(out, ", ")
}

// public is the path and query of a request without what signs it: logs go into reports.
func public(u *url.URL) string {
	text := u.RequestURI()
	path, query, found := strings.Cut(text, "?")
	if !found {
		return text
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		switch strings.ToLower(name) {
		case "sig", "x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential", "access_token", "token":
			pairs[i] = name + "=..."
		}
	}
	return path + "?" + strings.Join(pairs, "&")
}

// CloseIdleConnections lets http.Client reach the pool.
func (l *logged) CloseIdleConnections() {
	if c, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
