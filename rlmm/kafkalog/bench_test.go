package kafkalog

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tierkit/tierkit/rlmm"
)

// benchLog is a log of one partition on a fake broker in memory: what is measured is this side of the connection, and the fake's.
func benchLog(b *testing.B) *Log {
	b.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, Topic))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	f := &fake{t: b, c: c, addrs: c.ListenAddrs()}
	return f.open(Options{})
}

// recordBytes is about the size of a segment's record.
const recordBytes = 120

// BenchmarkAppend is 64 writers at the same time, whose events share requests.
func BenchmarkAppend(b *testing.B) {
	l := benchLog(b)
	event := bytes.Repeat([]byte("e"), recordBytes)
	b.SetParallelism(64)
	b.SetBytes(recordBytes)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Append(b.Context(), 0, event); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkFollow reads a backlog of 100,000 events.
func BenchmarkFollow(b *testing.B) {
	const events, group = 100_000, 500
	l := benchLog(b)
	values := make([][]byte, group)
	for i := range values {
		values[i] = bytes.Repeat([]byte("e"), recordBytes)
	}
	for range events / group {
		done := make(chan error, group)
		for _, v := range values {
			go func() { _, err := l.Append(b.Context(), 0, v); done <- err }()
		}
		for range values {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(events * recordBytes)
	b.ReportAllocs()
	for b.Loop() {
		f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
		for at := int64(0); at < events; {
			batch, err := f.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if next, ok := batch.Next[0]; ok {
				at = next.Offset
			}
		}
		_ = f.Close()
	}
}
