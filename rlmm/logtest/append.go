package logtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func identity(e *env) {
	id := e.log.Identity()
	if id == "" {
		e.Fatalf("Identity() is empty")
	}
	e.append(0, "a")
	if got := e.log.Identity(); got != id {
		e.Fatalf("Identity() = %q, then %q", id, got)
	}
	other := e.h.Open(e.TB)
	defer func() { _ = other.Close() }()
	if got := other.Identity(); got == id {
		e.Fatalf("Identity() of another log is %q too", got)
	}
}

// reopen: what was acknowledged is there, under the same identity, and appending goes on behind it.
func reopen(e *env) {
	id, n := e.log.Identity(), e.log.Partitions()
	at := e.append(1, "a", "b")
	e.log = e.h.Reopen(e.TB, e.log)
	if got := e.log.Identity(); got != id {
		e.Fatalf("Identity() = %q after opening again, want %q", got, id)
	}
	if got := e.log.Partitions(); got != n {
		e.Fatalf("Partitions() = %d after opening again, want %d", got, n)
	}
	if loss, ok := e.check(1, at); ok {
		e.Fatalf("Check(%+v) after opening again = %+v, want nothing lost", at, loss)
	}
	r := e.follow(map[int32]rlmm.Position{1: start})
	r.until(1, 2)
	e.append(1, "c")
	r.until(1, 3)
	r.want(1, 0, "a", "b", "c")
	r.noLoss()
}

// appendPosition: the position returned is the one behind the event.
func appendPosition(e *env) {
	for i := range int64(3) {
		before := e.bounds(1)
		got := e.append(1, fmt.Sprint(i))
		if got.Offset <= before.Next {
			e.Fatalf("Append returned offset %d, the event is at %d or behind", got.Offset, before.Next)
		}
		r := e.follow(map[int32]rlmm.Position{1: {Offset: before.Next, Epoch: -1}})
		r.until(1, got.Offset)
		if ev := r.events[1]; len(ev) != 1 || ev[0].Offset != got.Offset-1 || got.Epoch != -1 && ev[0].Epoch != got.Epoch {
			e.Fatalf("Append returned %+v, the events up to there are %+v", got, ev)
		}
		if loss, ok := e.check(1, got); ok {
			e.Fatalf("Check of the position that Append returned: %+v", loss)
		}
	}
	if got := e.bounds(0); got.Next != 0 {
		e.Fatalf("partition 0 has bounds %+v after appends to partition 1", got)
	}
}

// appendVisible: Bounds and every follower show an event as soon as its Append returned.
func appendVisible(e *env) {
	live := e.follow(map[int32]rlmm.Position{0: start})
	for i := range 20 {
		pos := e.append(0, fmt.Sprint(i))
		if got := e.bounds(0); got.Next < pos.Offset {
			e.Fatalf("Bounds = %+v after Append returned %+v", got, pos)
		}
		live.until(0, pos.Offset)
		late := e.follow(map[int32]rlmm.Position{0: {Offset: pos.Offset - 1, Epoch: -1}})
		late.until(0, pos.Offset)
		late.want(0, pos.Offset-1, fmt.Sprint(i))
	}
}

// appendCopies: the slice is the caller's again.
func appendCopies(e *env) {
	b := []byte("first")
	if _, err := e.log.Append(e.ctx, 0, b); err != nil {
		e.Fatalf("Append: %v", err)
	}
	copy(b, "OTHER")
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.until(0, 1)
	r.want(0, 0, "first")
}

// appendCancelled: an Append whose context has ended is not in the log, unless it says that it may be.
func appendCancelled(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	definite := map[string]bool{}
	for _, ev := range names("dead", 20) {
		_, err := e.log.Append(ctx, 0, []byte(ev))
		if err == nil {
			continue // it was faster
		}
		if !errors.Is(err, context.Canceled) {
			e.Fatalf("Append with an ended context: %v, want context.Canceled", err)
		}
		definite[ev] = !errors.Is(err, remotelog.ErrOutcomeUnknown)
	}
	e.onlyTheDoubtful(definite)
}

// appendStalled: an Append whose context ends while the write hangs returns soon and tells the truth.
func appendStalled(e *env) {
	release := sync.OnceFunc(e.h.Stall(e.TB, e.log, 0))
	defer release()
	const n = 8
	type outcome struct {
		event string
		err   error
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	results := make(chan outcome, n)
	for _, ev := range names("stalled", n) {
		go func() {
			_, err := e.log.Append(ctx, 0, []byte(ev))
			results <- outcome{ev, err}
		}()
	}
	cancel()
	definite := map[string]bool{}
	for range n {
		select {
		case got := <-results:
			if !errors.Is(got.err, context.Canceled) {
				e.Fatalf("Append that hangs, context cancelled: %v, want context.Canceled", got.err)
			}
			definite[got.event] = !errors.Is(got.err, remotelog.ErrOutcomeUnknown)
		case <-e.ctx.Done():
			e.Fatalf("Append does not return after its context was cancelled")
		}
	}
	release()
	e.onlyTheDoubtful(definite)
}

// onlyTheDoubtful reads the log up to an event that is appended now: none of those is in it whose Append said that they never
// will be. One in doubt may come before that event, behind it, or never.
func (e *env) onlyTheDoubtful(definite map[string]bool) {
	e.Helper()
	pos := e.append(0, "alive")
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.atLeast(0, pos.Offset)
	for _, ev := range r.events[0] {
		if definite[string(ev.Value)] {
			e.Fatalf("%q is in the log; its Append returned an error that says it is not", ev.Value)
		}
	}
}

func invalidArguments(e *env) {
	n := e.log.Partitions()
	for _, p := range []int32{-1, n} {
		_, err := e.log.Append(e.ctx, p, []byte("x"))
		wantKind(e, fmt.Sprintf("Append to partition %d", p), err, remotelog.ErrInvalidArgument)
		_, err = e.log.Bounds(e.ctx, []int32{0, p})
		wantKind(e, fmt.Sprintf("Bounds of partition %d", p), err, remotelog.ErrInvalidArgument)
		_, err = e.log.Check(e.ctx, map[int32]rlmm.Position{p: start})
		wantKind(e, fmt.Sprintf("Check of partition %d", p), err, remotelog.ErrInvalidArgument)
		f := e.log.Follow(map[int32]rlmm.Position{p: start})
		_, err = f.Next(e.ctx)
		wantKind(e, fmt.Sprintf("Next of partition %d", p), err, remotelog.ErrInvalidArgument)
		if err := f.Close(); err != nil {
			e.Fatalf("Close: %v", err)
		}
	}
	for _, ev := range [][]byte{nil, {}} {
		_, err := e.log.Append(e.ctx, 0, ev)
		wantKind(e, "Append of an empty event", err, remotelog.ErrInvalidArgument)
	}
	big := strings.Repeat("x", rlmm.MaxEventBytes)
	pos := e.append(0, big)
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.until(0, pos.Offset)
	r.want(0, pos.Offset-1, big)
}

func wantKind(e *env, what string, err, kind error) {
	e.Helper()
	if !errors.Is(err, kind) {
		e.Fatalf("%s: error %v, want %v", what, err, kind)
	}
}
