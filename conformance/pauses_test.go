package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// patience is a driver with one call and one place that pauses.
type patience struct {
	backends.Driver
	rt       http.RoundTripper
	attempts int
	pause    func(attempt int, wish time.Duration) time.Duration
	deaf     bool // to its context
}

func (p *patience) Properties() backends.Properties {
	return backends.Properties{Name: "patience", HTTP: true}
}
func (p *patience) Close() error { return nil }

func (p *patience) Stat(ctx context.Context, _ string) (backends.Info, error) {
	waits := ctx
	if p.deaf {
		waits = context.WithoutCancel(ctx)
	}
	for i := 1; ; i++ {
		r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodHead, "http://store/box/k", nil)
		if err != nil {
			return backends.Info{}, err
		}
		resp, err := p.rt.RoundTrip(r)
		if err != nil {
			return backends.Info{}, err
		}
		_ = resp.Body.Close() // in memory
		if i == p.attempts {
			return backends.Info{}, &backends.Error{Code: backends.Unavailable, Err: errors.New(resp.Status)}
		}
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err := waitFor(waits, p.pause(i, time.Duration(n)*time.Second)); err != nil {
			return backends.Info{}, err
		}
	}
}

// stupid is a dialect in which everything is a Stat.
type stupid struct{}

func (stupid) Step(*http.Request) string { return fault.Stat }
func (stupid) Error(string, fault.ErrorKind) *http.Response {
	return fault.NewResponse(http.StatusServiceUnavailable, "")
}

// TestRetryJitter_SeesWrongPauses: no mutant can be killed by this case, which needs go test; so it is held against wrong drivers here.
func TestRetryJitter_SeesWrongPauses(t *testing.T) {
	good := func(longest time.Duration) func(int, time.Duration) time.Duration {
		return func(attempt int, wish time.Duration) time.Duration {
			most := min(200*time.Millisecond<<min(attempt, 20), longest)
			return max(most/2+rand.N(most/2+1), min(wish, longest))
		}
	}
	for name, tc := range map[string]struct {
		pause func(longest time.Duration) func(attempt int, wish time.Duration) time.Duration
		deaf  bool
		want  string // "": it passes
	}{
		"good": {good, false, ""},
		"equal for all": {func(longest time.Duration) func(int, time.Duration) time.Duration {
			return func(attempt int, wish time.Duration) time.Duration {
				return max(min(200*time.Millisecond<<attempt, longest), min(wish, longest))
			}
		}, false, "come back together"},
		"none": {func(time.Duration) func(int, time.Duration) time.Duration {
			return func(_ int, wish time.Duration) time.Duration { return wish }
		}, false, "pause 1: got 0s"},
		"without a bound": {func(time.Duration) func(int, time.Duration) time.Duration { return good(time.Hour) }, false, "9 attempts: got the pauses"},
		"deaf to wishes": {func(longest time.Duration) func(int, time.Duration) time.Duration {
			return func(attempt int, _ time.Duration) time.Duration { return good(longest)(attempt, 0) }
		}, false, "left alone for 7s"},
		"as long as is wished": {func(longest time.Duration) func(int, time.Duration) time.Duration {
			return func(attempt int, wish time.Duration) time.Duration {
				return max(good(longest)(attempt, 0), wish)
			}
		}, false, "left alone for an hour"},
		"deaf to the context": {good, true, "want the end of its context after 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			h := Harness{Seed: 1, Shared: true, Dialect: stupid{}, Knobs: Knobs{
				Attempts:   func(n int) map[string]string { return map[string]string{"attempts": strconv.Itoa(n)} },
				RetryDelay: func(d time.Duration) map[string]string { return map[string]string{"longest": d.String()} },
			}}
			h.Open = func(_ context.Context, o OpenOptions) (backends.Driver, error) {
				n, _ := strconv.Atoi(o.Override["attempts"])
				longest, _ := time.ParseDuration(o.Override["longest"])
				return &patience{rt: o.Env.WrapTransport(http.DefaultTransport), attempts: n, pause: tc.pause(longest), deaf: tc.deaf}, nil
			}
			r, err := prepare(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(Cases(), func(c Case) bool { return c.ID == "retry/backoff-jitter" })
			ct := newCaseT(t.Context())
			ct.tt = t
			b := r.bench(ct.ctx, job{c: Cases()[i], l: Driver}, ct)
			ct.guard(func() { Cases()[i].Run(ct, b) })
			got, _ := ct.end()
			if text := strings.Join(got, "\n"); (tc.want == "") != (text == "") || !strings.Contains(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
			ct.cancel()
		})
	}
}
