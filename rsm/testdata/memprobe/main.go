// Command memprobe copies a file as a segment into a directory, with compression and encryption, reads it back, and prints what its memory
// budget was and the most memory that it ever had resident. It is a process of its own, and never built with the race detector, so that
// nothing of a test is counted.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/peakrss"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// slack is what the Go runtime may have beside the budget: of the 64 MiB of the process, the rest is the pages of the program itself.
const slack = 48 << 20

func main() {
	log := flag.String("log", "", "the segment file")
	root := flag.String("root", "", "the directory of the store")
	budget := flag.Int64("budget", 0, "memory.budget.bytes; 0: the smallest legal one, -1: the default")
	flag.Parse()
	if err := run(context.Background(), *log, *root, *budget); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log, root string, budgetBytes int64) error {
	fi, err := os.Stat(log)
	if err != nil {
		return err
	}
	d, err := fs.Open(ctx, fs.Options{Root: root, NoSync: true})
	if err != nil {
		return err
	}
	store, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	c := rsm.Config{Compression: true, Encryption: true, MemoryBudgetBytes: budgetBytes}
	if budgetBytes <= 0 {
		c.MemoryBudgetBytes = 0
		if budgetBytes == 0 {
			c.MemoryBudgetBytes = rsm.MinBudgetBytes(c, store)
		}
	}
	limit := rsm.BudgetBytes(c, store)
	debug.SetMemoryLimit(limit + slack) // as the commands do
	budget, err := rsm.NewBudget(c, store)
	if err != nil {
		return err
	}
	keys, err := ring()
	if err != nil {
		return err
	}
	m, err := rsm.New(rsm.Options{Store: store, Budget: budget, Keys: keys, Config: c})
	if err != nil {
		return err
	}
	defer m.Close()
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID()},
		EndOffset: 1, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: fi.Size(),
	}
	index := remotelog.Bytes(make([]byte, 100_000))
	began := time.Now()
	_, err = m.Copy(ctx, md, remotelog.SegmentData{Log: remotelog.File(log), OffsetIndex: index, TimeIndex: index, ProducerSnapshot: index})
	if err != nil {
		return err
	}
	copied := time.Since(began)
	md.State = remotelog.CopySegmentFinished
	began = time.Now()
	if err := compare(ctx, m, md, log); err != nil {
		return err
	}
	read := time.Since(began)
	peak, err := peakrss.Of(os.Getpid())
	if err != nil {
		return err
	}
	fmt.Printf("budget %d peak %d copy %.1f read %.1f\n", limit, peak, copied.Seconds(), read.Seconds())
	return nil
}

func ring() (*crypto.KeyRing, error) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	pair, err := crypto.NewKeyPair("k", &k.PublicKey, k)
	if err != nil {
		return nil, err
	}
	return crypto.NewKeyRing("k", pair)
}

// compare reads the segment and the file and sees that they are the same.
func compare(ctx context.Context, m *rsm.Manager, md remotelog.SegmentMetadata, log string) error {
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	defer f.Close()
	want, got := sha256.New(), sha256.New()
	if _, err := io.Copy(want, f); err != nil {
		return err
	}
	rc, err := m.Fetch(ctx, md, 0, remotelog.ToEnd)
	if err != nil {
		return err
	}
	defer rc.Close()
	n, err := io.Copy(got, rc)
	if err != nil {
		return err
	}
	if n != md.SizeBytes || string(want.Sum(nil)) != string(got.Sum(nil)) {
		return fmt.Errorf("read %d bytes that differ from the %d copied", n, md.SizeBytes)
	}
	return nil
}
