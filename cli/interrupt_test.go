//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/cli"
)

// Ctrl-C in the middle of a copy: exit code 130, the copy that was running is cleaned up or finished, nothing is left over.
func TestInterrupt_CopyEndsInOrder(t *testing.T) {
	// At 1 MiB a second the big segment takes more than a second.
	settings := []string{"upload.rate.limit.bytes.per.second=1048576"}
	b := newBed(t, settings, "blobs-0")
	cmd, errs := beginCopy(t, b)
	for met := 0; !standsInCopy(t, b, cmd.Process.Pid); met++ { // it was over before this looked: another one
		_ = cmd.Wait() // it was waited for already
		if met == 20 {
			t.Fatalf("nothing is being copied: %s", errs)
		}
		b = newBed(t, settings, "blobs-0")
		cmd, errs = beginCopy(t, b)
	}
	sendSignal(t, cmd.Process.Pid, syscall.SIGINT)
	sendSignal(t, cmd.Process.Pid, syscall.SIGCONT)
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.HasSuffix(errs.String(), "tierkit: interrupted\n") {
		t.Errorf("exit code %d, standard error %q, want 130 and the word", code, errs.String())
	}
	objects, leftovers := b.objects(t)
	if len(objects)+len(leftovers) > 0 {
		t.Errorf("left over: %v %v", objects, leftovers)
	}
	if listed := lines(t, must(t, "ls", "--config", b.config, "--json").out); len(listed) > 0 {
		t.Errorf("the metadata still have %v", listed)
	}
}

func beginCopy(t *testing.T, b bed) (cmd *exec.Cmd, errs *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	errs = new(bytes.Buffer)
	cmd = exec.CommandContext(t.Context(), self, "copy", "--config", b.config, b.logs)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, errs
}

// standsInCopy stops the command while its .log is on its way; false if it has ended.
func standsInCopy(t *testing.T, b bed, pid int) bool {
	t.Helper()
	for stop(t, pid) {
		if entries, _ := os.ReadDir(filepath.Join(b.store, ".tierkit", "tmp")); len(entries) > 0 {
			return true
		}
		sendSignal(t, pid, syscall.SIGCONT)
		pause(time.Millisecond)
	}
	return false
}

// A log directory that another process holds as a broker does is refused, and nothing of it is taken. The reason is the same
// for all partitions and said once.
func TestCopy_RefusesTheDirectoryOfARunningBroker(t *testing.T) {
	b := newBed(t, nil, "orders-0", "payments-0")
	lock, err := os.OpenFile(filepath.Join(b.logs, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// The JVM takes an fcntl lock; the command that asks has to be another process, since such locks are the process's own.
	if err := syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	args := []string{"copy", "--config", b.config, b.logs}
	r := child(t, nil, args...)
	checkFailure(t, r, cli.ExitFailed, []string{".lock", "stop the broker"}, args)
	if n := strings.Count(r.err, "stop the broker"); n != 1 {
		t.Errorf("the reason is said %d times: %s", n, r.err)
	}
	if objects, leftovers := b.objects(t); len(objects)+len(leftovers) > 0 {
		t.Errorf("left over: %v %v", objects, leftovers)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if r := child(t, nil, args...); r.code != 0 {
		t.Errorf("after the broker has stopped: exit code %d: %s", r.code, r.err)
	}
}

// An unfinished copy is listed, and deleted only with --yes where nobody can be asked.
func TestDelete_UnfinishedAsksFirst(t *testing.T) {
	program := builtCommand(t)
	c := newCrash(t, program, seeded(7), beforeFinished)
	for run := uint64(8); c.kill() != beforeFinished; run++ {
		c = newCrash(t, program, seeded(run), beforeFinished)
	}
	started := func() (n int) {
		for _, m := range c.list() {
			if m["state"] == "COPY_SEGMENT_STARTED" {
				n++
			}
		}
		return n
	}
	if started() != 1 {
		t.Fatalf("%d unfinished segments, want 1", started())
	}
	args := []string{"delete", "--config", c.config, "--topic", c.topic, "--partition", c.number, "--unfinished", "--json", "--older-than"}
	if r := must(t, append(args, "24h")...); strings.Contains(r.out, "COPY_SEGMENT_STARTED") {
		t.Errorf("a young segment is listed: %s", r.out)
	}
	r := must(t, append(args, "0s")...)
	if got := lines(t, r.out); len(got) != 1 || got[0]["state"] != "COPY_SEGMENT_STARTED" || !strings.Contains(r.err, "--yes") {
		t.Errorf("the list is %v, the notice %q", got, r.err)
	}
	if started() != 1 {
		t.Error("it was deleted without being asked")
	}
	got := lines(t, must(t, append(args, "0s", "--yes")...).out)
	if s, _ := got[len(got)-1]["summary"].(map[string]any); s["deleted"] != json.Number("1") || started() != 0 {
		t.Errorf("--yes: %v", got)
	}
	fails(t, cli.ExitUsage, []string{"--older-than"}, "delete", "--config", c.config, "--topic", c.topic, "--partition", c.number, "--unfinished")
	fails(t, cli.ExitUsage, []string{"--all"}, "delete", "--config", c.config, "--topic", c.topic, "--partition", c.number)
}
