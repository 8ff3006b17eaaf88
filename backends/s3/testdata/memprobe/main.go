// Command memprobe copies a file as so many segments at the same time into a bucket, and prints what its memory budget was, the most memory that
// it ever had resident, and how long it took. It is a process of its own, and never built with the race detector, so that nothing of a test
// is counted; tests that kill a copy run it too.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// slack is what a process may have beside its budget: the Go runtime, the program itself, stacks.
const slack = 64 << 20

func main() {
	log := flag.String("log", "", "the segment file")
	endpoint := flag.String("endpoint", "", "the server")
	bucket := flag.String("bucket", "", "the bucket")
	copies := flag.Int("copies", 1, "copies at the same time")
	budget := flag.Int64("budget", 128<<20, "memory.budget.bytes")
	part := flag.Int64("part", 8<<20, "the part size")
	flag.Parse()
	if err := run(context.Background(), *log, *endpoint, *bucket, *copies, *budget, *part); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log, endpoint, bucket string, copies int, budgetBytes, part int64) error {
	fi, err := os.Stat(log)
	if err != nil {
		return err
	}
	d, err := s3.Open(ctx, s3.Options{Bucket: bucket, Endpoint: endpoint, PartBytes: part, Region: "us-east-1"}, backends.Env{})
	if err != nil {
		return err
	}
	store, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	c := rsm.Config{Compression: true, MemoryBudgetBytes: budgetBytes}
	debug.SetMemoryLimit(budgetBytes + slack) // as the commands do
	budget, err := rsm.NewBudget(c, store)
	if err != nil {
		return err
	}
	store.UseBudget(budget)
	m, err := rsm.New(rsm.Options{Store: store, Budget: budget, Config: c})
	if err != nil {
		return err
	}
	defer m.Close()
	began := time.Now()
	errs := make(chan error)
	for range copies {
		go func() { errs <- copyOne(ctx, m, log, fi.Size()) }()
	}
	for range copies {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	peak, err := highWater()
	if err != nil {
		return err
	}
	fmt.Printf("budget %d peak %d took %.1f\n", budgetBytes, peak, took.Seconds())
	return nil
}

func copyOne(ctx context.Context, m *rsm.Manager, log string, size int64) error {
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID()},
		EndOffset: 1, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: size,
	}
	index := remotelog.Bytes(make([]byte, 100_000))
	_, err := m.Copy(ctx, md, remotelog.SegmentData{Log: remotelog.File(log), OffsetIndex: index, TimeIndex: index, ProducerSnapshot: index})
	return err
}

// highWater is the most memory that this process ever had resident.
func highWater() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int64
		if strings.HasPrefix(s.Text(), "VmHWM:") {
			_, err := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}
