package rsm

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	hotBytes = 256 << 20
	hotPiece = 64 << 10
)

// cachedSegment is a segment of hotBytes all of whose chunks are in memory.
func cachedSegment(t testing.TB) (*rig, remotelog.SegmentMetadata) {
	t.Helper()
	r := newRig(t, Config{ChunkBytes: 4 << 20, MemoryBudgetBytes: 4 * hotBytes, Compression: true})
	md, data, _ := segmentOf(96, 0)
	md.SizeBytes, data.Log = hotBytes, remotelog.File(kafkaFile(t, kafkaData(42, 16<<20), hotBytes))
	fin := r.mustCopy(t, md, data)
	readPieces(t, r, fin, make([]byte, hotPiece))
	if n := r.chunks.cache.Stats().Entries; n != hotBytes/(4<<20) {
		t.Fatalf("%d chunks are in memory, want all", n)
	}
	return r, fin
}

// readPieces reads a segment in pieces of the length of buf, and returns how many allocations that took behind the opening.
func readPieces(t testing.TB, r *rig, md remotelog.SegmentMetadata, buf []byte) uint64 {
	t.Helper()
	s, err := r.Fetch(t.Context(), md, 0, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var n int64
	for n < md.SizeBytes {
		got, err := io.ReadFull(s, buf)
		if err != nil {
			t.Fatal(err)
		}
		n += int64(got)
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// copyPieces copies the same pieces out of the same chunks: the least that reading them can cost.
func copyPieces(t testing.TB, r *rig, md remotelog.SegmentMetadata, buf []byte) {
	t.Helper()
	h, err := r.open(t.Context(), &md)
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	seg, _, err := h.segment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range seg.Chunks.Chunks() {
		c := r.chunks.cache.Peek(chunkKey{seg.id, n})
		if c == nil {
			t.Fatalf("chunk %d is not in memory", n)
		}
		for data := c.Value(); len(data) > 0; {
			data = data[copy(buf, data):]
		}
		c.Release()
	}
}

// TestBench_HotRead holds what is promised of data that are in memory: at least half the speed of copy, and no allocation for a chunk.
func TestBench_HotRead(t *testing.T) {
	need.Bench(t)
	const rounds, floor = 9, 0.5
	r, md := cachedSegment(t)
	buf := make([]byte, hotPiece)
	var reads, copies []sample
	most := uint64(0)
	for range rounds {
		copies = append(copies, measure(func() { copyPieces(t, r, md, buf) }))
		reads = append(reads, measure(func() { most = max(most, readPieces(t, r, md, buf)) }))
	}
	m, c := median(reads), median(copies)
	ratio := c.wall.Seconds() / m.wall.Seconds()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d MiB in memory, in pieces of %d KiB: copy %.0f MB/s, read %.0f MB/s, %.2f of it; at most %d allocations for %d chunks\n",
		hotBytes>>20, hotPiece>>10, rate(hotBytes, c.wall), rate(hotBytes, m.wall), ratio, most, hotBytes/(4<<20))
	t.Log(b.String())
	if ratio < floor {
		t.Errorf("a hot read is %.2f of copy, want %.2f", ratio, floor)
	}
	if most >= hotBytes/(4<<20) {
		t.Errorf("%d allocations for %d chunks, want none for each", most, hotBytes/(4<<20))
	}
}

// What the long measurement holds of 256 MiB, of a small segment.
func TestFetch_HotReadsAllocateNothingForAChunk(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 4 << 10, Compression: true})
	md, data, _ := segmentOf(97, 1<<20)
	fin := r.mustCopy(t, md, data)
	buf := make([]byte, 2<<10)
	readPieces(t, r, fin, buf)
	if n := readPieces(t, r, fin, buf); n >= 128 {
		t.Errorf("%d allocations for 256 chunks in memory, want none for each", n)
	}
}
