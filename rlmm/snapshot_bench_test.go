package rlmm_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
)

// BenchmarkSnapshot_Million writes and reads a snapshot of a million segments; rlmm-extras asks for less than 2 s.
func BenchmarkSnapshot_Million(b *testing.B) {
	log, _ := benchLog(b, benchSegments)
	m := begin(b, log, rlmm.Options{All: true}, nil)
	path := filepath.Join(b.TempDir(), "bench.snapshot")
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := rlmm.WriteSnapshot(m, path, -1); err != nil {
				b.Fatal(err)
			}
		}
	})
	if _, err := rlmm.WriteSnapshot(m, path, -1); err != nil {
		b.Fatal(err)
	}
	b.Run("capture", func(b *testing.B) { // what happens under locks, all holds together
		b.ReportAllocs()
		for b.Loop() {
			rlmm.CaptureSnapshot(m)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil {
				b.Fatal(err)
			}
			if n, err := rlmm.ReadSnapshot(f, info.Size()); err != nil || n != benchSegments {
				b.Fatal(n, err)
			}
			b.ReportMetric(float64(info.Size())/benchSegments, "B/segment")
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	closeNow(b, m)
}

// The capture of a million segments is views: it copies nothing of them.
func TestSnapshot_CaptureCopiesNoSegments(t *testing.T) {
	log, _ := benchLog(t, 20_000)
	m := begin(t, log, rlmm.Options{All: true}, nil)
	defer closeNow(t, m)
	if n := testing.AllocsPerRun(10, func() { rlmm.CaptureSnapshot(m) }); n > 20 {
		t.Errorf("capture of 20,000 segments: %v allocations, want a handful", n)
	}
}
