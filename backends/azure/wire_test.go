package azure

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit)) }

// wire stands between a driver and the network: it notes every request, and may answer by itself.
type wire struct {
	mu   sync.Mutex
	seen []string // "PUT comp=block", without the values of what is random
	reqs []*http.Request

	// act answers request number n (from 0), or passes it on. Nil passes everything on.
	act func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error)
}

func (w *wire) env() backends.Env {
	return backends.Env{WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			w.mu.Lock()
			n := len(w.seen)
			w.seen = append(w.seen, strings.TrimSpace(req.Method+" "+req.URL.Query().Get("comp")))
			w.reqs = append(w.reqs, req.Clone(req.Context()))
			w.mu.Unlock()
			if w.act == nil {
				return next.RoundTrip(req)
			}
			return w.act(n, req, next)
		})
	}}
}

func (w *wire) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

func (w *wire) header(n int, name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, v := range w.reqs[n].Header { // the SDK writes some names in lower case
		if strings.EqualFold(k, name) {
			return v[0]
		}
	}
	return ""
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// forge makes an answer of the service with an error code.
func forge(req *http.Request, status int, code string, headers ...string) *http.Response {
	return forgeText(req, status, code, "Something happened.\nRequestId:abc\nTime:now", headers...)
}

func forgeText(req *http.Request, status int, code, message string, headers ...string) *http.Response {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	h := http.Header{"X-Ms-Request-Id": {"id-1"}}
	body := ""
	if code != "" {
		h.Set("X-Ms-Error-Code", code)
		body = "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>"
	}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	if req.Method == http.MethodHead {
		body = ""
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

var errCut = errors.New("the line was cut")

// loseAnswer passes a request on and loses what comes back.
func loseAnswer(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		err = errCut
	}
	return nil, err
}

// loseRequest loses a request on its way.
func loseRequest(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, errCut
}

// forged opens a driver whose service is w alone.
func forged(t *testing.T, w *wire, o Options) *Driver {
	t.Helper()
	if o.Endpoint == "" {
		o.Endpoint = "http://forged.invalid/account"
	}
	if o.SAS.IsZero() && o.Key.IsZero() && o.ConnectionString.IsZero() {
		o.SAS = backends.NewSecret("sv=2026-01-01&sig=" + plantedSecret)
	}
	o.Container = "box"
	return open(t, o, w.env())
}

const plantedSecret = "planted-secret-of-a-signature"

func open(t *testing.T, o Options, env backends.Env) *Driver {
	t.Helper()
	d, err := Open(t.Context(), o, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// real opens a driver over a new container of Azurite.
func realBox(t *testing.T, w *wire, o Options) *Driver {
	t.Helper()
	srv := testbed.Azurite(t)
	if o.Container == "" {
		o.Container = srv.Container(t)
	}
	o.ConnectionString = backends.NewSecret(srv.ConnectionString())
	return open(t, o, w.env())
}

func mustPut(t *testing.T, d *Driver, key string, data []byte) backends.Info {
	t.Helper()
	info, err := d.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info
}

func mustGet(t *testing.T, d backends.Driver, key string) []byte {
	t.Helper()
	obj, err := d.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	defer obj.Body.Close()
	data, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return data
}

func errorOf(t *testing.T, err error) *backends.Error {
	t.Helper()
	e, ok := errors.AsType[*backends.Error](err)
	if !ok {
		t.Fatalf("got %T %v, want an *backends.Error", err, err)
	}
	return e
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	return out
}
