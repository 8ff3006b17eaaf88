package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/conformance/fault"
)

// retryJitter measures pauses in virtual time, in which a busy machine cannot make them longer, or different.
func retryJitter(t T, b *Bench) {
	synctest.Test(b.t.tt, func(tt *testing.T) {
		p := &pauses{t: t, b: b, ctx: tt.Context()}
		p.spread()
		p.capped()
		p.wished()
		p.givenUp()
	})
}

// pauses opens clients whose requests are all refused at once.
type pauses struct {
	t   T
	b   *Bench
	ctx context.Context // of the time that passes in the case
}

// refused is one call.
type refused struct {
	gaps []time.Duration // between its requests
	err  error
	took time.Duration
}

func (p *pauses) call(ctx context.Context, attempts int, longest time.Duration, do fault.Action) refused {
	p.t.Helper()
	plan := fault.NewPlan(p.b.Harness().Dialect, fault.Rule{Times: fault.Forever, Do: do})
	k := p.b.Harness().Knobs
	o := p.b.open(ClientOptions{Override: merged(k.Attempts(attempts), k.RetryDelay(longest))})
	o.Env.WrapTransport = plan.Wrap // no request gets to a network: a wait for one would stop the clock
	d, err := p.b.r.h.Open(p.ctx, o)
	if err != nil {
		p.t.Fatalf("open a client: got %v, want success", err)
	}
	began := p.b.Now()
	_, err = d.Stat(ctx, p.b.Prefix()+"k")
	out := refused{err: err, took: p.b.Now().Sub(began)}
	if err := d.Close(); err != nil {
		p.t.Errorf("close: got %v, want success", err)
	}
	log := plan.Log()
	for i := 1; i < len(log); i++ {
		out.gaps = append(out.gaps, log[i].At.Sub(log[i-1].At))
	}
	return out
}

// spread: those who failed together do not come back together.
func (p *pauses) spread() {
	const clients, attempts, longest = 8, 5, time.Minute
	at := make([][]time.Duration, attempts-1)
	for range clients {
		got := p.call(p.ctx, attempts, longest, fault.Status{Kind: fault.Unavailable})
		if len(got.gaps) != attempts-1 {
			p.t.Fatalf("%d attempts: got %d pauses, want one fewer than attempts: %v, %s", attempts, len(got.gaps), got.gaps, shown(got.err))
		}
		for i, gap := range got.gaps {
			at[i] = append(at[i], gap)
			if gap <= 0 || gap > longest {
				p.t.Errorf("pause %d: got %s, want at most %s, and some", i+1, gap, longest)
			}
		}
	}
	for i, gaps := range at {
		slices.Sort(gaps)
		if len(slices.Compact(slices.Clone(gaps))) < clients/2 {
			p.t.Errorf("pause %d of %d clients: got %v, want different ones: they come back together", i+1, clients, gaps)
		}
	}
}

func (p *pauses) capped() {
	const longest = 300 * time.Millisecond
	got := p.call(p.ctx, 9, longest, fault.Status{Kind: fault.Unavailable})
	if len(got.gaps) != 8 || slices.Max(got.gaps) > longest {
		p.t.Errorf("9 attempts: got the pauses %v, want 8 of at most %s", got.gaps, longest)
	}
}

// wished: Retry-After counts, but nobody can make a driver wait for an hour.
func (p *pauses) wished() {
	const wish, longest = 7 * time.Second, time.Minute
	got := p.call(p.ctx, 3, longest, fault.Status{Kind: fault.SlowDown, RetryAfter: wish})
	if len(got.gaps) != 2 || slices.Min(got.gaps) < wish || slices.Max(got.gaps) > longest {
		p.t.Errorf("the store wished to be left alone for %s: want 2 pauses of that at least, got %v", wish, got.gaps)
	}
	got = p.call(p.ctx, 3, wish, fault.Status{Kind: fault.SlowDown, RetryAfter: time.Hour})
	if got.took > 2*wish || len(got.gaps) > 0 && slices.Max(got.gaps) > wish {
		p.t.Errorf("the store wished to be left alone for an hour: want pauses of at most %s, got %v and a call of %s", wish, got.gaps, got.took)
	}
}

func (p *pauses) givenUp() {
	const after = 10 * time.Second
	ctx, cancel := context.WithTimeout(p.ctx, after)
	defer cancel()
	got := p.call(ctx, 100, time.Hour, fault.Status{Kind: fault.Unavailable})
	if !errors.Is(got.err, context.DeadlineExceeded) || got.took > after {
		p.t.Errorf("a call: want the end of its context after %s, got one after %s: %s", after, got.took, shown(got.err))
	}
}
