package logfiles

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// forGolden runs check for every golden partition.
func forGolden(t *testing.T, check func(t *testing.T, dir string, truth *golden.Truth)) {
	t.Helper()
	root, err := golden.Kafka()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range golden.Partitions() {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { check(t, filepath.Join(root, "partitions", name), truth) })
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden_IndexesEqualTheTruth(t *testing.T) {
	forGolden(t, func(t *testing.T, dir string, truth *golden.Truth) {
		for i, seg := range truth.Segments {
			base, err := strconv.ParseInt(seg.Segment, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, seg.Segment)
			active := i == len(truth.Segments)-1
			if _, ok := seg.Files["index"]; ok {
				b := read(t, path+".index")
				x, err := CutOffsetIndex(b, base)
				if !active {
					x, err = ParseOffsetIndex(b, base)
				}
				var got [][2]int64
				for i := range x.Len() {
					got = append(got, [2]int64{x.Entry(i).Offset, x.Entry(i).Position})
				}
				if err != nil || !slices.Equal(got, seg.OffsetIndex) {
					t.Errorf("%s.index: %v, %v, want %v", seg.Segment, err, got, seg.OffsetIndex)
				}
			}
			if _, ok := seg.Files["timeindex"]; ok {
				b := read(t, path+".timeindex")
				x, err := CutTimeIndex(b, base)
				if !active {
					x, err = ParseTimeIndex(b, base)
				}
				var got [][2]int64
				for i := range x.Len() {
					got = append(got, [2]int64{x.Entry(i).TimestampMs, x.Entry(i).Offset})
				}
				if err != nil || !slices.Equal(got, seg.TimeIndex) {
					t.Errorf("%s.timeindex: %v, %v, want %v", seg.Segment, err, got, seg.TimeIndex)
				}
			}
			if _, ok := seg.Files["txnindex"]; ok {
				txns, err := ParseTxnIndex(read(t, path+".txnindex"))
				same := slices.EqualFunc(txns, seg.TxnIndex, func(a AbortedTxn, b golden.AbortedTxn) bool { return a == AbortedTxn(b) })
				if err != nil || !same {
					t.Errorf("%s.txnindex: %v, %v, want %v", seg.Segment, err, txns, seg.TxnIndex)
				}
			}
		}
	})
}

func TestGolden_CheckpointsAndMetadata(t *testing.T) {
	forGolden(t, func(t *testing.T, dir string, truth *golden.Truth) {
		text := read(t, filepath.Join(dir, "leader-epoch-checkpoint"))
		epochs, err := ParseLeaderEpochs(text)
		var want []remotelog.LeaderEpoch
		for _, e := range truth.LeaderEpochs {
			want = append(want, remotelog.LeaderEpoch{Epoch: int32(e[0]), StartOffset: e[1]})
		}
		if err != nil || !slices.Equal(epochs, want) {
			t.Errorf("leader epochs %v, %v, want %v", epochs, err, want)
		}
		if got := MarshalLeaderEpochs(epochs); !bytes.Equal(got, text) {
			t.Errorf("leader epochs written as %q, want %q", got, text)
		}
		id, err := ParsePartitionMetadata(read(t, filepath.Join(dir, "partition.metadata")))
		if err != nil || id.String() != truth.TopicID {
			t.Errorf("topic id %v, %v, want %v", id, err, truth.TopicID)
		}
	})
}

func TestGolden_SnapshotsEqualTheTruthAndWriteBack(t *testing.T) {
	forGolden(t, func(t *testing.T, dir string, truth *golden.Truth) {
		for name, want := range truth.ProducerSnapshots {
			b := read(t, filepath.Join(dir, strings.TrimSuffix(name, ".snapshot")+".snapshot"))
			got, err := ParseSnapshot(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fromTruth(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if back := MarshalSnapshot(got); !bytes.Equal(back, b) {
				t.Errorf("%s written back as %x, want %x", name, back, b)
			}
		}
	})
}

func fromTruth(states []golden.ProducerState) []ProducerState {
	got := []ProducerState{}
	for _, s := range states {
		p := ProducerState{ProducerID: s.ProducerID, ProducerEpoch: s.ProducerEpoch, LastSequence: -1, LastOffset: -1,
			TimestampMs: s.LastTimestamp, CoordinatorEpoch: s.CoordinatorEpoch, CurrentTxnFirstOffset: int64(s.CurrentTxnFirstOffset)}
		if s.LastOffset != nil {
			p.LastSequence, p.LastOffset, p.OffsetDelta = *s.LastSequence, *s.LastOffset, *s.OffsetDelta
		}
		got = append(got, p)
	}
	return got
}

// Producers computes, from the batches alone, every snapshot and every transaction index entry that the broker wrote. A broker
// forgets a producer a day after its last batch when it starts, and the golden ones have old timestamps: such a producer may be
// missing in the broker's file, none else.
func TestProducers_ComputeTheBrokersSnapshotsAndAbortedTransactions(t *testing.T) {
	const expired = 1_790_000_000_000 // between the records' own old timestamps and the time of the run
	compared := 0
	forGolden(t, func(t *testing.T, dir string, truth *golden.Truth) {
		if strings.HasPrefix(filepath.Base(dir), "catalog") {
			return // compaction removed batches that the broker had counted
		}
		p := NewProducers(nil)
		defer p.Close()
		snapshots := map[int64][]ProducerState{}
		for name, s := range truth.ProducerSnapshots {
			offset, err := strconv.ParseInt(strings.TrimSuffix(name, ".snapshot"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			snapshots[offset] = fromTruth(s)
		}
		check := func(at int64) {
			want, ok := snapshots[at]
			if !ok {
				return
			}
			compared++
			delete(snapshots, at)
			var wantIDs []int64
			for _, s := range want {
				wantIDs = append(wantIDs, s.ProducerID)
			}
			got := slices.DeleteFunc(p.Snapshot(), func(s ProducerState) bool {
				return s.TimestampMs < expired && s.CurrentTxnFirstOffset < 0 && !slices.Contains(wantIDs, s.ProducerID)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("snapshot at %d (-broker +computed):\n%s", at, diff)
			}
		}
		for _, seg := range truth.Segments {
			f := read(t, filepath.Join(dir, seg.Segment+".log"))
			var aborted []string
			for r := recordbatch.NewReader(bytes.NewReader(f), recordbatch.ReaderOptions{}); ; {
				if next, err := r.PeekBaseOffset(); err == nil {
					check(next)
				}
				b, err := r.Next()
				if err != nil {
					break
				}
				a, ok, err := p.Apply(b)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					aborted = append(aborted, fmt.Sprint(a.ProducerID, a.FirstOffset, a.LastOffset))
				}
				check(b.LastOffset() + 1)
			}
			var want []string
			for _, a := range seg.TxnIndex {
				want = append(want, fmt.Sprint(a.ProducerID, a.FirstOffset, a.LastOffset))
			}
			if !slices.Equal(aborted, want) {
				t.Errorf("segment %s: aborted %v, want %v", seg.Segment, aborted, want)
			}
		}
		if len(snapshots) != 0 {
			t.Errorf("snapshots never reached: %v", snapshots)
		}
	})
	if compared < 40 {
		t.Errorf("only %d snapshots were compared", compared)
	}
}
