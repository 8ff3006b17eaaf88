package disk

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
)

// BenchmarkRead reads entries of 1 MiB that the system has in memory: what opening, reading and the checksum cost.
func BenchmarkRead(b *testing.B) {
	r := newRig(b, Options{Dir: b.TempDir(), MaxBytes: 1 << 30, QueueBytes: 4 << 20})
	const n = 1 << 20
	r.put(1, dataOf(1, n))
	for !r.Has(keyOf(1)) {
		runtime.Gosched()
	}
	buf := make([]byte, n)
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		if !r.Read(keyOf(1), buf) {
			b.Fatal("it is not there")
		}
	}
}

// TestBench_StartWithManyEntries measures the start over 100,000 entries: how long until the first can be read, until all are known, and what
// the index takes.
func TestBench_StartWithManyEntries(t *testing.T) {
	need.Bench(t)
	const entries = 100_000
	dir := t.TempDir()
	file := make([]byte, headerSize+10)
	for i := range entries {
		sub, name := keyOf(i).name()
		name = filepath.Join(dir, DirName, sub, name)
		putHeader(file, keyOf(i))
		err := os.WriteFile(name, file, 0o600)
		if os.IsNotExist(err) {
			if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
				err = os.WriteFile(name, file, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	began := time.Now()
	r := newRig(t, Options{Dir: dir, MaxBytes: 1 << 40})
	if !r.Has(keyOf(entries - 1)) {
		t.Error("the last entry is not found")
	}
	first := time.Since(began)
	for r.Stats().Scanning {
		runtime.Gosched()
	}
	all := time.Since(began)
	if n := r.Stats().Entries; n != entries {
		t.Errorf("%d entries, want %d", n, entries)
	}
	each := (heap() - before) / entries
	t.Logf("%d entries: the first found after %v, all known after %v; the index takes %d bytes for each", entries, first, all, each)
	if each > IndexBytes {
		t.Errorf("IndexBytes is %d", IndexBytes)
	}
}
