package rlmm_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
)

// The scale that rlmm-extras asks for: one epoch, no custom metadata, a million segments, two million records.
const (
	benchSegments   = 1_000_000
	benchSegmentLen = 100
)

// benchLog returns a log with the records of n finished segments of one partition.
func benchLog(tb testing.TB, n int) (*memlog.Log, remotelog.TopicIDPartition) {
	tb.Helper()
	log := memlog.New(memlog.Options{})
	tp := kafkaTopic(tb, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	add := func(r rlmm.Record) {
		if _, err := log.Append(context.Background(), 0, mustEncode(tb, r)); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range n {
		start := int64(i) * benchSegmentLen
		md := seg(tp, 0, start, start+benchSegmentLen-1, 0, start)
		binary.BigEndian.PutUint64(md.ID[:], rng.Uint64())
		binary.BigEndian.PutUint64(md.ID[8:], rng.Uint64())
		md.TxnIndexEmpty = true
		add(&rlmm.SegmentRecord{Metadata: md})
		add(&rlmm.UpdateRecord{Update: upd(md, finished)})
	}
	return log, tp
}

// benchManager is a manager that has read benchLog.
func benchManager(tb testing.TB, log rlmm.Log, tp remotelog.TopicIDPartition) *rlmm.Manager {
	tb.Helper()
	m, err := rlmm.New(log, rlmm.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil); err != nil {
		tb.Fatal(err)
	}
	if err := m.WaitReady(context.Background(), tp); err != nil {
		tb.Fatal(err)
	}
	return m
}

// million is shared by the benchmarks that only read: building it takes seconds.
type million struct {
	once sync.Once
	log  *memlog.Log
	tp   remotelog.TopicIDPartition
	m    *rlmm.Manager
}

func (s *million) get(b *testing.B) (*rlmm.Manager, remotelog.TopicIDPartition) {
	s.once.Do(func() {
		s.log, s.tp = benchLog(b, benchSegments)
		s.m = benchManager(b, s.log, s.tp)
	})
	return s.m, s.tp
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// BenchmarkScale runs everything on the same million segments.
func BenchmarkScale(b *testing.B) {
	var shared million
	b.Run("Replay2MRecords", func(b *testing.B) {
		log, tp := benchLog(b, benchSegments)
		before := heapInUse()
		for b.Loop() {
			m := benchManager(b, log, tp)
			b.StopTimer()
			b.ReportMetric(float64(heapInUse()-before)/benchSegments, "B/segment")
			if err := m.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			m = nil
			b.StartTimer()
		}
		b.ReportMetric(2*benchSegments*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("Segment", func(b *testing.B) {
		m, tp := shared.get(b)
		rng := rand.New(rand.NewPCG(3, 4))
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := m.Segment(b.Context(), tp, 0, rng.Int64N(benchSegments*benchSegmentLen)); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("SegmentsOfEpoch", func(b *testing.B) {
		m, tp := shared.get(b)
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range m.SegmentsOfEpoch(b.Context(), tp, 0) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != benchSegments {
				b.Fatalf("%d segments", n)
			}
		}
		b.ReportMetric(benchSegments*float64(b.N)/b.Elapsed().Seconds(), "segments/s")
	})
	b.Run("NextSegmentWithTxnIndex", func(b *testing.B) {
		m, tp := shared.get(b)
		for b.Loop() { // none has one: the longest way there is
			if _, ok, err := m.NextSegmentWithTxnIndex(b.Context(), tp, 0, 0); ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("UpdateAfterListing", func(b *testing.B) {
		// A listing in progress makes each write copy the nodes that it changes, once.
		m, tp := shared.get(b)
		var last remotelog.SegmentMetadata
		for md, err := range m.Segments(b.Context(), tp) {
			if err != nil {
				b.Fatal(err)
			}
			last = md
			break
		}
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range m.Segments(b.Context(), tp) {
				if err != nil {
					b.Fatal(err)
				}
				break
			}
			if err := m.Update(b.Context(), upd(last, finished)); err != nil {
				b.Fatal(err)
			}
		}
	})
	if shared.m != nil {
		if err := shared.m.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSegment_AllocatesNothing(t *testing.T) {
	log, tp := benchLog(t, 1000)
	m := newManager(t, log, rlmm.Options{})
	follow(t, m, tp)
	offset := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		if _, ok, err := m.Segment(t.Context(), tp, 0, offset%100_000); !ok || err != nil {
			t.Fatal(ok, err)
		}
		offset += 77
	}); n != 0 {
		t.Errorf("Segment allocates %v times, want 0", n)
	}
}
