package rlm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
	"github.com/tierkit/tierkit/rsm"
)

// Tier a partition directory to a store in the file system, and read a record back.
func Example() {
	work, err := os.MkdirTemp("", "tierkit-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	dir, err := golden.CopyPartition(work, "orders-0") // a partition that a real broker wrote
	if err != nil {
		panic(err)
	}
	if err := tier(context.Background(), work, dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// copied: offsets 0 to 79
	// copied: offsets 80 to 159
	// copied: offsets 160 to 239
	// offset 200, leader epoch 2: k-200
}

func tier(ctx context.Context, work, dir string) error {
	// The storage side: a registry with the drivers that you want, and the settings.
	reg := new(backends.Registry)
	if err := reg.Register(fs.Factory()); err != nil {
		return err
	}
	segments, err := rsm.Open(ctx, rsm.OpenOptions{Registry: reg, Props: map[string]string{
		"storage.backend":     "fs",
		"storage.root":        work,
		"compression.enabled": "true",
	}})
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }()

	// The metadata side: a durable log in a directory, and the manager over it.
	log, err := filelog.Open(ctx, filepath.Join(work, "metadata"), filelog.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	meta, err := rlmm.New(log, rlmm.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = meta.Close(ctx) }()

	// What a broker does when it becomes leader, then the copy.
	tp, err := rlm.PartitionOf(dir)
	if err != nil {
		return err
	}
	if err := meta.Reconcile(ctx, []remotelog.TopicIDPartition{tp}); err != nil {
		return err
	}
	if err := meta.WaitReady(ctx, tp); err != nil {
		return err
	}
	_, err = rlm.Offload(ctx, meta, segments, []string{dir}, rlm.OffloadOptions{
		OnResult: func(r rlm.SegmentResult) {
			fmt.Printf("%s: offsets %d to %d\n", r.Result, r.Segment.StartOffset, r.Segment.EndOffset)
		},
	})
	if err != nil {
		return err
	}

	// Read by offset, from the store alone.
	view, err := rlm.Open(ctx, meta, segments, tp, rlm.ViewOptions{})
	if err != nil {
		return err
	}
	for rec, err := range view.Records(ctx, 200, rlm.ReadOptions{MaxRecords: 1}) {
		if err != nil {
			return err
		}
		fmt.Printf("offset %d, leader epoch %d: %s\n", rec.Offset, rec.LeaderEpoch, rec.Key)
	}
	return nil
}
