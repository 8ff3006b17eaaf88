package filelog

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// TestReadOnly_ChangesNothing: no lock, no file, no cut, no write.
func TestReadOnly_ChangesNothing(t *testing.T) {
	b, ends, _ := content(t)
	dir, _ := writeLog(t, b[:ends[3]-1])
	before := filesIn(t, dir)
	l := mustOpenReadOnly(t, dir)
	if got := mustRead(t, l); len(got) != 4 {
		t.Errorf("%d events, want 4", len(got))
	}
	if _, err := l.Append(t.Context(), 0, []byte("x")); !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Errorf("Append: %v, want ErrInvalidArgument", err)
	}
	mustClose(t, l)
	if d := cmp.Diff(before, filesIn(t, dir)); d != "" {
		t.Errorf("files (-before +after):\n%s", d)
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := OpenReadOnly(t.Context(), none, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenReadOnly without a log: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenReadOnly made something: %v", err)
	}
}

// TestReadOnly_Replaced: another file under the same name is not read on as if it were this one.
func TestReadOnly_Replaced(t *testing.T) {
	b, _, _ := content(t)
	dir, path := writeLog(t, b)
	l := mustOpenReadOnly(t, dir)
	f := l.Follow(map[int32]rlmm.Position{0: {Offset: 5, Epoch: -1}})
	defer func() { _ = f.Close() }()
	if err := errors.Join(os.WriteFile(path+"x", b, 0o600), os.Rename(path+"x", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("Next: %v, want ErrReplaced", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Bounds(t.Context(), []int32{0}); !errors.Is(err, ErrReplaced) {
		t.Errorf("Bounds: %v, want ErrReplaced", err)
	}
}

// TestScan_WhileWritten: a reader without the lock may see a group half written and the ones behind it whole, when they come
// between two of its reads.
func TestScan_WhileWritten(t *testing.T) {
	b, ends, _ := content(t)
	half := append([]byte(nil), b...)
	clear(half[ends[1]+20 : ends[2]])
	reads := 0
	changing := readerFunc(func(p []byte, off int64) (int, error) {
		reads++
		from := b
		if reads == 1 {
			from = half
		}
		return (&memFile{from}).ReadAt(p, off)
	})
	h, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	at := headerTail(h, crc)
	s := scanner{r: changing, name: "x", size: int64(len(b))}
	if err := s.walk(t.Context(), &at, func(tail, group) {}); err != nil || at.pos != int64(len(b)) || reads < 3 {
		t.Errorf("the log ends at %d after %d reads, %v, want %d", at.pos, reads, err, len(b))
	}
}

type readerFunc func(b []byte, off int64) (int, error)

func (f readerFunc) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// TestReadOnly_RewrittenInPlace: a follower finds its place again when a file of the same history has other positions.
func TestReadOnly_RewrittenInPlace(t *testing.T) {
	h, _ := example()
	make := func(values ...string) []byte {
		b := h.marshal()
		_, crc, err := parseHeader("x", b)
		if err != nil {
			t.Fatal(err)
		}
		st := newState(h, crc)
		for _, v := range values {
			b = grow(t, b, &st, 7, 1, v)
		}
		return b
	}
	dir, path := writeLog(t, make("a long value", "b"))
	l := mustOpenReadOnly(t, dir)
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	if b, err := f.Next(t.Context()); err != nil || b.Next[0].Offset != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := os.WriteFile(path, make("a", "b", "c"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := f.Next(t.Context())
	if err != nil || len(b.Lost) > 0 || len(b.Events) != 1 || string(b.Events[0].Value) != "c" {
		t.Errorf("Next = %+v, %v, want the event c", b, err)
	}
}

// TestReadOnly_CutWhileRead: the last group is replaced between the look at the file and the read: that is not damage.
func TestReadOnly_CutWhileRead(t *testing.T) {
	b, _, _ := content(t)
	h, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	one := newState(h, crc)
	first := grow(t, h.marshal(), &one, 7, 1, "a")
	two, other := one, one
	old, new := grow(t, first, &two, 7, 1, "b"), grow(t, first, &other, 8, 1, "longer than b")
	dir, path := writeLog(t, first)
	l := mustOpenReadOnly(t, dir)
	x := &faults{}
	l.parts[0].f = &faultFile{l.parts[0].f, x}
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	if _, err := f.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Bounds(t.Context(), []int32{0}); err != nil {
		t.Fatal(err)
	}
	x.set(func(x *faults) {
		x.read = func(file file, b []byte, off int64) (int, error) {
			if len(b) > 4 { // not the look at the last checksum
				x.set(func(x *faults) { x.read = nil })
				if err := os.WriteFile(path, new, 0o600); err != nil {
					t.Error(err)
				}
			}
			return file.ReadAt(b, off)
		}
	})
	batch, err := f.Next(t.Context())
	if err != nil || len(batch.Lost) > 0 || len(batch.Events) != 1 || string(batch.Events[0].Value) != "longer than b" {
		t.Errorf("Next = %+v, %v, want the group that is there now", batch, err)
	}
}

// TestFollower_AssignDuringRead: what was read for an assignment that was replaced meanwhile is dropped.
func TestFollower_AssignDuringRead(t *testing.T) {
	x := &faults{}
	l := mustOpen(t, t.TempDir(), Options{}, x)
	mustAppend(t, l, 0, "a", "b")
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	x.set(func(x *faults) {
		x.read = func(file file, b []byte, off int64) (int, error) {
			x.set(func(x *faults) { x.read = nil })
			f.Assign(nil)
			f.Assign(map[int32]rlmm.Position{0: {Offset: 1, Epoch: -1}})
			return file.ReadAt(b, off)
		}
	})
	b, err := f.Next(t.Context())
	if err != nil || len(b.Events) != 1 || string(b.Events[0].Value) != "b" || b.Next[0].Offset != 2 {
		t.Errorf("Next = %+v, %v, want the event b alone", b, err)
	}
}

// TestFollower_LossBehindEvents: a loss that is found after events were taken waits for the next batch, since it is to be
// handled before the events of its own.
func TestFollower_LossBehindEvents(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{}, nil)
	at := mustAppend(t, l, 0, "a", "b")
	taken := rlmm.Position{Offset: 1, Epoch: at.Epoch - 1}
	s := step{from: &cursor{pos: rlmm.Position{Epoch: -1}}, to: cursor{pos: taken}, events: []rlmm.Event{{}}}
	if err := l.advance(t.Context(), &s, batchBytes); err != nil || len(s.lost) > 0 || s.to.pos != taken {
		t.Errorf("step with events: %+v, %v, want no loss yet", s, err)
	}
	s = step{from: &cursor{pos: taken}, to: cursor{pos: taken}}
	if err := l.advance(t.Context(), &s, batchBytes); err != nil || len(s.lost) != 1 || len(s.events) != 2 {
		t.Errorf("next step: %+v, %v, want the loss and everything from the start", s, err)
	}
}

// TestCheck_BackupPutBack: a directory restored from a backup and grown again to the same offsets is another history.
func TestCheck_BackupPutBack(t *testing.T) {
	dir, now := t.TempDir(), clock()
	l := mustOpen(t, dir, Options{Now: now}, nil)
	kept := mustAppend(t, l, 0, "a", "b")
	mustClose(t, l)
	backup, err := os.ReadFile(partitionFile(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir, Options{Now: now}, nil)
	gone := mustAppend(t, l, 0, "c", "d")
	mustClose(t, l)
	if err := os.WriteFile(partitionFile(dir, 0), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir, Options{Now: now}, nil)
	mustAppend(t, l, 0, "x", "y", "z")
	for pos, want := range map[rlmm.Position]bool{kept: false, gone: true} {
		lost, err := l.Check(t.Context(), map[int32]rlmm.Position{0: pos})
		if err != nil || (len(lost) == 1) != want {
			t.Errorf("Check(%+v) = %+v, %v, want lost: %v", pos, lost, err, want)
		}
	}
}

// TestOpen_Modes: metadata is for its owner alone.
func TestOpen_Modes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "[c]*") // the last part would be a pattern
	mustClose(t, mustOpen(t, dir, Options{Partitions: 2}, nil))
	for path, want := range map[string]os.FileMode{
		filepath.Dir(dir): 0o700, dir: 0o700, filepath.Join(dir, "lock"): 0o600, partitionFile(dir, 0): 0o600, partitionFile(dir, 1): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

// TestFollower_AnyPosition: from hundreds of the offsets of groups of all sizes, over several index entries, in bounded batches.
func TestFollower_AnyPosition(t *testing.T) {
	h, _ := example()
	b := h.marshal()
	_, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	st := newState(h, crc)
	rng := rand.New(rand.NewPCG(1, 2))
	var values []string
	for len(values) < 3000 {
		group := make([]string, 1+rng.IntN(60))
		for i := range group {
			group[i] = strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(3000))
		}
		values = append(values, group...)
		b = grow(t, b, &st, 7, uint32(len(group)), group...)
	}
	dir, _ := writeLog(t, b)
	l := mustOpen(t, dir, Options{}, nil)
	if n := len(l.parts[0].st.index); n < 8 {
		t.Fatalf("%d index entries: the test tests nothing", n)
	}
	end := int64(len(values))
	for offset := int64(0); offset < end; offset += 7 {
		f := l.Follow(map[int32]rlmm.Position{0: {Offset: offset, Epoch: -1}})
		for at, full := offset, offset%210 == 0; at == offset || (full && at < end); {
			batch, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, e := range batch.Events {
				if e.Offset != at || string(e.Value) != values[at] {
					t.Fatalf("from %d: event at offset %d, want %d", offset, e.Offset, at)
				}
				at++
				size += len(e.Value)
			}
			if at == offset || size > batchBytes+maxGroup || batch.Next[0].Offset != at {
				t.Fatalf("from %d: batch to %d of %d bytes, Next %+v", offset, at, size, batch.Next)
			}
		}
		_ = f.Close()
	}
}

// TestLog_LeavesNothingOpen: descriptors are closed when opening fails and when the log is closed.
func TestLog_LeavesNothingOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		need.Never(t, "it counts descriptors in /proc")
	}
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	b, ends, _ := content(t)
	b[ends[1]+20] ^= 1
	damaged, _ := writeLog(t, b)
	dir := t.TempDir()
	mustClose(t, mustOpen(t, dir, Options{Partitions: 3}, nil))
	before := count()
	for range 10 {
		l := mustOpen(t, dir, Options{}, nil)
		if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
		ro := mustOpenReadOnly(t, dir)
		for _, open := range []func() error{
			func() error { _, err := Open(t.Context(), damaged, Options{}); return err },
			func() error { _, err := OpenReadOnly(t.Context(), damaged, Options{}); return err },
			func() error { _, err := OpenReadOnly(t.Context(), dir, Options{Partitions: 2}); return err },
		} {
			if open() == nil {
				t.Fatal("opened")
			}
		}
		mustClose(t, ro)
		mustClose(t, l)
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
