package rlmm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// twoSnapshots returns managers of one log at two moments, the path of the snapshot and the bytes of the older and newer one.
func twoSnapshots(t *testing.T) (older, newer *rlmm.Manager, log *memlogtest.Log, path string) {
	t.Helper()
	log = memlogtest.New(1)
	h := newHistory(t, 8, 2)
	tps := h.tps
	for range 6 {
		raw(t, log, h.next())
	}
	older = begin(t, log, rlmm.Options{}, tps[:1])
	newer = begin(t, log, rlmm.Options{}, tps)
	t.Cleanup(func() { closeNow(t, older); closeNow(t, newer) })
	return older, newer, log, rlmm.SnapshotFile(t.TempDir(), log.Identity())
}

// A write that fails at any byte is an error, leaves the older snapshot as it was, and nothing beside it.
func TestSnapshotWrite_FailsAtEveryByte(t *testing.T) {
	older, newer, _, path := twoSnapshots(t)
	if _, err := rlmm.WriteSnapshot(older, path, -1); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	mustDo(t, err)
	size := int64(len(rlmm.EncodeSnapshot(newer)))
	for limit := range size {
		if _, err := rlmm.WriteSnapshot(newer, path, limit); !errors.Is(err, rlmm.ErrFull) {
			t.Fatalf("a disk that is full after %d of %d bytes: %v", limit, size, err)
		}
		got, err := os.ReadFile(path)
		mustDo(t, err)
		if !bytes.Equal(got, before) {
			t.Fatalf("a failure after %d bytes changed the snapshot that was there", limit)
		}
		if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(names) != 1 {
			t.Fatalf("a failure after %d bytes left %v", limit, names)
		}
	}
	if n, err := rlmm.WriteSnapshot(newer, path, size); err != nil || n != size {
		t.Fatalf("with room for all: %d bytes, %v, want %d", n, err, size)
	}
}

// A crash at any byte leaves a temporary file, which is never read; a file cut at any byte (a file system that renames before it
// writes) is not used.
func TestSnapshotWrite_CrashAtEveryByte(t *testing.T) {
	older, newer, _, path := twoSnapshots(t)
	if _, err := rlmm.WriteSnapshot(older, path, -1); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	mustDo(t, err)
	whole := rlmm.EncodeSnapshot(newer)
	for n := range len(whole) {
		mustDo(t, os.WriteFile(path+".1234.tmp", whole[:n], 0o600))
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("crash after %d bytes: the older snapshot is not there: %v", n, err)
		}
		if _, err := rlmm.ReadSnapshot(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Fatalf("a snapshot cut at %d of %d bytes is taken for a whole one", n, len(whole))
		}
		if m, err := rlmm.ReencodeSnapshot(got); err != nil || !bytes.Equal(m, want) {
			t.Fatalf("the older snapshot is not readable: %v", err)
		}
	}
}

// Damage at any byte is found.
func TestSnapshotRead_DamageAtEveryByte(t *testing.T) {
	_, newer, _, _ := twoSnapshots(t)
	whole := rlmm.EncodeSnapshot(newer)
	for i := range whole {
		for _, bit := range []byte{1, 0x80} {
			raw := bytes.Clone(whole)
			raw[i] ^= bit
			if _, err := rlmm.ReadSnapshot(bytes.NewReader(raw), int64(len(raw))); err == nil {
				t.Fatalf("byte %d changed by %02x is not noticed", i, bit)
			}
		}
	}
	if _, err := rlmm.ReadSnapshot(bytes.NewReader(append(bytes.Clone(whole), 0)), int64(len(whole)+1)); err == nil {
		t.Fatal("a byte behind the end is not noticed")
	}
}

// What a crash left is removed once it is old enough to be nobody's.
func TestSnapshotWrite_SweepsOldTemporaryFiles(t *testing.T) {
	log, dir, tp := memlogtest.New(1), t.TempDir(), kafkaTopic(t, 0)
	path := rlmm.SnapshotFile(dir, log.Identity())
	old, young, foreign := path+".1.tmp", path+".2.tmp", filepath.Join(dir, "metadata-ffff.snapshot.3.tmp")
	now := time.Now()
	for _, f := range []string{old, young, foreign} {
		overwrite(t, f, []byte("TIERSNP"))
		mustDo(t, os.Chtimes(f, now, now.Add(-2*time.Hour)))
	}
	mustDo(t, os.Chtimes(young, now, now))
	m := newManager(t, log, rlmm.Options{SnapshotDir: dir, Now: func() time.Time { return now }})
	follow(t, m, tp)
	closeNow(t, m)
	for f, want := range map[string]bool{old: false, young: true, foreign: true, path: true} {
		if _, err := os.Stat(f); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(f), err == nil, want)
		}
	}
}

// The file is what docs/snapshot-format.md says, byte for byte.
func TestSnapshotFormat_IsThatOfTheDocument(t *testing.T) {
	doc := documented(t, "../docs/snapshot-format.md")
	segments, err := rlmm.ReadSnapshot(bytes.NewReader(doc), int64(len(doc)))
	if err != nil || segments != 1 {
		t.Fatalf("the example of the document: %d segments, %v, want 1", segments, err)
	}
	again, err := rlmm.ReencodeSnapshot(doc)
	if err != nil || !bytes.Equal(again, doc) {
		t.Fatalf("the example of the document is written as\n%x\nwant\n%x\n%v", again, doc, err)
	}
}

// FuzzReadSnapshot: whatever the bytes, with a right checksum: an error, or a snapshot that is written as the same bytes; and
// memory in proportion to their number.
func FuzzReadSnapshot(f *testing.F) {
	f.Add(documented(f, "../docs/snapshot-format.md")) // testdata/fuzz has snapshots of seeded histories
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 4 {
			return
		}
		raw = rlmm.SealSnapshot(raw)
		before := allocated()
		n, err := rlmm.ReadSnapshot(bytes.NewReader(raw), int64(len(raw)))
		// A user partition of 40 bytes is about 600 in memory, an epoch of 13 about 250, a segment of 79 about 700 with its places
		// in four trees; fuzzing itself allocates, too.
		if grown, most := allocated()-before, uint64(40*len(raw)+1<<20); grown > most {
			t.Fatalf("%d bytes of input: %d were allocated, at most %d are expected", len(raw), grown, most)
		}
		if err != nil {
			return
		}
		again, err := rlmm.ReencodeSnapshot(raw)
		if err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%d segments: written again as\n%x\nwant\n%x\n%v", n, again, raw, err)
		}
	})
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// documented returns the hexadecimal example of a document: the indented lines behind "Example".
func documented(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	mustDo(t, err)
	_, example, ok := strings.Cut(string(text), "## Example")
	if !ok {
		t.Fatal("the document has no example")
	}
	var digits strings.Builder
	for line := range strings.Lines(example) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			code, _, _ = strings.Cut(code, "#")
			digits.WriteString(strings.Join(strings.Fields(code), ""))
		}
	}
	raw, err := hex.DecodeString(digits.String())
	mustDo(t, err)
	return raw
}
