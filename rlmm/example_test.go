package rlmm_test

import (
	"context"
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
)

func Example() {
	ctx := context.Background()
	log := memlog.New(memlog.Options{})
	defer func() { _ = log.Close() }() // in memory: nothing is lost

	m, err := rlmm.New(log, rlmm.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = m.Close(ctx) }() // every write has returned

	tp := remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders", Partition: 3}
	segment := remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.NewUUID()},
		StartOffset: 100, EndOffset: 199, SizeBytes: 4096,
		LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 2, StartOffset: 100}},
	}
	steps := []func() error{
		func() error { return m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil) },
		func() error { return m.WaitReady(ctx, tp) },
		func() error { return m.Add(ctx, segment) },
		// ... the bytes are copied ...
		func() error {
			return m.Update(ctx, remotelog.SegmentUpdate{SegmentID: segment.SegmentID, State: remotelog.CopySegmentFinished})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			fmt.Println(err)
			return
		}
	}
	found, ok, err := m.Segment(ctx, tp, 2, 150)
	fmt.Println(found.TopicIDPartition, found.StartOffset, found.EndOffset, found.State, ok, err)
	// Output: orders-3 100 199 COPY_SEGMENT_FINISHED true <nil>
}
