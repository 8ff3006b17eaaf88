package logtest

import (
	"github.com/tierkit/tierkit/rlmm"
)

// headGone: a reader before the new head is told, and goes on at the head; one at or behind it is not concerned.
func headGone(e *env) {
	at := []rlmm.Position{start}
	for _, ev := range names("h", 10) {
		at = append(at, e.append(0, ev))
	}
	live := e.follow(map[int32]rlmm.Position{0: start})
	before := e.log
	e.log = e.h.TrimHead(e.TB, e.log, 0, 6)
	if got, want := e.bounds(0), (rlmm.Bounds{First: 6, Next: 10}); got != want {
		e.Fatalf("Bounds after the head has gone: %+v, want %+v", got, want)
	}
	readers := map[int64]*reader{}
	for i, pos := range at {
		if i < 10 {
			readers[pos.Offset] = e.follow(map[int32]rlmm.Position{0: pos})
		}
	}
	if e.log == before {
		readers[-1] = live // from 0 on, while the head goes
	}
	for offset, r := range readers {
		r.until(0, 10)
		if offset >= 6 {
			r.noLoss()
			r.want(0, offset, names("h", 10)[offset:]...)
			continue
		}
		from := at[max(offset, 0)]
		want := rlmm.Loss{Partition: 0, From: from, Resume: rlmm.Position{Offset: 6, Epoch: -1}, Kind: rlmm.HeadGone}
		if len(r.lost) != 1 || r.lost[0] != want {
			e.Fatalf("reader at %+v: lost %+v, want %+v", from, r.lost, want)
		}
		r.want(0, 6, names("h", 10)[6:]...)
		if got, _ := e.check(0, from); got != want {
			e.Fatalf("Check(%+v) = %+v, want %+v", from, got, want)
		}
	}
	for _, pos := range at[6:] {
		if loss, ok := e.check(0, pos); ok {
			e.Fatalf("Check(%+v) = %+v, want nothing lost", pos, loss)
		}
	}
}

// regrown: other events took the offsets behind the cut, up to where the readers were and beyond.
func regrown(e *env) {
	at := []rlmm.Position{start}
	for _, ev := range names("old", 10) {
		at = append(at, e.append(0, ev))
	}
	live := e.follow(map[int32]rlmm.Position{0: start})
	live.until(0, 10)
	for i, ev := range live.events[0] {
		at[i+1].Epoch = ev.Epoch // Append may not have told
	}
	before := e.log
	grown := names("new", 8)
	e.log = e.h.Regrow(e.TB, e.log, 0, 6, grown...)
	all := append(names("old", 6), grown...)
	if got, want := e.bounds(0), (rlmm.Bounds{First: 0, Next: 14}); got != want {
		e.Fatalf("Bounds after truncation and regrowth: %+v, want %+v", got, want)
	}
	if e.log != before {
		live = e.follow(map[int32]rlmm.Position{0: at[10]})
	}
	e.wantTruncated(live, at[10], all)
	for _, pos := range at {
		loss, lost := e.check(0, pos)
		if lost != (pos.Offset > 6) {
			e.Fatalf("Check(%+v) after a cut at 6 = %+v, %v", pos, loss, lost)
		}
		r := e.follow(map[int32]rlmm.Position{0: pos})
		if lost {
			e.wantTruncated(r, pos, all)
			continue
		}
		r.until(0, 14)
		r.noLoss()
		r.want(0, pos.Offset, all[pos.Offset:]...)
	}
}

// wantTruncated expects one loss from that position, and then everything from the first offset.
func (e *env) wantTruncated(r *reader, from rlmm.Position, all []string) {
	e.Helper()
	want := rlmm.Loss{Partition: 0, From: from, Resume: start, Kind: rlmm.Truncated}
	for len(r.lost) == 0 {
		if r.pos[0] != from {
			e.Fatalf("reader moved from %+v to %+v without a loss", from, r.pos[0])
		}
		r.events[0] = nil
		r.next()
	}
	r.until(0, int64(len(all)))
	if len(r.lost) != 1 || r.lost[0] != want {
		e.Fatalf("reader at %+v: lost %+v, want %+v", from, r.lost, want)
	}
	r.want(0, 0, all...)
}

// truncated: the log has become shorter than a reader has read; nothing has grown yet.
func truncated(e *env) {
	at := e.append(0, names("old", 5)...)
	e.log = e.h.Regrow(e.TB, e.log, 0, 3)
	for _, pos := range []rlmm.Position{at, {Offset: 4, Epoch: -1}} {
		want := rlmm.Loss{Partition: 0, From: pos, Resume: start, Kind: rlmm.Truncated}
		if got, _ := e.check(0, pos); got != want {
			e.Fatalf("Check(%+v) of a log cut at 3 = %+v, want %+v", pos, got, want)
		}
		e.wantTruncated(e.follow(map[int32]rlmm.Position{0: pos}), pos, names("old", 3))
	}
}

// holes: a reader gets over offsets without events, at the end too, and reaches Bounds.Next.
func holes(e *env) {
	e.append(0, "a", "b")
	live := e.follow(map[int32]rlmm.Position{0: start})
	live.until(0, 2)
	before := e.log
	e.log = e.h.Skip(e.TB, e.log, 0, 3)
	if got, want := e.bounds(0), (rlmm.Bounds{First: 0, Next: 5}); got != want {
		e.Fatalf("Bounds with a hole at the end: %+v, want %+v", got, want)
	}
	if e.log != before {
		live = e.follow(map[int32]rlmm.Position{0: live.pos[0]})
	}
	live.until(0, 5)
	if loss, ok := e.check(0, live.pos[0]); ok {
		e.Fatalf("Check behind the hole = %+v, want nothing lost", loss)
	}
	if got := e.append(0, "c"); got.Offset != 6 {
		e.Fatalf("Append behind the hole returned %+v, want offset 6", got)
	}
	live.until(0, 6)
	live.noLoss()
	for from := range int64(6) {
		r := e.follow(map[int32]rlmm.Position{0: {Offset: from, Epoch: -1}})
		r.until(0, 6)
		r.noLoss()
		if n := len(r.events[0]); n != len([]string{"a", "b", "c"}[min(from, 2):]) || string(r.events[0][n-1].Value) != "c" {
			e.Fatalf("from %d: events %+v", from, r.events[0])
		}
	}
}
