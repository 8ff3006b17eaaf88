package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/membudget"
)

// faulty makes single calls fail: by name, with the error that is set.
type faulty struct{ errs map[string]error }

func (x *faulty) install(f *files) {
	real := *f
	f.open = func(name string) (file, error) {
		if err := x.errs["open"]; err != nil {
			return nil, err
		}
		g, err := real.open(name)
		return &faultyFile{g, x}, err
	}
	f.create = func(name string) (file, error) {
		if err := x.errs["create"]; err != nil {
			return nil, err
		}
		g, err := real.create(name)
		return &faultyFile{g, x}, err
	}
	f.rename = func(from, to string) error {
		if err := x.errs["rename"]; err != nil {
			return err
		}
		return real.rename(from, to)
	}
	f.remove = func(name string) error {
		if err := x.errs["remove"]; err != nil {
			return err
		}
		return real.remove(name)
	}
	f.touch = func(name string, t time.Time) error {
		if err := x.errs["touch"]; err != nil {
			return err
		}
		return real.touch(name, t)
	}
	f.mkdir = func(name string) error {
		if err := x.errs["mkdir"]; err != nil {
			return err
		}
		return real.mkdir(name)
	}
}

type faultyFile struct {
	file
	x *faulty
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if err := f.x.errs["read"]; err != nil {
		return 0, err
	}
	return f.file.Read(p)
}

// Write writes half, as a disk that fills up does.
func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.x.errs["write"]; err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

func (f *faultyFile) Close() error {
	return errors.Join(f.file.Close(), f.x.errs["close"])
}

// A disk that cannot be written to is bypassed: nothing is torn, what is there is read on, and after a while it is tried again.
func TestWrite_ErrorsSuspendWriting(t *testing.T) {
	for _, step := range []string{"create", "write", "close", "touch", "rename"} {
		for _, cause := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
			t.Run(fmt.Sprintf("%s %v", step, cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkSuspension(t, step, cause) })
			})
		}
	}
}

func checkSuspension(t *testing.T, step string, cause error) {
	x := &faulty{errs: map[string]error{}}
	dir := t.TempDir()
	r := newRig(t, Options{Dir: dir}, x.install)
	r.put(1, dataOf(1, 5000))
	synctest.Wait()
	x.errs[step] = cause
	r.put(2, dataOf(2, 5000))
	r.put(3, dataOf(3, 5000))
	synctest.Wait()
	s := r.Stats()
	if !s.Suspended || s.WriteErrors != 1 || s.Bypassed != 1 || s.Entries != 1 {
		t.Errorf("%+v, want one error, one entry bypassed behind it, and writing suspended", s)
	}
	if r.put(4, dataOf(4, 100)) || !r.get(t, 1, 5000) || r.get(t, 2, 5000) {
		t.Error("suspended: it takes entries, or does not read those that are there")
	}
	if space, n := onDisk(t, dir); n != 1 || space != s.Bytes {
		t.Errorf("%d files of %d bytes; %+v", n, space, s)
	}
	// Each failure makes the pause longer, up to five minutes.
	for range 6 {
		time.Sleep(longestPause)
		r.put(5, dataOf(5, 5000))
		synctest.Wait()
	}
	if s := r.Stats(); s.WriteErrors != 7 || !s.Suspended {
		t.Errorf("%+v, want an error for each time that it was tried again", s)
	}
	time.Sleep(longestPause - time.Second)
	if r.put(6, dataOf(6, 100)) {
		t.Error("tried again before five minutes")
	}
	time.Sleep(time.Second)
	delete(x.errs, step)
	r.put(6, dataOf(6, 100))
	synctest.Wait()
	r.put(7, dataOf(7, 100))
	synctest.Wait()
	if s := r.Stats(); s.Suspended || !r.get(t, 6, 100) || !r.get(t, 7, 100) || !r.get(t, 1, 5000) {
		t.Errorf("not written to again: %+v", s)
	}
}

// What cannot be removed goes on being counted: the limit is that of what is on the disk.
func TestEvict_WhatCannotBeRemovedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &faulty{errs: map[string]error{}}
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir, MaxBytes: 2 * blockSize}, x.install)
		for i := range 2 {
			r.put(i, dataOf(i, 100))
			synctest.Wait()
		}
		x.errs["remove"] = syscall.EIO
		for i := range 20 {
			r.put(10+i, dataOf(10+i, 100))
			synctest.Wait()
			time.Sleep(longestPause)
			if space, n := onDisk(t, dir); space > 2*blockSize || n > 2 {
				t.Fatalf("%d files of %d bytes, the limit is %d", n, space, 2*blockSize)
			}
		}
		if s := r.Stats(); s.Bytes != 2*blockSize || s.WriteErrors == 0 || s.Bypassed == 0 {
			t.Errorf("%+v", s)
		}
		delete(x.errs, "remove")
		r.put(99, dataOf(99, 100))
		synctest.Wait()
		if s := r.Stats(); !r.get(t, 99, 100) || s.Suspended {
			t.Errorf("%+v", s)
		}
	})
}

func TestRead_ErrorsOfTheDiskAreMisses(t *testing.T) {
	for cause, kept := range map[error]bool{syscall.EIO: false, syscall.EMFILE: true, syscall.EACCES: true} {
		for _, step := range []string{"open", "read"} {
			synctest.Test(t, func(t *testing.T) {
				x := &faulty{errs: map[string]error{}}
				r := newRig(t, Options{Dir: t.TempDir()}, x.install)
				r.put(1, dataOf(1, 100))
				synctest.Wait()
				x.errs[step] = cause
				if r.get(t, 1, 100) {
					t.Errorf("%s, %v: it was read", step, cause)
				}
				synctest.Wait()
				if s := r.Stats(); s.ReadErrors != 1 || s.Damaged != 0 || (s.Entries == 1) != kept {
					t.Errorf("%s, %v: %+v, entry kept: want %v", step, cause, s, kept)
				}
				delete(x.errs, step)
				if r.get(t, 1, 100) != kept {
					t.Errorf("%s, %v: afterwards it is there: %v, want %v", step, cause, !kept, kept)
				}
			})
		}
	}
}

// A disk that hangs holds up no reader: the queue fills up, what does not fit is dropped, and who waits for memory takes what is queued.
func TestWrite_AHangingDiskBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var hanging atomic.Bool
		r := newRig(t, Options{Dir: t.TempDir(), QueueBytes: 40 << 10}, func(f *files) {
			create := f.create
			f.create = func(name string) (file, error) {
				if hanging.Load() {
					<-hang
				}
				return create(name)
			}
		})
		r.put(1, dataOf(1, 100))
		synctest.Wait()
		hanging.Store(true)
		var taken []int
		for i := 10; i < 30; i++ {
			if r.put(i, dataOf(i, 5000)) { // 8 KiB of memory each
				taken = append(taken, i)
			}
			synctest.Wait()
		}
		s := r.Stats()
		if !slices.Equal(taken, []int{10, 11, 12, 13, 14}) || s.Dropped != 15 || s.QueueBytes != 40<<10 {
			t.Errorf("taken %v, %+v; want the first five, and 15 dropped", taken, s)
		}
		if !r.get(t, 1, 100) {
			t.Error("what is there cannot be read meanwhile")
		}
		// All memory but that of the entry being written.
		all := r.budget.Ceiling(membudget.Fetch) - 8<<10
		res, err := r.budget.Reserve(t.Context(), membudget.Fetch, all)
		if err != nil {
			t.Fatal(err)
		}
		if r.Begin(keyOf(40), 100) != nil {
			t.Error("an entry was taken without memory for it")
		}
		res.Release()
		if s := r.Stats(); s.QueueBytes != 8<<10 || s.Dropped != 15+4+1 {
			t.Errorf("%+v", s)
		}
		close(hang)
		hanging.Store(false)
		synctest.Wait()
		for i := 10; i < 15; i++ {
			if got := r.get(t, i, 5000); got != (i == 10) {
				t.Errorf("entry %d there: %v", i, got)
			}
		}
	})
}

// A read that does not come back holds up its own caller only: who comes later is sent to the source, until the disk answers again.
func TestRead_AHangingDiskIsBypassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var hanging atomic.Bool
		r := newRig(t, Options{Dir: t.TempDir()}, func(f *files) {
			open := f.open
			f.open = func(name string) (file, error) {
				if hanging.Load() {
					<-hang
				}
				return open(name)
			}
		})
		for i := range 2 {
			r.put(i, dataOf(i, 100))
		}
		synctest.Wait()
		hanging.Store(true)
		came := make(chan bool)
		go func() { came <- r.Read(keyOf(0), make([]byte, 100)) }()
		synctest.Wait()
		if !r.Has(keyOf(1)) || r.Stats().Suspended {
			t.Error("bypassed at once")
		}
		time.Sleep(hungAfter)
		if r.Has(keyOf(0)) || r.get(t, 1, 100) || r.put(5, dataOf(5, 100)) {
			t.Error("a disk that hangs is used")
		}
		if s := r.Stats(); !s.Suspended || s.Bypassed != 1 || s.Damaged != 0 || s.Entries != 2 {
			t.Errorf("%+v", s)
		}
		hanging.Store(false)
		close(hang)
		if !<-came || !r.get(t, 1, 100) || !r.put(5, dataOf(5, 100)) {
			t.Error("it is not used again")
		}
	})
}

// A disk that hangs holds no Close up for ever: it says what it left, and the directory stays locked as long as something may be written.
func TestClose_AHangingDiskIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, dir := make(chan struct{}), t.TempDir()
		r := newRig(t, Options{Dir: dir}, func(f *files) {
			rename := f.rename
			f.rename = func(from, to string) error { <-hang; return rename(from, to) }
		})
		r.put(1, dataOf(1, 100))
		synctest.Wait()
		began := time.Now()
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), dir) || time.Since(began) != closeMost {
			t.Errorf("after %v: %v, want an error that names the directory after %v", time.Since(began), err, closeMost)
		}
		o := defaults(Options{Dir: dir, Budget: r.budget})
		if _, err := Open(o); !errors.Is(err, ErrInUse) {
			t.Errorf("opened again: %v, want ErrInUse", err)
		}
		close(hang)
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		next, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An entry that is deleted while it is filled, queued or written does not come back.
func TestDelete_ReachesWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		dir := t.TempDir()
		r := newRig(t, Options{Dir: dir}, func(f *files) {
			rename := f.rename
			f.rename = func(from, to string) error { <-hang; return rename(from, to) }
		})
		filling := r.Begin(keyOf(1), 5)
		r.put(2, dataOf(2, 100))
		synctest.Wait() // it is being written
		r.put(3, dataOf(3, 100))
		for key := range 4 {
			r.Delete(keyOf(key))
		}
		if _, err := filling.Write([]byte("12345")); err != nil {
			t.Fatal(err)
		}
		if n, err := filling.Write([]byte("6")); n != 0 || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("a byte too many: %d, %v", n, err)
		}
		filling.Commit()
		if !r.put(2, dataOf(2, 100)) {
			t.Error("what was deleted cannot be written again")
		}
		close(hang)
		synctest.Wait()
		for key, want := range map[int]bool{1: false, 2: true, 3: false} {
			if got := r.Has(keyOf(key)); got != want {
				t.Errorf("entry %d there: %v, want %v", key, got, want)
			}
		}
		if !r.get(t, 2, 100) {
			t.Error("the second one is not what it should be")
		}
		if _, n := onDisk(t, dir); n != 1 {
			t.Errorf("%d files, want 1", n)
		}
		// One that is not complete is given up.
		w := r.Begin(keyOf(7), 5)
		_, _ = w.Write([]byte("123"))
		w.Commit()
		synctest.Wait()
		if r.Has(keyOf(7)) {
			t.Error("half an entry was written")
		}
	})
}

func TestOpen_SaysWhatIsWrong(t *testing.T) {
	b, err := membudget.New(1<<20, membudget.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	o := defaults(Options{Dir: t.TempDir() + "/absent", Budget: b})
	if _, err := Open(o); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v, want that the directory is not there", err)
	}
	o.Dir = t.TempDir()
	x := &faulty{errs: map[string]error{"mkdir": syscall.EROFS}}
	f := osFiles()
	x.install(&f)
	if _, err := open(o, f); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v, want EROFS", err)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := Open(o); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("%v, want ErrInUse and who has it", err)
	}
}
