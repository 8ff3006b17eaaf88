package drivers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/conformance/fault/gcsserver"
)

// broken is a driver with a bug around a good one.
type broken struct {
	backends.Driver
	noErrors, noContext, shortIsWhole, wrongCode bool
}

func (b *broken) ctx(ctx context.Context) context.Context {
	if b.noContext {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// err spoils errors of the store, not those of a body or a context.
func (b *broken) err(err error) error {
	if _, ok := errors.AsType[*backends.Error](err); !ok || errors.Is(err, backends.NotFound) {
		return err
	}
	switch {
	case b.noErrors:
		return nil
	case b.wrongCode:
		return &backends.Error{Code: backends.Internal, Err: errors.New("something")}
	}
	return err
}

func (b *broken) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	info, err := b.Driver.Put(b.ctx(ctx), key, body, o)
	return info, b.err(err)
}

func (b *broken) Get(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
	obj, err := b.Driver.Get(b.ctx(ctx), key, o)
	if err != nil {
		if err = b.err(err); err == nil {
			return &backends.Object{Body: io.NopCloser(strings.NewReader("")), Info: backends.Info{Key: key}}, nil
		}
		return nil, err
	}
	if b.shortIsWhole {
		obj.Body = &lenient{obj.Body}
	}
	return obj, nil
}

func (b *broken) Stat(ctx context.Context, key string) (backends.Info, error) {
	info, err := b.Driver.Stat(b.ctx(ctx), key)
	return info, b.err(err)
}

func (b *broken) Delete(ctx context.Context, key string) error {
	return b.err(b.Driver.Delete(b.ctx(ctx), key))
}

func (b *broken) List(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
	page, err := b.Driver.List(b.ctx(ctx), o)
	return page, b.err(err)
}

// lenient takes a stream that breaks for one that ends.
type lenient struct{ io.ReadCloser }

func (l *lenient) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// sabotages are bugs, and the cases that have to see each.
func sabotages() map[string]sabotage {
	return map[string]sabotage{
		"nothing is tried again": {
			func(h *conformance.Harness) { h.Knobs.Attempts = attempts(func(int) int { return 1 }) },
			`^(fault/(5xx-once|throttle-once|drop-request|reset-mid-request|html-502)/|fault/(drop-response|reset-mid-response|truncate|clean-eof)/(stat|list|delete|resumable.begin|resumable.chunk)/|` +
				`retry/(budget|recovers-after-n)/|throttle/|stall/(headers|upload-body)/)`,
		},
		"everything is tried thrice as often": {
			func(h *conformance.Harness) { h.Knobs.Attempts = attempts(func(n int) int { return 3 * n }) },
			`^(fault/(5xx-forever|throttle-forever)/|retry/budget/)`,
		},
		"errors are swallowed": {
			func(h *conformance.Harness) { spoiled(h, broken{noErrors: true}) },
			`^(fault/(5xx-forever|throttle-forever|permanent-4xx|200-with-error|garbage-body)/|mpu/(abort-leaves-nothing|ambiguous-not-committed)/|err/(codes|has-request-id-status|wrapped-once|body-not-xml)/|` +
				`sum/upload|retry/(budget|not-on-permanent|retry-after)/)`,
		},
		"errors have the wrong code": {
			func(h *conformance.Harness) { spoiled(h, broken{wrongCode: true}) },
			`^(fault/(5xx-forever|throttle-forever|200-with-error)/|err/(codes|has-request-id-status|temporary|body-not-xml)/|mpu/ambiguous-not-committed/|stall/headers/|retry/(budget|retry-after)/)`,
		},
		"the context is not looked at": {
			func(h *conformance.Harness) { spoiled(h, broken{noContext: true}) },
			`^(ctx/cancel-at-each-step/|ctx/cancel-in-the-body/driver)`,
		},
		"a stream that breaks ends": {
			func(h *conformance.Harness) { spoiled(h, broken{shortIsWhole: true}) },
			`^resume/not-by-the-driver/`,
		},
		"an attempt has a deadline": { // of the timeout that holds for silence
			hurried, `^fault/slow-link/(put|get|list|resumable.chunk|resumable.commit|auth.token)/`,
		},
	}
}

// sabotage is a bug, and the runs that have to see it.
type sabotage struct {
	spoil func(h *conformance.Harness)
	cases string
}

func attempts(f func(n int) int) func(n int) map[string]string {
	return func(n int) map[string]string {
		return map[string]string{"storage.gcs.max.attempts": strconv.Itoa(f(n))}
	}
}

// spoiled opens drivers with a bug, but for those without overrides, with which the suite looks at what is there.
func spoiled(h *conformance.Harness, b broken) {
	open := h.Open
	h.Open = func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
		d, err := open(ctx, o)
		if _, under := o.Override["storage.gcs.max.attempts"]; err != nil || !under {
			return d, err
		}
		b := b
		b.Driver = d
		return &b, nil
	}
}

// hurried opens drivers whose attempts end after 2 s, the answer's body included.
func hurried(h *conformance.Harness) {
	open := h.Open
	h.Open = func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
		wrap := o.Env.WrapTransport
		o.Env.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return hurry{wrap(next)} }
		return open(ctx, o)
	}
}

type hurry struct{ next http.RoundTripper }

func (h hurry) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	resp, err := h.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &hurriedBody{resp.Body, cancel}
	return resp, nil
}

type hurriedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *hurriedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// TestFaultCases_SeeABrokenDriver: each case that is named must fail; on the clean driver TestGCSOnOwnServer shows that they pass.
func TestFaultCases_SeeABrokenDriver(t *testing.T) {
	for name, s := range sabotages() {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(gcsserver.New("box"))
			t.Cleanup(srv.Close)
			h := onGCS(srv.URL, "box")
			h.Open, h.Shared, h.Scale, h.Only = conformance.FromFactory(*h.Factory, h.Settings), true, conformance.Full, regexp.MustCompile(s.cases)
			h.Limits.OpTimeout, h.Limits.CaseTimeout = 2*time.Second, 10*time.Second
			s.spoil(&h)
			n := 0
			if err := conformance.Report(t.Context(), h, func(r conformance.Result) {
				switch r.Outcome {
				case conformance.Skip:
				case conformance.Fail:
					n++
					if strings.Contains(r.String(), "could not be learned") {
						t.Errorf("%s fails for another reason: %s", r.Name(), r)
					}
				case conformance.Pass, conformance.Deviates:
					t.Errorf("%s does not see it", r.Name())
				}
			}); err != nil {
				t.Error(err)
			}
			if n == 0 {
				t.Error("no case ran")
			}
			t.Logf("%d runs fail", n)
		})
	}
}
