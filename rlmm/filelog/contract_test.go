package filelog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/logtest"
)

// rig is a log under the contract's table: the writer, perhaps a reader without the lock beside it, and the faults.
type rig struct {
	rlmm.Log // what the table reads from
	writer   *Log
	dir      string
	x        *faults
	apart    bool
}

// Append goes to the writer.
func (r *rig) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	return r.writer.Append(ctx, p, event)
}

func (r *rig) Close() error { return errors.Join(r.Log.Close(), r.writer.Close()) }

func newRig(t testing.TB, dir string, apart bool) *rig {
	r := &rig{dir: dir, x: &faults{}, apart: apart}
	r.writer = mustOpen(t, dir, Options{Partitions: 2, Now: clock()}, r.x)
	r.Log = r.writer
	if apart {
		r.Log = mustOpenReadOnly(t, dir)
	}
	return r
}

// surgery changes the bytes of a partition while no writer has the log open. A reader apart stays open.
func (r *rig) surgery(t testing.TB, p int32, f func(b []byte, h header, st state) []byte) *rig {
	t.Helper()
	mustClose(t, r.writer)
	path := partitionFile(r.dir, p)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	part := r.writer.parts[p]
	if err := os.WriteFile(path, f(b, part.head, part.st), 0o600); err != nil { // in place, as the writer changes it
		t.Fatal(err)
	}
	if !r.apart {
		return newRig(t, r.dir, false)
	}
	r.writer = mustOpen(t, r.dir, Options{Now: clock()}, r.x)
	return r
}

// regrow cuts the file where offset end begins and adds one group for each event.
func (r *rig) regrow(t testing.TB, p int32, end int64, events []string) *rig {
	return r.surgery(t, p, func(b []byte, h header, st state) []byte {
		epoch := st.end.epoch + 1
		at := newState(h, st.index[0].crc)
		for at.end.next < end {
			g, err := parseGroup(b[at.end.pos:])
			if err != nil {
				t.Fatal(err)
			}
			at.add(at.end, g)
		}
		b = b[:at.end.pos]
		for _, e := range events {
			b = grow(t, b, &at, epoch, 1, e)
		}
		return b
	})
}

// trim makes the file of what is left behind first, as a later version may.
func (r *rig) trim(t testing.TB, p int32, first int64) *rig {
	return r.surgery(t, p, func(b []byte, h header, st state) []byte {
		old := newState(h, st.index[0].crc)
		h.first = first
		out := h.marshal()
		_, crc, err := parseHeader("x", out)
		if err != nil {
			t.Fatal(err)
		}
		now := newState(h, crc)
		for old.end.pos < int64(len(b)) {
			g, err := parseGroup(b[old.end.pos:])
			if err != nil {
				t.Fatal(err)
			}
			var values []string
			at := old.end
			if err := at.accept("x", p, g, func(e rlmm.Event) { values = append(values, string(e.Value)) }); err != nil {
				t.Fatal(err)
			}
			if g.base >= first {
				out = grow(t, out, &now, g.epoch, g.offsets, values...)
			}
			old.add(old.end, g)
		}
		return out
	})
}

func (r *rig) stall() func() {
	gate := make(chan struct{})
	var once sync.Once
	r.x.set(func(x *faults) { x.sync = func(f file) error { <-gate; return f.Sync() } })
	return func() {
		once.Do(func() {
			r.x.set(func(x *faults) { x.sync = nil })
			close(gate)
		})
	}
}

func harness(apart bool) logtest.Harness {
	h := logtest.Harness{
		Open: func(t testing.TB) rlmm.Log { return newRig(t, filepath.Join(t.TempDir(), "a", "log"), apart) },
		Reopen: func(t testing.TB, l rlmm.Log) rlmm.Log {
			r := l.(*rig)
			mustClose(t, r)
			return newRig(t, r.dir, apart)
		},
		Regrow: func(t testing.TB, l rlmm.Log, p int32, end int64, events ...string) rlmm.Log {
			return l.(*rig).regrow(t, p, end, events)
		},
		Skip: func(t testing.TB, l rlmm.Log, p int32, n int64) rlmm.Log {
			return l.(*rig).surgery(t, p, func(b []byte, _ header, st state) []byte {
				return grow(t, b, &st, st.end.epoch, uint32(n))
			})
		},
		Foreign: func(t testing.TB, l rlmm.Log, p int32, key, value []byte) rlmm.Log {
			return l.(*rig).surgery(t, p, func(b []byte, _ header, st state) []byte {
				e := rlmm.Event{Offset: st.end.next, Key: key, Value: value}
				return appendGroup(b, st.end, max(st.end.epoch, 0), 1, []rlmm.Event{e})
			})
		},
		Stall: func(_ testing.TB, l rlmm.Log, _ int32) func() { return l.(*rig).stall() },
	}
	if !apart { // a later version gives a trimmed file another name first: a reader has to open it again
		h.TrimHead = func(t testing.TB, l rlmm.Log, p int32, first int64) rlmm.Log { return l.(*rig).trim(t, p, first) }
	}
	return h
}

func TestLog_Contract(t *testing.T) { logtest.Run(t, harness(false)) }

// TestReader_Contract: appends by a writer, everything else by a reader without the lock.
func TestReader_Contract(t *testing.T) { logtest.Run(t, harness(true)) }
