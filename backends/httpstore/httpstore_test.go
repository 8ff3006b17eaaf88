package httpstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func begin(t *testing.T, ctx context.Context, g *Gate) *Call {
	t.Helper()
	c, err := g.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGate_EndsCallsAndSaysWhy(t *testing.T) {
	g := NewGate(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	mine, other := begin(t, ctx, g), begin(t, t.Context(), g)
	defer mine.End()
	defer other.End()
	if mine.Ended() != nil || other.Ended() != nil {
		t.Errorf("ended: %v, %v", mine.Ended(), other.Ended())
	}
	cancel()
	if err := mine.Ended(); !errors.Is(err, context.Canceled) || mine.Context().Err() == nil {
		t.Errorf("cancelled: %v", err)
	}
	g.Close()
	g.Close()
	<-other.Context().Done()
	if err := other.Ended(); !errors.Is(err, backends.Closed) {
		t.Errorf("closed: %v", err)
	}
	if err := mine.Ended(); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's end comes first: %v", err)
	}
	if _, err := g.Begin(t.Context()); !errors.Is(err, backends.Closed) {
		t.Errorf("begin after close: %v", err)
	}
	if _, err := g.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("begin with a dead context: %v", err)
	}
}

func TestGate_OutlivesTheContextOfItsMaking(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := NewGate(ctx)
	defer g.Close()
	cancel()
	c := begin(t, t.Context(), g)
	defer c.End()
	if c.Context().Err() != nil {
		t.Error("the call ended with the context that the gate was made with")
	}
}

func TestGate_LetsCleanUpsThrough(t *testing.T) {
	g := NewGate(t.Context())
	g.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := begin(t, Cleanup(ctx), g)
	defer c.End()
	if c.Ended() != nil || c.Context().Err() != nil {
		t.Errorf("ended: %v, %v", c.Ended(), c.Context().Err())
	}
	cancel()
	<-c.Context().Done()
	if err := c.Ended(); !errors.Is(err, context.Canceled) {
		t.Errorf("its own end: %v", err)
	}
	if _, err := g.Begin(Cleanup(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead context: %v", err)
	}
	if _, err := g.Begin(t.Context()); !errors.Is(err, backends.Closed) {
		t.Errorf("any other call: %v", err)
	}
}

type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

func TestBody_ExactlySoManyBytesOrAnError(t *testing.T) {
	broken := errors.New("broken")
	data := []byte("0123456789")
	for name, tt := range map[string]struct {
		r      io.Reader
		length int64
		want   string
		err    error
	}{
		"exact":       {bytes.NewReader(data), 10, "0123456789", nil},
		"by bytes":    {iotest.OneByteReader(bytes.NewReader(data)), 10, "0123456789", nil},
		"with EOF":    {iotest.DataErrReader(bytes.NewReader(data)), 10, "0123456789", nil},
		"more comes":  {bytes.NewReader(data), 4, "0123", nil},
		"empty":       {bytes.NewReader(nil), 0, "", nil},
		"short":       {bytes.NewReader(data), 11, "0123456789", io.ErrUnexpectedEOF},
		"short, zero": {bytes.NewReader(nil), 1, "", io.ErrUnexpectedEOF},
		"passed on":   {iotest.ErrReader(backends.Errorf(backends.Corrupt, "x")), 20, "", backends.Corrupt},
		"broken":      {io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)), 20, "0123456789", backends.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGate(t.Context())
			defer g.Close()
			src := &closer{Reader: tt.r}
			b := NewBody(begin(t, t.Context(), g), src, tt.length, func(err error) error {
				if _, ok := errors.AsType[*TransportError](err); !ok || !errors.Is(err, broken) {
					t.Errorf("classify was given %v", err)
				}
				return backends.Timeout
			})
			got, err := io.ReadAll(b)
			if string(got) != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			for range 2 {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, backends.Closed) || src.closed != 1 {
				t.Errorf("after close: %v, closed %d times", err, src.closed)
			}
		})
	}
}

// TestBody_CloseUnblocksARead, and so do the ends of the caller's context and of the gate.
func TestBody_CloseUnblocksARead(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(b *Body, cancel func(), g *Gate)
		want error
	}{
		"close":  {func(b *Body, _ func(), _ *Gate) { _ = b.Close() }, backends.Closed},
		"cancel": {func(_ *Body, cancel func(), _ *Gate) { cancel() }, context.Canceled},
		"gate":   {func(_ *Body, _ func(), g *Gate) { g.Close() }, backends.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := NewGate(t.Context())
			defer g.Close()
			c := begin(t, ctx, g)
			r, w := io.Pipe()
			stop := context.AfterFunc(c.Context(), func() { _ = w.CloseWithError(net.ErrClosed) }) // as a transport does
			defer stop()
			b := NewBody(c, r, 10, func(err error) error { return fmt.Errorf("classified: %w", err) })
			defer b.Close()
			done := make(chan error)
			go func() {
				_, err := b.Read(make([]byte, 1))
				done <- err
			}()
			tt.end(b, cancel, g)
			if err := <-done; !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		asked  backends.Range
		header string
		length int64
		size   int64
		offset int64
		want   backends.Code
	}{
		{backends.All(), "", 10, 10, 0, backends.Unknown},
		{backends.All(), "", 0, 0, 0, backends.Unknown},
		{backends.Range{Offset: 0, Length: 5}, "bytes 0-4/10", 5, 10, 0, backends.Unknown},
		{backends.Range{Offset: 8, Length: 5}, "bytes 8-9/10", 2, 10, 8, backends.Unknown},
		{backends.Range{Offset: 8, Length: -1}, "bytes 8-9/10", 2, 10, 8, backends.Unknown},
		{backends.Range{Offset: 10, Length: -1}, "bytes 10-9/10", 0, 0, 0, backends.InvalidRange},
		{backends.Range{Offset: 0, Length: 5}, "", 10, 0, 0, backends.Unsupported},
		{backends.Range{Offset: 0, Length: 5}, "bytes 0-5/10", 6, 0, 0, backends.Corrupt},
		{backends.Range{Offset: 0, Length: 5}, "bytes 0-4/10", 6, 0, 0, backends.Corrupt},
		{backends.Range{Offset: 0, Length: 5}, "bytes 0-4/*", 5, 0, 0, backends.Corrupt},
		{backends.All(), "bytes 0-4/10", 5, 0, 0, backends.Corrupt},
	} {
		size, offset, err := Resolve(tt.asked, tt.header, tt.length)
		if size != tt.size || offset != tt.offset || backends.CodeOf(err) != tt.want || (err == nil) != (tt.want == backends.Unknown) {
			t.Errorf("%+v: got %d, %d, %v", tt, size, offset, err)
		}
	}
}

func FuzzParseContentRange(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := ParseContentRange(s)
		if !ok {
			return
		}
		if c.First < 0 || c.Size < 0 || c.Length() < 0 || c.Last >= c.Size && c.Length() > 0 || c.First > c.Size {
			t.Fatalf("%q gives %+v", s, c)
		}
		again, ok := ParseContentRange(fmt.Sprintf("bytes %d-%d/%d", c.First, c.Last, c.Size))
		if !ok || again != c {
			t.Fatalf("%q gives %+v, written again %+v", s, c, again)
		}
	})
}

func TestNetworkCode(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		want  backends.Code
		fault Fault
	}{
		"refused":            {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, backends.Unavailable, NoFault},
		"reset":              {fmt.Errorf("read: %w", syscall.ECONNRESET), backends.Unavailable, NoFault},
		"broken pipe":        {syscall.EPIPE, backends.Unavailable, NoFault},
		"eof":                {io.EOF, backends.Unavailable, NoFault},
		"short":              {io.ErrUnexpectedEOF, backends.Unavailable, NoFault},
		"of the transport":   {&TransportError{errors.New("malformed HTTP response")}, backends.Unavailable, NoFault},
		"no such host":       {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, backends.InvalidArgument, HostName},
		"dns for now":        {&net.DNSError{IsTemporary: true}, backends.Unavailable, NoFault},
		"dns both":           {&net.DNSError{IsTemporary: true, IsNotFound: true}, backends.Unavailable, NoFault},
		"dns timeout":        {&net.DNSError{IsTimeout: true}, backends.Timeout, NoFault},
		"timeout":            {&TransportError{&url.Error{Op: "Get", URL: "u", Err: context.DeadlineExceeded}}, backends.Timeout, NoFault},
		"within another":     {&url.Error{Op: "Get", Err: fmt.Errorf("no token: %w", os.ErrDeadlineExceeded)}, backends.Timeout, NoFault},
		"deadline":           {context.DeadlineExceeded, backends.Timeout, NoFault},
		"unknown authority":  {&TransportError{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, backends.InvalidArgument, Certificate},
		"no TLS there":       {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, backends.InvalidArgument, Certificate},
		"scheme":             {http.ErrSchemeMismatch, backends.InvalidArgument, Certificate},
		"something else":     {errors.New("x"), backends.Unknown, NoFault},
		"connection closed":  {net.ErrClosed, backends.Unavailable, NoFault},
		"permission is none": {syscall.EACCES, backends.Unknown, NoFault},
	} {
		if got, fault := NetworkCode(tt.err); got != tt.want || fault != tt.fault {
			t.Errorf("%s: got %v and %v, want %v and %v", name, got, fault, tt.want, tt.fault)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestTransport_CountsAndBounds(t *testing.T) {
	g := NewGate(t.Context())
	defer g.Close()
	c := begin(t, t.Context(), g)
	defer c.End()
	big := strings.Repeat("x", 2*maxErrorBody)
	fail := false
	tr := Transport{Next: roundTripper(func(req *http.Request) (*http.Response, error) {
		if fail {
			return nil, io.EOF
		}
		status := 200
		if req.Method == http.MethodPut {
			status = 500
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(big))}, nil
	})}
	for method, want := range map[string]int{http.MethodGet: len(big), http.MethodPut: maxErrorBody} {
		req, err := http.NewRequestWithContext(c.Context(), method, "http://x.invalid", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if len(b) != want {
			t.Errorf("%s: read %d bytes, want %d", method, len(b), want)
		}
	}
	fail = true
	req, _ := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://x.invalid", nil)
	resp, err := tr.RoundTrip(req)
	if resp != nil {
		_ = resp.Body.Close()
	}
	if _, ok := errors.AsType[*TransportError](err); !ok || !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if c.Attempts() != 3 {
		t.Errorf("%d attempts counted", c.Attempts())
	}
	plain, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.invalid", nil)
	_, _ = tr.RoundTrip(plain) //nolint:bodyclose // it fails
	if c.Attempts() != 3 {
		t.Error("a request of nobody was counted")
	}
}
