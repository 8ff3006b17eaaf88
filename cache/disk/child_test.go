package disk

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/membudget"
)

// childEnv makes the test binary another process: what it does with the directory in its first argument.
const childEnv = "DISK_CACHE_TEST_CHILD"

// child runs what the environment says, and ends the process.
func child() {
	what := os.Getenv(childEnv)
	if what == "" {
		return
	}
	b, err := membudget.New(8<<20, membudget.Needs{})
	if err == nil {
		o := defaults(Options{Dir: os.Args[1], Budget: b, MaxBytes: 60 * childSpace})
		switch what {
		case "open":
			_, err = Open(o)
		case "write":
			err = childWrite(o, b)
		case "small files":
			err = childSmallFiles(o, b)
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1) //nolint:revive // deep-exit: it is a process of its own
	}
	os.Exit(0) //nolint:revive // the same
}

const (
	childSize  = 50_000
	childSpace = (childSize + headerSize + blockSize - 1) / blockSize * blockSize
	childKeys  = 100
)

// childWrite writes and evicts until it is killed, and says when it has written one.
func childWrite(o Options, b *membudget.Budget) error {
	written := make(chan struct{})
	f := osFiles()
	f.rename = func(from, to string) error {
		err := os.Rename(from, to)
		if err == nil {
			written <- struct{}{}
		}
		return err
	}
	c, err := open(o, f)
	if err != nil {
		return err
	}
	r := &rig{c, b}
	for i := 0; ; i++ {
		if key := i % childKeys; r.put(key, dataOf(key, childSize)) {
			<-written
			fmt.Println("written")
		}
	}
}

// childSmallFiles writes while files may not be so large.
func childSmallFiles(o Options, b *membudget.Budget) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: childSize / 2, Max: childSize / 2}); err != nil {
		return err
	}
	c, err := Open(o)
	if err != nil {
		return err
	}
	r := &rig{c, b}
	if !r.put(1, dataOf(1, 100)) || !r.put(2, dataOf(2, childSize)) {
		return fmt.Errorf("not wanted: %+v", r.Stats())
	}
	r.put(3, dataOf(3, 100)) // refused, or let go by the writer: as soon as it has failed with the second
	if err := c.Close(); err != nil {
		return err
	}
	if s := r.Stats(); s.Written != 1 || s.WriteErrors != 1 || s.Bypassed != 1 || !s.Suspended || s.QueueBytes != 0 {
		return fmt.Errorf("%+v, want the first written, the second failed, the third bypassed", s)
	}
	return nil
}

// startChild runs a child on a directory.
func startChild(t testing.TB, what, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

func TestOpen_ASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, Options{Dir: dir})
	cmd, out := startChild(t, "open", dir)
	said, _ := out.ReadString('\n')
	if err := cmd.Wait(); err == nil || !strings.Contains(said, ErrInUse.Error()) || !strings.Contains(said, fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("the second process said %q, %v", said, err)
	}
	r.end(t)
	cmd, out = startChild(t, "open", dir)
	said, _ = out.ReadString('\n')
	if err := cmd.Wait(); err != nil {
		t.Errorf("afterwards: %q, %v", said, err)
	}
}

// A process that is killed leaves no half of an entry, and what it has written is there.
func TestWrite_KilledInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	known := 0
	for round := range 6 {
		cmd, out := startChild(t, "write", dir)
		for range 37 + 41*round {
			if line, err := out.ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{Dir: dir, MaxBytes: 60 * childSpace})
			synctest.Wait()
			there := 0
			for key := range childKeys {
				if r.get(t, key, childSize) {
					there++
				}
			}
			s := r.Stats()
			if s.Damaged != 0 || there != s.Entries || there < min(known+37, 59) {
				t.Errorf("round %d: %d entries can be read; %+v", round, there, s)
			}
			known = there
			if space, n := onDisk(t, dir); space != s.Bytes || n != there || space > 60*childSpace {
				t.Errorf("round %d: %d files of %d bytes; %+v", round, n, space, s)
			}
		})
	}
}

// A disk that is really full: what is there is read on, nothing torn is left, and when there is room again it is used.
func TestWrite_AFullDisk(t *testing.T) {
	dir := t.TempDir()
	testbed.SmallDisk(t, dir, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Dir: dir, MaxBytes: 1 << 30})
		n := 0
		for ; n < 100 && !r.Stats().Suspended; n++ {
			r.put(n, dataOf(n, childSize))
			synctest.Wait()
		}
		s := r.Stats()
		if !s.Suspended || s.WriteErrors != 1 || s.Entries != n-1 || n < 10 {
			t.Fatalf("after %d entries: %+v", n, s)
		}
		there := func() (there int) {
			for key := range n {
				if r.get(t, key, childSize) {
					there++
				}
			}
			return there
		}
		if got := there(); got != n-1 {
			t.Errorf("%d entries can be read, want %d", got, n-1)
		}
		if space, files := onDisk(t, dir); files != n-1 || space != s.Bytes {
			t.Errorf("%d files of %d bytes; %+v", files, space, s)
		}
		r.end(t)
		r = newRig(t, Options{Dir: dir, MaxBytes: 1 << 30}) // a start on a full disk
		synctest.Wait()
		if got := there(); got != n-1 {
			t.Errorf("after a restart %d entries can be read, want %d", got, n-1)
		}
		r.put(n, dataOf(n, childSize))
		synctest.Wait()
		if s := r.Stats(); !s.Suspended {
			t.Errorf("%+v, want that the disk is full", s)
		}
		r.Delete(keyOf(0))
		r.Delete(keyOf(1))
		time.Sleep(firstPause)
		r.put(n, dataOf(n, childSize))
		synctest.Wait()
		if s := r.Stats(); s.Suspended || !r.get(t, n, childSize) {
			t.Errorf("%+v, want that it is written to again", s)
		}
	})
}

// A real limit of the system in the middle of a write.
func TestWrite_FilesMayNotBeSoLarge(t *testing.T) {
	dir := t.TempDir()
	cmd, out := startChild(t, "small files", dir)
	said, _ := out.ReadString('\n')
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s%v", said, err)
	}
	if space, n := onDisk(t, dir); n != 1 || space != blockSize {
		t.Errorf("%d files of %d bytes are left, want the small entry", n, space)
	}
}
