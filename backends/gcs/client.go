package gcs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/internal/transport"
)

// Pauses between attempts.
const (
	retryDelay        = 200 * time.Millisecond // the first
	defaultRetryDelay = 5 * time.Second        // the longest
)

func (o *Options) newTransport(env backends.Env) (*transport.Transport, error) {
	t, err := transport.New(transport.Options{
		MaxIdle: o.MaxConns, MaxConns: o.MaxConns, ConnectTimeout: o.ConnectTimeout, HeaderTimeout: o.ResponseTimeout, StallTimeout: o.StallTimeout,
		CAFile: o.CAFile, SkipVerify: o.SkipVerify, Proxy: o.Proxy, Wrap: env.WrapTransport,
	})
	if err != nil {
		return nil, &backends.Error{Code: backends.InvalidArgument, Err: settings.Problemf(keyCAFile, o.CAFile, "%v", err)}
	}
	return t, nil
}

// newClient makes the SDK's client: JSON over HTTP/1.1, signed by us, so that token requests and all others take the same way. Given an HTTP client
// and an endpoint it looks neither for credentials nor at STORAGE_EMULATOR_HOST.
func (o *Options) newClient(ctx context.Context, t http.RoundTripper, s *source, env backends.Env) (*storage.Client, error) {
	endpoint, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	rt := &streams{next: &signer{next: answers{httpstore.Transport{Next: t, Patience: o.RetryDelay}}, source: s, agent: env.UserAgent}}
	client := &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c, err := storage.NewClient(ctx, option.WithHTTPClient(client), option.WithEndpoint(endpoint), option.WithoutAuthentication(), storage.WithJSONReads())
	if err != nil {
		return nil, err
	}
	// Without limits the SDK tries for ever. Always: a Put that is repeated stores the same bytes, a Delete deletes what is to be gone.
	c.SetRetry(
		storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(o.MaxAttempts), storage.WithMaxRetryDuration(o.RetryDeadline),
		storage.WithBackoff(gax.Backoff{Initial: min(retryDelay, o.RetryDelay), Max: o.RetryDelay, Multiplier: 2}), storage.WithErrorFunc(retryable),
	)
	return c, nil
}

// retryable is the SDK's question whether to try again. It goes by types, where the SDK's own answer looks for texts.
func retryable(err error) bool {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return codeOf(decoded(e), stepGet).Temporary()
	}
	if e, ok := errors.AsType[*auth.Error](err); ok {
		return isTemporary(e)
	}
	if e, ok := errors.AsType[*backends.Error](err); ok { // ours: see answers
		return e.Code.Temporary()
	}
	code, _ := httpstore.NetworkCode(err)
	return code.Temporary()
}

// streams sees to what the SDK does with the answers to a Get. It asks for the bytes as they are stored, so that the service decompresses nothing;
// the SDK's ReadCompressed does not work together with its WithJSONReads (storage v1.70.0: "custom Accept-Encoding headers not allowed"). And it keeps the SDK from opening broken answers of its own accord, without a bound: to it, a body that breaks just ends. What happened is kept
// for the one who reads.
type streams struct{ next http.RoundTripper }

var _ http.RoundTripper = (*streams)(nil)

type brokenKey struct{}

// broken is how the body of a Get has broken.
type broken struct {
	mu  sync.Mutex
	err error
}

func (b *broken) get() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *broken) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// RoundTrip implements http.RoundTripper.
func (s *streams) RoundTrip(req *http.Request) (*http.Response, error) {
	b, ok := req.Context().Value(brokenKey{}).(*broken)
	if !ok {
		return s.next.RoundTrip(req)
	}
	out := req.Clone(req.Context())
	out.Header.Set("Accept-Encoding", "gzip")
	resp, err := s.next.RoundTrip(out)
	if err == nil && resp.StatusCode < 300 {
		resp.Body = &ending{resp.Body, b}
	}
	return resp, err
}

type ending struct {
	io.ReadCloser
	broken *broken
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		e.broken.set(err)
		return n, io.EOF
	}
	return n, err
}
