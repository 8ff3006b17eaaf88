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

// inOrder: writers at the same time, two followers: each sees each writer's events in its order and each offset once.
func inOrder(e *env) {
	const writers, each = 8, 50
	live := e.follow(map[int32]rlmm.Position{0: start, 1: start})
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := e.log.Append(e.ctx, int32(w%2), fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for p := range int32(2) {
		live.until(p, writers/2*each)
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		e.Fatalf("Append: %v", err)
	}
	late := e.follow(map[int32]rlmm.Position{0: start, 1: start})
	for p := range int32(2) {
		late.until(p, writers/2*each)
		seen := map[int]int{}
		for i, ev := range live.events[p] {
			var w, n int
			if _, err := fmt.Sscanf(string(ev.Value), "%d %d", &w, &n); err != nil {
				e.Fatalf("event %q: %v", ev.Value, err)
			}
			if n != seen[w] || ev.Offset != int64(i) {
				e.Fatalf("writer %d: event %d at offset %d, want event %d at offset %d", w, n, ev.Offset, seen[w], i)
			}
			seen[w]++
			if l := late.events[p][i]; string(l.Value) != string(ev.Value) || l.Offset != ev.Offset || l.Epoch != ev.Epoch {
				e.Fatalf("a late follower reads %+v, a live one %+v", l, ev)
			}
		}
		if got := len(live.events[p]); got != writers/2*each {
			e.Fatalf("partition %d: %d events, want %d", p, got, writers/2*each)
		}
	}
	live.noLoss()
	late.noLoss()
}

// fromTheMiddle: a follower starts exactly at the position given, for every position.
func fromTheMiddle(e *env) {
	events := names("m", 12)
	at := []rlmm.Position{start}
	for _, ev := range events {
		at = append(at, e.append(0, ev))
	}
	for i, pos := range at[:len(at)-1] {
		for _, from := range []rlmm.Position{pos, {Offset: pos.Offset, Epoch: -1}} {
			r := e.follow(map[int32]rlmm.Position{0: from})
			r.until(0, int64(len(events)))
			r.want(0, int64(i), events[i:]...)
			r.noLoss()
		}
	}
}

// foreign: keys are handed over, a tombstone is an event with a nil value, an empty value is not one.
func foreign(e *env) {
	e.log = e.h.Foreign(e.TB, e.log, 0, []byte("k"), []byte("v"))
	e.log = e.h.Foreign(e.TB, e.log, 0, []byte("k"), nil)
	e.log = e.h.Foreign(e.TB, e.log, 0, nil, []byte{})
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.until(0, 3)
	got := r.events[0]
	if len(got) != 3 {
		e.Fatalf("%d events, want 3: %+v", len(got), got)
	}
	if string(got[0].Key) != "k" || string(got[0].Value) != "v" {
		e.Fatalf("event with a key: %+v", got[0])
	}
	if string(got[1].Key) != "k" || got[1].Value != nil {
		e.Fatalf("tombstone: %+v, want a nil value", got[1])
	}
	if got[2].Key != nil || got[2].Value == nil || len(got[2].Value) != 0 {
		e.Fatalf("empty value: %+v, want no key and a value that is not nil", got[2])
	}
}

// slowReader: a reader that takes its first batch after thousands of events, megabytes, misses none.
func slowReader(e *env) {
	r := e.follow(map[int32]rlmm.Position{0: start})
	const writers, each = 16, 250
	fill := strings.Repeat("x", 1000)
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := e.log.Append(e.ctx, 0, fmt.Appendf(nil, "%d %d %s", w, i, fill)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		e.Fatalf("Append: %v", err)
	}
	r.until(0, writers*each)
	if got := len(r.events[0]); got != writers*each {
		e.Fatalf("%d events, want %d", got, writers*each)
	}
	for i, ev := range r.events[0] {
		if ev.Offset != int64(i) {
			e.Fatalf("event %d has offset %d", i, ev.Offset)
		}
	}
	r.noLoss()
}

// fair: a partition with much to read does not keep another one waiting.
func fair(e *env) {
	big := strings.Repeat("x", 500_000)
	for range 40 {
		e.append(0, big)
	}
	e.append(1, "small")
	r := e.follow(map[int32]rlmm.Position{0: start, 1: start})
	r.until(1, 1)
	if r.pos[0].Offset == 40 {
		e.Fatalf("partition 1 was read after 20 MB of partition 0")
	}
	if r.until(0, 40); len(r.events[0]) != 40 {
		e.Fatalf("%d events, want 40", len(r.events[0]))
	}
}

// nextCancelled: a Next whose context ends loses nothing.
func nextCancelled(e *env) {
	r := e.follow(map[int32]rlmm.Position{0: start})
	for i := range 10 {
		r.nextDuring(fmt.Sprint(i), i%2 == 0)
	}
	r.until(0, 10)
	r.want(0, 0, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
}

// nextDuring runs Next while an event is appended and its context is cancelled, in one order or the other.
func (r *reader) nextDuring(event string, cancelFirst bool) {
	r.e.Helper()
	ctx, cancel := context.WithCancel(r.e.ctx)
	defer cancel()
	type got struct {
		b   rlmm.Batch
		err error
	}
	done := make(chan got, 1)
	go func() {
		b, err := r.f.Next(ctx)
		done <- got{b, err}
	}()
	if cancelFirst {
		cancel()
	}
	r.e.append(0, event)
	cancel()
	select {
	case g := <-done:
		if g.err == nil {
			r.take(g.b)
		} else if !errors.Is(g.err, context.Canceled) {
			r.e.Fatalf("Next with a cancelled context: %v", g.err)
		}
	case <-r.e.ctx.Done():
		r.e.Fatalf("Next does not return after its context was cancelled")
	}
}

// assign: a partition that stays goes on, one that is removed is silent, one that comes back starts where it is told.
func assign(e *env) {
	e.append(0, "a0", "a1")
	e.append(1, "b0", "b1")
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.until(0, 2)
	r.pos[1] = start
	r.f.Assign(map[int32]rlmm.Position{0: start, 1: start}) // 0 stays: its position is ignored
	r.until(1, 2)
	delete(r.pos, 0)
	r.f.Assign(map[int32]rlmm.Position{1: start})
	e.append(0, "a2")
	e.append(1, "b2")
	r.until(1, 3)
	r.want(0, 0, "a0", "a1")
	r.want(1, 0, "b0", "b1", "b2")
	r.events[0], r.pos[0] = nil, rlmm.Position{Offset: 1, Epoch: -1}
	r.f.Assign(map[int32]rlmm.Position{0: {Offset: 1, Epoch: -1}, 1: start})
	r.until(0, 3)
	r.want(0, 1, "a1", "a2")
	r.noLoss()
}

// assignDuringNext: a Next that waits goes on with the new set.
func assignDuringNext(e *env) {
	e.append(1, "b0")
	r := e.follow(map[int32]rlmm.Position{0: start})
	done := make(chan struct{})
	var b rlmm.Batch
	var err error
	go func() {
		defer close(done)
		b, err = r.f.Next(e.ctx)
	}()
	r.f.Assign(map[int32]rlmm.Position{1: start})
	<-done
	if err != nil {
		e.Fatalf("Next while partition 1 was assigned: %v", err)
	}
	delete(r.pos, 0)
	r.pos[1] = start
	r.take(b)
	r.want(1, 0, "b0")
	e.append(0, "a0")
	e.append(1, "b1")
	r.until(1, 2)
	r.want(1, 0, "b0", "b1")

	// Assign at any time while one goroutine reads: each partition of the set is read on.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.f.Assign(map[int32]rlmm.Position{1: start})
			}
		}
	})
	for i := range 20 {
		pos := e.append(1, fmt.Sprint(i))
		r.until(1, pos.Offset)
	}
	close(stop)
	wg.Wait()
	if got := len(r.events[1]); got != 22 {
		e.Fatalf("%d events, want 22", got)
	}
}

// closeFollower: Close wakes Next, is idempotent, and leaves the log alone.
func closeFollower(e *env) {
	f := e.log.Follow(map[int32]rlmm.Position{0: start})
	errs := make(chan error, 1)
	go func() {
		_, err := f.Next(e.ctx)
		errs <- err
	}()
	for range 2 {
		if err := f.Close(); err != nil {
			e.Fatalf("Close: %v", err)
		}
	}
	wantClosed(e, "Next during Close", errs)
	_, err := f.Next(e.ctx)
	wantKind(e, "Next after Close", err, remotelog.ErrClosed)
	f.Assign(map[int32]rlmm.Position{1: start}) // harmless
	e.append(0, "a")
	r := e.follow(map[int32]rlmm.Position{0: start})
	r.until(0, 1)
}

func wantClosed(e *env, what string, errs <-chan error) {
	e.Helper()
	select {
	case err := <-errs:
		wantKind(e, what, err, remotelog.ErrClosed)
	case <-e.ctx.Done():
		e.Fatalf("%s does not return", what)
	}
}

// closeLog: Close ends every Next and Append, is idempotent, and what comes later is ErrClosed.
func closeLog(e *env) {
	e.append(0, "a")
	id := e.log.Identity()
	f := e.log.Follow(map[int32]rlmm.Position{0: {Offset: 1, Epoch: -1}})
	nexts, appends := make(chan error, 1), make(chan error, 8)
	go func() {
		for {
			if _, err := f.Next(e.ctx); err != nil {
				nexts <- err
				return
			}
		}
	}()
	for range cap(appends) {
		go func() {
			for {
				if _, err := e.log.Append(e.ctx, 0, []byte("x")); err != nil {
					appends <- err
					return
				}
			}
		}()
	}
	e.append(0, "b")
	for range 2 {
		if err := e.log.Close(); err != nil {
			e.Fatalf("Close: %v", err)
		}
	}
	wantClosed(e, "Next during Close of the log", nexts)
	for range cap(appends) {
		wantClosed(e, "Append during Close of the log", appends)
	}
	_, err := e.log.Append(e.ctx, 0, []byte("x"))
	wantKind(e, "Append after Close", err, remotelog.ErrClosed)
	_, err = e.log.Bounds(e.ctx, []int32{0})
	wantKind(e, "Bounds after Close", err, remotelog.ErrClosed)
	_, err = e.log.Check(e.ctx, map[int32]rlmm.Position{0: start})
	wantKind(e, "Check after Close", err, remotelog.ErrClosed)
	late := e.log.Follow(map[int32]rlmm.Position{0: start})
	_, err = late.Next(e.ctx)
	wantKind(e, "Next of a follower made after Close", err, remotelog.ErrClosed)
	if err := errors.Join(f.Close(), late.Close()); err != nil {
		e.Fatalf("Close of followers after the log: %v", err)
	}
	if got := e.log.Identity(); got != id {
		e.Fatalf("Identity() after Close = %q, want %q", got, id)
	}
}
