package conformance

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/backends"
)

// parallel is how many runs there are at a time at the scale quick: most of them wait, for a network or on purpose.
const parallel = 8

// sweepWithin bounds what happens after a case: it goes on when the caller's context has ended.
const sweepWithin = 60 * time.Second

// runner is one run of the suite.
type runner struct {
	h     Harness
	props backends.Properties
	id    string // of the run: the first part of its namespaces
	count atomic.Int64
	now   func() time.Time
	steps steps

	root    context.Context // has no label
	looking sync.Mutex
}

// job is a case at one level.
type job struct {
	c  Case
	l  Level
	tt *testing.T // nil without go test
}

func (j job) name() string { return j.c.ID + "/" + j.l.String() }

// prepare opens a driver once to learn its properties.
func prepare(ctx context.Context, h Harness) (*runner, error) {
	h, err := h.complete()
	if err != nil {
		return nil, err
	}
	var random [12]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	for h.Seed == 0 {
		h.Seed = binary.LittleEndian.Uint64(random[4:]) >> 16 // short enough to be typed
		if h.Seed == 0 {
			random[11]++
		}
	}
	id := h.Prefix + "tk-" + hex.EncodeToString(random[:4])
	r := &runner{h: h, root: ctx, id: id, now: time.Now} //nolint:forbidigo // the one place where the suite takes a clock
	b := r.bench(ctx, job{}, nil)
	d, err := h.Open(ctx, b.open(ClientOptions{}))
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	r.props = d.Properties()
	if err := d.Close(); err != nil || h.Raw == nil {
		return r, err
	}
	_, err = r.leftovers(ctx, b.ns, nil) // opens what the inspector keeps open, before anybody counts
	return r, err
}

// leftovers asks the inspector, one call at a time and under no case's label: its connections are its own.
func (r *runner) leftovers(ctx context.Context, ns string, keys []string) (left []string, err error) {
	r.looking.Lock()
	defer r.looking.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(r.root, pprof.Labels()))
		left, err = r.h.Raw.Leftovers(ctx, ns, keys)
	}()
	<-done
	return left, err
}

// jobs returns what is to be run, in order: what runs one at a time, and what does not.
func (r *runner) jobs() (alone, together []job) {
	for _, c := range Cases() {
		for _, l := range c.levels() {
			j := job{c: c, l: l}
			switch {
			case r.h.Only != nil && !r.h.Only.MatchString(j.name()):
			case r.alone(j):
				alone = append(alone, j)
			default:
				together = append(together, j)
			}
		}
	}
	return alone, together
}

func (r *runner) alone(j job) bool { return j.c.Serial || r.h.Scale == Full }

// each calls f for every job: first for one after the other, then for several at a time. It returns what those left together.
func (r *runner) each(ctx context.Context, f func(job)) []string {
	alone, together := r.jobs()
	for _, j := range alone {
		f(j)
	}
	var g errgroup.Group
	g.SetLimit(parallel)
	before := r.h.process()
	for _, j := range together {
		g.Go(func() error { f(j); return nil })
	}
	_ = g.Wait() // the functions return none
	if len(together) == 0 || ctx.Err() != nil {
		return nil
	}
	return r.h.changes(ctx, before)
}

// Run runs the suite under go test, each run of a case as a subtest ID/driver or ID/store. It runs several at a time by itself: -parallel has no effect.
func Run(t *testing.T, h Harness) {
	t.Helper()
	r, err := prepare(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("driver %s, seed %d, namespaces %s-*", r.props.Name, r.h.Seed, r.id)
	left := r.each(t.Context(), func(j job) {
		t.Run(j.name(), func(t *testing.T) {
			j.tt = t
			switch res := r.run(t.Context(), j); res.Outcome {
			case Pass:
			case Fail:
				res.Again = fmt.Sprintf("go test -run '^%s$', with the Seed %d in the Harness", strings.ReplaceAll(t.Name(), "/", "$/^"), res.Seed)
				t.Error("\n" + res.String())
			case Skip, Deviates:
				t.Skip(string(res.Outcome) + ": " + res.Why) //nolint:forbidigo // the suite's own kind of skip: by properties, which props/truth checks
			}
		})
	})
	for _, text := range left {
		t.Errorf("after the cases that ran at the same time: got %s, want nothing left", text)
	}
}

// Report runs the suite without go test and hands each result to sink, one at a time. The error says that the suite could not run, or
// that ctx ended it; failed cases are results. When ctx ends, the runs on their way clean up their namespaces before Report returns.
func Report(ctx context.Context, h Harness, sink func(Result)) error {
	r, err := prepare(ctx, h)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	left := r.each(ctx, func(j job) {
		if ctx.Err() != nil {
			return
		}
		res := r.run(ctx, j)
		mu.Lock()
		defer mu.Unlock()
		sink(res)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(left) > 0 {
		return errors.New("after the cases that ran at the same time: " + strings.Join(left, "; "))
	}
	return nil
}

// run runs one case at one level and looks for what it left.
func (r *runner) run(ctx context.Context, j job) Result {
	began := r.now()
	res := Result{Case: j.c.ID, Level: j.l, Rule: j.c.Rule, Seed: r.h.Seed, Outcome: Pass}
	if res.Why = j.skips(&r.h, r.props); res.Why != "" {
		res.Outcome = Skip
		return res
	}
	if j.c.Step != "" {
		s, err := r.learn(ctx)
		switch {
		case err != nil:
			res.Outcome, res.Detail = Fail, []string{err.Error()}
			return res
		case !s.seen[j.c.Step]:
			res.Outcome, res.Why = Skip, "the driver makes no requests of the step "+j.c.Step
			return res
		}
	}
	label := fmt.Sprintf("%s/%d", r.id, r.count.Add(1))
	var before process
	if r.alone(j) {
		before = r.h.process()
	}
	pprof.Do(ctx, pprof.Labels(labelKey, label, "case", j.name()), func(ctx context.Context) {
		r.inside(ctx, j, label, &res)
	})
	if r.alone(j) {
		res.Detail = append(res.Detail, r.h.changes(context.WithoutCancel(ctx), before)...)
	}
	if len(res.Detail) > 0 {
		res.Outcome = Fail
	}
	r.deviate(&res)
	if ctx.Err() != nil && res.Outcome == Fail {
		res.Log = append(res.Log, "the run was cancelled meanwhile")
	}
	res.Took = r.now().Sub(began)
	return res
}

// inside is the case, its clean-ups, and the looks that belong to its label.
func (r *runner) inside(ctx context.Context, j job, label string, res *Result) {
	t := newCaseT(ctx)
	t.tt = j.tt
	b := r.bench(t.ctx, j, t)
	r.attempt(t, label, "the case", r.h.Limits.CaseTimeout, func() { j.c.Run(t, b) })
	r.attempt(t, label, "the closing of the clients", sweepWithin, func() { t.cleanUp(); b.release() })
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepWithin)
	defer cancel()
	r.attempt(t, label, "the look at what is left", 2*sweepWithin, func() { b.sweep(after) })
	res.Detail, res.Log = t.end()
	res.Wire = b.wire.log(0)
	for _, stack := range settles(after, grace, func() []string { return goroutines(label) }) {
		res.Detail = append(res.Detail, "goroutines are left:\n"+stack)
	}
}

// attempt runs f, and makes it a failure when that does not end in time.
func (r *runner) attempt(t *caseT, label, what string, within time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.guard(f)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Errorf("%s: want its end within %s, got none; the goroutines:\n%s", what, within, strings.Join(goroutines(label), "\n\n"))
		t.cancel()
	}
}

// deviate applies the list of known failures, both ways.
func (r *runner) deviate(res *Result) {
	for _, d := range r.h.Deviations {
		if d.Case != res.Case && d.Case != res.Name() {
			continue
		}
		res.Why = d.Reason
		if d.Issue != "" {
			res.Why += " (" + d.Issue + ")"
		}
		if res.Outcome == Fail {
			res.Outcome = Deviates
			return
		}
		res.Outcome = Fail
		res.Detail = append(res.Detail, "the case passes, but is listed as a deviation: take it off the list")
		return
	}
}
