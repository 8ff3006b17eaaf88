package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/membudget"
)

func TestMain(m *testing.M) {
	child()
	goleak.VerifyTestMain(m)
}

func keyOf(n int) Key { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// dataOf is what the tests keep under a key: n bytes that tell it from every other.
func dataOf(key, n int) []byte {
	r := rand.NewChaCha8(keyOf(key))
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// rig is a cache with a budget of its own. Inside a bubble of synctest, Wait returns when all that is queued is written.
type rig struct {
	*Cache
	budget *membudget.Budget
}

func defaults(o Options) Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 1 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func newRig(t testing.TB, o Options, change ...func(*files)) *rig {
	t.Helper()
	b, err := membudget.New(8<<20, membudget.Needs{Copy: 4096, Fetch: 4096})
	if err != nil {
		t.Fatal(err)
	}
	o = defaults(o)
	o.Budget = b
	f := osFiles()
	for _, ch := range change {
		ch(&f)
	}
	c, err := open(o, f)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{c, b}
	t.Cleanup(func() { r.end(t) })
	return r
}

// end closes the cache and checks that nothing is held any more.
func (r *rig) end(t failer) {
	t.Helper()
	if err := r.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if s := r.budget.Stats(); s.FetchBytes+s.InUseBytes != 0 || r.Stats().QueueBytes != 0 {
		t.Errorf("after Close: budget %+v, queue %d bytes", s, r.Stats().QueueBytes)
	}
}

// put queues an entry; false: the cache did not want it.
func (r *rig) put(key int, data []byte) bool {
	w := r.Begin(keyOf(key), len(data))
	if w == nil {
		return false
	}
	defer w.Discard()
	for len(data) > 0 {
		n, err := w.Write(data[:min(len(data), 1000)])
		if err != nil {
			return false
		}
		data = data[n:]
	}
	w.Commit()
	return true
}

// get reads an entry and checks it.
func (r *rig) get(t failer, key, n int) bool {
	t.Helper()
	buf := make([]byte, n)
	if !r.Read(keyOf(key), buf) {
		return false
	}
	if !bytes.Equal(buf, dataOf(key, n)) {
		t.Fatalf("key %d: wrong bytes", key)
	}
	return true
}

// onDisk returns the space of all files of the cache, counted as the cache does, and their number.
func onDisk(t testing.TB, dir string) (space int64, n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, DirName), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			space += (info.Size() + blockSize - 1) / blockSize * blockSize
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return space, n
}

func TestCache_KeepsEntriesOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir})
		for i := range 20 {
			if r.get(t, i, 1000+i) || !r.put(i, dataOf(i, 1000+i)) {
				t.Fatalf("entry %d was there or not wanted", i)
			}
		}
		synctest.Wait()
		for i := range 20 {
			if !r.get(t, i, 1000+i) {
				t.Errorf("entry %d is not there", i)
			}
		}
		if s := r.Stats(); s.Entries != 20 || s.Written != 20 || s.Hits != 20 || s.Misses != 20 || s.Bytes != 20*blockSize || s.Damaged != 0 {
			t.Errorf("%+v", s)
		}
		for i := 20; i < 25; i++ { // queued, and written by Close
			r.put(i, dataOf(i, 1000+i))
		}
		r.end(t)
		r = newRig(t, Options{Dir: dir})
		for i := range 25 {
			if !r.get(t, i, 1000+i) {
				t.Errorf("entry %d is not there after a restart", i)
			}
		}
		r.Delete(keyOf(3))
		if r.Has(keyOf(3)) {
			t.Error("a deleted entry is there")
		}
		r.end(t)
		if _, n := onDisk(t, dir); n != 24 {
			t.Errorf("%d files, want 24", n)
		}
		if r.Has(keyOf(4)) || r.Begin(keyOf(99), 10) != nil {
			t.Error("a closed cache answers")
		}
	})
}

func TestCache_ModesAreThoseOfSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, DirName), 0o755); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Options{Dir: dir})
		r.put(1, dataOf(1, 10))
		synctest.Wait()
		sub, _ := keyOf(1).name()
		for name, want := range map[string]os.FileMode{"": 0o700, "tmp": 0o700, sub: 0o700, "lock": 0o600} {
			info, err := os.Stat(filepath.Join(dir, DirName, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
		if info, err := os.Stat(r.path(keyOf(1))); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("entry: %v, %v", info, err)
		}
	})
}

// Whatever becomes of a file, what is read is what was written, or nothing; the file is gone then and the entry can be written again.
func TestRead_DamageIsNeverReturned(t *testing.T) {
	const n = 100
	damages := map[string]func([]byte) []byte{
		"empty":                  func([]byte) []byte { return nil },
		"longer":                 func(b []byte) []byte { return append(b, 0) },
		"zeros":                  func(b []byte) []byte { clear(b); return b },
		"text":                   func([]byte) []byte { return []byte(strings.Repeat("not an entry\n", 100)) },
		"the entry of another":   func(b []byte) []byte { putHeader(b, keyOf(2)); return b },
		"shorter, with a header": func(b []byte) []byte { b = b[:len(b)-5]; putHeader(b, keyOf(1)); return b },
		"a later version": func(b []byte) []byte {
			b[11] = 2
			binary.BigEndian.PutUint32(b[60:], sumOf(b[:60]))
			return b
		},
		"reserved bytes": func(b []byte) []byte {
			b[57] = 1
			binary.BigEndian.PutUint32(b[60:], sumOf(b[:60]))
			return b
		},
		"a huge length": func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[16:], 1<<63)
			binary.BigEndian.PutUint32(b[60:], sumOf(b[:60]))
			return b
		},
	}
	for i := range headerSize + n {
		damages[fmt.Sprintf("byte %d", i)] = func(b []byte) []byte { b[i] ^= 0x10; return b }
		damages[fmt.Sprintf("cut at %d", i)] = func(b []byte) []byte { return b[:i] }
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir})
		file := r.path(keyOf(1))
		for name, damage := range damages {
			for _, restart := range []bool{false, true} {
				r.put(1, dataOf(1, n))
				synctest.Wait()
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if restart {
					r.end(t)
				}
				if err := os.WriteFile(file, damage(b), 0o600); err != nil {
					t.Fatal(err)
				}
				if restart {
					r = newRig(t, Options{Dir: dir})
				}
				before := r.Stats().Damaged
				if r.get(t, 1, n) {
					t.Errorf("%s: read as if nothing had happened", name)
				}
				synctest.Wait()
				if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: the file is still there: %v", name, err)
				}
				if s := r.Stats(); !restart && s.Damaged != before+1 || s.Damaged == 0 || s.Entries != 0 || s.Bytes != 0 {
					t.Errorf("%s: %+v", name, s)
				}
			}
		}
	})
}

func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func TestRead_AFileThatWasTakenAwayIsAMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Dir: t.TempDir()})
		r.put(1, dataOf(1, 100))
		synctest.Wait()
		if err := os.Remove(r.path(keyOf(1))); err != nil {
			t.Fatal(err)
		}
		if r.get(t, 1, 100) {
			t.Error("read from nowhere")
		}
		if !r.put(1, dataOf(1, 100)) {
			t.Error("it cannot be written again")
		}
		synctest.Wait()
		if !r.get(t, 1, 100) {
			t.Error("it was not written again")
		}
		// A pipe of that name: opening it must not wait.
		if err := os.Remove(r.path(keyOf(1))); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(r.path(keyOf(1)), 0o700); err != nil {
			t.Fatal(err)
		}
		if r.get(t, 1, 100) {
			t.Error("read from a directory")
		}
		synctest.Wait()
		if s := r.Stats(); s.Damaged != 2 || s.Suspended {
			t.Errorf("%+v", s)
		}
	})
}

// What is not the cache's is not touched, wherever it lies.
func TestOpen_ForeignFilesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir})
		r.put(1, dataOf(1, 100))
		synctest.Wait()
		r.end(t)
		root := filepath.Join(dir, DirName)
		sub, name := keyOf(1).name()
		mine := []string{
			filepath.Join(dir, "letters"), filepath.Join(root, "README"), filepath.Join(root, sub, "notes.txt"),
			filepath.Join(root, sub, strings.ToUpper(name)), filepath.Join(root, "tmp", "kept"), filepath.Join(root, "cache", "x"),
			filepath.Join(root, sub, "sub", "x"),
		}
		for _, f := range mine {
			if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		left := filepath.Join(root, "tmp", "7"+tmpSuffix)
		if err := os.WriteFile(left, []byte("half an entry"), 0o600); err != nil {
			t.Fatal(err)
		}
		r = newRig(t, Options{Dir: dir})
		synctest.Wait()
		r.Delete(keyOf(1))
		synctest.Wait()
		for _, f := range mine {
			if b, err := os.ReadFile(f); err != nil || string(b) != "mine" {
				t.Errorf("%s: %q, %v", f, b, err)
			}
		}
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what a crash left is still there: %v", err)
		}
		if s := r.Stats(); s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Reads find what the scan has not come to, and nothing is written before it has ended: the limit could not be kept.
func TestOpen_EntriesAreFoundDuringTheScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir})
		for i := range 4 {
			r.put(i, dataOf(i, 100))
			time.Sleep(time.Second)
		}
		r.end(t)
		scan := make(chan struct{})
		r = newRig(t, Options{Dir: dir, MaxBytes: 3 * blockSize}, func(f *files) {
			list := f.list
			f.list = func(dir string) ([]os.DirEntry, error) { <-scan; return list(dir) }
		})
		if !r.get(t, 0, 100) || r.get(t, 77, 100) || !r.put(9, dataOf(9, 100)) {
			t.Error("during the scan: what is there is not found, or what is not there is, or cannot be queued")
		}
		r.Delete(keyOf(3))
		synctest.Wait()
		if s := r.Stats(); !s.Scanning || s.Written != 0 || r.Has(keyOf(3)) {
			t.Errorf("%+v", s)
		}
		close(scan)
		synctest.Wait()
		// 0 was used last, 9 was written; 3 was deleted, and of 1 and 2 the older one had to go.
		for key, want := range map[int]bool{0: true, 1: false, 2: true, 3: false, 9: true} {
			if got := r.get(t, key, 100); got != want {
				t.Errorf("entry %d: there %v, want %v", key, got, want)
			}
		}
		if s := r.Stats(); s.Scanning || s.Bytes != 3*blockSize || s.Damaged != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDeletePrefix_DropsAllThatBeginSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(prefix, n byte) Key { return Key{0: prefix, 7: prefix, 31: n} }
		put := func(r *rig, k Key) *Write {
			t.Helper()
			w := r.Begin(k, 3)
			if _, err := w.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
			return w
		}
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir})
		for n := range byte(3) {
			put(r, key(1, n)).Commit()
			put(r, key(2, n)).Commit()
		}
		synctest.Wait()
		filling := put(r, key(1, 9))
		r.DeletePrefix(key(1, 0).Prefix())
		r.DeletePrefix(key(3, 0).Prefix())
		filling.Commit()
		synctest.Wait()
		there := func(r *rig) (found []string) {
			for _, p := range []byte{1, 2} {
				for _, n := range []byte{0, 1, 2, 9} {
					if r.Has(key(p, n)) {
						found = append(found, fmt.Sprint(p, n))
					}
				}
			}
			return found
		}
		if got := there(r); fmt.Sprint(got) != "[2 0 2 1 2 2]" || r.Stats().Deleted != 3 || len(r.index.prefixes) != 1 {
			t.Errorf("%v is there, %+v, %d prefixes", got, r.Stats(), len(r.index.prefixes))
		}
		r.end(t)
		scan := make(chan struct{})
		r = newRig(t, Options{Dir: dir}, func(f *files) {
			list := f.list
			f.list = func(dir string) ([]os.DirEntry, error) { <-scan; return list(dir) }
		})
		r.DeletePrefix(key(2, 0).Prefix())
		if got := there(r); got != nil {
			t.Errorf("during the scan %v is there", got)
		}
		close(scan)
		synctest.Wait()
		if _, n := onDisk(t, dir); n != 0 || r.Stats().Deleted != 3 || len(r.index.prefixes) != 0 {
			t.Errorf("%d files are left, %+v", n, r.Stats())
		}
	})
}

func TestCache_RetentionHoldsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := Options{Dir: dir, Retention: 16 * time.Minute}
		r := newRig(t, o)
		r.put(1, dataOf(1, 100))
		r.put(2, dataOf(2, 100))
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		if !r.get(t, 1, 100) {
			t.Fatal("gone too early")
		}
		r.end(t)
		time.Sleep(7 * time.Minute)
		r = newRig(t, o)
		synctest.Wait()
		if !r.get(t, 1, 100) || r.get(t, 2, 100) {
			t.Error("the time of last use was not kept over the restart")
		}
		time.Sleep(16 * time.Minute)
		if r.get(t, 1, 100) {
			t.Error("not gone after the retention")
		}
		r.poke()
		synctest.Wait()
		if _, n := onDisk(t, dir); n != 0 {
			t.Errorf("%d files are left", n)
		}
	})
}

// A reader that goes once through everything does not drive out what others come back to.
func TestCache_AScanDoesNotDriveOutWhatIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Dir: t.TempDir(), MaxBytes: 20 * blockSize})
		for i := range 8 {
			r.put(i, dataOf(i, 100))
		}
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		for i := range 8 {
			if !r.get(t, i, 100) {
				t.Fatalf("entry %d is not there", i)
			}
		}
		for i := 100; i < 200; i++ {
			r.put(i, dataOf(i, 100))
			synctest.Wait()
			for range 3 { // a broker's overlapping steps
				r.get(t, i, 100)
			}
			time.Sleep(time.Second)
		}
		for i := range 8 {
			if !r.get(t, i, 100) {
				t.Errorf("entry %d was driven out", i)
			}
		}
		if s := r.Stats(); s.Bytes > 20*blockSize || s.Evicted != 88 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCache_ConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, Options{Dir: dir, MaxBytes: 40 * blockSize, QueueBytes: 64 << 10})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			enough := func() bool {
				s := r.Stats()
				return s.Written > 300 && s.Hits > 100 && s.Evicted > 100 && s.Deleted > 10
			}
			for i := 0; i < 300 || !enough() && i < 1_000_000; i++ {
				runtime.Gosched()
				key := min(rnd.IntN(80), rnd.IntN(80))
				switch rnd.IntN(20) {
				case 0:
					r.Delete(keyOf(key))
				case 1:
					if w := r.Begin(keyOf(key), 500); w != nil {
						w.Discard()
						w.Discard()
					}
				case 2:
					if res, err := r.budget.Reserve(t.Context(), membudget.Fetch, r.budget.Ceiling(membudget.Fetch)/2); err == nil {
						res.Release()
					}
				default:
					if n := 300 + 100*key; !r.get(t, key, n) {
						r.put(key, dataOf(key, n))
					}
				}
				if s := r.Stats(); s.Bytes > s.MaxBytes {
					t.Errorf("%d bytes, above the limit %d", s.Bytes, s.MaxBytes)
				}
			}
		})
	}
	all.Wait()
	r.end(t)
	s := r.Stats()
	if s.Written == 0 || s.Hits == 0 || s.Evicted == 0 || s.Deleted == 0 || s.Damaged != 0 || s.WriteErrors != 0 {
		t.Errorf("the test did not reach what it is for, or something broke: %+v", s)
	}
	if space, n := onDisk(t, dir); space > 40*blockSize || n != s.Entries {
		t.Errorf("%d files of %d bytes, the cache knows of %d", n, space, s.Entries)
	}
}

// failer is a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}
