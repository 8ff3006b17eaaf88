package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// The settings of the clients that meet faults: what recovers does so soon, what does not gives up soon.
const (
	faultAttempts = 3
	faultDelay    = 20 * time.Millisecond
	faultTimeout  = 2 * time.Second // without a byte; long enough for a busy machine
	faultKey      = "k"
)

// faulty is a client whose requests meet a plan, and another one, whose do not, to look at what became of it.
type faulty struct {
	t      T
	b      *Bench
	plan   *fault.Plan
	c, eye *Client
	over   map[string]string // of c
	old    []byte            // what faultKey holds before each try
}

// faultOptions vary the client of a faulty.
type faultOptions struct {
	attempts int // 0: faultAttempts
	timeout  time.Duration
	override map[string]string
	client   ClientOptions
}

func newFaulty(t T, b *Bench, o faultOptions) *faulty {
	t.Helper()
	f := &faulty{t: t, b: b, plan: fault.NewPlan(b.Harness().Dialect), eye: b.ClientWith(ClientOptions{Override: o.override}), old: b.Bytes(500)}
	t.Cleanup(f.end)
	b.Inject(f.plan.Wrap)
	k := b.Harness().Knobs
	if o.attempts == 0 {
		o.attempts = faultAttempts
	}
	over := []map[string]string{k.Attempts(o.attempts), k.RetryDelay(faultDelay), o.override}
	if o.timeout > 0 {
		over = append(over, k.Timeouts(o.timeout))
	}
	o.client.Override = merged(over...)
	f.over = o.client.Override
	f.c = b.ClientWith(o.client)
	return f
}

func merged(all ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, m := range all {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// end is what every case with faults ends with.
func (f *faulty) end() {
	f.plan.Close()
	if err := f.plan.Check(); err != nil {
		f.t.Errorf("the injected faults: got %v, want each to be met", err)
	}
	if caseT, ok := f.t.(*caseT); ok && caseT.Failed() {
		f.t.Logf("the faults that the suite injected below the driver, and the requests that went through there; \"rule N\" marks those that a fault hit:\n%s", f.plan)
	}
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if _, ok := f.b.named[faultKey]; ok {
		f.b.suspect[faultKey] = true // an upload that nobody finished may be left although a later one succeeded
	}
}

// large is a body of two parts.
func (f *faulty) large() []byte {
	n := f.b.part()
	return f.b.Bytes(n + n/8)
}

// operation is what is done while a plan acts.
type operation struct {
	name   string
	writes []byte // of a Put: what is there after success
	begin  func(f *faulty)
	run    func(ctx context.Context, f *faulty) error
	done   func(f *faulty) // checks what is there after success
}

// outcome of one try.
type outcome struct {
	err    error
	took   time.Duration
	events []fault.Event
}

// count is how many requests of a step a try had.
func (o outcome) count(step string) int {
	n := 0
	for _, e := range o.events {
		if step == "" || e.Step == step {
			n++
		}
	}
	return n
}

// first is the first request of a step, on which rules act.
func (o outcome) first(step string) (e fault.Event) {
	if i := slices.IndexFunc(o.events, func(e fault.Event) bool { return e.Step == step }); i >= 0 {
		e = o.events[i]
	}
	return e
}

// try makes the old state, then runs op against rules.
func (f *faulty) try(op *operation, rules ...fault.Rule) outcome {
	f.t.Helper()
	f.eye.Write(faultKey, f.old)
	if op.begin != nil {
		op.begin(f)
	}
	mark := len(f.plan.Log())
	f.plan.Add(rules...)
	ctx, cancel := context.WithTimeout(f.t.Context(), f.deadline())
	defer cancel()
	began := f.b.Now()
	err := op.run(ctx, f)
	out := outcome{err: err, took: f.b.Now().Sub(began)}
	f.plan.Stop()
	out.events = f.plan.Log()[mark:]
	if out.took > f.deadline()+time.Second {
		f.t.Errorf("%s: got an end after %s, want it within its deadline of %s", op.name, out.took, f.deadline())
	}
	return out
}

func (f *faulty) deadline() time.Duration { return 3 * f.b.Prompt() }

// recovered checks that a try ended as if nothing had happened, and that no request was sent more often than the faults made necessary.
func (f *faulty) recovered(what string, op *operation, out outcome, step string, extra int) {
	f.t.Helper()
	if out.err != nil {
		f.t.Errorf("%s: got %s, want success", what, shown(out.err))
		f.intact(what, op, out)
		return
	}
	f.succeeded(op)
	f.within(what, op, out, step, f.b.r.steps.base[op.name].count(step)+extra)
}

func (f *faulty) succeeded(op *operation) {
	f.t.Helper()
	switch {
	case op.done != nil:
		op.done(f)
	case op.writes != nil:
		f.eye.Holds(faultKey, op.writes)
	}
}

// failed checks that a try failed with one of the codes, within the budget of requests, and changed nothing.
func (f *faulty) failed(what string, op *operation, out outcome, step string, budget int, codes ...backends.Code) {
	f.t.Helper()
	if out.err == nil || !slices.Contains(codes, backends.CodeOf(out.err)) {
		f.t.Errorf("%s: got %s, want %v", what, shown(out.err), codes)
	}
	f.intact(what, op, out)
	f.within(what, op, out, step, budget)
}

// within holds the wire against the budget: requests of the step, and all together with those that find out and clean up.
func (f *faulty) within(what string, op *operation, out outcome, step string, budget int) {
	f.t.Helper()
	const cleanUp = 8 // stat, abort and list, each perhaps twice
	base := f.b.r.steps.base[op.name]
	if n := out.count(step); n > budget {
		f.t.Errorf("%s: got %d requests of the step %s, want at most %d", what, n, step, budget)
	}
	if n, most := out.count(""), base.count("")+max(0, budget-base.count(step))+cleanUp; n > most {
		f.t.Errorf("%s: got %d requests, want at most %d", what, n, most)
	}
}

// intact checks that a try that failed left the old object, or, where the error says that it cannot be told, the new one, whole.
func (f *faulty) intact(what string, op *operation, out outcome) {
	f.t.Helper()
	if op.writes == nil {
		return
	}
	got := f.eye.Read(faultKey)
	e, ok := errors.AsType[*backends.Error](out.err)
	unsure := ok && e.Ambiguous || f.t.Context().Err() == nil && isContext(out.err)
	switch {
	case bytes.Equal(got, f.old):
	case unsure && bytes.Equal(got, op.writes):
	default:
		f.t.Errorf("%s: after %s: got an object that is neither, want the old one or (if the error leaves it open, which is %t) the new one, whole; from the old one it differs so: %s", what, shown(out.err), unsure, difference(got, f.old))
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// operationFor is the one that sends requests of a step.
func (f *faulty) operationFor(step string) *operation {
	small := f.b.Bytes(3000)
	switch step {
	case fault.Put:
		return putOf("put", small)
	case fault.MPUBegin, fault.MPUPart, fault.MPUCommit, fault.ResumableBegin, fault.ResumableChunk, fault.ResumableCommit, fault.BlockStage, fault.BlockCommit:
		return putOf("put in parts", f.large())
	case fault.MPUAbort, fault.MPUParts, fault.ResumableCancel:
		return f.breakingPut()
	case fault.Get:
		return f.reading()
	case fault.Delete:
		return f.deleting()
	case fault.Bulk:
		return f.deletingMany()
	case fault.List:
		return f.listing()
	case fault.MPUList:
		return &operation{name: "uploads", run: func(ctx context.Context, f *faulty) error {
			_, err := f.c.Uploads(ctx, faultKey)
			return err
		}}
	case fault.Token:
		return f.signingIn()
	}
	return &operation{name: "stat", run: func(ctx context.Context, f *faulty) error { return f.stat(ctx, f.c) }}
}

// stat asks for the old object.
func (f *faulty) stat(ctx context.Context, c *Client) error {
	info, err := c.Stat(ctx, faultKey)
	if err == nil && info.Size != int64(len(f.old)) {
		f.t.Errorf("Stat without an error: got a size of %d, want %d", info.Size, len(f.old))
	}
	return err
}

// putOf overwrites the key. The body fails the case when it is used against the rules.
func putOf(name string, data []byte) *operation {
	return &operation{name: name, writes: data, run: func(ctx context.Context, f *faulty) error {
		body := &guarded{t: f.t, r: bytes.NewReader(data)}
		_, err := f.c.Put(ctx, faultKey, body, backends.PutOptions{Size: int64(len(data))})
		body.over()
		return err
	}}
}

// breakingPut is a Put in parts whose body breaks, so that what is there of it has to be removed.
func (f *faulty) breakingPut() *operation {
	data := f.large()
	return &operation{name: "put that breaks", run: func(ctx context.Context, f *faulty) error {
		body := &guarded{t: f.t, r: io.MultiReader(bytes.NewReader(data[:len(data)-10]), readerFunc(func([]byte) (int, error) { return 0, errSource }))}
		_, err := f.c.Put(ctx, faultKey, body, backends.PutOptions{Size: int64(len(data))})
		body.over()
		if !errors.Is(err, errSource) {
			return fmt.Errorf("the error of the body is not in the chain of %w", err)
		}
		f.eye.Holds(faultKey, f.old)
		return nil
	}}
}

// reading reads 200,000 bytes and compares them.
func (f *faulty) reading() *operation {
	data := f.b.Bytes(200_000)
	return &operation{
		name: "get", begin: func(f *faulty) { f.eye.Write(faultKey, data) },
		run: func(ctx context.Context, f *faulty) error {
			obj, err := f.c.Get(ctx, faultKey, backends.GetOptions{Range: backends.All()})
			if err != nil {
				return err
			}
			defer obj.Body.Close()
			got, err := readWhole(obj)
			switch {
			case err != nil && !bytes.HasPrefix(data, got):
				f.t.Errorf("the bytes before the error %v: %s", err, difference(got, data))
			case err == nil && !bytes.Equal(got, data):
				f.t.Errorf("the stream ended without an error: %s", difference(got, data))
			}
			return err
		},
	}
}

func (f *faulty) deleting() *operation {
	return &operation{
		name: "delete", run: func(ctx context.Context, f *faulty) error { return f.c.Delete(ctx, faultKey) },
		done: func(f *faulty) { f.eye.Lacks(faultKey) },
	}
}

func (f *faulty) deletingMany() *operation {
	keys := []string{faultKey, "k2", "k3"}
	return &operation{
		name: "delete many",
		begin: func(f *faulty) {
			f.eye.Write("k2", f.old)
			f.eye.Write("k3", f.old)
		},
		run: func(ctx context.Context, f *faulty) error { return f.c.DeleteMany(ctx, keys) },
		done: func(f *faulty) {
			for _, key := range keys {
				f.eye.Lacks(key)
			}
		},
	}
}

func (f *faulty) listing() *operation {
	return &operation{name: "list", run: func(ctx context.Context, f *faulty) error {
		var got []string
		err := f.c.Lists(ctx, faultKey, func(i backends.Info) { got = append(got, i.Key) })
		if err == nil && !slices.Contains(got, faultKey) {
			f.t.Errorf("the listing that ended without an error: got %[2]q, want %[1]q in it", faultKey, got)
		}
		return err
	}}
}

// signingIn is the first call of a client, which gets a token for it if the driver can.
func (f *faulty) signingIn() *operation {
	const hour = 3600
	over := f.over
	if f.b.Harness().Knobs.TokenServer != nil {
		_, to := f.b.tokenServer(hour)
		over = merged(over, to)
	}
	return &operation{name: "sign in", run: func(ctx context.Context, f *faulty) error {
		c, err := f.b.Open(ctx, ClientOptions{Override: over})
		if err != nil {
			return err
		}
		return f.stat(ctx, c)
	}}
}

// steps are the requests that a driver makes when nothing fails, by operation.
type steps struct {
	once sync.Once
	err  error
	base map[string]outcome
	seen map[string]bool
}

// learn runs every operation once.
func (r *runner) learn(ctx context.Context) (*steps, error) {
	s := &r.steps
	s.once.Do(func() {
		s.base, s.seen = make(map[string]outcome), make(map[string]bool)
		t := newCaseT(ctx)
		b := r.bench(t.ctx, job{}, t)
		t.guard(func() { s.walk(newFaulty(t, b, faultOptions{})) })
		t.cleanUp()
		b.release()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepWithin)
		defer cancel()
		b.sweep(after)
		if failures, _ := t.end(); len(failures) > 0 {
			s.err = fmt.Errorf("what requests the driver makes could not be learned: %v", failures)
		}
	})
	return s, s.err
}

func (s *steps) walk(f *faulty) {
	for _, step := range []string{fault.Put, fault.MPUPart, fault.MPUAbort, fault.Get, fault.Stat, fault.List, fault.Delete, fault.Bulk, fault.MPUList, fault.Token} {
		op := f.operationFor(step)
		_, bulk := f.c.Raw().(backends.BulkDeleter)
		_, uploads := f.c.Raw().(backends.UploadLister)
		if step == fault.Bulk && !bulk || step == fault.MPUList && !uploads {
			continue
		}
		out := f.try(op)
		if out.err != nil {
			f.t.Errorf("%s: got %s, want success", op.name, shown(out.err))
		}
		s.base[op.name] = out
		for _, e := range out.events {
			s.seen[e.Step] = true
		}
	}
}

func asError(err error) (*backends.Error, bool) { return errors.AsType[*backends.Error](err) }
