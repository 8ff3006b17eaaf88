package rsm

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// memorySlack is what a process may have resident beside its budget.
const memorySlack = 64 << 20

// probe copies and reads a segment of size bytes in a process of its own and checks its peak memory.
func probe(t *testing.T, size, budget int64) {
	t.Helper()
	if runtime.GOOS != "linux" {
		need.Never(t, "the peak of a process's memory is read from /proc")
	}
	bin := filepath.Join(t.TempDir(), "memprobe")
	build := exec.CommandContext(t.Context(), need.Command(t, "go", "it comes with Go"), "build", "-o", bin, "./testdata/memprobe")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log := kafkaFile(t, kafkaData(7, 4<<20), size)
	out, err := exec.CommandContext(t.Context(), bin, "-log", log, "-root", t.TempDir(), "-budget", fmt.Sprint(budget)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var limit, peak int64
	var copied, read float64
	if _, err := fmt.Sscanf(string(out), "budget %d peak %d copy %f read %f", &limit, &peak, &copied, &read); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	t.Logf("%d MiB with a budget of %.1f MiB: peak RSS %.1f MiB, %.1f MiB beside the budget (copy %.1f s, read %.1f s)",
		size>>20, float64(limit)/(1<<20), float64(peak)/(1<<20), float64(peak-limit)/(1<<20), copied, read)
	if peak > limit+memorySlack {
		t.Errorf("peak RSS of %d bytes is above the budget of %d and 64 MiB", peak, limit)
	}
	if peak < 8<<20 {
		t.Errorf("peak RSS of %d bytes cannot be", peak)
	}
}

func TestMemory_CopyAndReadStayWithinTheBudget(t *testing.T) {
	need.Long(t)
	probe(t, 256<<20, 0)
}

// TestBench_MemoryOfTheLargestSegment is the same for the largest segment that Kafka can have.
func TestBench_MemoryOfTheLargestSegment(t *testing.T) {
	need.Bench(t)
	for _, budget := range []int64{0, -1} { // the smallest and the default
		probe(t, math.MaxInt32, budget)
	}
}
