package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// TestWrite_FailsAtEveryByte: a failed write leaves nothing, is a definite failure, and the next one is good. A reader beside
// it that looks at the worst moment sees nothing either.
func TestWrite_FailsAtEveryByte(t *testing.T) {
	dir, x := t.TempDir(), &faults{}
	l := mustOpen(t, dir, Options{}, x)
	ro := mustOpenReadOnly(t, dir)
	var want []string
	for n := range len("event") + groupHead + groupFixed + eventFixed {
		before := fileSize(t, partitionFile(dir, 0))
		x.set(func(x *faults) {
			x.write = func(f file, b []byte, off int64) (int, error) {
				n, err := failAfter(n)(f, b, off)
				if got, berr := ro.Bounds(t.Context(), []int32{0}); berr != nil || got[0].Next != int64(len(want)) {
					t.Errorf("reader after %d bytes: %+v, %v, want Next %d", n, got, berr, len(want))
				}
				return n, err
			}
		})
		_, err := l.Append(t.Context(), 0, []byte("wrong"))
		if !errors.Is(err, errInjected) || errors.Is(err, remotelog.ErrOutcomeUnknown) {
			t.Fatalf("write fails after %d bytes: %v, want a definite failure", n, err)
		}
		if got := fileSize(t, partitionFile(dir, 0)); got != before {
			t.Fatalf("write fails after %d bytes: the file has %d bytes, before %d", n, got, before)
		}
		x.set(func(x *faults) { x.write = nil })
		mustAppend(t, l, 0, fmt.Sprint(n))
		want = append(want, fmt.Sprint(n))
	}
	for name, r := range map[string]*Log{"writer": l, "reader": ro} {
		if d := cmp.Diff(want, mustRead(t, r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	mustClose(t, l)
	if d := cmp.Diff(want, mustRead(t, mustOpen(t, dir, Options{}, nil))); d != "" {
		t.Errorf("opened again (-want +got):\n%s", d)
	}
}

// TestWrite_WholeGroupTakenBack: a write can fail when everything is in the file. A reader beside it may have delivered the
// group; when it is cut off, and other events take its offsets, the reader is told.
func TestWrite_WholeGroupTakenBack(t *testing.T) {
	for _, regrown := range []int{0, 1, 3} {
		dir, x := t.TempDir(), &faults{}
		l := mustOpen(t, dir, Options{}, x)
		mustAppend(t, l, 0, "a")
		ro := mustOpenReadOnly(t, dir)
		f := ro.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
		defer func() { _ = f.Close() }()
		next := func() rlmm.Batch {
			b, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		next()
		var seen rlmm.Batch
		x.set(func(x *faults) {
			x.write = func(f file, b []byte, off int64) (int, error) {
				n, err := failAfter(len(b))(f, b, off)
				seen = next()
				return n, err
			}
		})
		if _, err := l.Append(t.Context(), 0, []byte("taken back")); !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
		x.set(func(x *faults) { x.write = nil })
		if len(seen.Events) != 1 || string(seen.Events[0].Value) != "taken back" {
			t.Fatalf("the reader saw %+v, want the event: the test tests nothing", seen)
		}
		want := []string{"a", "x", "y", "z"}[:1+regrown]
		mustAppend(t, l, 0, want[1:]...)
		b := next()
		loss := rlmm.Loss{From: seen.Next[0], Resume: rlmm.Position{Epoch: -1}, Kind: rlmm.Truncated}
		if len(b.Lost) != 1 || b.Lost[0] != loss {
			t.Fatalf("%d regrown: lost %+v, want %+v", regrown, b.Lost, loss)
		}
		var got []string
		for _, e := range b.Events {
			got = append(got, string(e.Value))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d regrown: events after the loss (-want +got):\n%s", regrown, d)
		}
		if lost, err := l.Check(t.Context(), seen.Next); err != nil || len(lost) != 1 {
			t.Errorf("%d regrown: Check = %+v, %v, want one loss", regrown, lost, err)
		}
	}
}

// TestWrite_OutcomeUnknown: after a failed fsync, or a cut that fails, nothing more is written and nothing is shown.
func TestWrite_OutcomeUnknown(t *testing.T) {
	fail := func(file) error { return errInjected }
	for _, tc := range []struct {
		name   string
		inject func(x *faults)
		stays  bool // the event is there when the log is opened again
	}{
		{"fsync fails", func(x *faults) { x.sync = fail }, true},
		{"write and cut fail", func(x *faults) {
			x.write = failAfter(40)
			x.truncate = func(file, int64) error { return errInjected }
		}, false},
		{"write and fsync of the cut fail", func(x *faults) { x.write, x.sync = failAfter(40), fail }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, x := t.TempDir(), &faults{}
			l := mustOpen(t, dir, Options{}, x)
			mustAppend(t, l, 0, "a")
			x.set(tc.inject)
			if _, err := l.Append(t.Context(), 0, []byte("b")); !errors.Is(err, remotelog.ErrOutcomeUnknown) || !errors.Is(err, errInjected) {
				t.Fatalf("Append: %v, want ErrOutcomeUnknown and the cause", err)
			}
			x.set(func(x *faults) { x.write, x.sync, x.truncate = nil, nil, nil })
			size := fileSize(t, partitionFile(dir, 0))
			_, err := l.Append(t.Context(), 0, []byte("c"))
			if !errors.Is(err, ErrWritesRefused) || errors.Is(err, remotelog.ErrOutcomeUnknown) {
				t.Fatalf("next Append: %v, want ErrWritesRefused and a definite failure", err)
			}
			if got := fileSize(t, partitionFile(dir, 0)); got != size {
				t.Errorf("the file went from %d to %d bytes", size, got)
			}
			if d := cmp.Diff([]string{"a"}, mustRead(t, l)); d != "" {
				t.Errorf("shown (-want +got):\n%s", d)
			}
			mustClose(t, l)
			l = mustOpen(t, dir, Options{}, nil)
			mustAppend(t, l, 0, "d")
			want := []string{"a", "d"}
			if tc.stays {
				want = []string{"a", "b", "d"}
			}
			if d := cmp.Diff(want, mustRead(t, l)); d != "" {
				t.Errorf("opened again (-want +got):\n%s", d)
			}
		})
	}
}

// TestWrite_GroupCommit: what is appended during an fsync shares the next one, and each caller gets the position of its event.
func TestWrite_GroupCommit(t *testing.T) {
	dir, x := t.TempDir(), &faults{}
	l := mustOpen(t, dir, Options{}, x)
	syncs, first, gate := 0, make(chan struct{}), make(chan struct{})
	x.set(func(x *faults) {
		x.sync = func(f file) error {
			if syncs++; syncs == 1 { // one goroutine writes
				close(first)
				<-gate
			}
			return f.Sync()
		}
	})
	got := make([]rlmm.Position, 64)
	var wg sync.WaitGroup
	add := func(i int) {
		wg.Go(func() {
			var err error
			if got[i], err = l.Append(t.Context(), 0, []byte(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	add(0)
	<-first
	for i := range 63 {
		add(i + 1)
	}
	waitPending(l.parts[0], 63)
	close(gate)
	wg.Wait()
	if syncs != 2 {
		t.Errorf("64 appends took %d fsyncs, want 2", syncs)
	}
	for i, v := range mustRead(t, l) {
		var n int
		if _, err := fmt.Sscan(v, &n); err != nil {
			t.Fatal(err)
		}
		if got[n].Offset != int64(i)+1 {
			t.Errorf("event %d is at offset %d, its Append returned %+v", n, i, got[n])
		}
	}
}

// waitPending waits until n requests wait for the next group.
func waitPending(p *partition, n int) {
	for {
		p.mu.Lock()
		now := len(p.pending)
		p.mu.Unlock()
		if now == n {
			return
		}
	}
}

// TestWrite_Cancelled: a context that ends before the event is in a group takes it out; later the outcome is unknown, and the
// event is not lost.
func TestWrite_Cancelled(t *testing.T) {
	dir, x := t.TempDir(), &faults{}
	l := mustOpen(t, dir, Options{}, x)
	inSync, gate := make(chan struct{}, 8), make(chan struct{})
	x.set(func(x *faults) { x.sync = func(f file) error { inSync <- struct{}{}; <-gate; return f.Sync() } })
	type ending struct {
		cancel context.CancelFunc
		err    chan error
	}
	add := func(event string) ending {
		ctx, cancel := context.WithCancel(t.Context())
		e := ending{cancel, make(chan error, 1)}
		go func() {
			_, err := l.Append(ctx, 0, []byte(event))
			e.err <- err
		}()
		return e
	}
	written := add("written")
	<-inSync
	waiting := add("waiting")
	waitPending(l.parts[0], 1)
	other := add("other")
	waitPending(l.parts[0], 2)
	waiting.cancel()
	if err := <-waiting.err; !errors.Is(err, context.Canceled) || errors.Is(err, remotelog.ErrOutcomeUnknown) {
		t.Errorf("cancelled before its group: %v, want context.Canceled alone", err)
	}
	written.cancel()
	if err := <-written.err; !errors.Is(err, context.Canceled) || !errors.Is(err, remotelog.ErrOutcomeUnknown) {
		t.Errorf("cancelled within its group: %v, want context.Canceled and ErrOutcomeUnknown", err)
	}
	close(gate)
	if err := <-other.err; err != nil {
		t.Error(err)
	}
	other.cancel()
	if d := cmp.Diff([]string{"written", "other"}, mustRead(t, l)); d != "" {
		t.Errorf("in the log (-want +got):\n%s", d)
	}
}

// TestWrite_LargeGroups: more events than a group may hold go into several, none above the limit.
func TestWrite_LargeGroups(t *testing.T) {
	dir, x := t.TempDir(), &faults{}
	l := mustOpen(t, dir, Options{}, x)
	first, gate := make(chan struct{}, 64), make(chan struct{})
	x.set(func(x *faults) {
		x.sync = func(f file) error { first <- struct{}{}; <-gate; return f.Sync() }
		x.write = func(f file, b []byte, off int64) (int, error) {
			if len(b) > maxGroup {
				t.Errorf("a group of %d bytes", len(b))
			}
			return f.WriteAt(b, off)
		}
	})
	big := strings.Repeat("x", rlmm.MaxEventBytes)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() { mustAppend(t, l, 0, big) })
		if i == 0 {
			<-first
		}
	}
	waitPending(l.parts[0], 11)
	close(gate)
	wg.Wait()
	if got := mustRead(t, l); len(got) != 12 || got[11] != big {
		t.Errorf("%d events, want 12", len(got))
	}
	mustClose(t, l)
	if got := mustRead(t, mustOpenReadOnly(t, dir)); len(got) != 12 {
		t.Errorf("%d events after opening again, want 12", len(got))
	}
}

// TestOpen_WritesLastGroupAgain: what a dead process left unsynced, perhaps after a failed fsync, is written and synced before
// anybody sees it; the bytes stay the same.
func TestOpen_WritesLastGroupAgain(t *testing.T) {
	b, ends, _ := content(t)
	dir, path := writeLog(t, b)
	x := &faults{}
	var ops []string
	x.set(func(x *faults) {
		x.write = func(f file, b []byte, off int64) (int, error) {
			ops = append(ops, fmt.Sprintf("write %d %d", off, len(b)))
			return f.WriteAt(b, off)
		}
		x.sync = func(f file) error { ops = append(ops, "sync"); return f.Sync() }
	})
	mustOpen(t, dir, Options{}, x)
	if d := cmp.Diff([]string{fmt.Sprintf("write %d %d", ends[2], ends[3]-ends[2]), "sync"}, ops); d != "" {
		t.Errorf("operations (-want +got):\n%s", d)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
		t.Errorf("the file changed (%v)", err)
	}
	x.set(func(x *faults) { x.sync = func(file) error { return errInjected } })
	dir, _ = writeLog(t, b)
	if _, err := open(t.Context(), dir, Options{}, x.open); !errors.Is(err, errInjected) {
		t.Errorf("Open whose fsync fails: %v, want the error", err)
	}
}
