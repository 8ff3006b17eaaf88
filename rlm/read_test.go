package rlm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
)

// segmentAt returns the id of the finished segment that begins there.
func segmentAt(t *testing.T, mm *fakeMeta, start int64) remotelog.UUID {
	t.Helper()
	for id, md := range mm.segments {
		if md.StartOffset == start {
			return id
		}
	}
	t.Fatalf("no segment at %d", start)
	return remotelog.UUID{}
}

// readAll reads a partition in one isolation level, until the first error.
func readAll(t *testing.T, tr tier, tp remotelog.TopicIDPartition, from int64, isolation Isolation, seen func(Record)) error {
	t.Helper()
	v, err := Open(t.Context(), tr.mm, tr.sm, tp, ViewOptions{})
	if err != nil {
		return err
	}
	for rec, err := range v.Records(t.Context(), from, ReadOptions{Isolation: isolation}) {
		if err != nil {
			return err
		}
		seen(rec)
	}
	return nil
}

// Every single byte of a .log, each flipped: the read ends with ErrCorrupt (or, for the magic, names the format), and whatever was
// shown before is right. payments-0 has uncompressed transactional batches, control batches and no holes.
func TestRead_NoFlippedByteOfALogShowsAWrongRecord(t *testing.T) {
	dir, truth := load(t, "payments-0")
	tr, mm, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[int64]golden.Record{}
	for _, r := range truth.Records {
		want[r.Offset] = r
	}
	for _, start := range []int64{0, 147} {
		log := st.segments[segmentAt(t, mm, start)].log
		step := 1
		if testing.Short() {
			step = 7
		}
		for i := 0; i < len(log); i += step {
			log[i] ^= 1 << (i % 8)
			err := readAll(t, tr, idOf(t, truth), start, ReadUncommitted, func(r Record) {
				if err := same(want[r.Offset], r); err != nil {
					t.Errorf("segment %d byte %d: record at %d is wrong: %v", start, i, r.Offset, err)
				}
			})
			if !errors.Is(err, remotelog.ErrCorrupt) && !errors.Is(err, remotelog.ErrInvalidArgument) {
				t.Fatalf("segment %d byte %d: %v, want ErrCorrupt", start, i, err)
			}
			log[i] ^= 1 << (i % 8)
		}
	}
}

// Damage to each index ends the reads that use it; no record is wrong or left out.
func TestRead_DamagedIndexesAndCutLogsAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		damage    func(*stored)
		isolation Isolation
		from      int64
		kind      error
	}{
		"offset index cut":          {func(s *stored) { s.index[0] = s.index[0][:5] }, ReadUncommitted, 120, remotelog.ErrCorrupt},
		"offset index leads behind": {func(s *stored) { s.index[0][6] ^= 0xff }, ReadUncommitted, 120, remotelog.ErrCorrupt},
		"offset index skips": {func(s *stored) { // the first entry leads to where the second one does
			copy(s.index[0][4:8], s.index[0][12:16])
			s.index[0] = s.index[0][:8]
		}, ReadUncommitted, 120, remotelog.ErrCorrupt},
		"log cut at a batch":          {func(s *stored) { s.log = s.log[:len(s.log)-78] }, ReadUncommitted, 108, remotelog.ErrCorrupt},
		"log cut inside a batch":      {func(s *stored) { s.log = s.log[:len(s.log)-1] }, ReadUncommitted, 108, remotelog.ErrCorrupt},
		"log too long":                {func(s *stored) { s.log = append(s.log, s.log...) }, ReadUncommitted, 108, remotelog.ErrCorrupt},
		"transaction index cut":       {func(s *stored) { s.index[3] = s.index[3][:33] }, ReadCommitted, 24, remotelog.ErrCorrupt},
		"transaction index ascending": {func(s *stored) { s.index[3][33] = 0; copy(s.index[3][34:], s.index[3][:34]) }, ReadCommitted, 24, remotelog.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir, truth := load(t, "payments-0")
			tr, mm, st := fakes()
			if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{dir}, OffloadOptions{}); err != nil {
				t.Fatal(err)
			}
			c.damage(st.segments[segmentAt(t, mm, 108)])
			records := truth.Records
			if c.isolation == ReadCommitted {
				records = truth.Committed()
			}
			next := slices.IndexFunc(records, func(r golden.Record) bool { return r.Offset >= c.from })
			err := readAll(t, tr, idOf(t, truth), c.from, c.isolation, func(r Record) {
				if err := same(records[next], r); err != nil {
					t.Errorf("record at %d: %v", r.Offset, err)
				}
				next++
			})
			if !errors.Is(err, c.kind) {
				t.Errorf("got %v, want %v", err, c.kind)
			}
		})
	}
}

// Only ErrNoIndex means that nothing was aborted; any other failure of a transaction index or snapshot fails the committed read.
func TestRead_CommittedFailsWithItsIndexes(t *testing.T) {
	dir, truth := load(t, "payments-0")
	tr, mm, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, index := range []remotelog.IndexType{remotelog.TransactionIndex, remotelog.ProducerSnapshotIndex} {
		for _, fail := range []error{errDisk, remotelog.ErrNotFound, remotelog.ErrCorrupt, remotelog.ErrNotReady} {
			st.before = func(op string, _ remotelog.SegmentMetadata) error { return failAt("index "+index.String(), fail)(op) }
			if err := readAll(t, tr, idOf(t, truth), 0, ReadCommitted, func(Record) {}); !errors.Is(err, fail) {
				t.Errorf("%s index fails with %v: read ends with %v", index, fail, err)
			}
			if err := readAll(t, tr, idOf(t, truth), 0, ReadUncommitted, func(Record) {}); err != nil {
				t.Errorf("%s index fails, read_uncommitted: %v", index, err)
			}
		}
	}
	st.before = nil
	// 24 has one entry; as "no index" it is believed, and the transaction that it would have hidden is shown.
	st.segments[segmentAt(t, mm, 24)].index[remotelog.TransactionIndex] = nil
	shown := map[int64]bool{}
	if err := readAll(t, tr, idOf(t, truth), 0, ReadCommitted, func(r Record) { shown[r.Offset] = true }); err != nil || !shown[16] {
		t.Errorf("without that index: %v, offset 16 shown: %v", err, shown[16])
	}
}

// An unclean election left a segment of another history; it is never read, even where the metadata would answer from it.
func TestRead_SegmentsOutsideTheLineageAreSkipped(t *testing.T) {
	lost := buildLog(t, lin(0, 0), threes(0, 3), threes(9, 1))
	tr, mm, _ := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{lost.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := buildLog(t, lin(0, 0, 2, 3), threes(0, 1), []batchSpec{{base: 3, epoch: 2}}, []batchSpec{{base: 6, epoch: 2}})
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{kept.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(mm.segments) != 2 {
		t.Fatalf("%d segments, want 2: [0, 2] in epoch 0 is contained in the lost one", len(mm.segments))
	}
	var notices []string
	v, err := Open(t.Context(), tr.mm, tr.sm, kept.tp, ViewOptions{OnNotice: func(n Notice) { notices = append(notices, n.Text) }})
	if err != nil {
		t.Fatal(err)
	}
	if start, end := v.Range(); start != 3 || end != 5 {
		t.Errorf("range [%d, %d], want [3, 5]", start, end)
	}
	if got := offsetsOf(t, v, 3, ReadUncommitted); !slices.Equal(got, []int64{3, 4, 5}) {
		t.Errorf("records %v", got)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "outside the lineage") {
		t.Errorf("notices %q", notices)
	}
}

// Segments whose leader epoch index is damaged are read all the same, to the last: the metadata say under which epochs they were written.
func TestRead_ADamagedLeaderEpochIndexHidesNoSegment(t *testing.T) {
	l := buildLog(t, lin(0, 0, 2, 3, 4, 7), threes(0, 1), []batchSpec{{base: 3, epoch: 2}}, []batchSpec{{base: 6, epoch: 2, offsets: []int64{6}}, {base: 7, epoch: 4}}, []batchSpec{{base: 10, epoch: 4}}, []batchSpec{{base: 13, epoch: 4}})
	tr, mm, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	whole, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []int64{10, 6, 3} { // from the newest on
		st.segments[segmentAt(t, mm, start)].index[remotelog.LeaderEpochIndex] = []byte("0\n7\n")
		v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := offsetsOf(t, v, 0, ReadUncommitted); !slices.Equal(got, offsetsOf(t, whole, 0, ReadUncommitted)) || !slices.Equal(v.Lineage(), whole.Lineage()) {
			t.Errorf("damaged from offset %d on: records %v, lineage %v, want that of the whole: %v", start, got, v.Lineage(), whole.Lineage())
		}
	}
}

// What lies before a hole is not read.
func TestRead_ChainEndsAtAHole(t *testing.T) {
	l, tr, mm, _ := tiered(t)
	delete(mm.segments, segmentAt(t, mm, 3))
	var notices []string
	v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{OnNotice: func(n Notice) { notices = append(notices, n.Text) }})
	if err != nil {
		t.Fatal(err)
	}
	if start, end := v.Range(); start != 6 || end != 11 || len(notices) != 1 {
		t.Errorf("range [%d, %d], notices %q, want [6, 11] and one", start, end, notices)
	}
}

// A damaged copy is replaced by another one of the same offsets, in the middle of the read, without a record lost or shown twice.
func TestRead_DamagedCopyIsReplacedByAnother(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 4), threes(12, 1))
	tr, mm, st := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	first := segmentAt(t, mm, 0)
	md := mm.segments[first]
	md.ID = remotelog.NewUUID()
	md.EventTimestampMs--
	mm.segments[md.ID] = md
	whole := st.segments[first]
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	for name, damage := range map[string]func(*stored){
		"log":          func(s *stored) { s.log = slices.Clone(s.log); s.log[91*2+70] ^= 1 },
		"leader epoch": func(s *stored) { s.index[remotelog.LeaderEpochIndex] = []byte("x") },
		"offset index": func(s *stored) { s.index[remotelog.OffsetIndex] = []byte("x") },
	} {
		for _, bad := range []remotelog.UUID{first, md.ID} {
			st.segments[first], st.segments[md.ID] = whole, whole
			broken := *whole
			damage(&broken)
			st.segments[bad] = &broken
			var notices []string
			v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{OnNotice: func(n Notice) { notices = append(notices, n.Text) }})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := offsetsOf(t, v, 0, ReadUncommitted); !slices.Equal(got, want) {
				t.Errorf("%s: records %v, want %v", name, got, want)
			}
			if got := offsetsOf(t, v, 7, ReadCommitted); !slices.Equal(got, want[7:]) {
				t.Errorf("%s: records from 7 %v, want %v", name, got, want[7:])
			}
		}
	}
	broken := *whole
	broken.log = slices.Clone(whole.log)
	broken.log[91*2+70] ^= 1
	st.segments[first], st.segments[md.ID] = &broken, &broken
	n := 0
	err := readAll(t, tr, l.tp, 0, ReadUncommitted, func(Record) { n++ })
	if !errors.Is(err, remotelog.ErrCorrupt) || n != 6 {
		t.Errorf("both damaged: %d records, %v, want 6 and ErrCorrupt", n, err)
	}
}

func TestRead_StopsWhereItIsToldTo(t *testing.T) {
	l, tr, _, st := tiered(t)
	v, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fetches := func() (n int) {
		for _, c := range st.calls {
			if c == "fetch" {
				n++
			}
		}
		return n
	}
	before, n := fetches(), 0
	for _, err := range v.Records(t.Context(), 1, ReadOptions{MaxRecords: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || fetches() != before+1 {
		t.Errorf("%d records with %d fetches, want 2 with 1", n, fetches()-before)
	}
	for _, err := range v.Records(t.Context(), 1, ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		break // must not panic or go on
	}
	if fetches() != before+2 {
		t.Errorf("a loop that is left fetches on")
	}
}

func TestOpen_ErrorsAreNeverEmpty(t *testing.T) {
	l, tr, mm, _ := tiered(t)
	for _, kind := range []error{remotelog.ErrNotReady, remotelog.ErrNotAssigned, errDisk} {
		mm.before = failAt("list", kind)
		if _, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{}); !errors.Is(err, kind) {
			t.Errorf("listing fails with %v: %v", kind, err)
		}
		mm.before = failAt("segment", kind)
		if err := readAll(t, tr, l.tp, 0, ReadUncommitted, func(Record) {}); !errors.Is(err, kind) {
			t.Errorf("lookup fails with %v: %v", kind, err)
		}
	}
	mm.before = nil
	maps.DeleteFunc(mm.segments, func(remotelog.UUID, remotelog.SegmentMetadata) bool { return true })
	if _, err := Open(t.Context(), tr.mm, tr.sm, l.tp, ViewOptions{}); !errors.Is(err, remotelog.ErrNotFound) {
		t.Errorf("nothing tiered: %v, want ErrNotFound", err)
	}
}

// A search by timestamp over out-of-order timestamps, holes and the end.
func TestOffsetForTimestamp_FirstRecordAtOrAfter(t *testing.T) {
	l := buildLog(t, lin(0, 0),
		[]batchSpec{{base: 0, ts: 500}, {base: 3, ts: 400}, {base: 6, ts: 700}},
		[]batchSpec{{base: 9, ts: 100}, {base: 12, ts: 650}},
		[]batchSpec{{base: 15, ts: 900}},
		threes(18, 1))
	v, _ := l.offloaded(OffloadOptions{})
	for ts, want := range map[int64]int64{-1: 0, 0: 0, 500: 0, 501: 6, 700: 6, 701: 15, 900: 15, 901: -1} {
		at, ok, err := v.OffsetForTimestamp(t.Context(), ts)
		if err != nil || ok != (want >= 0) || ok && at.Offset != want {
			t.Errorf("timestamp %d: %+v, %v, %v, want %d", ts, at, ok, err, want)
		}
	}
}

// The metadata of a golden segment is what its batches and files say.
func TestGolden_MetadataEqualsTheTruth(t *testing.T) {
	for _, name := range golden.Partitions() {
		dir, truth := load(t, name)
		p, err := PlanPartition(t.Context(), dir, PlanOptions{IncludeActive: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range p.Segments {
			md, _, err := s.Prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seg := truth.Segments[i]
			maxTs := int64(-1)
			for _, b := range seg.Batches {
				maxTs = max(maxTs, b.MaxTimestamp)
			}
			var epochs Lineage
			for _, e := range truth.LeaderEpochs {
				epochs = append(epochs, remotelog.LeaderEpoch{Epoch: int32(e[0]), StartOffset: e[1]})
			}
			epochs = epochs.InRange(md.StartOffset, md.EndOffset+1)
			if fmt.Sprintf("%020d", md.StartOffset) != seg.Segment || md.SizeBytes != seg.Files["log"] || md.MaxTimestampMs != maxTs ||
				md.TxnIndexEmpty != (len(seg.TxnIndex) == 0) || !slices.Equal(md.LeaderEpochs, epochs) || md.TopicIDPartition != idOf(t, truth) {
				t.Errorf("%s segment %s: %+v", name, seg.Segment, md)
			}
		}
	}
}
