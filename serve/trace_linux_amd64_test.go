package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

// fault is what becomes of a process at one of its system calls.
type fault int

const (
	killed fault = iota // kill -9 before the call
	failed              // the call does nothing, and is EIO
)

// fileCalls are the system calls that count: those with which a process changes files, or finds out about them.
var fileCalls = map[uint64]string{
	syscall.SYS_OPENAT: "open", syscall.SYS_WRITE: "write", syscall.SYS_FSYNC: "sync", syscall.SYS_CLOSE: "close", syscall.SYS_MKDIRAT: "mkdir",
	syscall.SYS_RENAMEAT: "rename", syscall.SYS_UNLINKAT: "remove", syscall.SYS_NEWFSTATAT: "stat",
}

// tracer is a child whose system calls are looked at.
type tracer struct {
	pid    int
	at     int // number of the call to which the fault happens, from 1; 0: none
	fault  fault
	inside map[int]bool // threads that are in a call
	fails  map[int]bool // threads whose call is to fail
	marks  int
	calls  []string
}

// trace runs a child of this binary to its end, with a fault at one of its calls, and returns the calls up to there and what the child printed.
func trace(t *testing.T, what string, at int, f fault) (calls []string, out string) {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	file := filepath.Join(t.TempDir(), "out")
	stdout, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		need.Missing(t, "ptrace", fmt.Sprintf("allow processes to trace their children: %v", err))
	}
	x := &tracer{pid: cmd.Process.Pid, at: at, fault: f, inside: map[int]bool{}, fails: map[int]bool{}}
	if err := x.run(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was waited for already
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return x.calls, string(text)
}

// run lets the child go on from stop to stop until it ends.
func (x *tracer) run() error {
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(x.pid, &ws, 0, nil); err != nil {
		return err
	}
	if err := syscall.PtraceSetOptions(x.pid, syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE); err != nil {
		return err
	}
	thread, signal := x.pid, 0
	for {
		_ = syscall.PtraceSyscall(thread, signal) // ESRCH: it was killed
		var err error
		if thread, err = syscall.Wait4(-1, &ws, syscall.WALL, nil); err != nil {
			return err
		}
		switch signal = 0; {
		case ws.Exited(), ws.Signaled():
			if thread == x.pid {
				return nil
			}
		case ws.StopSignal() == syscall.SIGTRAP|0x80:
			x.stopped(thread)
		case ws.StopSignal() != syscall.SIGTRAP && ws.StopSignal() != syscall.SIGSTOP: // the latter: of a thread that begins
			signal = int(ws.StopSignal())
		}
	}
}

// stopped looks at a thread at the beginning or the end of a system call.
func (x *tracer) stopped(thread int) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(thread, &regs) != nil {
		return // killed
	}
	if x.inside[thread] = !x.inside[thread]; !x.inside[thread] {
		if x.fails[thread] {
			delete(x.fails, thread)
			regs.Rax = ^uint64(syscall.EIO) + 1
			_ = syscall.PtraceSetRegs(thread, &regs)
		}
		return
	}
	if regs.Orig_rax == syscall.SYS_GETPPID {
		x.marks++
	}
	name := fileCalls[regs.Orig_rax]
	if x.marks != 1 || name == "" || name == "write" && regs.Rdx <= 8 { // 8 bytes: the runtime wakes a thread
		return
	}
	x.calls = append(x.calls, name)
	switch {
	case len(x.calls) != x.at:
	case x.fault == killed:
		_ = syscall.Kill(x.pid, syscall.SIGKILL)
	default:
		x.fails[thread] = true
		regs.Orig_rax = ^uint64(0) // no call
		_ = syscall.PtraceSetRegs(thread, &regs)
	}
}

func hidden(names []string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, ".") })
}
func visible(names []string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, ".") })
}

// replay is the next process: it works off what it finds.
func replay(t *testing.T, dir string) (tries int, bad int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := working(t, dir, func(md remotelog.SegmentMetadata) error {
			if tries++; md.ID != fixedMetadata().ID {
				t.Errorf("segment %s", md.ID)
			}
			return removeObject(dir)
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if left := visible(orderFiles(t, dir)); len(left) != 0 || j.stats().Orders != 0 {
			t.Errorf("left: %v, %d orders", left, j.stats().Orders)
		}
		bad = j.stats().Bad
	})
	return tries, bad
}

// Whatever moment the process dies in while it writes an order, and whatever call of the system fails: an order that somebody was told of is there
// afterwards, and one that is there is whole.
func TestJournal_NoMomentLosesAnOrder(t *testing.T) {
	dirOf := func() string { return filepath.Join(t.TempDir(), "state", "deletes") }
	whole, out := trace(t, "order "+dirOf(), 0, killed)
	// What a power cut spares: the content before the name, and both before the answer.
	var last []string
	for _, call := range whole {
		switch call {
		case "write":
			last = []string{call}
		case "sync", "rename":
			last = append(last, call)
		}
	}
	if want := []string{"write", "sync", "rename", "sync"}; out != "ok\n" || !slices.Equal(last, want) {
		t.Fatalf("%q after %v, want it to end in %v", out, whole, want)
	}
	for at := range len(whole) {
		for _, f := range []fault{killed, failed} {
			dir := dirOf()
			calls, out := trace(t, "order "+dir, at+1, f)
			if err := durable.MakeDir(dir); err != nil {
				t.Fatal(err)
			}
			temps := hidden(orderFiles(t, dir))
			tries, bad := replay(t, dir)
			if out == "ok\n" && tries == 0 || bad != 0 || f == killed && out != "" {
				t.Errorf("fault %d at call %d of %v: said %q, %d orders found, %d bad", f, at+1, calls, out, tries, bad)
			}
			if f == failed && len(temps) > 1 {
				t.Errorf("call %d of %v failed and left %v", at+1, calls, temps)
			}
		}
	}
}

// The same while an order is worked off: afterwards the object is gone, and the order is not before it.
func TestJournal_NoMomentKeepsAnObjectOrLosesItsOrder(t *testing.T) {
	prepare := func() string {
		dir, md := filepath.Join(t.TempDir(), "deletes"), fixedMetadata()
		if err := durable.MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		if err := makeObject(dir); err != nil {
			t.Fatal(err)
		}
		plugin(t, dir, &md)
		return dir
	}
	whole, _ := trace(t, "work "+prepare(), 0, killed)
	if n := slices.Index(whole, "rename"); n < 0 || len(whole) < 5 {
		t.Fatalf("calls: %v", whole)
	}
	for at := range len(whole) {
		for _, f := range []fault{killed, failed} {
			dir := prepare()
			calls, _ := trace(t, "work "+dir, at+1, f)
			tries, bad := replay(t, dir)
			if objectIsThere(dir) || bad != 0 {
				t.Errorf("fault %d at call %d of %v: the object is there: %v, %d tries, %d bad", f, at+1, calls, objectIsThere(dir), tries, bad)
			}
		}
	}
}
