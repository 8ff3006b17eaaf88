package rsm

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// The numbers are those of the scenarios taken from Kafka's LocalTieredStorageTest. Where it counts six files, a segment has three
// objects here: the five indexes are one.

func TestScenario95_CopyOfAnEmptySegmentStoresAllObjects(t *testing.T) {
	for name, c := range transforms(1000) {
		r := newRig(t, c)
		md, data, _ := segmentOf(1, 0)
		data.OffsetIndex, data.TimeIndex, data.ProducerSnapshot = remotelog.Bytes{}, remotelog.Bytes{}, remotelog.Bytes{}
		data.TransactionIndex, data.LeaderEpochs = remotelog.Bytes{}, nil
		md = r.mustCopy(t, md, data)
		if n := len(r.keys(t)); n != 3 {
			t.Errorf("%s: %d objects, want 3", name, n)
		}
		if got, err := read(t.Context(), r.Manager, md, 0, remotelog.ToEnd); err != nil || len(got) != 0 {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		for _, it := range remotelog.IndexTypes() {
			if got, err := readIndex(t.Context(), r.Manager, md, it); err != nil || len(got) != 0 {
				t.Errorf("%s: %v index: %d bytes, %v; want an empty one", name, it, len(got), err)
			}
		}
	}
}

func TestScenarios96To102_CopyThenFetchGivesTheSameBytes(t *testing.T) {
	for name, c := range transforms(1000) {
		r := newRig(t, c)
		md, data, log := segmentOf(2, 2500)
		md = r.mustCopy(t, md, data)
		if got, err := read(t.Context(), r.Manager, md, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
			t.Errorf("%s: read %d bytes, %v; want the %d copied", name, len(got), err, len(log))
		}
		for it, want := range map[remotelog.IndexType][]byte{
			remotelog.OffsetIndex: data.OffsetIndex.(remotelog.Bytes), remotelog.TimestampIndex: data.TimeIndex.(remotelog.Bytes),
			remotelog.TransactionIndex: data.TransactionIndex.(remotelog.Bytes), remotelog.LeaderEpochIndex: data.LeaderEpochs,
			remotelog.ProducerSnapshotIndex: data.ProducerSnapshot.(remotelog.Bytes),
		} {
			if got, err := readIndex(t.Context(), r.Manager, md, it); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v index is %q, %v; want %q", name, it, got, err, want)
			}
		}
	}
}

func TestScenario103_DeleteRemovesEverything(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(3, 2500)
	md = r.mustCopy(t, md, data)
	for range 2 { // the second time nothing is there, which is success
		if err := r.Delete(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		if keys := r.keys(t); len(keys) != 0 {
			t.Errorf("left: %v", keys)
		}
	}
}

func TestScenario104_TenSegmentsOfAPartitionGo(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
	var all []remotelog.SegmentMetadata
	for i := range 10 {
		md, data, _ := segmentOf(uint64(100+i), 1500)
		all = append(all, r.mustCopy(t, md, data))
	}
	if n := len(r.keys(t)); n != 30 {
		t.Fatalf("%d objects, want 30", n)
	}
	for _, md := range all {
		if err := r.Delete(t.Context(), md); err != nil {
			t.Fatal(err)
		}
	}
	if keys := r.keys(t); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
}

func TestScenario105_WithoutTransactionIndex(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Encryption: true})
	md, data, _ := segmentOf(5, 1500)
	data.TransactionIndex = nil
	md = r.mustCopy(t, md, data)
	if n := len(r.keys(t)); n != 3 {
		t.Errorf("%d objects, want 3", n)
	}
	if _, err := r.FetchIndex(t.Context(), md, remotelog.TransactionIndex); !errors.Is(err, remotelog.ErrNoIndex) {
		t.Errorf("transaction index: %v, want ErrNoIndex", err)
	}
	if err := r.Delete(t.Context(), md); err != nil || len(r.keys(t)) != 0 {
		t.Errorf("delete: %v; left: %v", err, r.keys(t))
	}
}

func TestScenario107_TraverseSegments(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 16, Compression: true, Encryption: true})
	type seg struct {
		md     remotelog.SegmentMetadata
		values []string
	}
	var segs []seg
	for i, values := range [][]string{{"one"}, {"two", "three"}, {"four", "five", "six"}} {
		md, data, _ := segmentOf(uint64(200+i), 0)
		var log []byte
		for _, v := range values {
			log = append(log, fmt.Sprintf("%-20s", v)...) // records of 20 bytes across chunks of 16
		}
		data.Log, md.SizeBytes = remotelog.Bytes(log), int64(len(log))
		segs = append(segs, seg{r.mustCopy(t, md, data), values})
	}
	for _, s := range segs {
		got, err := read(t.Context(), r.Manager, s.md, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range s.values {
			if v := string(bytes.TrimSpace(got[20*i : 20*i+20])); v != want {
				t.Errorf("segment %s, record %d: %q, want %q", s.md.ID, i, v, want)
			}
		}
	}
}

func TestScenario108_UnknownSegmentIsNotFound(t *testing.T) {
	r := newRig(t, Config{})
	md, _, _ := segmentOf(8, 100)
	md = finished(md, nil)
	if _, err := r.Fetch(t.Context(), md, 0, remotelog.ToEnd); !errors.Is(err, remotelog.ErrNotFound) {
		t.Errorf("Fetch: %v, want ErrNotFound", err)
	}
	for _, it := range remotelog.IndexTypes() {
		if _, err := r.FetchIndex(t.Context(), md, it); !errors.Is(err, remotelog.ErrNotFound) || errors.Is(err, remotelog.ErrNoIndex) {
			t.Errorf("%v index: %v, want ErrNotFound and not ErrNoIndex", it, err)
		}
	}
	if err := r.Delete(t.Context(), md); err != nil {
		t.Errorf("Delete: %v, want success", err)
	}
}

func TestScenario109_WrongPositionsAreInvalidArguments(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 10})
	md, data, log := segmentOf(9, 100)
	md = r.mustCopy(t, md, data)
	for _, c := range [][2]int64{{-1, remotelog.ToEnd}, {1, -1}, {2, 1}, {101, remotelog.ToEnd}, {-5, -1}, {101, 200}} {
		if _, err := r.Fetch(t.Context(), md, c[0], c[1]); !errors.Is(err, remotelog.ErrInvalidArgument) {
			t.Errorf("Fetch %v: %v, want ErrInvalidArgument", c, err)
		}
	}
	for _, c := range []struct {
		start, end int64
		want       []byte
	}{{100, remotelog.ToEnd, nil}, {100, 100, nil}, {99, 99, log[99:]}, {0, 0, log[:1]}, {95, 1 << 40, log[95:]}, {9, 10, log[9:11]}} {
		if got, err := read(t.Context(), r.Manager, md, c.start, c.end); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("Fetch %d..%d: %q, %v; want %q", c.start, c.end, got, err, c.want)
		}
	}
}
