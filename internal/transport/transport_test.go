package transport

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fails sends a request that should fail.
func fails(t *testing.T, tr *Transport, req *http.Request) error {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err == nil {
		t.Errorf("answered with %s", resp.Status)
		_ = resp.Body.Close()
	}
	return err
}

func mustNew(t *testing.T, o Options) *Transport {
	t.Helper()
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// server runs h until the test ends; quit ends what hangs.
func server(t *testing.T, h func(w http.ResponseWriter, r *http.Request, quit <-chan struct{})) *httptest.Server {
	t.Helper()
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, quit) }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(quit) })
	return srv
}

const short = 100 * time.Millisecond

func wantTimeout(t *testing.T, err error, what string) {
	t.Helper()
	te, ok := errors.AsType[*TimeoutError](err)
	var ne net.Error
	if !ok || !strings.Contains(te.What, what) || !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("got %v, want a TimeoutError of %q", err, what)
	}
}

func TestStall_OfAnAnswer(t *testing.T) {
	srv := server(t, func(w http.ResponseWriter, _ *http.Request, quit <-chan struct{}) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("half"))
		w.(http.Flusher).Flush()
		<-quit
	})
	tr := mustNew(t, Options{StallTimeout: short})
	resp, err := tr.RoundTrip(request(t, http.MethodGet, srv.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if string(got) != "half" {
		t.Errorf("read %q", got)
	}
	wantTimeout(t, err, "no byte moved")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBody_AnEndBeforeItsLengthIsNone: what wraps the network may end an answer as if all was there.
func TestBody_AnEndBeforeItsLengthIsNone(t *testing.T) {
	for _, tt := range []struct {
		method string
		length int64
		want   error
	}{{http.MethodGet, 4, nil}, {http.MethodGet, -1, nil}, {http.MethodHead, 9, nil}, {http.MethodGet, 5, io.ErrUnexpectedEOF}} {
		tr := mustNew(t, Options{Wrap: func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, ContentLength: tt.length, Body: io.NopCloser(strings.NewReader("half"))}, nil
			})
		}})
		resp, err := tr.RoundTrip(request(t, tt.method, "http://x.invalid", nil))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "half" || !errors.Is(err, tt.want) {
			t.Errorf("%s of %d bytes: %q, %v", tt.method, tt.length, b, err)
		}
		_ = resp.Body.Close()
	}
}

// TestStall_SlowReaderIsNone: the time between two Reads is the reader's own.
func TestStall_SlowReaderIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := mustNew(t, Options{StallTimeout: short, Wrap: func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, ContentLength: 100, Body: io.NopCloser(&drip{r.Context(), bytes.NewReader(make([]byte, 100)), short / 2})}, nil
			})
		}})
		resp, err := tr.RoundTrip(request(t, http.MethodGet, "http://x.invalid", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * short)
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("after a pause: %v", err)
		}
	})
}

func TestStall_OfSending(t *testing.T) {
	srv := server(t, func(_ http.ResponseWriter, r *http.Request, quit <-chan struct{}) {
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
		<-quit // the buffers of the connection fill, then nothing moves
	})
	tr := mustNew(t, Options{StallTimeout: short, HeaderTimeout: time.Minute})
	err := fails(t, tr, request(t, http.MethodPut, srv.URL, bytes.NewReader(make([]byte, 64<<20))))
	wantTimeout(t, err, "no byte moved")
}

// A server that takes or gives a byte before each stall timeout holds nobody for ever; one that is only slow is left alone.
func TestRate_NextToNothingIsAStall(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration // a piece of 32 bytes
		slow  bool
	}{{29 * time.Second, true}, {25 * time.Millisecond, false}} {
		for _, way := range []string{"send", "receive"} {
			t.Run(fmt.Sprintf("%s every %v", way, tc.every), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkRate(t, way, tc.every, tc.slow) })
			})
		}
	}
}

func checkRate(t *testing.T, way string, every time.Duration, slow bool) {
	const size = 600 << 10
	tr := mustNew(t, Options{Wrap: func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if way == "receive" {
				return &http.Response{StatusCode: 200, ContentLength: size, Body: io.NopCloser(&drip{r.Context(), bytes.NewReader(make([]byte, size)), every})}, nil
			}
			for { // as a connection that takes little does
				if _, err := r.Body.Read(make([]byte, 32)); err == io.EOF {
					return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
				} else if err != nil {
					return nil, err
				}
				if err := pause(r.Context(), every); err != nil {
					return nil, err
				}
			}
		})
	}})
	began := time.Now()
	resp, err := tr.RoundTrip(request(t, http.MethodPut, "http://x.invalid", io.LimitReader(zeros{}, size)))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if !slow {
		if err != nil || time.Since(began) < rateWindow*DefaultStallTimeout {
			t.Errorf("%v after %v, want all of it, in more time than the average is taken over", err, time.Since(began))
		}
		return
	}
	wantTimeout(t, err, "fewer than 1024 bytes a second")
	if took := time.Since(began); took > (rateWindow+1)*DefaultStallTimeout {
		t.Errorf("ended after %v", took)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// drip is a body that comes in small pieces.
type drip struct {
	ctx   context.Context
	r     io.Reader
	every time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if err := pause(d.ctx, d.every); err != nil {
		return 0, err
	}
	return d.r.Read(p[:min(len(p), 32)])
}

func TestHeaderTimeout(t *testing.T) {
	srv := server(t, func(_ http.ResponseWriter, _ *http.Request, quit <-chan struct{}) { <-quit })
	tr := mustNew(t, Options{HeaderTimeout: short, StallTimeout: time.Minute})
	err := fails(t, tr, request(t, http.MethodGet, srv.URL, nil))
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("got %v", err)
	}
}

func TestAttemptTimeout_EndsWithTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := mustNew(t, Options{AttemptTimeout: short, Wrap: func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/hang" {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return &http.Response{StatusCode: 200, ContentLength: 4, Body: io.NopCloser(&drip{r.Context(), strings.NewReader("late"), 3 * short})}, nil
			})
		}})
		err := fails(t, tr, request(t, http.MethodGet, "http://x.invalid/hang", nil))
		wantTimeout(t, err, "no answer")
		resp, err := tr.RoundTrip(request(t, http.MethodGet, "http://x.invalid/slow", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "late" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestContext_EndOfTheCallersIsNoTimeout(t *testing.T) {
	srv := server(t, func(_ http.ResponseWriter, _ *http.Request, quit <-chan struct{}) { <-quit })
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	tr := mustNew(t, Options{})
	err := fails(t, tr, request(t, http.MethodGet, srv.URL, nil).WithContext(ctx))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestCount(t *testing.T) {
	srv := server(t, func(http.ResponseWriter, *http.Request, <-chan struct{}) {})
	tr := mustNew(t, Options{})
	var c Count
	ctx := WithCount(t.Context(), &c)
	for range 2 {
		resp, err := tr.RoundTrip(request(t, http.MethodGet, srv.URL, nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	_ = fails(t, tr, request(t, http.MethodGet, "http://127.0.0.1:1/", nil).WithContext(ctx))
	if c != (Count{Requests: 3, Unsent: 1}) || Requests(ctx) != 3 || Requests(t.Context()) != 0 {
		t.Errorf("counted %+v", c)
	}
}

func TestTLS_CAFile(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	srv.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o  Options
		ok bool
	}{
		"unknown": {Options{RootCAs: x509.NewCertPool()}, false}, "file": {Options{CAFile: file}, true},
		"file beside a pool": {Options{CAFile: file, RootCAs: x509.NewCertPool()}, true}, "unchecked": {Options{SkipVerify: true}, true},
	} {
		resp, err := mustNew(t, tt.o).RoundTrip(request(t, http.MethodGet, srv.URL, nil))
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "missing"), "transport_test.go"} {
		if _, err := New(Options{CAFile: bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestProxy: requests go to the proxy, with user and password.
func TestProxy(t *testing.T) {
	seen := make(chan string, 1)
	proxy := server(t, func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) {
		seen <- r.URL.String() + " " + r.Header.Get("Proxy-Authorization")
		w.WriteHeader(http.StatusTeapot)
	})
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("u", "p")
	resp, err := mustNew(t, Options{Proxy: u}).RoundTrip(request(t, http.MethodGet, "http://store.invalid/k", nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := <-seen; resp.StatusCode != http.StatusTeapot || got != "http://store.invalid/k Basic dTpw" {
		t.Errorf("the proxy saw %q", got)
	}
}

// TestProxy_Socks5: the handshake with user and password, and then the request.
func TestProxy_Socks5(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		read := func(n int) []byte { b := make([]byte, n); _, _ = io.ReadFull(c, b); return b }
		read(int(read(2)[1]))         // version, methods
		_, _ = c.Write([]byte{5, 2})  // user and password, RFC 1929
		user := read(int(read(2)[1])) //
		pass := read(int(read(1)[0])) //
		_, _ = c.Write([]byte{1, 0})  // welcome
		name := read(int(read(5)[4])) // connect to a name
		read(2)                       // port
		_, _ = c.Write([]byte{5, 0, 0, 1, 127, 0, 0, 1, 0, 80})
		host <- string(user) + ":" + string(pass) + "@" + string(name)
		read(16)
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}()
	u := &url.URL{Scheme: "socks5", Host: l.Addr().String(), User: url.UserPassword("me", "secret")}
	resp, err := mustNew(t, Options{Proxy: u}).RoundTrip(request(t, http.MethodGet, "http://store.invalid/k", nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	<-done
	if got := <-host; got != "me:secret@store.invalid" || resp.StatusCode != http.StatusNoContent {
		t.Errorf("the proxy was asked for %q", got)
	}
}
