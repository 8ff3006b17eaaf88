// Command memprobe copies a file as so many segments at the same time into a bucket, and prints what its memory budget was, the most memory that
// it ever had resident, and how long it took. It is a process of its own, and never built with the race detector, so that nothing of a test
// is counted; tests that kill a copy run it too. With -readers as many other segments are read meanwhile: press.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/internal/peakrss"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// slack is what the Go runtime may have beside the budget: of the 64 MiB of the process, the rest is the pages of the program itself.
const slack = 48 << 20

func main() {
	log := flag.String("log", "", "the segment file")
	endpoint := flag.String("endpoint", "", "the server")
	bucket := flag.String("bucket", "", "the bucket")
	copies := flag.Int("copies", 1, "copies at the same time")
	budget := flag.Int64("budget", 128<<20, "memory.budget.bytes; 0: the smallest legal one")
	part := flag.Int64("part", 8<<20, "the part size")
	readers := flag.Int("readers", 0, "segments that are copied before and read meanwhile, by a reader each")
	flag.Parse()
	if err := run(context.Background(), *log, *endpoint, *bucket, *copies, *readers, *budget, *part); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log, endpoint, bucket string, copies, readers int, budgetBytes, part int64) error {
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
	if budgetBytes == 0 {
		c.MemoryBudgetBytes = rsm.MinBudgetBytes(c, store)
	}
	debug.SetMemoryLimit(c.MemoryBudgetBytes + slack) // as the commands do
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
	var found string
	if readers > 0 {
		found, err = press(ctx, m, log, copies, readers)
	} else {
		err = each(copies, func(int) error { return copyFile(ctx, m, log) })
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	peak, err := peakrss.Of(os.Getpid())
	if err != nil {
		return err
	}
	fmt.Printf("budget %d peak %d took %.1f%s\n", c.MemoryBudgetBytes, peak, took.Seconds(), found)
	return nil
}

// each calls f with 0..n-1 at the same time.
func each(n int, f func(i int) error) (err error) {
	errs := make(chan error)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	for range n {
		err = errors.Join(err, <-errs)
	}
	return err
}

func copyFile(ctx context.Context, m *rsm.Manager, log string) error {
	fi, err := os.Stat(log)
	if err != nil {
		return err
	}
	_, err = copyOne(ctx, m, remotelog.File(log), fi.Size())
	return err
}

// copyOne returns the metadata of the segment that it made.
func copyOne(ctx context.Context, m *rsm.Manager, log remotelog.Source, size int64) (remotelog.SegmentMetadata, error) {
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID()},
		EndOffset: 1, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: size,
	}
	index := remotelog.Bytes(make([]byte, 100_000))
	cm, err := m.Copy(ctx, md, remotelog.SegmentData{Log: log, OffsetIndex: index, TimeIndex: index, ProducerSnapshot: index})
	md.State, md.CustomMetadata = remotelog.CopySegmentFinished, cm
	return md, err
}
