package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
)

// env is what a case works with.
type env struct {
	testing.TB
	h   Harness
	ctx context.Context
	log rlmm.Log
}

// start is the position before everything of a new log.
var start = rlmm.Position{Offset: 0, Epoch: -1}

// append appends events to p and returns the last position.
func (e *env) append(p int32, events ...string) rlmm.Position {
	e.Helper()
	var pos rlmm.Position
	for _, ev := range events {
		var err error
		if pos, err = e.log.Append(e.ctx, p, []byte(ev)); err != nil {
			e.Fatalf("Append(%d, %q): %v", p, ev, err)
		}
	}
	return pos
}

func (e *env) bounds(p int32) rlmm.Bounds {
	e.Helper()
	b, err := e.log.Bounds(e.ctx, []int32{p})
	if err != nil {
		e.Fatalf("Bounds(%d): %v", p, err)
	}
	if len(b) != 1 {
		e.Fatalf("Bounds(%d) = %v, want one answer", p, b)
	}
	return b[p]
}

// check returns the loss that Check reports for one position.
func (e *env) check(p int32, at rlmm.Position) (rlmm.Loss, bool) {
	e.Helper()
	lost, err := e.log.Check(e.ctx, map[int32]rlmm.Position{p: at})
	if err != nil {
		e.Fatalf("Check(%d, %+v): %v", p, at, err)
	}
	if len(lost) > 1 {
		e.Fatalf("Check(%d, %+v) = %+v, want one loss at most", p, at, lost)
	}
	if len(lost) == 0 {
		return rlmm.Loss{}, false
	}
	return lost[0], true
}

// names makes n events.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

// reader reads with a Follower and holds each batch against the contract.
type reader struct {
	e      *env
	f      rlmm.Follower
	pos    map[int32]rlmm.Position
	events map[int32][]rlmm.Event
	lost   []rlmm.Loss
}

func (e *env) follow(from map[int32]rlmm.Position) *reader {
	e.Helper()
	r := &reader{e: e, f: e.log.Follow(from), pos: map[int32]rlmm.Position{}, events: map[int32][]rlmm.Event{}}
	for p, at := range from {
		r.pos[p] = at
	}
	e.Cleanup(func() { _ = r.f.Close() })
	return r
}

// next takes one batch.
func (r *reader) next() {
	r.e.Helper()
	b, err := r.f.Next(r.e.ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			r.e.Fatalf("Next: nothing came; read so far: %v", r.pos)
		}
		r.e.Fatalf("Next: %v", err)
	}
	r.take(b)
}

func (r *reader) take(b rlmm.Batch) {
	r.e.Helper()
	if len(b.Events) == 0 && len(b.Next) == 0 && len(b.Lost) == 0 {
		r.e.Fatalf("Next returned an empty batch")
	}
	for _, l := range b.Lost {
		if l.From != r.pos[l.Partition] {
			r.e.Fatalf("loss %+v, the reader was at %+v", l, r.pos[l.Partition])
		}
		r.pos[l.Partition] = l.Resume
		r.lost = append(r.lost, l)
	}
	for _, ev := range b.Events {
		at, known := r.pos[ev.Partition]
		next, moved := b.Next[ev.Partition]
		switch {
		case !known:
			r.e.Fatalf("event at offset %d of partition %d, which was not asked for", ev.Offset, ev.Partition)
		case ev.Offset < at.Offset:
			r.e.Fatalf("event at offset %d of partition %d after Next %d", ev.Offset, ev.Partition, at.Offset)
		case !moved || ev.Offset >= next.Offset:
			r.e.Fatalf("event at offset %d of partition %d, Batch.Next is %+v", ev.Offset, ev.Partition, b.Next)
		}
		r.pos[ev.Partition] = rlmm.Position{Offset: ev.Offset + 1, Epoch: ev.Epoch}
		r.events[ev.Partition] = append(r.events[ev.Partition], ev)
	}
	for p, next := range b.Next {
		at, known := r.pos[p]
		if !known || next.Offset < at.Offset {
			r.e.Fatalf("Batch.Next of partition %d is %+v after %+v", p, next, at)
		}
		if next.Offset == at.Offset && at.Epoch >= 0 && next.Epoch != at.Epoch {
			r.e.Fatalf("Batch.Next of partition %d is %+v, the last event was of epoch %d", p, next, at.Epoch)
		}
		r.pos[p] = next
	}
}

// atLeast reads until partition p has been read up to offset, or farther: for a log to which something may still be added.
func (r *reader) atLeast(p int32, offset int64) {
	r.e.Helper()
	for r.pos[p].Offset < offset {
		r.next()
	}
}

// until reads until partition p has been read up to offset, where the log must end.
func (r *reader) until(p int32, offset int64) {
	r.e.Helper()
	r.atLeast(p, offset)
	if r.pos[p].Offset != offset {
		r.e.Fatalf("partition %d was read up to %d, want %d", p, r.pos[p].Offset, offset)
	}
}

// want compares everything read of p with the events that start at offset first, one for each offset.
func (r *reader) want(p int32, first int64, events ...string) {
	r.e.Helper()
	got := r.events[p]
	for i, ev := range got {
		if i >= len(events) {
			r.e.Fatalf("partition %d: %d events, want %d; the next is %q at %d", p, len(got), len(events), ev.Value, ev.Offset)
		}
		if string(ev.Value) != events[i] || ev.Offset != first+int64(i) {
			r.e.Fatalf("partition %d: event %d is %q at offset %d, want %q at %d", p, i, ev.Value, ev.Offset, events[i], first+int64(i))
		}
	}
	if len(got) < len(events) {
		r.e.Fatalf("partition %d: %d events, want %d", p, len(got), len(events))
	}
}

// noLoss fails if something was reported lost.
func (r *reader) noLoss() {
	r.e.Helper()
	if len(r.lost) > 0 {
		r.e.Fatalf("lost: %+v, want nothing", r.lost)
	}
}
