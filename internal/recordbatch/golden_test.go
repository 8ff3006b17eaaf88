package recordbatch

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/golden"
)

// Every batch and every record of every golden partition is what Kafka's own tools say.
func TestGolden_BatchesAndRecordsEqualTheTruth(t *testing.T) {
	for _, name := range golden.Partitions() {
		t.Run(name, func(t *testing.T) {
			truth, err := golden.LoadTruth(name)
			if err != nil {
				t.Fatal(err)
			}
			root, err := golden.Kafka()
			if err != nil {
				t.Fatal(err)
			}
			d := NewDecoder(Limits{})
			defer d.Close()
			check := recordCheck{t: t, want: truth.Records, d: d}
			for _, seg := range truth.Segments {
				checkSegment(t, filepath.Join(root, "partitions", name, seg.Segment+".log"), seg.Batches, &check)
			}
			if check.n != len(truth.Records) {
				t.Errorf("%d records, want %d", check.n, len(truth.Records))
			}
			if got := check.digest.Sum(); got != truth.ReadUncommitted.Digest {
				t.Errorf("digest %s, want %s", got, truth.ReadUncommitted.Digest)
			}
		})
	}
}

func checkSegment(t *testing.T, path string, want []golden.Batch, check *recordCheck) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(f, ReaderOptions{})
	got := []golden.Batch{}
	for {
		peeked, peekErr := r.PeekBaseOffset()
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			if !errors.Is(peekErr, io.EOF) {
				t.Errorf("peek at the end: %v, want io.EOF", peekErr)
			}
			break
		}
		if err != nil || peekErr != nil || peeked != b.BaseOffset {
			t.Fatalf("%s: %v, peek %d, %v", path, err, peeked, peekErr)
		}
		got = append(got, asTruth(b))
		if !b.Control() {
			check.batch(b)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: batches (-want +got):\n%s", path, diff)
	}
}

func asTruth(b Batch) golden.Batch {
	g := golden.Batch{BaseOffset: b.BaseOffset, LastOffset: b.LastOffset(), Count: b.RecordCount, Position: b.Position, Size: b.Size(),
		Magic: b.Magic, Codec: b.Codec().String(), TimestampType: "CreateTime", MaxTimestamp: b.MaxTimestampMs,
		IsTransactional: b.Transactional(), IsControl: b.Control(), ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch,
		BaseSequence: b.BaseSequence, LastSequence: b.LastSequence(), PartitionLeaderEpoch: b.PartitionLeaderEpoch, CRC: b.CRC}
	if b.LogAppendTime() {
		g.TimestampType = "LogAppendTime"
	}
	return g
}

// recordCheck compares records with those of the truth, in order.
type recordCheck struct {
	t      *testing.T
	want   []golden.Record
	n      int
	d      *Decoder
	digest golden.Digest
}

func (c *recordCheck) batch(b Batch) {
	c.t.Helper()
	for rec, err := range c.d.Records(b.Bytes) {
		if err != nil {
			c.t.Fatal(err)
		}
		if c.n >= len(c.want) {
			c.t.Fatalf("record at offset %d is one too many", rec.Offset)
		}
		w := c.want[c.n]
		c.n++
		if rec.Offset != w.Offset || rec.TimestampMs != w.Timestamp || b.PartitionLeaderEpoch != w.LeaderEpoch {
			c.t.Fatalf("offset %d timestamp %d epoch %d, want %d %d %d", rec.Offset, rec.TimestampMs, b.PartitionLeaderEpoch, w.Offset, w.Timestamp, w.LeaderEpoch)
		}
		if err := errors.Join(w.Key.Match(rec.Key), w.Value.Match(rec.Value)); err != nil {
			c.t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		same := slices.EqualFunc(w.Headers, rec.Headers, func(g golden.Header, h RecordHeader) bool {
			return g.Key == string(h.Key) && g.Value.Match(h.Value) == nil
		})
		if !same {
			c.t.Fatalf("offset %d: headers %q, want %+v", rec.Offset, rec.Headers, w.Headers)
		}
		c.digest.Add(rec.Offset, rec.TimestampMs, b.PartitionLeaderEpoch, rec.Key, rec.Value)
	}
}

// Every control batch of the golden partitions holds a marker, and the aborts are those that the transaction indexes know.
func TestEndTxn_FindsTheMarkersOfTheGoldenPartitions(t *testing.T) {
	for _, name := range []string{"payments-0", "payments-1", "invoices-0"} {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		root, err := golden.Kafka()
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(Limits{})
		defer d.Close()
		aborts, markers := map[int64]bool{}, 0
		for _, seg := range truth.Segments {
			f, err := os.Open(filepath.Join(root, "partitions", name, seg.Segment+".log"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for r := NewReader(f, ReaderOptions{}); ; {
				b, err := r.Next()
				if err != nil {
					break
				}
				if !b.Control() {
					continue
				}
				m, ok, err := d.EndTxn(b.Bytes)
				if err != nil || !ok || m.TimestampMs != b.MaxTimestampMs {
					t.Errorf("%s offset %d: %+v %v %v", name, b.BaseOffset, m, ok, err)
				}
				markers++
				aborts[b.BaseOffset] = m.Type == Abort
			}
		}
		for _, seg := range truth.Segments {
			for _, a := range seg.TxnIndex {
				if !aborts[a.LastOffset] {
					t.Errorf("%s: no abort marker at %d", name, a.LastOffset)
				}
			}
		}
		if markers == 0 {
			t.Errorf("%s has no marker", name)
		}
	}
}
