package disk

import (
	"encoding/binary"
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

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Whatever the number of entries, the index and the list that a start makes stay within what callers set aside. Every segment has one entry: that
// is the most that prefixes take.
func TestIndex_TakesNoMoreThanItsFigure(t *testing.T) {
	for _, n := range []int{900, 5_000, 14_500, 30_000, 60_000} {
		c := &Cache{opts: Options{MaxBytes: 1 << 50, MaxEntries: n}, scanning: true}
		before := heap()
		c.index.init(c.opts.MaxBytes)
		var all []found
		for i := range n {
			var key Key
			binary.BigEndian.PutUint64(key[:], uint64(i)<<20)
			all = append(all, found{key: key, size: 5000})
		}
		c.scanned(all, time.Now())
		each := (heap() - before) / int64(n)
		runtime.KeepAlive(all)
		stands := (heap() - before) / int64(n)
		t.Logf("%d entries: %d bytes for each while they are listed, %d afterwards", n, each, stands)
		if each > IndexBytes || each < 150 || len(c.index.nodes) != n {
			t.Errorf("%d entries take %d bytes each, IndexBytes is %d", len(c.index.nodes), each, IndexBytes)
		}
		runtime.KeepAlive(c)
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
