package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// cancelCases: the caller gives up at each step.
func cancelCases() []Case {
	var out []Case
	for _, step := range without(allSteps(), fault.Token) {
		c := Case{
			ID: "ctx/cancel-at-each-step/" + step, Level: Driver, Needs: overHTTP, Step: step, Uses: []Facility{UsesFaults, UsesAttempts, UsesRetryDelay},
			Rule: "When the caller gives up while a request is about to be sent, or unanswered, the call ends at once with the context's error, cleans up, and leaves the old object intact.",
			Run:  func(t T, b *Bench) { cancelAt(newFaulty(t, b, faultOptions{}), step) },
		}
		if slices.Contains(writeSteps(), step) && step != fault.Put || step == fault.MPUAbort {
			c.Uses = append(c.Uses, UsesParts)
		}
		out = append(out, c)
	}
	return append(out, Case{
		ID: "ctx/cancel-in-the-body", Level: Both, Needs: overHTTP, Uses: []Facility{UsesFaults, UsesAttempts, UsesRetryDelay}, Step: fault.Get,
		Rule: "When the caller gives up while a Read waits for bytes, it ends at once with the context's error.", Run: cancelInBody,
	})
}

func cancelAt(f *faulty, step string) {
	for name, sent := range map[string]bool{"about to be sent": false, "sent, unanswered": true} {
		op := f.operationFor(step)
		inner := op.run
		var gaveUp time.Time
		var cancel context.CancelFunc
		hook := fault.Hook{Name: "cancel, " + name, Do: func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !sent {
				gaveUp = f.b.Now()
				cancel()
				return next.RoundTrip(r)
			}
			resp, err := next.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close() // nobody waits for it any more
			}
			gaveUp = f.b.Now()
			cancel()
			return nil, context.Canceled
		}}
		op.run = func(ctx context.Context, f *faulty) error {
			ctx, cancel = context.WithCancel(ctx) // the hook's
			defer cancel()
			return inner(ctx, f)
		}
		out := f.try(op, fault.Rule{Step: step, Do: hook})
		if !sent && out.err == nil && step != fault.MPUAbort {
			f.t.Errorf("%s: got success, want context.Canceled: what the call did was sent after that", hook.Name)
		}
		f.gaveUp(hook.Name, op, out, step, gaveUp)
	}
}

// gaveUp checks the end of a call whose caller has. One that had been carried out by then may say so.
func (f *faulty) gaveUp(what string, op *operation, out outcome, step string, at time.Time) {
	f.t.Helper()
	switch {
	case out.err == nil && step == fault.MPUAbort: // the clean-up is nobody's but the driver's
	case out.err == nil:
		f.succeeded(op)
	case !errors.Is(out.err, context.Canceled) && step != fault.MPUAbort:
		f.t.Errorf("%s: got %s, want context.Canceled", what, shown(out.err))
	}
	f.intactOrDone(what, op, out)
	if late := f.b.Now().Sub(at); late > f.b.Prompt() {
		f.t.Errorf("%s: got the end of the call %s after that, want it within the limit of an operation", what, late)
	}
	n, most := out.count(step), f.b.r.steps.base[op.name].count(step)
	if step == fault.MPUAbort {
		most++ // the clean-up goes on
	}
	if n > most {
		f.t.Errorf("%s: got %d requests of the step %s, want at most %d, as many as without a cancel", what, n, step, most)
	}
}

func (f *faulty) intactOrDone(what string, op *operation, out outcome) {
	if out.err != nil {
		f.intact(what, op, out)
	}
}

func cancelInBody(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	data := b.Bytes(200_000)
	f.eye.Write(faultKey, data)
	f.plan.Add(fault.Rule{Step: fault.Get, Do: fault.StallBody{Of: fault.Response, After: 50_000}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	obj, err := f.c.Get(ctx, faultKey, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatalf("get: got %v, want success", err)
	}
	defer obj.Body.Close()
	got := make([]byte, 50_000)
	if _, err := io.ReadFull(obj.Body, got); err != nil || !bytes.Equal(got, data[:len(got)]) {
		t.Errorf("the first bytes: got %v, want success; %s", err, difference(got, data))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := obj.Body.Read(make([]byte, 1))
		ended <- err
	}()
	cancel()
	timer := time.NewTimer(b.Prompt())
	defer timer.Stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a Read that waited: got %v, want context.Canceled", err)
		}
	case <-timer.C:
		t.Errorf("a Read: want its end within %s after the cancel, got none", b.Prompt())
	}
}

// uploadCases are about uploads in parts that fail.
func uploadCases() []Case {
	uses := []Facility{UsesFaults, UsesAttempts, UsesRetryDelay, UsesParts}
	var out []Case
	add := func(id, step, rule string, attempts int, run func(f *faulty, step string)) {
		out = append(out, Case{
			ID: id + "/" + step, Rule: rule, Level: Driver, Needs: overHTTP, Step: step, Uses: uses,
			Run: func(t T, b *Bench) { run(newFaulty(t, b, faultOptions{attempts: attempts}), step) },
		})
	}
	for _, step := range append(append(beginSteps(), commitSteps()...), partSteps()...) {
		add("mpu/abort-leaves-nothing", step, "After a failure at each step of an upload nothing pending is left, also when the first request to remove it fails.", 0, abortLeavesNothing)
	}
	for _, step := range append(commitSteps(), fault.Put) {
		add("mpu/ambiguous-complete", step, "When the store has made the object and its answer is lost, Put finds out and says success.", 1, ambiguousComplete)
		add("mpu/ambiguous-not-committed", step, "When the request to make the object never came to the store, Put fails cleanly, or sends it again.", 1, ambiguousNotCommitted)
	}
	for _, step := range commitSteps() {
		add("mpu/complete-200-error", step, "An error in the body of a 200 to the last request is a failure, and tried again.", 0, complete200)
	}
	return out
}

func abortLeavesNothing(f *faulty, step string) {
	for _, do := range []fault.Action{fault.Status{Kind: fault.Denied}, fault.Status{Kind: fault.Quota}} {
		for _, failing := range []fault.Action{nil, fault.Status{Kind: fault.Internal}, fault.DropResponse{}} {
			op := f.operationFor(step)
			rules := []fault.Rule{{Step: step, Do: do}}
			aborts := f.b.r.steps.seen[fault.MPUAbort] && !slices.Contains(beginSteps(), step)
			if failing != nil && !aborts {
				continue
			}
			if failing != nil {
				rules = append(rules, fault.Rule{Step: fault.MPUAbort, Do: failing})
			}
			out := f.try(op, rules...)
			what := fmt.Sprint(rules)
			if out.err == nil {
				f.t.Errorf("%s: got success of Put, want an error", what)
			}
			f.intact(what, op, out)
			f.nothingPending(what)
		}
	}
}

// nothingPending looks for uploads right away, by the driver's own list; the suite looks from outside when the case is over.
func (f *faulty) nothingPending(what string) {
	f.t.Helper()
	if _, ok := f.eye.Raw().(backends.UploadLister); !ok || f.b.Properties().PendingExpires > 0 {
		return
	}
	ups, err := f.eye.Uploads(f.t.Context(), faultKey)
	if err != nil || len(ups) > 0 {
		f.t.Errorf("%s: pending uploads: got %+v, %v, want none", what, ups, err)
	}
}

func ambiguousComplete(f *faulty, step string) {
	for _, do := range []fault.Action{fault.DropResponse{}, fault.Reset{Of: fault.Response, After: 5}} {
		op := f.operationFor(step)
		out := f.try(op, fault.Rule{Step: step, Do: do})
		f.recovered(do.String(), op, out, step, 0)
		f.nothingPending(do.String())
	}
}

func ambiguousNotCommitted(f *faulty, step string) {
	op := f.operationFor(step)
	out := f.try(op, fault.Rule{Step: step, Do: fault.DropRequest{}})
	f.failed("one attempt", op, out, step, 1, backends.Unavailable)
	f.eye.Holds(faultKey, f.old)
	f.nothingPending("one attempt")
}

func complete200(f *faulty, step string) {
	op := f.operationFor(step)
	out := f.try(op, fault.Rule{Step: step, Do: fault.OK200WithError{Kind: fault.Internal}})
	what := "an error under 200, once"
	if out.err == nil {
		f.recovered(what, op, out, step, 1)
	} else {
		f.failed(what, op, out, step, 2, backends.Corrupt, backends.Unavailable)
	}
	f.nothingPending(what)
	out = f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: fault.OK200WithError{Kind: fault.Internal}})
	f.failed("an error under 200, for ever", op, out, step, faultAttempts, backends.Corrupt, backends.Unavailable)
	f.nothingPending("an error under 200, for ever")
}
