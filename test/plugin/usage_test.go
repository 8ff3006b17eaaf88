package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/peakrss"
	"github.com/tierkit/tierkit/internal/testbed"
)

// peakRSS is the most resident memory that a process has had.
func peakRSS(t *testing.T, pid int) int64 {
	t.Helper()
	peak, err := peakrss.Of(pid)
	must(t, "memory of a process", err)
	return peak
}

var heapUsed = regexp.MustCompile(`total \d+K, used (\d+)K`)

// heap is what a broker holds of its heap after a collection.
func heap(t *testing.T, b *testbed.Broker) int64 {
	t.Helper()
	jcmd := need.Command(t, "jcmd", "install a JDK, 17 or newer")
	pid := strconv.Itoa(pidOf(t, b))
	if out, err := exec.CommandContext(t.Context(), jcmd, pid, "GC.run").CombinedOutput(); err != nil {
		t.Fatalf("collect: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), jcmd, pid, "GC.heap_info").CombinedOutput()
	if err != nil {
		t.Fatalf("heap: %v\n%s", err, out)
	}
	var sum int64
	for _, m := range heapUsed.FindAllSubmatch(out, -1) {
		kb, err := strconv.ParseInt(string(m[1]), 10, 64)
		must(t, "heap", err)
		sum += kb << 10
	}
	if sum == 0 {
		t.Fatalf("no heap in %s", out)
	}
	return sum
}

// pidOf is the JVM of a broker, which has its configuration as an argument.
func pidOf(t *testing.T, b *testbed.Broker) int {
	t.Helper()
	config := filepath.Join(filepath.Dir(b.DataDir()), "server.properties")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if filepath.Base(args[0]) != "java" || args[len(args)-1] != config {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, file, err)
		return pid
	}
	t.Fatalf("no process has %s", config)
	return 0
}
