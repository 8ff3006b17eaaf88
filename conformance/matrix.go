package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// Groups of steps, as the matrix has columns.
func partSteps() []string  { return []string{fault.MPUPart, fault.ResumableChunk, fault.BlockStage} }
func dataSteps() []string  { return append(partSteps(), fault.Put) }
func beginSteps() []string { return []string{fault.MPUBegin, fault.ResumableBegin} }
func commitSteps() []string {
	return []string{fault.MPUCommit, fault.ResumableCommit, fault.BlockCommit}
}
func readSteps() []string   { return []string{fault.Get, fault.Stat, fault.List, fault.MPUList} }
func removeSteps() []string { return []string{fault.Delete, fault.Bulk} }
func writeSteps() []string  { return slices.Concat(dataSteps(), beginSteps(), commitSteps()) }

func allSteps() []string {
	return slices.Concat(writeSteps(), readSteps(), removeSteps(), []string{fault.MPUAbort, fault.Token})
}

func without(steps []string, which ...string) []string {
	return slices.DeleteFunc(slices.Clone(steps), func(s string) bool { return slices.Contains(which, s) })
}

// family is a row of the matrix: one failure at each step.
type family struct {
	name, rule string
	steps      []string
	scale      Scale
	timeout    bool // the client has short timeouts
	attempts   int
	cell       func(f *faulty, step string)
}

// matrixCases are the cells: a case for each row and step.
func matrixCases() []Case {
	var out []Case
	for _, row := range slices.Concat(recovering(), failing(), strange()) {
		for _, step := range row.steps {
			c := Case{
				ID: "fault/" + row.name + "/" + step, Rule: row.rule, Level: Driver, Needs: overHTTP, Scale: row.scale, Step: step,
				Uses: []Facility{UsesFaults, UsesAttempts, UsesRetryDelay},
				Run: func(t T, b *Bench) {
					o := faultOptions{attempts: row.attempts}
					if row.timeout {
						o.timeout = faultTimeout
					}
					row.cell(newFaulty(t, b, o), step)
				},
			}
			if step == fault.Get {
				c.Level = Store // which resumes
			}
			if row.timeout {
				c.Uses = append(c.Uses, UsesTimeouts)
			}
			if step != fault.Put && slices.Contains(writeSteps(), step) {
				c.Uses = append(c.Uses, UsesParts)
			}
			out = append(out, c)
		}
	}
	return out
}

// once is a cell in which each action hits one request, which is then sent again.
func once(actions ...fault.Action) func(f *faulty, step string) {
	return func(f *faulty, step string) {
		for _, do := range f.choose(step, actions) {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Do: do})
			f.recovered(do.String(), op, out, step, 1)
		}
	}
}

// choose leaves out errors that the dialect does not have, and takes one of the rest for a quick run.
func (f *faulty) choose(step string, actions []fault.Action) []fault.Action {
	actions = slices.DeleteFunc(slices.Clone(actions), func(a fault.Action) bool {
		s, ok := a.(fault.Status)
		if !ok || s.Kind == "" {
			return false
		}
		resp := f.b.Harness().Dialect.Error(step, s.Kind)
		if resp != nil {
			_ = resp.Body.Close() // in memory
		}
		return resp == nil
	})
	if f.b.Full() {
		return actions
	}
	return actions[f.b.IntN(len(actions)):][:1]
}

// recovering are the failures that a driver gets over.
func recovering() []family {
	middle := int64(70_000)
	return []family{
		{
			name: "5xx-once", rule: "A 500, 502, 503 or 504 that comes once is got over with one more request.", steps: allSteps(),
			cell: once(fault.Status{Kind: fault.Unavailable}, fault.Status{Code: 500, Kind: fault.Internal}, fault.Status{Code: 502, Kind: fault.BadGateway}, fault.Status{Code: 504, Kind: fault.GatewayTimeout}),
		},
		{
			name: "throttle-once", rule: "Being asked once to slow down is got over with one more request.", steps: allSteps(),
			cell: once(fault.Status{Kind: fault.SlowDown}, fault.Status{Code: http.StatusTooManyRequests, Kind: fault.TooManyRequests}, fault.Status{Kind: fault.RateLimit}),
		},
		{
			name: "drop-request", rule: "A connection that breaks before the store saw the request is got over with one more request.", steps: allSteps(),
			scale: Full, cell: once(fault.DropRequest{}),
		},
		{
			name: "drop-response", rule: "When the store acted and its answer was lost, the end is that of success: one object, nothing pending.", steps: allSteps(),
			cell: once(fault.DropResponse{}),
		},
		{
			name: "reset-mid-request", rule: "A connection that breaks in the middle of an upload is got over; the stored bytes are right.",
			steps: slices.Concat(dataSteps(), []string{fault.ResumableBegin}, commitSteps(), []string{fault.Bulk}),
			cell:  once(fault.Reset{Of: fault.Request, After: middle}, fault.Reset{Of: fault.Request}),
		},
		{
			name: "reset-mid-response", rule: "A connection that breaks in the middle of an answer is got over; the bytes read are exact.", steps: allSteps(),
			cell: once(fault.Reset{Of: fault.Response, After: middle}, fault.Reset{Of: fault.Response}),
		},
		{
			name: "truncate", rule: "An answer that ends before its Content-Length is never a clean end; it is read again or gone on with.", steps: allSteps(),
			scale: Full, cell: once(fault.Truncate{After: middle}, fault.Truncate{}),
		},
		{
			name: "clean-eof", rule: "An answer that ends too early without any error of the connection is noticed by its length.", steps: allSteps(),
			cell: cleanEOF(fault.CleanEOF{After: middle}, fault.CleanEOF{}),
		},
		{
			name: "stall-headers", rule: "A store that does not answer ends in a timeout of the attempt, and the request is sent again.", steps: allSteps(),
			scale: Full, timeout: true, cell: once(fault.StallHeaders{}),
		},
		{
			name: "stall-body", rule: "A body that stops, in either direction, ends in a timeout of the attempt, and is got over.", steps: without(allSteps(), fault.Stat),
			scale: Full, timeout: true, cell: stallBody,
		},
		{
			name: "slow-link", rule: "A line that is slow but never silent for long is put up with to the end.", steps: without(allSteps(), fault.Stat),
			scale: Full, timeout: true, cell: slowLink,
		},
		{
			name: "html-502", rule: "A page of a load balancer, or megabytes, in place of an error are what their status says, and little of them is read.", steps: allSteps(),
			scale: Full, cell: once(fault.HTML502(), fault.HugeErrorBody(500), fault.Garbage{Code: 503, Type: "application/xml", Body: "<Error><Code>"}, fault.Status{Code: 500}),
		},
		{
			name: "corrupt-bit", rule: "Bytes of an upload that changed on their way are refused, and sent again where each request has a checksum; they are never stored.",
			steps: dataSteps(), cell: corruptBit,
		},
	}
}

// cleanEOF: an answer whose length was not told can only be seen to make no sense.
func cleanEOF(actions ...fault.Action) func(f *faulty, step string) {
	return func(f *faulty, step string) {
		for _, do := range f.choose(step, actions) {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Do: do})
			if c := backends.CodeOf(out.err); c == backends.Corrupt || step == fault.Token && c == backends.Unauthenticated {
				f.intact(do.String(), op, out)
				continue
			}
			f.recovered(do.String(), op, out, step, 1)
		}
	}
}

// stallBody stops what is sent, where there is much of it, and what comes back.
func stallBody(f *faulty, step string) {
	sent, got := fault.StallBody{Of: fault.Request, After: 1000}, fault.StallBody{Of: fault.Response}
	switch {
	case slices.Contains(dataSteps(), step):
		once(sent)(f, step)
	case slices.Contains(commitSteps(), step):
		once(sent, got)(f, step)
	case slices.Contains(readSteps(), step):
		got.After = 1000
		once(got)(f, step)
	default:
		once(got)(f, step)
	}
}

// slowLink has a rate at which what goes over the line takes half as long again as the timeout, without a pause as long as that: who bounds how long an
// attempt may take, and not how long nothing comes, gives up.
func slowLink(f *faulty, step string) {
	op := f.operationFor(step)
	do, n := fault.Slow{Of: fault.Request}, int64(len(op.writes))
	if !slices.Contains(dataSteps(), step) {
		do.Of, n = fault.Response, f.b.r.steps.base[op.name].first(step).Got
	}
	do.BytesPerSec = max(1, n*int64(time.Second)/int64(faultTimeout*3/2))
	out := f.try(op, fault.Rule{Step: step, Do: do})
	f.recovered(do.String(), op, out, step, 0)
	if n > 1 && out.err == nil && out.took < faultTimeout {
		f.t.Errorf("%s: took %s for %d bytes, want more than %s: the line was not slow", do, out.took, n, faultTimeout)
	}
}

// corruptBit: what has a checksum of its own is sent again; where only the object has one, Put fails.
func corruptBit(f *faulty, step string) {
	op := f.operationFor(step)
	do := fault.Corrupt{Of: fault.Request, Offset: 2500}
	out := f.try(op, fault.Rule{Step: step, Do: do})
	if f.b.Properties().MinPartBytes > 0 || out.err == nil {
		f.recovered(do.String(), op, out, step, 1)
		return
	}
	f.failed(do.String(), op, out, step, faultAttempts, backends.Corrupt, backends.InvalidArgument) // Google's 400 does not tell which
}

// failing are the failures that last.
func failing() []family {
	return []family{
		{
			name: "5xx-forever", rule: "A store that is down makes calls fail as Unavailable within the attempts that are allowed; nothing is left, the old object is intact.",
			steps: without(allSteps(), fault.MPUAbort), cell: forever(fault.Status{Kind: fault.Unavailable}, backends.Unavailable),
		},
		{
			name: "throttle-forever", rule: "A store that throttles without an end makes calls fail as Throttled, with its Retry-After; nothing is left, the old object is intact.",
			steps: without(allSteps(), fault.MPUAbort), scale: Full, attempts: 2, cell: throttleForever,
		},
		{
			name: "permanent-4xx", rule: "An answer that will not change is classified, costs one request, and leaves nothing; the old object is intact.",
			steps: allSteps(), cell: permanent,
		},
	}
}

// budgetFor is how many requests of a step may be sent if each one fails: all its requests may be on their way at the same time.
func (f *faulty) budgetFor(op *operation, step string, attempts int) int {
	return attempts * max(1, f.b.r.steps.base[op.name].count(step))
}

func forever(do fault.Action, codes ...backends.Code) func(f *faulty, step string) {
	return func(f *faulty, step string) {
		op := f.operationFor(step)
		out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: do})
		want := codes
		if step == fault.Token {
			want = append(slices.Clone(codes), backends.Unauthenticated)
		}
		f.failed(do.String(), op, out, step, f.budgetFor(op, step, faultAttempts), want...)
	}
}

func throttleForever(f *faulty, step string) {
	op := f.operationFor(step)
	out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: fault.Status{Kind: fault.SlowDown, RetryAfter: time.Second}})
	codes := []backends.Code{backends.Throttled}
	if step == fault.Stat {
		codes = append(codes, backends.Unavailable) // the answer to a HEAD has no body that could tell
	}
	if step == fault.Token {
		f.failed("throttled", op, out, step, f.budgetFor(op, step, 2), append(codes, backends.Unavailable, backends.Unauthenticated)...)
		return // what such an answer says of the time is nobody's business but the one who asks for tokens
	}
	f.failed("throttled", op, out, step, f.budgetFor(op, step, 2), codes...)
	if d := retryAfter(out.err); d != time.Second {
		f.t.Errorf("throttled: got RetryAfter %s, want the 1s that the store said", d)
	}
}

// kinds is what an answer that will not change means at a step.
func permanentKinds(step string) map[fault.ErrorKind][]backends.Code {
	out := map[fault.ErrorKind][]backends.Code{
		fault.BadRequest: {backends.InvalidArgument}, fault.Denied: {backends.Denied}, fault.Unauthenticated: {backends.Unauthenticated},
	}
	switch {
	case step == fault.Token:
		for kind := range out { // whatever the words: there is no token
			out[kind] = []backends.Code{backends.Unauthenticated, backends.Denied}
		}
	case slices.Contains(writeSteps(), step):
		out[fault.Precondition] = []backends.Code{backends.Precondition}
		out[fault.NoBucket] = []backends.Code{backends.InvalidArgument, backends.NotFound} // a listing, which is answered, may be asked what is missing
		out[fault.Quota] = []backends.Code{backends.Exhausted}
	case step == fault.Get:
		out[fault.InvalidRange] = []backends.Code{backends.InvalidRange}
		out[fault.NotFound] = []backends.Code{backends.NotFound}
		out[fault.Precondition] = []backends.Code{backends.Precondition}
	case step == fault.Stat:
		out[fault.NotFound] = []backends.Code{backends.NotFound}
		out[fault.Unauthenticated] = append(out[fault.Unauthenticated], backends.Denied) // the answer to a HEAD has no body that could tell
	case step == fault.List || step == fault.MPUList || step == fault.Bulk:
		out[fault.NoBucket] = []backends.Code{backends.InvalidArgument}
	}
	return out
}

func permanent(f *faulty, step string) {
	kinds := permanentKinds(step)
	for _, kind := range fault.Kinds() {
		codes, ok := kinds[kind]
		do := fault.Status{Kind: kind}
		if !ok || len(f.choose(step, []fault.Action{do})) == 0 || !f.b.Full() && kind != fault.Denied && f.b.IntN(3) > 0 {
			continue
		}
		op := f.operationFor(step)
		if step == fault.MPUAbort {
			out := f.try(op, fault.Rule{Step: step, Do: do})
			f.recovered(do.String(), op, out, step, 1)
			continue
		}
		out := f.try(op, fault.Rule{Step: step, Do: do})
		budget := max(1, f.b.r.steps.base[op.name].count(step))
		if kind == fault.Unauthenticated {
			budget++ // one refresh
		}
		f.failed(do.String(), op, out, step, budget, codes...)
		if step == fault.Bulk {
			f.eye.Holds(faultKey, f.old)
		}
	}
	if slices.Contains(commitSteps(), step) {
		f.uploadGone(step)
	}
	if step == fault.Delete {
		op := f.operationFor(step)
		out := f.try(op, fault.Rule{Step: step, Do: fault.Status{Kind: fault.NotFound}})
		if out.err != nil {
			f.t.Errorf("delete of what is not there: got %s, want success", shown(out.err))
		}
	}
}

// uploadGone: an upload that is not there any more may have become the object. It did not: a driver that looks says Unavailable, one that asks again succeeds.
func (f *faulty) uploadGone(step string) {
	do := fault.Status{Kind: fault.NoUpload}
	if len(f.choose(step, []fault.Action{do})) == 0 {
		return
	}
	op := f.operationFor(step)
	out := f.try(op, fault.Rule{Step: step, Do: do})
	if out.err == nil {
		f.recovered(do.String(), op, out, step, 1)
		return
	}
	f.failed(do.String(), op, out, step, 1, backends.Unavailable)
}

// strange are answers that are not what they say.
func strange() []family {
	return []family{
		{
			name: "200-with-error", rule: "An error under a status of success is never taken for success.", steps: without(allSteps(), fault.MPUAbort),
			cell: lies(fault.OK200WithError{Kind: fault.Internal}),
		},
		{
			name: "garbage-body", rule: "A page of somebody else under a status of success is never taken for the store's answer.", steps: without(allSteps(), fault.MPUAbort),
			scale: Full, cell: lies(fault.Garbage{Code: 200, Type: "text/html", Body: "<html><body>Welcome to the hotel's network</body></html>"}, fault.Garbage{Code: 200, Type: "application/xml"}),
		},
		{
			name: "duplicate-request", rule: "A request that reaches the store twice has the effect of one.", steps: without(allSteps(), fault.Token),
			scale: Full, cell: duplicate,
		},
	}
}

// lies is a cell whose answers say success although nothing was done: the call may fail or try again, but not say that it was.
func lies(actions ...fault.Action) func(f *faulty, step string) {
	return func(f *faulty, step string) {
		for _, do := range actions {
			if g, ok := do.(fault.Garbage); ok && g.Body == "" && step == fault.Delete {
				continue // that may be the success of a store that has another idea of the status
			}
			for _, times := range []int{1, fault.Forever} {
				op := f.operationFor(step)
				out := f.try(op, fault.Rule{Step: step, Times: times, Do: do})
				what := fmt.Sprintf("%s x%d", do, times)
				f.within(what, op, out, step, f.budgetFor(op, step, faultAttempts)+1)
				if out.err == nil {
					f.succeeded(op)
					continue
				}
				f.intact(what, op, out)
				code := backends.CodeOf(out.err)
				if !slices.Contains([]backends.Code{backends.Corrupt, backends.Unavailable, backends.Unsupported}, code) && (step != fault.Token || code != backends.Unauthenticated) {
					f.t.Errorf("%s: got %s, want Corrupt or Unavailable", what, shown(out.err))
				}
			}
		}
	}
}

// duplicate: what the second one left is at most one upload, which can be found and removed.
func duplicate(f *faulty, step string) {
	op := f.operationFor(step)
	out := f.try(op, fault.Rule{Step: step, Do: fault.Duplicate{}})
	f.recovered("duplicate", op, out, step, 0)
	if !slices.Contains(beginSteps(), step) {
		return
	}
	if _, ok := f.eye.Raw().(backends.UploadLister); !ok {
		return
	}
	ups, err := f.eye.Uploads(f.t.Context(), faultKey)
	if err != nil || len(ups) > 1 {
		f.t.Errorf("duplicate: pending uploads: got %+v, %v, want at most one", ups, err)
	}
	for _, u := range ups {
		if err := f.eye.AbortUpload(f.t.Context(), u); err != nil {
			f.t.Errorf("duplicate: the upload that nobody knows cannot be removed: got %v, want success", err)
		}
	}
}

func retryAfter(err error) time.Duration {
	if e, ok := asError(err); ok {
		return e.RetryAfter
	}
	return 0
}
