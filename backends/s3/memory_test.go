package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

const memorySlack = 64 << 20 // beside the budget: docs/performance.md

// probeCommand builds memprobe and returns it, about to copy a file of size bytes into a bucket.
func probeCommand(t *testing.T, srv *testbed.S3, bucket string, size int, args ...string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS != "linux" {
		need.Never(t, "the peak of a process's memory is read from /proc")
	}
	bin, log := filepath.Join(t.TempDir(), "memprobe"), filepath.Join(t.TempDir(), "segment.log")
	build := exec.CommandContext(t.Context(), need.Command(t, "go", "it comes with Go"), "build", "-o", bin, "./testdata/memprobe")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	block, rng := make([]byte, 1<<20), rand.NewChaCha8([32]byte{1}) // nothing that a codec could make smaller
	for ; size > 0; size -= len(block) {
		_, _ = rng.Read(block)
		if _, err := f.Write(block[:min(size, len(block))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"-log", log, "-endpoint", srv.Endpoint, "-bucket", bucket}, args...)...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+srv.AccessKey, "AWS_SECRET_ACCESS_KEY="+srv.SecretKey)
	return cmd
}

// copies runs 16 copies of size bytes each at the same time with a budget of 128 MiB and holds the peak against it.
func copies(t *testing.T, size int) {
	t.Helper()
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	out, err := probeCommand(t, srv, bucket, size, "-copies", "16").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var limit, peak int64
	var took float64
	if _, err := fmt.Sscanf(string(out), "budget %d peak %d took %f", &limit, &peak, &took); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	t.Logf("16 copies of %d MiB with a budget of %d MiB: peak RSS %.1f MiB, %.1f MiB beside the budget, %.1f s, %.0f MB/s",
		size>>20, limit>>20, float64(peak)/(1<<20), float64(peak-limit)/(1<<20), took, 16*float64(size)/took/1e6)
	if peak > limit+memorySlack {
		t.Errorf("peak RSS of %d bytes is above the budget of %d and 64 MiB", peak, limit)
	}
	if peak < 16<<20 {
		t.Errorf("peak RSS of %d bytes cannot be", peak)
	}
	if keys := srv.Objects(t, bucket); len(keys) != 48 {
		t.Errorf("%d objects, want 16 segments of 3", len(keys))
	}
	empty(t, srv, bucket)
}

func empty(t *testing.T, srv *testbed.S3, bucket string) {
	t.Helper()
	c := srv.Client(t)
	for _, key := range srv.Objects(t, bucket) {
		if err := c.RemoveObject(t.Context(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestMemory_SixteenCopiesStayWithinTheBudget(t *testing.T) {
	need.Long(t)
	copies(t, 24<<20)
}

// TestBench_MemoryOfSixteenCopies is the same with segments of 256 MiB.
func TestBench_MemoryOfSixteenCopies(t *testing.T) {
	need.Bench(t)
	copies(t, 256<<20)
}

// press runs 64 readers of a segment each, of size bytes, and 16 copies at the same time with the smallest legal budget, when the cache of chunks is
// full: everything comes to its end, with the right bytes, and the peak is held against the budget.
func press(t *testing.T, size int) {
	t.Helper()
	const readers, copies = 64, 16
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	cmd := probeCommand(t, srv, bucket, size, "-copies", fmt.Sprint(copies), "-readers", fmt.Sprint(readers), "-budget", "0")
	hangs := time.AfterFunc(15*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // it says where
	defer hangs.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var limit, peak, cached, waits int64
	var took float64
	if _, err := fmt.Sscanf(string(out), "budget %d peak %d took %f cached %d waits %d", &limit, &peak, &took, &cached, &waits); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	const mib = 1 << 20
	t.Logf("%d readers and %d copies of %d MiB with a budget of %.1f MiB, %d MiB of it cached before: peak RSS %.1f MiB, %.1f MiB beside the budget, %d waits for memory, %.1f s",
		readers, copies, size/mib, float64(limit)/mib, cached/mib, float64(peak)/mib, float64(peak-limit)/mib, waits, took)
	if peak > limit+memorySlack || peak < limit/2 {
		t.Errorf("peak RSS of %d bytes, want at most the budget of %d and 64 MiB, and less than half of it cannot be", peak, limit)
	}
	if cached < 2*mib || waits < readers {
		t.Errorf("%d bytes cached and %d waits for memory: the test did not reach what it is for", cached, waits)
	}
	if n := len(srv.Objects(t, bucket)); n != 3*(readers+copies) {
		t.Errorf("%d objects, want %d segments of 3", n, readers+copies)
	}
	empty(t, srv, bucket)
}

func TestMemory_ReadersAndCopiesInTheSmallestBudget(t *testing.T) {
	need.Long(t)
	press(t, 10<<20) // two parts, three chunks
}

// TestBench_MemoryOfReadersAndCopies is the same with segments of 64 MiB.
func TestBench_MemoryOfReadersAndCopies(t *testing.T) {
	need.Bench(t)
	press(t, 64<<20)
}

// TestCrash_KilledInTheMiddleOfAnUpload: nothing is visible of the .log, beside which the .indexes may be whole; the parts that it left are found and removed.
func TestCrash_KilledInTheMiddleOfAnUpload(t *testing.T) {
	need.Long(t)
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	cmd := probeCommand(t, srv, bucket, 256<<20, "-part", fmt.Sprint(minPart))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, at(srv, bucket), backends.Env{})
	var ups []backends.Upload
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(ups) == 0 && ctx.Err() == nil {
		var err error
		if ups, err = d.ListUploads(ctx, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || len(ups) != 1 || !strings.HasSuffix(ups[0].Key, ".log") {
		t.Fatalf("the copy was not killed in the middle of an upload: %v, %+v", err, ups)
	}
	for _, key := range srv.Objects(t, bucket) {
		if key != strings.TrimSuffix(ups[0].Key, ".log")+".indexes" {
			t.Errorf("visible after the kill: %s", key)
		}
	}
	if _, err := d.Stat(t.Context(), ups[0].Key); !errors.Is(err, backends.NotFound) {
		t.Errorf("stat: %v", err)
	}
	found, err := d.ListUploads(t.Context(), ups[0].Key)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	if err := d.AbortUpload(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	if ids := srv.Uploads(t, bucket, ups[0].Key); len(ids) > 0 {
		t.Errorf("still there: %v", ids)
	}
}
