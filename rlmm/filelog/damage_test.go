package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func wantCorrupt(t *testing.T, what string, err error, path string, pos int64) {
	t.Helper()
	var ce *CorruptError
	if !errors.As(err, &ce) || !errors.Is(err, remotelog.ErrCorrupt) || ce.File != path || ce.Position != pos {
		t.Errorf("%s: %v, want damage of %s at byte %d", what, err, path, pos)
	}
}

// TestDamage_EveryByteOfAMiddleGroup: with a valid group behind it, whatever byte is wrong is damage at the group's start, for
// a writer, a reader, and a follower that comes by later; nothing is changed.
func TestDamage_EveryByteOfAMiddleGroup(t *testing.T) {
	b, ends, _ := content(t)
	for i := ends[1]; i < ends[2]; i++ {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= flip
			dir, path := writeLog(t, c)
			what := fmt.Sprintf("byte %d ^ %#x", i-ends[1], flip)
			_, err := Open(t.Context(), dir, Options{})
			wantCorrupt(t, what+", Open", err, path, int64(ends[1]))
			_, err = OpenReadOnly(t.Context(), dir, Options{})
			wantCorrupt(t, what+", OpenReadOnly", err, path, int64(ends[1]))
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, c) {
				t.Errorf("%s: the file was changed (%v)", what, err)
			}
		}
	}
}

// TestDamage_WhileOpen: what is behind is delivered first, then the damage, as often as it is asked for.
func TestDamage_WhileOpen(t *testing.T) {
	b, ends, _ := content(t)
	dir, path := writeLog(t, b)
	w := mustOpen(t, dir, Options{}, nil)
	r := mustOpenReadOnly(t, dir)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt([]byte{0xff}, int64(ends[1]+40)); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Log{"writer": w, "reader": r} {
		fo := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
		batch, err := fo.Next(t.Context())
		if err != nil || len(batch.Events) != 1 || batch.Next[0].Offset != 1 {
			t.Errorf("%s: %+v, %v, want the event before the damage", name, batch, err)
		}
		for range 2 {
			_, err = fo.Next(t.Context())
			wantCorrupt(t, name, err, path, int64(ends[1]))
		}
		_ = fo.Close()
	}
}

// TestDamage_NoEventOfABadGroup: a group that is found bad at its second event delivers nothing of itself.
func TestDamage_NoEventOfABadGroup(t *testing.T) {
	b, ends, _ := content(t)
	dir, path := writeLog(t, b)
	l := mustOpen(t, dir, Options{}, nil)
	g := b[ends[1]:ends[2]]
	g[36+23+8] = 0 // the second event's offset is the first one's
	copy(g[4:], be32(groupCRC(g)))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	if batch, err := f.Next(t.Context()); err != nil || len(batch.Events) != 1 {
		t.Errorf("Next = %+v, %v, want the event before the damage alone", batch, err)
	}
	_, err := f.Next(t.Context())
	wantCorrupt(t, "Next", err, path, int64(ends[1]))
}

// TestDamage_MoreThanOneGroupBehind: a crash leaves at most one group that is not whole.
func TestDamage_MoreThanOneGroupBehind(t *testing.T) {
	b, ends, _ := content(t)
	for _, n := range []int{maxGroup, maxGroup + 1} {
		dir, path := writeLog(t, append(b[:len(b):len(b)], bytes.Repeat([]byte{0xee}, n)...))
		l, err := Open(t.Context(), dir, Options{})
		if n > maxGroup {
			wantCorrupt(t, fmt.Sprint(n, " bytes"), err, path, int64(ends[3]))
			continue
		}
		if err != nil {
			t.Errorf("%d bytes: %v, want a torn tail", n, err)
			continue
		}
		mustClose(t, l)
	}
}

// TestDamage_Chain: groups that are whole and are not in their place.
func TestDamage_Chain(t *testing.T) {
	b, ends, _ := content(t)
	g := func(i int) []byte { return b[ends[i]:ends[i+1]] }
	other, _ := example()
	other.id[0]++
	for name, tc := range map[string]struct {
		b   []byte
		pos int
	}{
		"a group is missing":      {join(b[:ends[1]], g(2)), ends[1]},
		"a group is there twice":  {join(b[:ends[1]], g(0), g(1)), ends[1]},
		"two groups are swapped":  {join(b[:ends[1]], g(2), g(1)), ends[1]},
		"another log's header":    {join(other.marshal(), g(0), g(1)), headerSize},
		"groups without a header": {join(g(0), g(1)), 0},
	} {
		dir, path := writeLog(t, tc.b)
		_, err := Open(t.Context(), dir, Options{})
		wantCorrupt(t, name, err, path, int64(tc.pos))
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestDamage_Group: every rule about the content of a group, with a checksum that is right.
func TestDamage_Group(t *testing.T) {
	h, _ := example()
	_, crc, err := parseHeader("x", h.marshal())
	if err != nil {
		t.Fatal(err)
	}
	at := headerTail(h, crc)
	at.epoch = 5
	good := func() []byte {
		return appendGroup(nil, at, 7, 2, []rlmm.Event{{Offset: 0, Key: []byte("k"), Value: []byte("v")}, {Offset: 1, Key: []byte("k")}})
	}
	for name, change := range map[string]func(b []byte) []byte{
		"previous":                 func(b []byte) []byte { b[12] ^= 1; return b },
		"lower epoch":              func(b []byte) []byte { b[19] = 4; return b },
		"negative epoch":           func(b []byte) []byte { b[16] = 0x80; return b },
		"base offset":              func(b []byte) []byte { b[27] = 1; return b },
		"no offsets":               func(b []byte) []byte { b[31], b[35] = 0, 0; return b[:36] },
		"more events than offsets": func(b []byte) []byte { b[31] = 1; return b },
		"more events than bytes":   func(b []byte) []byte { b[31], b[35] = 3, 3; return b },
		"fewer events than bytes":  func(b []byte) []byte { b[35] = 1; return b },
		"event of 12 bytes":        func(b []byte) []byte { b[39] = 12; return b },
		"event beyond the group":   func(b []byte) []byte { b[39] = 200; return b },
		"event of 4 GiB":           func(b []byte) []byte { copy(b[36:], "\xff\xff\xff\xff"); return b },
		"key beyond the event":     func(b []byte) []byte { b[56] = 3; return b },
		"key of 4 GiB":             func(b []byte) []byte { copy(b[53:], "\xff\xff\xff\xff"); return b },
		"no room for a key":        func(b []byte) []byte { b[39] = 14; return append(b[:36], b[36:36+18]...) },
		"tombstone with a value":   func(b []byte) []byte { b[40] |= eventNoVal; return b },
		"offset twice":             func(b []byte) []byte { b[59+8] = 0; return b },
		"offset behind the group":  func(b []byte) []byte { b[59+8] = 2; return b },
	} {
		b := change(good())
		copy(b, be32(uint32(len(b)-groupHead)))
		copy(b[4:], be32(groupCRC(b)))
		g, err := parseGroup(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		place := at
		wantCorrupt(t, name, place.accept("x", 0, g, nil), "x", at.pos)
		if place != at {
			t.Errorf("%s: the place moved to %+v", name, place)
		}
	}
	g, err := parseGroup(good())
	if err != nil {
		t.Fatal(err)
	}
	if place := at; place.accept("x", 0, g, nil) != nil {
		t.Error("the unchanged group is refused")
	}
}

// TestOpen_Files: files that are missing, do not belong together, or are left from an interrupted creation.
func TestOpen_Files(t *testing.T) {
	make3 := func(t *testing.T) string {
		dir := t.TempDir()
		l := mustOpen(t, dir, Options{Partitions: 3}, nil)
		mustAppend(t, l, 2, "a")
		mustClose(t, l)
		return dir
	}
	must := func(t *testing.T, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("partition missing", func(t *testing.T) {
		dir := make3(t)
		must(t, os.Remove(partitionFile(dir, 1)))
		_, err := Open(t.Context(), dir, Options{})
		wantCorrupt(t, "Open", err, partitionFile(dir, 1), 0)
		_, err = OpenReadOnly(t.Context(), dir, Options{})
		wantCorrupt(t, "OpenReadOnly", err, partitionFile(dir, 1), 0)
	})
	t.Run("partition 0 missing and events elsewhere", func(t *testing.T) {
		dir := make3(t)
		must(t, os.Remove(partitionFile(dir, 0)))
		_, err := Open(t.Context(), dir, Options{})
		wantCorrupt(t, "Open", err, partitionFile(dir, 0), 0)
	})
	t.Run("partitions swapped", func(t *testing.T) {
		dir := make3(t)
		must(t, os.Rename(partitionFile(dir, 1), partitionFile(dir, 1)+"x"),
			os.Rename(partitionFile(dir, 2), partitionFile(dir, 1)), os.Rename(partitionFile(dir, 1)+"x", partitionFile(dir, 2)))
		_, err := Open(t.Context(), dir, Options{})
		wantCorrupt(t, "Open", err, partitionFile(dir, 1), 0)
	})
	t.Run("file of another log", func(t *testing.T) {
		dir, other := make3(t), make3(t)
		must(t, os.Rename(partitionFile(other, 1), partitionFile(dir, 1)))
		_, err := Open(t.Context(), dir, Options{})
		wantCorrupt(t, "Open", err, partitionFile(dir, 1), 0)
	})
	t.Run("other number of partitions", func(t *testing.T) {
		_, err := Open(t.Context(), make3(t), Options{Partitions: 4})
		if !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "4") {
			t.Errorf("%v, want ErrInvalidArgument with both numbers", err)
		}
	})
	t.Run("interrupted creation", func(t *testing.T) {
		dir := t.TempDir()
		h := header{partitions: 3, partition: 2, id: [16]byte{1}}
		must(t, os.WriteFile(partitionFile(dir, 2), h.marshal(), 0o600), os.WriteFile(partitionFile(dir, 1)+tempSuffix, h.marshal()[:17], 0o600))
		if _, err := OpenReadOnly(t.Context(), dir, Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("OpenReadOnly: %v, want fs.ErrNotExist", err)
		}
		l := mustOpen(t, dir, Options{Partitions: 2}, nil)
		mustAppend(t, l, 1, "a")
		mustClose(t, l)
		if d := cmp.Diff([]string{"lock", "partition-0.log", "partition-1.log"}, keys(filesIn(t, dir))); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	})
	t.Run("impossible numbers", func(t *testing.T) {
		for _, n := range []int32{-1, maxPartitions + 1} {
			dir := filepath.Join(t.TempDir(), "new")
			if _, err := Open(t.Context(), dir, Options{Partitions: n}); !errors.Is(err, remotelog.ErrInvalidArgument) {
				t.Errorf("%d partitions: %v, want ErrInvalidArgument", n, err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%d partitions: something was made (%v)", n, err)
			}
		}
	})
}

// TestScan_Cancelled: verifying a big log ends with the context.
func TestScan_Cancelled(t *testing.T) {
	b, _, _ := content(t)
	dir, _ := writeLog(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v, want context.Canceled", err)
	}
	if _, err := OpenReadOnly(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("OpenReadOnly: %v, want context.Canceled", err)
	}
}

// TestScan_ManyLookalikes: a broken tail made of headers that each claim a long group does not take forever, and is not cut.
func TestScan_ManyLookalikes(t *testing.T) {
	b, ends, _ := content(t)
	one := make([]byte, 36)
	copy(one, be32(2<<20))
	copy(one[16:], be32(7))
	one[26] = 1
	dir, path := writeLog(t, append(b[:len(b):len(b)], bytes.Repeat(one, maxGroup/len(one))...))
	_, err := Open(t.Context(), dir, Options{})
	wantCorrupt(t, "Open", err, path, int64(ends[3]))
}
