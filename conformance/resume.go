package conformance

import (
	"bytes"
	"errors"
	"io"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// resumeCases are about streams that break or stop.
func resumeCases() []Case {
	uses := []Facility{UsesFaults, UsesAttempts, UsesRetryDelay}
	slow := append(uses[:len(uses):len(uses)], UsesTimeouts)
	return []Case{
		{ID: "resume/mid-body", Rule: "A stream that breaks at any byte goes on there, on the same version: the bytes are exact.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: resumeMidBody},
		{ID: "resume/overwritten-meanwhile", Rule: "A stream that breaks while the object is replaced fails with Precondition, and never mixes the two.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: resumeOverwritten},
		{ID: "resume/flapping", Rule: "A stream that never brings a byte is given up after a few attempts.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: resumeFlapping},
		{ID: "resume/progress-resets", Rule: "A stream that breaks again and again, but brings bytes each time, comes to its end.", Level: Store, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: resumeProgress},
		{ID: "resume/not-by-the-driver", Rule: "A driver does not open a stream again by itself: it breaks with an error, never with a clean end.", Level: Driver, Needs: overHTTP, Uses: uses, Step: fault.Get, Run: resumeNotByDriver},
		{ID: "stall/headers", Rule: "A store that is silent after the request ends in a timeout of ours, and the request is sent again.", Level: Driver, Needs: overHTTP, Uses: slow, Step: fault.Stat, Run: stallHeaders},
		{ID: "stall/download-body", Rule: "A stream in which the bytes stop is given up after the stall timeout and gone on with.", Level: Store, Needs: overHTTP, Uses: slow, Step: fault.Get, Run: stallDownload},
		{ID: "stall/upload-body", Rule: "An upload whose bytes nobody takes is given up after the stall timeout, and sent again on another connection.", Level: Driver, Needs: overHTTP, Uses: slow, Step: fault.Put, Run: stallUpload},
	}
}

func resumeMidBody(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	const size = 200_000
	for _, at := range []int64{0, 1, size / 2, size - 1} {
		for _, do := range []fault.Action{fault.Reset{Of: fault.Response, After: at}, fault.Truncate{After: at}, fault.CleanEOF{After: at}} {
			op := f.operationFor(fault.Get)
			out := f.try(op, fault.Rule{Step: fault.Get, Do: do})
			f.recovered(do.String(), op, out, fault.Get, 1)
			if n := out.count(fault.Get); n != 2 {
				t.Errorf("%s: %d requests, want the first and one more", do, n)
			}
		}
	}
}

func resumeOverwritten(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	for _, same := range []bool{true, false} {
		first, second := b.Bytes(200_000), b.Bytes(200_000)
		if !same {
			second = second[:150_000]
		}
		f.eye.Write(faultKey, first)
		f.plan.Stop()
		f.plan.Add(fault.Rule{Step: fault.Get, Do: fault.Reset{Of: fault.Response, After: 100_000}})
		obj, err := f.c.Get(t.Context(), faultKey, backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatalf("get: got %v, want success", err)
		}
		head := make([]byte, 10)
		if _, err := io.ReadFull(obj.Body, head); err != nil {
			t.Fatalf("read: got %v, want success", err)
		}
		f.eye.Write(faultKey, second)
		rest, err := io.ReadAll(obj.Body)
		_ = obj.Body.Close() // broken
		got := append(head, rest...)
		switch {
		case !bytes.HasPrefix(first, got):
			t.Errorf("the stream: got bytes of another version, want those of the one that was opened alone: %s", difference(got, first))
		case !errors.Is(err, backends.Precondition):
			t.Errorf("got %s after %d bytes, want Precondition", shown(err), len(got))
		}
	}
}

func resumeFlapping(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	op := f.operationFor(fault.Get)
	out := f.try(op, fault.Rule{Step: fault.Get, Times: fault.Forever, Do: fault.Reset{Of: fault.Response}})
	if n := out.count(fault.Get); out.err == nil || n > 5 || n < 2 {
		t.Errorf("got %d requests and %s, want 2 to 5 and an error", n, shown(out.err))
	}
	if c := backends.CodeOf(out.err); c != backends.Unavailable {
		t.Errorf("got %s, want Unavailable", shown(out.err))
	}
}

func resumeProgress(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	size := Pick(b, 2<<20, 16<<20)
	every := int64(size) / 16
	data := b.Bytes(size)
	f.eye.Write(faultKey, data)
	f.plan.Add(fault.Rule{Step: fault.Get, Times: 15, Do: fault.Reset{Of: fault.Response, After: every}})
	obj, err := f.c.Get(t.Context(), faultKey, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatalf("get: got %v, want success", err)
	}
	defer obj.Body.Close()
	got, err := io.ReadAll(obj.Body)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("a break every %d bytes: got %v, want success; %s", every, err, difference(got, data))
	}
	if n := f.plan.Count(fault.Get); n != 16 {
		t.Errorf("got %d requests for 16 pieces, want 16", n)
	}
}

func resumeNotByDriver(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{})
	for _, do := range []fault.Action{fault.Reset{Of: fault.Response, After: 1000}, fault.Truncate{After: 1000}, fault.CleanEOF{After: 1000}} {
		op := f.operationFor(fault.Get)
		out := f.try(op, fault.Rule{Step: fault.Get, Do: do})
		if out.err == nil || out.count(fault.Get) != 1 {
			t.Errorf("%s: got %d requests and %s, want 1 and an error", do, out.count(fault.Get), shown(out.err))
		}
		if c := backends.CodeOf(out.err); c != backends.Unavailable && !errors.Is(out.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %s, want Unavailable or io.ErrUnexpectedEOF", do, shown(out.err))
		}
	}
}

func stallHeaders(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{timeout: faultTimeout, attempts: 1})
	op := f.operationFor(fault.Stat)
	out := f.try(op, fault.Rule{Step: fault.Stat, Do: fault.StallHeaders{}})
	f.failed("one attempt", op, out, fault.Stat, 1, backends.Timeout)
	f.inTime("one attempt", out)
	f = newFaulty(t, b, faultOptions{timeout: faultTimeout, attempts: 2})
	out = f.try(op, fault.Rule{Step: fault.Stat, Do: fault.StallHeaders{}})
	f.recovered("two attempts", op, out, fault.Stat, 1)
	f.inTime("two attempts", out)
}

// inTime: a stall is neither cut short nor borne for long.
func (f *faulty) inTime(what string, out outcome) {
	f.t.Helper()
	if out.took < faultTimeout/2 || out.took > faultTimeout+f.b.Prompt() {
		f.t.Errorf("%s: got an end after %s, want one that fits the timeout of %s", what, out.took, faultTimeout)
	}
}

func stallDownload(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{timeout: faultTimeout})
	op := f.operationFor(fault.Get)
	out := f.try(op, fault.Rule{Step: fault.Get, Do: fault.StallBody{Of: fault.Response, After: 100_000}})
	f.recovered("bytes that stop", op, out, fault.Get, 1)
	f.inTime("bytes that stop", out)
}

func stallUpload(t T, b *Bench) {
	f := newFaulty(t, b, faultOptions{timeout: faultTimeout})
	op := f.operationFor(fault.Put)
	out := f.try(op, fault.Rule{Step: fault.Put, Do: fault.StallBody{Of: fault.Request, After: 1000}})
	f.recovered("bytes that nobody takes", op, out, fault.Put, 1)
	if out.took < faultTimeout/2 || out.took > 4*faultTimeout+f.b.Prompt() { // what was sent may be waited for too
		t.Errorf("got an end after %s, want one that fits the timeout of %s", out.took, faultTimeout)
	}
}
