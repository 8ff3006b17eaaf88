package rsm_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// A segment is copied into a directory and a few bytes of it are read back. With a driver of a cloud registered, only the properties change.
func Example() {
	root, err := os.MkdirTemp("", "tierkit")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	var registry backends.Registry
	if err := registry.Register(fs.Factory()); err != nil {
		panic(err)
	}
	ctx := context.Background()
	m, err := rsm.Open(ctx, rsm.OpenOptions{Registry: &registry, Props: map[string]string{
		"storage.backend": "fs", "storage.root": root, "compression.enabled": "true",
	}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = m.Close() }()

	segment := []byte("what a broker calls 00000000000000000000.log")
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{
			TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID(),
		},
		StartOffset: 0, EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: 0}}, SizeBytes: int64(len(segment)),
	}
	custom, err := m.Copy(ctx, md, remotelog.SegmentData{
		Log:         remotelog.Bytes(segment), // remotelog.File(path) for a file
		OffsetIndex: remotelog.Bytes{}, TimeIndex: remotelog.Bytes{}, ProducerSnapshot: remotelog.Bytes{},
		LeaderEpochs: []byte("0\n1\n0 0\n"),
	})
	if err != nil {
		panic(err)
	}
	md.State, md.CustomMetadata = remotelog.CopySegmentFinished, custom

	stream, err := m.Fetch(ctx, md, 20, remotelog.ToEnd)
	if err != nil {
		panic(err)
	}
	defer func() { _ = stream.Close() }()
	got, err := io.ReadAll(stream)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", got)
	// Output: 00000000000000000000.log
}
