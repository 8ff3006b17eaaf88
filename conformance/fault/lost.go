package fault

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// DropRequest breaks the connection before the server saw anything of the request.
type DropRequest struct{}

// String implements Action.
func (DropRequest) String() string { return "DropRequest" }

func (DropRequest) act(_ *call, r *http.Request) (*http.Response, error) {
	closeBody(r)
	return nil, errReset("write")
}

// DropResponse lets the server act and breaks the connection before its answer came: the client cannot know. This is the action for ambiguity.
type DropResponse struct{}

// String implements Action.
func (DropResponse) String() string { return "DropResponse" }

func (DropResponse) act(c *call, r *http.Request) (*http.Response, error) { return c.dropResponse(r) }

func (c *call) dropResponse(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that a server that answers with its last word has said it
	_ = resp.Body.Close()                          // lost
	return nil, errReset("read")
}

// Reset breaks the connection after so many bytes of a body, or at its last byte if it has fewer. A request without a body is dropped; an answer without
// one is lost whole.
type Reset struct {
	Of    Side
	After int64
}

// String implements Action.
func (a Reset) String() string { return fmt.Sprintf("Reset(%s, %d)", a.Of, a.After) }

func (a Reset) act(c *call, r *http.Request) (*http.Response, error) {
	if a.Of == Response {
		return c.cut(r, a.After, errReset("read"))
	}
	if !hasBody(r) {
		return DropRequest{}.act(c, r)
	}
	after := a.After
	if r.ContentLength > 0 {
		after = min(after, r.ContentLength-1)
	}
	out := r.WithContext(r.Context())
	out.Body = &cutting{ReadCloser: r.Body, left: after, err: errReset("write")}
	out.GetBody = nil
	resp, err := c.next.RoundTrip(out)
	if err == nil { // the server has answered before the end came
		_ = resp.Body.Close() // lost
	}
	return nil, errReset("write")
}

// cut breaks the answer's body.
func (c *call) cut(r *http.Request, after int64, with error) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead || resp.ContentLength == 0 {
		_ = resp.Body.Close() // lost
		return nil, errReset("read")
	}
	if resp.ContentLength > 0 {
		after = min(after, resp.ContentLength-1)
	}
	resp.Body = &cutting{ReadCloser: resp.Body, left: after, err: with}
	return resp, nil
}

// Truncate ends the answer's body after so many bytes: the connection is closed before Content-Length came. With Shrink the header claims those bytes
// alone, so that nothing but what else is known of the object tells.
type Truncate struct {
	After  int64
	Shrink bool
}

// String implements Action.
func (a Truncate) String() string { return fmt.Sprintf("Truncate(%d, shrink %t)", a.After, a.Shrink) }

func (a Truncate) act(c *call, r *http.Request) (*http.Response, error) {
	if !a.Shrink {
		return c.cut(r, a.After, io.ErrUnexpectedEOF)
	}
	resp, err := c.cut(r, a.After, io.EOF)
	if err != nil {
		return nil, err
	}
	resp.ContentLength = min(a.After, max(0, resp.ContentLength-1))
	resp.Header.Set("Content-Length", fmt.Sprint(resp.ContentLength))
	return resp, nil
}

// CleanEOF ends the answer's body after so many bytes without any error, although more were announced.
type CleanEOF struct{ After int64 }

// String implements Action.
func (a CleanEOF) String() string { return fmt.Sprintf("CleanEOF(%d)", a.After) }

func (a CleanEOF) act(c *call, r *http.Request) (*http.Response, error) {
	return c.cut(r, a.After, io.EOF)
}

// cutting gives so many bytes and then an error, which also takes the place of an end before it: a length that is not known is not known to be short.
type cutting struct {
	io.ReadCloser
	left int64
	err  error
}

func (b *cutting) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// Corrupt changes one byte of a body. An offset behind its end is taken modulo its length.
type Corrupt struct {
	Of     Side
	Offset int64
	Xor    byte // 0: 1
}

// String implements Action.
func (a Corrupt) String() string { return fmt.Sprintf("Corrupt(%s, %d, %#02x)", a.Of, a.Offset, a.Xor) }

func (a Corrupt) act(c *call, r *http.Request) (*http.Response, error) {
	if a.Xor == 0 {
		a.Xor = 1
	}
	if a.Of == Request {
		out, err := a.request(r)
		if err != nil {
			return nil, err
		}
		return c.next.RoundTrip(out)
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	at := a.Offset
	if resp.ContentLength > 0 {
		at %= resp.ContentLength
	}
	resp.Body = &flipping{ReadCloser: resp.Body, left: at, xor: a.Xor}
	return resp, nil
}

// request is r with another body. One whose length is not known is read into memory.
func (a Corrupt) request(r *http.Request) (*http.Request, error) {
	if !hasBody(r) {
		return r, nil
	}
	out := r.WithContext(r.Context())
	out.GetBody = nil
	if r.ContentLength > 0 {
		out.Body = &flipping{ReadCloser: r.Body, left: a.Offset % r.ContentLength, xor: a.Xor}
		return out, nil
	}
	data, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // read to its end
	if len(data) > 0 {
		data[a.Offset%int64(len(data))] ^= a.Xor
	}
	out.Body = &memory{left: data}
	return out, err
}

type flipping struct {
	io.ReadCloser
	left int64 // bytes before the one
	xor  byte
}

func (b *flipping) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left >= 0 && b.left < int64(n) {
		p[b.left] ^= b.xor
	}
	b.left -= int64(n)
	return n, err
}

// Duplicate sends the request twice, one after the other, as a proxy does that tries again: the client gets the second answer.
type Duplicate struct{}

// String implements Action.
func (Duplicate) String() string { return "Duplicate" }

func (Duplicate) act(c *call, r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close() // read to its end
		if err != nil {
			return nil, err
		}
	}
	resp, err := c.next.RoundTrip(again(r, body))
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // of no interest
		_ = resp.Body.Close()
	}
	return c.next.RoundTrip(again(r, body))
}

func again(r *http.Request, body []byte) *http.Request {
	out := r.Clone(r.Context())
	out.GetBody = nil
	if hasBody(r) {
		out.Body = &memory{left: body}
	}
	return out
}

// memory is a body in memory that cannot be taken for another kind of reader.
type memory struct {
	mu   sync.Mutex
	left []byte
}

func (m *memory) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.left)
	m.left = m.left[n:]
	return n, nil
}

func (m *memory) Close() error { return nil }
