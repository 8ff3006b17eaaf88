package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// errorCases are about what errors say, and about checksums.
func errorCases() []Case {
	uses := []Facility{UsesFaults, UsesAttempts, UsesRetryDelay}
	return []Case{
		{ID: "err/codes", Rule: "Each answer of the provider has its Code, at each request.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: errCodes},
		{ID: "err/has-request-id-status", Rule: "An error that the store answered with has its status and its request id.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: errHasID},
		{ID: "err/wrapped-once", Rule: "There is exactly one *Error in a chain, and below it what the driver's libraries say.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: errWrappedOnce},
		{ID: "err/masked-prefix", Rule: "The masked text is in no error and no log line, whatever the driver's libraries wrote.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: errMasked},
		{ID: "err/temporary", Rule: "What Temporary says is true: after an error for which it does, the same call succeeds once the store is well again.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Stat, Run: errTemporary},
		{ID: "err/body-not-xml", Rule: "An error whose body is a page, nothing or megabytes is what its status says, and little of it is read.", Level: Driver, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: errBody},
		{ID: "sum/upload-corrupted-in-flight", Rule: "A body that changes on its way is never stored.", Level: Both, Needs: overHTTP, Uses: uses, Step: fault.Put, Run: sumUpload},
	}
}

// codesOf is what each kind of answer means, whatever it was asked for.
func codesOf() map[fault.ErrorKind]backends.Code {
	return map[fault.ErrorKind]backends.Code{
		fault.Internal: backends.Unavailable, fault.BadGateway: backends.Unavailable, fault.Unavailable: backends.Unavailable, fault.GatewayTimeout: backends.Unavailable,
		fault.TooManyRequests: backends.Throttled, fault.SlowDown: backends.Throttled, fault.RateLimit: backends.Throttled,
		fault.BadRequest: backends.InvalidArgument, fault.Unauthenticated: backends.Unauthenticated, fault.ExpiredToken: backends.Unauthenticated,
		fault.Denied: backends.Denied, fault.ClockSkew: backends.ClockSkew, fault.Quota: backends.Exhausted, fault.Archived: backends.Unsupported,
	}
}

func errCodes(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, step := range []string{fault.Get, fault.List, fault.Delete, fault.Put} {
		for _, kind := range fault.Kinds() {
			want, ok := codesOf()[kind]
			do := fault.Status{Kind: kind}
			if !ok || !f.forges(step, do) {
				continue
			}
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: do})
			f.failed(fmt.Sprintf("%s at %s", kind, step), op, out, step, 2, want) // 2: credentials may be renewed once
			if !errors.Is(out.err, want) {
				t.Errorf("%s at %s: want an error that is %s for errors.Is, got %v", kind, step, want.Label(), out.err)
			}
		}
	}
}

// forges reports whether the dialect has such an answer.
func (f *faulty) forges(step string, do fault.Status) bool {
	resp := f.b.Harness().Dialect.Error(step, do.Kind)
	if resp == nil {
		return false
	}
	_ = resp.Body.Close() // in memory
	return true
}

func errHasID(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, step := range []string{fault.Get, fault.Stat, fault.List, fault.Delete, fault.Put} {
		op := f.operationFor(step)
		out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: fault.Status{Kind: fault.Denied}})
		status := 0
		for _, e := range out.events {
			if e.Step == step {
				status = e.Status
			}
		}
		if e, ok := asError(out.err); !ok || e.Status != status || e.RequestID == "" {
			t.Errorf("%s: got %v, want status %d and a request id", step, out.err, status)
		}
	}
	_, err := f.c.Stat(t.Context(), "nothing")
	if e, ok := asError(err); !ok || e.Status == 0 || e.RequestID == "" {
		t.Errorf("stat of nothing: got %v, want a status and a request id", err)
	}
}

func errWrappedOnce(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, do := range []fault.Action{fault.Status{Kind: fault.Denied}, fault.Status{Kind: fault.Unavailable}, fault.DropRequest{}} {
		for _, step := range []string{fault.Get, fault.Stat, fault.List, fault.Delete, fault.Put} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: do})
			n := 0
			walkErrors(out.err, func(err error) {
				if _, ok := err.(*backends.Error); ok { //nolint:errorlint // each link of the chain by itself
					n++
				}
			})
			e, ok := asError(out.err)
			if n != 1 || !ok || e.Err == nil || e.Driver == "" || e.Op == "" {
				t.Errorf("%s, %s: got %d *Error in the chain of %v, want one, with Op, Driver and Err", do, step, n, out.err)
			}
		}
	}
}

// walkErrors visits a chain, with what errors.Join has put together.
func walkErrors(err error, see func(error)) {
	if err == nil {
		return
	}
	see(err)
	switch e := err.(type) { //nolint:errorlint // each link of the chain by itself
	case interface{ Unwrap() error }:
		walkErrors(e.Unwrap(), see)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walkErrors(inner, see)
		}
	}
}

// notes is where log lines go.
type notes struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.String()
}

func errMasked(t T, b *Bench) {
	lines := new(notes)
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := newFaulty(t, b, faultOptions{attempts: 2, client: ClientOptions{Log: log}})
	for _, do := range []fault.Action{fault.Status{Kind: fault.Denied}, fault.Status{Kind: fault.Unavailable}, fault.DropRequest{}, fault.HTML502()} {
		for _, step := range []string{fault.Get, fault.Stat, fault.List, fault.Delete, fault.Put} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: do})
			walkErrors(out.err, func(err error) {
				_, ok := err.(*backends.Error) //nolint:errorlint // as above
				if text := fmt.Sprint(err); ok && strings.Contains(text, b.ns) {
					t.Errorf("%s, %s: got an error that shows the masked text, want one without: %s", do, step, text)
				}
			})
		}
	}
	if text := lines.String(); strings.Contains(text, b.ns) {
		t.Errorf("the log: got the masked text in it, want none of it:\n%s", text)
	}
}

func errTemporary(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, do := range []fault.Action{fault.Status{Kind: fault.Unavailable}, fault.Status{Kind: fault.SlowDown}, fault.DropRequest{}, fault.DropResponse{}, fault.Truncate{After: 3}} {
		for _, step := range []string{fault.Get, fault.Stat, fault.List} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Do: do})
			if out.err == nil {
				continue // the Store has opened the stream again
			}
			if c := backends.CodeOf(out.err); !c.Temporary() && !errors.Is(out.err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: got %s, want a temporary code", do, step, shown(out.err))
			}
			if again := f.try(op); again.err != nil {
				t.Errorf("%s, %s: the same call afterwards: got %s, want success", do, step, shown(again.err))
			}
		}
	}
}

func errBody(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{attempts: 1})
	for _, do := range []fault.Garbage{
		fault.HTML502(), fault.HugeErrorBody(500), {Code: 503}, {Code: 500, Type: "application/xml", Body: "<Error><Code>Half"}, {Code: 504, Type: "application/json", Body: "\x1f\x8b\x08garbage"},
	} {
		for _, step := range []string{fault.Get, fault.List, fault.Delete, fault.Put} {
			op := f.operationFor(step)
			out := f.try(op, fault.Rule{Step: step, Times: fault.Forever, Do: do})
			if e, ok := asError(out.err); !ok || e.Code != backends.Unavailable || e.Status != do.Code {
				t.Errorf("%s, %s: got %s, want Unavailable with status %d", do, step, shown(out.err), do.Code)
			}
			if n := len(fmt.Sprint(out.err)); n > 4<<10 {
				t.Errorf("%s, %s: got an error with a text of %d bytes, want at most 4 KiB", do, step, n)
			}
			if n := mostRead(out); n > 128<<10 {
				t.Errorf("%s, %s: got %d bytes of the answer read, want at most 128 KiB", do, step, n)
			}
		}
	}
}

// mostRead is how much was read of the longest answer.
func mostRead(o outcome) (n int64) {
	for _, e := range o.events {
		n = max(n, e.Got)
	}
	return n
}

func sumUpload(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	for _, xor := range []byte{1, 0x80} {
		op := f.operationFor(fault.Put)
		out := f.try(op, fault.Rule{Step: fault.Put, Times: fault.Forever, Do: fault.Corrupt{Of: fault.Request, Offset: 2500, Xor: xor}})
		f.failed("always corrupted", op, out, fault.Put, faultAttempts, backends.Corrupt, backends.InvalidArgument)
		f.eye.Holds(faultKey, f.old)
	}
}
