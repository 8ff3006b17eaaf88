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
		t.Skip("counts descriptors in /proc")
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
