package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

func netCases() []Case {
	endpoint := []Facility{UsesEndpoint}
	return []Case{
		{ID: "net/refused", Rule: "A server that refuses connections is Unavailable, and the error names its host and port.", Needs: overHTTP, Uses: endpoint, Run: netRefused},
		{ID: "net/unresolvable", Rule: "A host name that nobody knows is Unavailable or InvalidArgument, never NotFound.", Needs: overHTTP, Uses: endpoint, Run: netUnresolvable},
		{
			ID: "net/blackhole", Rule: "An address that does not answer at all costs no more than the connect timeout an attempt.", Needs: overHTTP,
			Uses: []Facility{UsesEndpoint, UsesTimeouts, UsesAttempts}, Run: netBlackhole,
		},
		{
			ID: "net/down-then-up", Rule: "A server that was away, between operations or during one, is used again when it is back.", Needs: overHTTP,
			Uses: []Facility{UsesPlainServer}, Run: netDownUp,
		},
		{ID: "net/proxy-env", Rule: "Connections go through the proxy that the environment names, unless the settings say otherwise.", Level: Driver, Needs: overHTTP, Run: netProxyEnv},
		{ID: "net/redirect-strips-auth", Rule: "A redirect to another host gets no credentials.", Needs: overHTTP, Uses: endpoint, Run: netRedirect},
	}
}

func tlsCases() []Case {
	endpoint := []Facility{UsesEndpoint, UsesCAFile}
	return []Case{
		{ID: "tls/untrusted", Rule: "A certificate of an unknown authority is a permanent error after one handshake, and the error says so.", Needs: overHTTP, Uses: endpoint, Run: tlsUntrusted},
		{ID: "tls/custom-ca", Rule: "A certificate of an authority that the settings name is accepted.", Needs: overHTTP, Uses: endpoint, Run: tlsCustom},
		{ID: "tls/wrong-host", Rule: "A certificate for another host is a permanent error after one handshake.", Needs: overHTTP, Uses: endpoint, Run: tlsWrongHost},
		{ID: "tls/handshake-cut", Rule: "A connection that is closed during the handshake is Unavailable, and tried again.", Needs: overHTTP, Uses: endpoint, Run: tlsCut},
		{ID: "tls/expired", Rule: "An expired certificate is a permanent error, which tells the times that do not fit.", Needs: overHTTP, Uses: endpoint, Run: tlsExpired},
	}
}

// at opens a client to another server and calls Stat. Both may fail.
func (b *Bench) at(url string, more map[string]string) error {
	over := b.r.h.Knobs.Endpoint(url)
	for k, v := range more {
		over[k] = v
	}
	if b.r.h.Knobs.RetryDelay != nil {
		for k, v := range b.r.h.Knobs.RetryDelay(10 * time.Millisecond) {
			over[k] = v
		}
	}
	c, err := b.Open(b.t.ctx, ClientOptions{Override: over})
	if err != nil {
		return err
	}
	_, err = c.Stat(b.t.ctx, "k")
	return err
}

// listen is a listener on a loopback port, closed with the case.
func (b *Bench) listen() net.Listener {
	l, err := new(net.ListenConfig).Listen(b.t.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatalf("listen: %v", err)
	}
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

func netRefused(t T, b *Bench) {
	l := b.listen()
	addr := l.Addr().String()
	_ = l.Close() // nobody listens there now
	err := b.at("http://"+addr, nil)
	if !errors.Is(err, backends.Unavailable) {
		t.Errorf("stat where nobody listens: %s, want unavailable", shown(err))
	}
	if !strings.Contains(shown(err), addr) {
		t.Errorf("want an error that names %s, got %v", addr, err)
	}
}

func netUnresolvable(t T, b *Bench) {
	more := map[string]string{}
	if b.r.h.Knobs.Attempts != nil {
		more = b.r.h.Knobs.Attempts(1) // a resolver may take its time
	}
	err := b.at("http://no-such-host.invalid:9", more)
	if code := backends.CodeOf(err); code != backends.Unavailable && code != backends.InvalidArgument && code != backends.Timeout {
		t.Errorf("stat at a host that does not exist: %s, want unavailable or invalid_argument", shown(err))
	}
}

func netBlackhole(t T, b *Bench) {
	more := b.r.h.Knobs.Timeouts(300 * time.Millisecond)
	for k, v := range b.r.h.Knobs.Attempts(2) {
		more[k] = v
	}
	addr, end, err := fault.Unanswered(t.Context())
	if err != nil {
		t.Fatalf("an address that does not answer: %v", err)
	}
	t.Cleanup(end)
	done := make(chan struct{})
	go func() { defer close(done); err = b.at("http://"+addr, more) }()
	b.Wait(done, "the end of a call whose connections get no answer")
	if !backends.CodeOf(err).Temporary() {
		t.Errorf("stat at an address that does not answer: %s, want timeout or unavailable", shown(err))
	}
}

func netDownUp(t T, b *Bench) {
	p, err := fault.NewProxy(t.Context(), b.r.h.plainServer(), nil)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	t.Cleanup(p.Close)
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.Endpoint("http://" + p.Addr())})
	c.Write("k", []byte("before"))
	p.Refuse(true)
	p.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), b.Prompt())
	defer cancel()
	if _, err := c.Stat(ctx, "k"); err == nil || !backends.CodeOf(err).Temporary() && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stat while the server is away: %s, want something temporary", shown(err))
	}
	p.Refuse(false)
	c.Holds("k", []byte("before"))
	body := newGate(t, b.Bytes(2*b.part()), b.part()+10)
	returned := make(chan error, 1)
	go func() {
		_, err := c.Put(t.Context(), "k2", body, backends.PutOptions{Size: int64(len(body.data))})
		returned <- err
	}()
	b.Wait(body.reached, "the middle of the body")
	p.CutAll() // connections are gone, the server is there
	close(body.open)
	if err := <-returned; err != nil {
		t.Errorf("put during which the connections were cut: got %v, want success", err)
		return
	}
	c.Holds("k2", body.data)
}

// netProxyEnv looks at the transport below the driver: the rules of the environment are those of net/http, which reads it once per process and never
// has a proxy for loopback addresses. Then a proxy takes their place: no connection of the driver's may go around it.
func netProxyEnv(t T, b *Bench) {
	var found atomic.Pointer[http.Transport]
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		if tr, ok := next.(*http.Transport); ok {
			found.Store(tr)
		}
		return next
	})
	c := b.ClientWith(ClientOptions{})
	tr := found.Load()
	if tr == nil {
		t.Logf("the driver's transport is not an *http.Transport: what it does about proxies cannot be seen")
		return
	}
	if tr.Proxy == nil || reflect.ValueOf(tr.Proxy).Pointer() != reflect.ValueOf(http.ProxyFromEnvironment).Pointer() {
		t.Errorf("the transport's Proxy: got another one, want http.ProxyFromEnvironment")
	}
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || r.URL.IsAbs() {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(proxy.Close)
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	tr.Proxy = http.ProxyURL(to) // before its first connection
	if _, err := c.Stat(t.Context(), "k"); err == nil || asked.Load() == 0 {
		t.Errorf("stat through a proxy that finds nothing: got %s and %d requests to the proxy, want an error and some", shown(err), asked.Load())
	}
}

func netRedirect(t T, b *Bench) {
	var second, secrets atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		second.Add(1)
		q := r.URL.Query()
		if r.Header.Get("Authorization") != "" || q.Has("sig") || q.Has("X-Amz-Signature") || q.Has("access_token") {
			secrets.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(first.Close)
	if err := b.at(first.URL, nil); err == nil {
		t.Errorf("stat that was sent elsewhere, where there is nothing: got success, want an error")
	}
	if n := secrets.Load(); n > 0 {
		t.Errorf("got %d of %d requests with credentials that followed a redirect to another host, want none", n, second.Load())
	}
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func (b *Bench) authority() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.t.Fatalf("key: %v", err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance authority"}, NotBefore: b.Now().Add(-100 * time.Hour), NotAfter: b.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		b.t.Fatalf("certificate: %v", err)
	}
	a := &authority{cert, key, filepath.Join(b.t.TempDir(), "ca.pem")}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		b.t.Fatalf("%v", err)
	}
	return a
}

// secure is a server with a certificate, and what it has seen.
type secure struct {
	url        string
	requests   atomic.Int64
	handshakes atomic.Int64
}

func (b *Bench) secure(a *authority, ip net.IP, until time.Time) *secure {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.t.Fatalf("key: %v", err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: b.Now().Add(-50 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{ip},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		b.t.Fatalf("certificate: %v", err)
	}
	s := new(secure)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // to the end, whatever it is
		w.WriteHeader(http.StatusNotFound)
	}))
	srv.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.handshakes.Add(1)
			return nil, nil //nolint:nilnil // the configuration as it is
		},
	}
	srv.Config.ErrorLog = quiet()
	srv.StartTLS()
	b.t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

var loopback = net.IPv4(127, 0, 0, 1)

// refusesTLS checks a permanent error after one handshake.
func refusesTLS(t T, b *Bench, s *secure, more map[string]string) error {
	err := b.at(s.url, more)
	if err == nil || backends.CodeOf(err).Temporary() || backends.CodeOf(err) == backends.NotFound || backends.CodeOf(err) == backends.Unknown {
		t.Errorf("stat: %s, want a permanent error", shown(err))
	}
	if n := s.handshakes.Load(); n != 1 {
		t.Errorf("%d handshakes, want one: nothing gets better by trying again", n)
	}
	if n := s.requests.Load(); n > 0 {
		t.Errorf("got %d requests to a server that is not trusted, want none", n)
	}
	if !strings.Contains(shown(err), "certificate") {
		t.Errorf("got %v, want an error that says that it is about the certificate", err)
	}
	return err
}

func tlsUntrusted(t T, b *Bench) {
	_ = refusesTLS(t, b, b.secure(b.authority(), loopback, b.Now().Add(time.Hour)), nil) // its text is looked at there
}

func tlsCustom(t T, b *Bench) {
	a := b.authority()
	s := b.secure(a, loopback, b.Now().Add(time.Hour))
	err := b.at(s.url, b.r.h.Knobs.CAFile(a.file))
	if s.requests.Load() == 0 {
		t.Errorf("got no request at a server whose authority the settings name, want one: %s", shown(err))
	}
}

func tlsWrongHost(t T, b *Bench) {
	a := b.authority()
	_ = refusesTLS(t, b, b.secure(a, net.IPv4(127, 0, 0, 9), b.Now().Add(time.Hour)), b.r.h.Knobs.CAFile(a.file)) // its text is looked at there
}

func tlsExpired(t T, b *Bench) {
	a := b.authority()
	err := refusesTLS(t, b, b.secure(a, loopback, b.Now().Add(-time.Hour)), b.r.h.Knobs.CAFile(a.file))
	if !strings.Contains(shown(err), "expired") || !strings.Contains(shown(err), "current time") {
		t.Errorf("got %v, want an error that tells which times do not fit", err)
	}
}

func tlsCut(t T, b *Bench) {
	l := b.listen()
	var conns atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			_, _ = c.Read(make([]byte, 100)) // the beginning of the handshake
			_ = c.Close()                    // is all it gets
		}
	}()
	err := b.at("https://"+l.Addr().String(), nil)
	_ = l.Close() // ends the loop
	<-done
	if !errors.Is(err, backends.Unavailable) {
		t.Errorf("stat with handshakes that are cut: %s, want unavailable", shown(err))
	}
	if n := conns.Load(); n < 2 {
		t.Errorf("%d connections were tried, want more than one", n)
	}
}
