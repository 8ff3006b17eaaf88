package rlm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// batchSpec is a batch as a broker would write it, one record of 10 bytes per offset.
type batchSpec struct {
	base     int64
	offsets  []int64 // of its records; nil: base, base+1, base+2
	last     int64   // 0: that of the last record
	epoch    int32
	pid      int64 // 0: none
	txn      bool
	marker   string // "commit", "abort"
	producer int16
	ts       int64 // of all records; 0: 1000 + offset
}

func (s batchSpec) bytes() []byte {
	offsets := s.offsets
	if offsets == nil && s.marker == "" {
		offsets = []int64{s.base, s.base + 1, s.base + 2}
	}
	var body []byte
	first := s.ts
	if first == 0 {
		first = 1000 + s.base
	}
	maxTs := int64(-1)
	for _, o := range offsets {
		ts := s.ts
		if ts == 0 {
			ts = 1000 + o
		}
		maxTs = max(maxTs, ts)
		body = append(body, recordBytes(ts-first, o-s.base, nil, []byte(fmt.Sprintf("v%02d", o%100)))...)
	}
	last, n := s.base, len(offsets)
	if n > 0 {
		last = offsets[n-1]
	}
	attributes := uint16(0)
	if s.txn {
		attributes |= 1 << 4
	}
	if s.marker != "" {
		attributes |= 1<<4 | 1<<5
		key, value := []byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 7}
		if s.marker == "commit" {
			key[3] = 1
		}
		body, n, last, maxTs = recordBytes(0, 0, key, value), 1, s.base, first
	}
	if s.last != 0 {
		last = s.last
	}
	pid := s.pid
	if pid == 0 {
		pid = -1
	}
	be := binary.BigEndian
	b := make([]byte, recordbatch.HeaderSize, recordbatch.HeaderSize+len(body))
	be.PutUint64(b, uint64(s.base))
	be.PutUint32(b[8:], uint32(recordbatch.HeaderSize-recordbatch.LogOverhead+len(body)))
	be.PutUint32(b[12:], uint32(s.epoch))
	b[16] = 2
	be.PutUint16(b[21:], attributes)
	be.PutUint32(b[23:], uint32(last-s.base))
	be.PutUint64(b[27:], uint64(first))
	be.PutUint64(b[35:], uint64(maxTs))
	be.PutUint64(b[43:], uint64(pid))
	be.PutUint16(b[51:], uint16(s.producer))
	be.PutUint32(b[53:], 0xffffffff)
	be.PutUint32(b[57:], uint32(n))
	b = append(b, body...)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func recordBytes(ts, delta int64, key, value []byte) []byte {
	body := binary.AppendVarint([]byte{0}, ts)
	body = binary.AppendVarint(body, delta)
	if key == nil {
		body = binary.AppendVarint(body, -1)
	} else {
		body = append(binary.AppendVarint(body, int64(len(key))), key...)
	}
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = append(body, 0)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// builtLog is a partition directory "built-0" in a log directory of its own.
type builtLog struct {
	t      testing.TB
	logDir string
	dir    string
	tp     remotelog.TopicIDPartition
}

// buildLog writes segments that begin at their first batch's base offset, with indexes and a snapshot at each boundary.
func buildLog(t testing.TB, epochs Lineage, segments ...[]batchSpec) *builtLog {
	t.Helper()
	l := &builtLog{t: t, logDir: t.TempDir(), tp: remotelog.TopicIDPartition{TopicID: remotelog.UUID{1, 2, 3}, Topic: "built"}}
	l.dir = filepath.Join(l.logDir, "built-0")
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.write("partition.metadata", []byte("version: 0\ntopic_id: "+l.tp.TopicID.String()+"\n"))
	l.write("leader-epoch-checkpoint", logfiles.MarshalLeaderEpochs(epochs))
	producers := logfiles.NewProducers(nil)
	defer producers.Close()
	for i, batches := range segments {
		base := batches[0].base
		if i > 0 {
			l.write(fmt.Sprintf("%020d.snapshot", base), logfiles.MarshalSnapshot(producers.Snapshot()))
		}
		l.segment(base, batches, producers)
	}
	return l
}

func (l *builtLog) segment(base int64, batches []batchSpec, producers *logfiles.Producers) {
	l.t.Helper()
	var log, index, times, txns []byte
	maxTs := int64(-1)
	for i, s := range batches {
		b := s.bytes()
		h, err := recordbatch.Check(b)
		if err != nil {
			l.t.Fatal(err)
		}
		if i > 0 {
			index = binary.BigEndian.AppendUint32(index, uint32(h.LastOffset()-base))
			index = binary.BigEndian.AppendUint32(index, uint32(len(log)))
		}
		if h.MaxTimestampMs > maxTs {
			maxTs = h.MaxTimestampMs
			times = binary.BigEndian.AppendUint64(times, uint64(maxTs))
			times = binary.BigEndian.AppendUint32(times, uint32(h.LastOffset()-base))
		}
		a, ok, err := producers.Apply(recordbatch.Batch{Header: h, Bytes: b})
		if err != nil {
			l.t.Fatal(err)
		}
		if ok {
			txns = append(txns, 0, 0)
			for _, v := range []int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.LastOffset + 1} {
				txns = binary.BigEndian.AppendUint64(txns, uint64(v))
			}
		}
		log = append(log, b...)
	}
	name := fmt.Sprintf("%020d", base)
	l.write(name+".log", log)
	l.write(name+".index", index)
	l.write(name+".timeindex", times)
	if txns != nil {
		l.write(name+".txnindex", txns)
	}
}

// write writes a file of the partition directory.
func (l *builtLog) write(name string, b []byte) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), b, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// beside writes a file of the log directory.
func (l *builtLog) beside(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.logDir, name), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *builtLog) read(name string) []byte {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// plan returns the ranges that a plan takes.
func (l *builtLog) plan(o PlanOptions) (*Plan, [][2]int64) {
	l.t.Helper()
	p, err := PlanPartition(l.t.Context(), l.dir, o)
	if err != nil {
		l.t.Fatal(err)
	}
	var ranges [][2]int64
	for _, s := range p.Segments {
		ranges = append(ranges, [2]int64{s.StartOffset, s.EndOffset})
	}
	return p, ranges
}

// offloaded copies everything to fakes and opens a view.
func (l *builtLog) offloaded(o OffloadOptions) (*View, tier) {
	l.t.Helper()
	tr, _, _ := fakes()
	if _, err := Offload(l.t.Context(), tr.mm, tr.sm, []string{l.dir}, o); err != nil {
		l.t.Fatal(err)
	}
	v, err := Open(l.t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return v, tr
}

// threes are batches of three records each, from a base offset on.
func threes(base int64, n int) []batchSpec {
	var list []batchSpec
	for i := range n {
		list = append(list, batchSpec{base: base + 3*int64(i)})
	}
	return list
}

// offsetsOf reads all offsets that a view shows.
func offsetsOf(t testing.TB, v *View, from int64, isolation Isolation) []int64 {
	t.Helper()
	var got []int64
	for rec, err := range v.Records(t.Context(), from, ReadOptions{Isolation: isolation}) {
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rec.Value, fmt.Appendf(nil, "v%02d", rec.Offset%100)) {
			t.Fatalf("offset %d has value %q", rec.Offset, rec.Value)
		}
		got = append(got, rec.Offset)
	}
	return got
}
