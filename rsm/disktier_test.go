package rsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/cache/disk"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

// withDisk is c with a disk tier in dir.
func withDisk(c Config, dir string) Config {
	c.Disk = DiskConfig{Dir: dir, MaxBytes: 1 << 30}
	c.Chunks.Retention = -1
	return c
}

// again closes the manager and opens another over the same store: a restart of the process.
func (r *rig) again(t testing.TB, c Config) *rig {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return r.beside(t, c)
}

// beside is another manager over the same store.
func (r *rig) beside(t testing.TB, c Config) *rig {
	t.Helper()
	n := &rig{space: r.space, logs: new(bytes.Buffer), driver: &stub{Driver: r.space.Client(mem.Options{})}}
	n.Manager = manager(t, n.driver, c, n.logs)
	return n
}

// diskWritten returns when all chunks are on disk that were on their way.
func diskWritten(r *rig) disk.Stats {
	for {
		if s := r.disk.Stats(); s.QueueBytes == 0 && !s.Scanning {
			return s
		}
		runtime.Gosched()
	}
}

// entries are the files of the disk tier.
func entries(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, disk.DirName), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantLog(t testing.TB, r *rig, md remotelog.SegmentMetadata, log []byte, start, end int64) {
	t.Helper()
	got, err := read(t.Context(), r.Manager, md, start, end)
	if want := log[start : min(end, int64(len(log))-1)+1]; err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d..%d: %d bytes of %d, or wrong ones, %v", start, end, len(got), len(want), err)
	}
}

func TestDisk_ReadsAfterARestartNeedNoRequest(t *testing.T) {
	for name, conf := range transforms(1000) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf = withDisk(conf, dir)
			r := newRig(t, conf)
			md, data, log := segmentOf(600, 20_500)
			fin := r.mustCopy(t, md, data)
			var g gets
			g.watch(r)
			wantLog(t, r, fin, log, 0, remotelog.ToEnd)
			if n, _ := g.take(); n == 0 {
				t.Error("no request for what was not there")
			}
			if s := diskWritten(r); s.Written != 21 || s.Misses != 21 || s.Entries != 21 {
				t.Errorf("%+v, want 21 chunks written", s)
			}
			r = r.again(t, conf)
			g = gets{}
			g.watch(r)
			wantLog(t, r, fin, log, 0, remotelog.ToEnd)
			if n, read := g.take(); n != 0 || read != 0 {
				t.Errorf("%d requests for %d bytes after the restart, want none", n, read)
			}
			if s := diskWritten(r); s.Hits != 21 || s.Misses != 0 || s.Written != 0 {
				t.Errorf("%+v, want 21 hits", s)
			}
		})
	}
}

// A run of chunks asks the store only for those that are not on disk.
func TestDisk_RunsMixDiskAndStore(t *testing.T) {
	for name, conf := range transforms(1000) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf = withDisk(conf, dir)
			r := newRig(t, conf)
			md, data, log := segmentOf(601, 20_000)
			fin := r.mustCopy(t, md, data)
			wantLog(t, r, fin, log, 0, remotelog.ToEnd)
			diskWritten(r)
			seg, err := r.open(t.Context(), &fin)
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := seg.segment(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holes := map[int]bool{0: true, 3: true, 4: true, 9: true, 19: true}
			var bytesOfHoles int64
			for n := range holes {
				r.disk.Delete(chunkKey{s.id, n}.diskKey())
				bytesOfHoles += s.Chunks.Chunk(n).StoredSize
			}
			seg.release()
			r = r.again(t, conf)
			var g gets
			g.watch(r)
			wantLog(t, r, fin, log, 0, 19_999)
			if n, read := g.take(); n != 4 || read != bytesOfHoles {
				t.Errorf("%d requests for %d bytes, want 4 for %d", n, read, bytesOfHoles)
			}
			if d := diskWritten(r); d.Hits != 15 || d.Written != 5 || d.Entries != 20 {
				t.Errorf("%+v, want 15 hits and 5 written", d)
			}
		})
	}
}

func TestDisk_DamagedEntriesAreFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a flipped bit":    func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"cut":              func(b []byte) []byte { return b[:len(b)-1] },
		"empty":            func([]byte) []byte { return nil },
		"something else":   func([]byte) []byte { return []byte("hello") },
		"another's header": func(b []byte) []byte { b[30] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf := withDisk(Config{ChunkBytes: 1000, Compression: true}, dir)
			r := newRig(t, conf)
			md, data, log := segmentOf(602, 10_000)
			fin := r.mustCopy(t, md, data)
			wantLog(t, r, fin, log, 0, remotelog.ToEnd)
			diskWritten(r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for i, file := range entries(t, dir) {
				if i%3 != 0 {
					continue
				}
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, damage(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r = r.beside(t, conf)
			wantLog(t, r, fin, log, 0, 9_999)
			if s := diskWritten(r); s.Damaged != 4 || s.Entries != 10 {
				t.Errorf("%+v, want 4 damaged entries, and all there again", s)
			}
		})
	}
}

// An entry that is whole but not what the segment has, whoever wrote it, is no damage of the segment.
func TestDisk_WrongEntriesAreFetchedAgain(t *testing.T) {
	for name, conf := range transforms(1000) {
		t.Run(name, func(t *testing.T) {
			conf = withDisk(conf, t.TempDir())
			r := newRig(t, conf)
			md, data, log := segmentOf(603, 10_000)
			fin := r.mustCopy(t, md, data)
			h, err := r.open(t.Context(), &fin)
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := h.segment(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.release()
			for _, n := range []int{0, 4, 5, 9} {
				size := int(s.Chunks.Chunk(n).StoredSize)
				w := r.disk.Begin(chunkKey{s.id, n}.diskKey(), size)
				if _, err := w.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				w.Commit()
			}
			diskWritten(r)
			wantLog(t, r, fin, log, 0, 9_999)
			if s := diskWritten(r); s.Deleted != 4 || s.Entries != 10 || s.Damaged != 0 {
				t.Errorf("%+v, want the 4 wrong ones deleted, and all there again", s)
			}
			r = r.again(t, conf)
			var g gets
			g.watch(r)
			wantLog(t, r, fin, log, 0, 9_999)
			if n, _ := g.take(); n != 0 {
				t.Errorf("%d requests although all is there", n)
			}
		})
	}
}

// What the store has damaged is an error, and nothing of it is kept.
func TestDisk_DamageOfTheStoreIsNotKept(t *testing.T) {
	conf := withDisk(Config{ChunkBytes: 1000, Encryption: true}, t.TempDir())
	r := newRig(t, conf)
	md, data, log := segmentOf(604, 10_000)
	fin := r.mustCopy(t, md, data)
	r.damage(t, ".log", func(b []byte) []byte { b[5*1028+100] ^= 1; return b })
	got, err := read(t.Context(), r.Manager, fin, 0, 9_999)
	if !errors.Is(err, remotelog.ErrCorrupt) || !bytes.Equal(got, log[:5000]) {
		t.Errorf("%d bytes, %v; want the 5000 before the damage and ErrCorrupt", len(got), err)
	}
	wantLog(t, r, fin, log, 6000, remotelog.ToEnd)
	if s := diskWritten(r); s.Entries != 9 {
		t.Errorf("%+v, want all chunks but the damaged one", s)
	}
}

func TestDisk_CopyAndDeleteDropWhatTheyMust(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, withDisk(Config{ChunkBytes: 1000}, dir))
	md, data, log := segmentOf(605, 5_000)
	other, otherData, otherLog := segmentOf(606, 5_000)
	fin, otherFin := r.mustCopy(t, md, data), r.mustCopy(t, other, otherData)
	wantLog(t, r, fin, log, 0, remotelog.ToEnd)
	wantLog(t, r, otherFin, otherLog, 0, remotelog.ToEnd)
	if s := diskWritten(r); s.Entries != 10 {
		t.Fatalf("%+v", s)
	}
	_, newData, newLog := segmentOf(607, 5_000)
	r.mustCopy(t, md, newData)
	if s := r.disk.Stats(); s.Entries != 5 || r.chunks.cache.Stats().Entries != 5 {
		t.Errorf("after the second copy: %+v on disk, %+v in memory", s, r.chunks.cache.Stats())
	}
	wantLog(t, r, fin, newLog, 0, remotelog.ToEnd)
	diskWritten(r)
	if err := r.Delete(t.Context(), fin); err != nil {
		t.Fatal(err)
	}
	if s := r.disk.Stats(); s.Entries != 5 || r.chunks.cache.Stats().Entries != 5 {
		t.Errorf("after Delete: %+v on disk, %+v in memory", s, r.chunks.cache.Stats())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(entries(t, dir)); n != 5 {
		t.Errorf("%d files, want those of the other segment", n)
	}
}

func TestDisk_OpeningSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	conf := withDisk(Config{ChunkBytes: 1000}, dir)
	r := newRig(t, conf)
	open := func(c Config) error {
		budget, err := NewBudget(c, r.Store())
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Options{Store: r.Store(), Budget: budget, Config: c})
		if err == nil {
			_ = m.Close()
		}
		if s := budget.Stats(); s.FetchBytes != 0 {
			t.Errorf("%+v", s)
		}
		return err
	}
	if err := open(conf); !errors.Is(err, disk.ErrInUse) || !strings.Contains(err.Error(), keyDiskPath) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("%v, want ErrInUse naming the setting and the process", err)
	}
	conf.Disk.Dir = filepath.Join(dir, "absent")
	if err := open(conf); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), keyDiskPath) {
		t.Errorf("%v, want that the directory is not there", err)
	}
	conf.Disk.Dir = filepath.Join(dir, disk.DirName, "lock")
	if err := open(conf); err == nil || !strings.Contains(err.Error(), keyDiskPath) {
		t.Errorf("%v, want that it is not a directory", err)
	}
	conf.Disk.MaxBytes = 0
	if err := open(conf); err != nil {
		t.Errorf("a size of 0 means no cache: %v", err)
	}
}

// A directory that cannot be written to does not keep the manager from working.
func TestDisk_ADirectoryThatCannotBeWrittenToIsBypassed(t *testing.T) {
	if runtime.GOOS != "linux" {
		need.Never(t, "/sys is where nobody can make a directory")
	}
	r := newRig(t, withDisk(Config{ChunkBytes: 1000}, "/sys"))
	md, data, log := segmentOf(608, 5_000)
	fin := r.mustCopy(t, md, data)
	wantLog(t, r, fin, log, 0, remotelog.ToEnd)
	if r.disk != nil || !r.diskBroken || !strings.Contains(r.logs.String(), "disk cache is not used") {
		t.Errorf("disk %v, log:\n%s", r.disk, r.logs)
	}
}

// The smallest legal budget has room for a chunk to be written, and everything finishes.
func TestDisk_SmallestBudget(t *testing.T) {
	conf := withDisk(Config{ChunkBytes: 16 << 10, Compression: true, Encryption: true}, t.TempDir())
	plain := conf
	plain.Disk = DiskConfig{}
	conf.MemoryBudgetBytes = MinBudgetBytes(conf, newRig(t, plain).Store())
	r := newRig(t, conf)
	mds, logs := segments(t, r, 8, 100_000)
	ends(t, r, func(ctx context.Context) error { return roundRobin(ctx, r, mds, logs, 9_000) })
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			got, err := read(t.Context(), r.Manager, mds[i%8], 0, remotelog.ToEnd)
			if err != nil || !bytes.Equal(got, logs[i%8]) {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	if s := diskWritten(r); s.Written == 0 {
		t.Errorf("%+v, want that something was written", s)
	}
	if s := r.budget.Stats(); s.PeakBytes > s.Limit-s.Fixed {
		t.Errorf("%+v", s)
	}
	r = r.again(t, conf)
	ends(t, r, func(ctx context.Context) error { return roundRobin(ctx, r, mds, logs, 9_000) })
	if s := diskWritten(r); s.Hits == 0 {
		t.Errorf("%+v, want that something was read", s)
	}
}

// Chunks of Aiven's that are used as they lie in the store, and whose last one is stored longer than its content, are read right.
func TestDisk_EmptyAndShortSegments(t *testing.T) {
	for name, conf := range transforms(1000) {
		for _, size := range []int{0, 1, 999, 1000, 1001} {
			conf = withDisk(conf, t.TempDir())
			r := newRig(t, conf)
			md, data, log := segmentOf(609, size)
			fin := r.mustCopy(t, md, data)
			for range 2 {
				got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd)
				if err != nil || !bytes.Equal(got, log) {
					t.Errorf("%s, %d bytes: %d, %v", name, size, len(got), err)
				}
				diskWritten(r)
				r = r.again(t, conf)
			}
		}
	}
}
