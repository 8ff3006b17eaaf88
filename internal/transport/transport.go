package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Options of a Transport. The zero value is usable.
type Options struct {
	MaxIdle        int           // connections kept open per host; 0: 40
	MaxConns       int           // connections per host; 0: no bound
	ConnectTimeout time.Duration // 0: 5 s
	HeaderTimeout  time.Duration // from the request's last byte to the answer's first; 0: 30 s
	StallTimeout   time.Duration // without a byte in either direction; four times as long has to bring leastRate on average; 0: 30 s
	AttemptTimeout time.Duration // from the start to the answer's header; 0: none

	RootCAs    *x509.CertPool // nil: those of the system
	CAFile     string         // PEM, added to RootCAs
	SkipVerify bool           // takes any certificate
	Proxy      *url.URL       // http, https, socks5 or socks5h, with user and password; nil: as the environment says

	Now func() time.Time // nil: time.Now

	// Wrap stands between the watch and the network: metrics, faults. Nil: nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Defaults of Options, for reference pages.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultHeaderTimeout  = 30 * time.Second
	DefaultStallTimeout   = 30 * time.Second
	defaultMaxIdle        = 40
	tlsTimeout            = 10 * time.Second
	idleTimeout           = 90 * time.Second
)

// Transport is an http.RoundTripper.
type Transport struct {
	next    http.RoundTripper
	base    *http.Transport
	stall   time.Duration
	header  time.Duration
	attempt time.Duration
	now     func() time.Time
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport. It reads CAFile.
func New(o Options) (*Transport, error) {
	or := func(d, fallback time.Duration) time.Duration {
		if d <= 0 {
			return fallback
		}
		return d
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs, InsecureSkipVerify: o.SkipVerify} //nolint:gosec // a setting, and warned about
	if o.CAFile != "" {
		pool, err := withCA(o.RootCAs, o.CAFile)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = pool
	}
	proxy := http.ProxyFromEnvironment
	if o.Proxy != nil {
		proxy = http.ProxyURL(o.Proxy)
	}
	if o.MaxIdle <= 0 {
		o.MaxIdle = defaultMaxIdle
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &Transport{stall: or(o.StallTimeout, DefaultStallTimeout), header: or(o.HeaderTimeout, DefaultHeaderTimeout), attempt: o.AttemptTimeout, now: o.Now}
	if t.now == nil {
		t.now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	t.base = &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: or(o.ConnectTimeout, DefaultConnectTimeout), KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       conf,
		TLSHandshakeTimeout:   tlsTimeout,
		MaxIdleConnsPerHost:   o.MaxIdle,
		MaxConnsPerHost:       o.MaxConns,
		IdleConnTimeout:       idleTimeout,
		ResponseHeaderTimeout: t.header,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		Protocols:             protocols,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}
	t.next = t.base
	if o.Wrap != nil {
		t.next = o.Wrap(t.base)
	}
	return t, nil
}

func withCA(base *x509.CertPool, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := base
	if pool == nil {
		if pool, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("certificates of the system: %w", err)
		}
	} else {
		pool = pool.Clone()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return pool, nil
}

// CloseIdleConnections closes what is not in use.
func (t *Transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// TimeoutError is a request that this package has ended.
type TimeoutError struct {
	What  string
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("%s for %s", e.What, e.After) }

// Timeout makes it a net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary makes it a net.Error.
func (e *TimeoutError) Temporary() bool { return true }

var _ net.Error = (*TimeoutError)(nil)

// Count is what became of the requests of one call: see WithCount.
type Count struct {
	Requests int // given to the transport
	Unsent   int // of these: no connection was made, so that the server knows nothing of them
}

type countKey struct{}

// WithCount returns a context whose requests are counted in c. One goroutine at a time sends requests with it.
func WithCount(ctx context.Context, c *Count) context.Context {
	return context.WithValue(ctx, countKey{}, c)
}

// Requests returns how many requests were sent with a context of WithCount.
func Requests(ctx context.Context) int {
	if c, ok := ctx.Value(countKey{}).(*Count); ok {
		return c.Requests
	}
	return 0
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	count, _ := req.Context().Value(countKey{}).(*Count)
	if count == nil {
		count = new(Count)
	}
	count.Requests++
	ctx, cancel := context.WithCancelCause(req.Context())
	w := newWatch(t.stall, t.now, cancel)
	out := req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = &sending{ReadCloser: req.Body, w: w, tail: t.stall + t.header}
	}
	var whole *time.Timer
	if t.attempt > 0 {
		whole = time.AfterFunc(t.attempt, func() { cancel(&TimeoutError{"no answer to a request", t.attempt}) })
	}
	resp, err := t.next.RoundTrip(out)
	if whole != nil {
		whole.Stop()
	}
	w.stop()
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			count.Unsent++
		}
		err = w.explain(ctx, err)
		cancel(nil)
		return nil, err
	}
	left := resp.ContentLength
	if req.Method == http.MethodHead {
		left = 0
	}
	resp.Body = &receiving{ReadCloser: resp.Body, ctx: ctx, w: w, cancel: cancel, left: left}
	return resp, nil
}
