package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// retryCases are about attempts: how many, how far apart, when none.
func retryCases() []Case {
	uses := []Facility{UsesFaults, UsesAttempts, UsesRetryDelay}
	return []Case{
		{ID: "retry/budget", Rule: "A request that fails for ever is sent as often as the attempts allow, by one layer, and no more.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: retryBudget},
		{ID: "retry/recovers-after-n", Rule: "A request that fails one time less than the attempts allow succeeds.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: retryRecovers},
		{ID: "retry/not-on-permanent", Rule: "An answer that will not change is not asked for again.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: retryPermanent},
		{ID: "retry/not-after-cancel", Rule: "A call that the caller gives up in a pause between attempts ends at once, and sends nothing more.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: retryCancelled},
		{ID: "retry/retry-after", Rule: "The error of a call that the store throttles tells how long the store wants to be left alone.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.List, Run: retryAfterTold},
		{
			ID: "retry/backoff-jitter", Rule: "Pauses between attempts are different for everyone, none is longer than allowed, the store's wish to be left alone counts as far as that, and the caller's context ends one.",
			Level: Driver, Needs: overHTTP, Uses: []Facility{UsesDialect, UsesAttempts, UsesRetryDelay, UsesGoTest}, Run: retryJitter,
		},
		{ID: "throttle/503-slowdown-burst", Rule: "When every other request is throttled, all calls still succeed.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Put, Run: throttleBurst},
		{ID: "fault/random", Rule: "Whatever failures meet a mixed load: calls succeed or fail in a way that is true of the store, and nothing is left.", Level: Store, Needs: overHTTP, Uses: append(uses, UsesTimeouts), Step: fault.Put, Scale: Full, Run: randomFaults},
	}
}

func retryBudget(t T, b *Bench) {
	for _, n := range []int{1, 2, 4} {
		f := newFaulty(t, b, faultOptions{attempts: n})
		for _, step := range []string{fault.Stat, fault.List, fault.Get, fault.Delete, fault.Put} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: fault.Status{Kind: fault.Unavailable}})
			if got := out.count(step); got != n || backends.CodeOf(out.err) != backends.Unavailable {
				t.Errorf("%d attempts, %s: got %d requests and %s, want as many and unavailable", n, step, got, shown(out.err))
			}
			if e, ok := asError(out.err); !ok || e.Attempts != 0 && step != fault.Put && e.Attempts < n {
				t.Errorf("%d attempts, %s: got an error that tells of %d, want that many", n, step, e.Attempts)
			}
		}
	}
}

func retryRecovers(t T, b *Bench) {
	const attempts = 4
	f := newFaulty(t, b, faultOptions{attempts: attempts})
	for n := 1; n < attempts; n++ {
		for _, step := range []string{fault.Stat, fault.List, fault.Get, fault.Delete, fault.Put} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: n, Do: fault.Status{Kind: fault.Unavailable}})
			f.recovered(fmt.Sprintf("%s failed %d times", step, n), op, out, step, n)
			if got, want := out.count(step), f.b.r.steps.base[op.name].count(step)+n; got != want {
				t.Errorf("%s failed %d times: %d requests, want %d", step, n, got, want)
			}
		}
	}
}

func retryPermanent(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	for _, kind := range []fault.ErrorKind{fault.BadRequest, fault.Denied, fault.NotFound, fault.Precondition, fault.InvalidRange} {
		op := f.operationFor(fault.Get)
		out := f.try(op, fault.Rule{Step: fault.Get, Times: fault.Forever, Do: fault.Status{Kind: kind}})
		if n := out.count(fault.Get); n != 1 || out.err == nil {
			t.Errorf("%s: got %d requests and %s, want 1 and an error", kind, n, shown(out.err))
		}
	}
}

func retryCancelled(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{override: b.Harness().Knobs.RetryDelay(time.Hour), attempts: 100})
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Int64
	op := f.operationFor(fault.Stat)
	op.run = func(_ context.Context, f *faulty) error {
		_, err := f.c.Stat(ctx, faultKey)
		return err
	}
	out := f.try(op, fault.Rule{Step: fault.Stat, Times: fault.Forever, Do: fault.Hook{Name: "503, and cancel a little later", Do: func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		if seen.Add(1) == 1 {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		resp := b.Harness().Dialect.Error(fault.Stat, fault.Unavailable)
		resp.Request = r
		if r.Method == http.MethodHead {
			_ = resp.Body.Close() // a HEAD has none
			resp.Body = http.NoBody
		}
		return resp, nil
	}}})
	defer cancel()
	if !errors.Is(out.err, context.Canceled) || out.took > b.Prompt() {
		t.Errorf("got %v after %s, want context.Canceled at once", out.err, out.took)
	}
	n := seen.Load()
	if err := waitFor(t.Context(), 100*time.Millisecond); err != nil || seen.Load() != n {
		t.Errorf("got %d requests after the call had ended, want none; %v", seen.Load()-n, err)
	}
}

// waitFor lets time pass.
func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func retryAfterTold(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, after := range []time.Duration{0, time.Second, 7 * time.Second} {
		op := f.operationFor(fault.List)
		out := f.try(op, fault.Rule{Step: fault.List, Do: fault.Status{Kind: fault.SlowDown, RetryAfter: after}})
		if got := retryAfter(out.err); got != after || backends.CodeOf(out.err) != backends.Throttled {
			t.Errorf("Retry-After of %s: got %s with RetryAfter %s, want throttled with the same", after, shown(out.err), got)
		}
	}
}

func throttleBurst(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 12})
	var n atomic.Int64
	f.plan.Add(fault.Rule{Times: fault.Forever, Do: fault.Hook{Name: "every other one is throttled", Do: func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if n.Add(1)%2 == 0 {
			return next.RoundTrip(r)
		}
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper does
		}
		resp := b.Harness().Dialect.Error(b.Harness().Dialect.Step(r), fault.SlowDown)
		resp.Request = r
		return resp, nil
	}}})
	for i := range Pick(b, 10, 100) {
		data := b.Bytes(100 + i)
		f.c.Write(faultKey, data)
		f.c.Holds(faultKey, data)
		if !slices.Contains(f.c.Keys(faultKey), faultKey) {
			t.Errorf("the listing: got it without %q, want it there", faultKey)
		}
	}
	f.plan.Stop()
}
