package rsm

import (
	"io"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// BenchmarkFetch_Cached reads a segment that is in the cache, in the steps of io.Discard (8 KiB).
func BenchmarkFetch_Cached(b *testing.B) {
	r := newRig(b, Config{ChunkBytes: 4 << 20})
	md, data, _ := segmentOf(95, 32<<20)
	cm, err := r.Copy(b.Context(), md, data)
	if err != nil {
		b.Fatal(err)
	}
	fin := finished(md, cm)
	b.SetBytes(32 << 20)
	b.ReportAllocs()
	for b.Loop() {
		rc, err := r.Fetch(b.Context(), fin, 0, remotelog.ToEnd)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, rc); err != nil {
			b.Fatal(err)
		}
		_ = rc.Close()
	}
}
