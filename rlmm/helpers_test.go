package rlmm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

const (
	started    = remotelog.CopySegmentStarted
	finished   = remotelog.CopySegmentFinished
	delStarted = remotelog.DeleteSegmentStarted
	delDone    = remotelog.DeleteSegmentFinished
)

// waitLimit ends a wait that would otherwise hang the test; nothing waits that long.
const waitLimit = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// kafkaTopic has the id of Kafka's own tests: with 5 metadata partitions, partitions 0, 1 and 2 of it share one.
func kafkaTopic(t testing.TB, p int32) remotelog.TopicIDPartition {
	t.Helper()
	id, err := remotelog.ParseUUID("Bp9TDduJRGa9Q5rlvCJOxg")
	if err != nil {
		t.Fatal(err)
	}
	return remotelog.TopicIDPartition{TopicID: id, Topic: "orders", Partition: p}
}

func segID(n int) (u remotelog.UUID) {
	binary.BigEndian.PutUint64(u[8:], uint64(n))
	u[0] = 0x40
	return u
}

// seg is segment number n of a partition; epochs are pairs of epoch and first offset.
func seg(tp remotelog.TopicIDPartition, n int, start, end int64, epochs ...int64) remotelog.SegmentMetadata {
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: tp, ID: segID(n)}, StartOffset: start, EndOffset: end,
		MaxTimestampMs: 1000 + end, BrokerID: 1, EventTimestampMs: 1, SizeBytes: 1024,
	}
	for i := 0; i+1 < len(epochs); i += 2 {
		md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: int32(epochs[i]), StartOffset: epochs[i+1]})
	}
	return md
}

func upd(md remotelog.SegmentMetadata, s remotelog.State) remotelog.SegmentUpdate {
	return remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: s, BrokerID: 2, EventTimestampMs: 2}
}

func newManager(t testing.TB, log rlmm.Log, o rlmm.Options) *rlmm.Manager {
	t.Helper()
	m, err := rlmm.New(log, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(within(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

func follow(t testing.TB, m *rlmm.Manager, ps ...remotelog.TopicIDPartition) {
	t.Helper()
	if err := m.OnLeadershipChange(ps, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(within(t), ps...); err != nil {
		t.Fatal(err)
	}
}

func mustAdd(t testing.TB, m *rlmm.Manager, md remotelog.SegmentMetadata, states ...remotelog.State) {
	t.Helper()
	if err := m.Add(within(t), md); err != nil {
		t.Fatalf("Add %v: %v", md.SegmentID, err)
	}
	for _, s := range states {
		mustUpdate(t, m, md, s)
	}
}

func mustUpdate(t testing.TB, m *rlmm.Manager, md remotelog.SegmentMetadata, s remotelog.State) {
	t.Helper()
	if err := m.Update(within(t), upd(md, s)); err != nil {
		t.Fatalf("Update %v to %v: %v", md.SegmentID, s, err)
	}
}

// list collects a listing; an error in it fails the test.
func list[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		if err != nil {
			t.Fatalf("listing: %v", err)
		}
		out = append(out, v)
	}
	return out
}

func listErr[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func ids(mds []remotelog.SegmentMetadata) []remotelog.UUID {
	out := make([]remotelog.UUID, len(mds))
	for i, md := range mds {
		out[i] = md.ID
	}
	return out
}

func wantIDs(t testing.TB, what string, got []remotelog.SegmentMetadata, want ...remotelog.SegmentMetadata) {
	t.Helper()
	if g, w := ids(got), ids(want); !slices.Equal(g, w) {
		t.Errorf("%s: got %v, want %v", what, g, w)
	}
}

// wantAt checks the segment that a lookup finds; nil is none.
func wantAt(t testing.TB, m *rlmm.Manager, tp remotelog.TopicIDPartition, epoch int32, offset int64, want *remotelog.SegmentMetadata) {
	t.Helper()
	got, ok, err := m.Segment(within(t), tp, epoch, offset)
	switch {
	case err != nil:
		t.Errorf("Segment(epoch %d, offset %d): %v", epoch, offset, err)
	case ok != (want != nil):
		t.Errorf("Segment(epoch %d, offset %d) = %v, %v, want found: %v", epoch, offset, got.ID, ok, want != nil)
	case ok && got.ID != want.ID:
		t.Errorf("Segment(epoch %d, offset %d) = [%d-%d], want [%d-%d]", epoch, offset, got.StartOffset, got.EndOffset, want.StartOffset, want.EndOffset)
	}
}

// wantHighest checks HighestOffset; -1 is none.
func wantHighest(t testing.TB, m *rlmm.Manager, tp remotelog.TopicIDPartition, epoch int32, want int64) {
	t.Helper()
	got, ok, err := m.HighestOffset(within(t), tp, epoch)
	if !ok {
		got = -1
	}
	if err != nil || got != want {
		t.Errorf("HighestOffset(epoch %d) = %d, %v, want %d", epoch, got, err, want)
	}
}

func mustEncode(t testing.TB, r rlmm.Record) []byte {
	t.Helper()
	b, err := rlmm.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raw puts a record on the log as a foreign writer does.
func raw(t testing.TB, log rlmm.Log, r rlmm.Record) rlmm.Position {
	t.Helper()
	var tp remotelog.TopicIDPartition
	switch r := r.(type) {
	case *rlmm.SegmentRecord:
		tp = r.Metadata.TopicIDPartition
	case *rlmm.UpdateRecord:
		tp = r.Update.TopicIDPartition
	case *rlmm.PartitionDeleteRecord:
		tp = r.Delete.TopicIDPartition
	}
	pos, err := log.Append(within(t), rlmm.MetadataPartition(tp, log.Partitions()), mustEncode(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

type goldenValue struct {
	partition   int32
	timestampMs int64
	value       []byte
}

// goldenValues are the values of a topic that a real broker wrote, in the order of each metadata partition.
func goldenValues(t testing.TB, version string) (out []goldenValue) {
	t.Helper()
	raw, err := os.ReadFile("testdata/remote-log-metadata-" + version + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var r struct {
			Partition int32
			Timestamp int64
			Value     []byte
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, goldenValue{r.Partition, r.Timestamp, r.Value})
	}
	return out
}
