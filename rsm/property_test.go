package rsm

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/remotelog"
)

func TestFetch_AnyRangeOfAnySegmentIsItsBytes(t *testing.T) {
	type stored struct {
		r      *rig
		md     remotelog.SegmentMetadata
		log    []byte
		offset []byte
	}
	var all []stored
	n := uint64(1000)
	for _, chunk := range []int{1, 7, 1000, 4096, 50_000} {
		for _, c := range transforms(chunk) {
			for _, size := range []int{1, chunk, chunk + 1, 3*chunk - 1, min(20*chunk, 60_000)} {
				if size > 2000*chunk {
					continue
				}
				for _, smallest := range []bool{false, true} {
					if n++; smallest {
						c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, c).Store())
					}
					r := newRig(t, c)
					md, data, log := segmentOf(n, size)
					all = append(all, stored{r, r.mustCopy(t, md, data), log, data.OffsetIndex.(remotelog.Bytes)})
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := all[rapid.IntRange(0, len(all)-1).Draw(t, "segment")]
		size := int64(len(s.log))
		start := rapid.Int64Range(0, size).Draw(t, "start")
		end := rapid.OneOf(rapid.Just(remotelog.ToEnd), rapid.Int64Range(start, size+10)).Draw(t, "end")
		if rapid.Bool().Draw(t, "cold") {
			s.r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
		}
		rc, err := s.r.Fetch(context.Background(), s.md, start, end)
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		var src io.Reader = rc
		if rapid.Bool().Draw(t, "byte by byte") {
			src = iotest.OneByteReader(rc)
		}
		got, err := io.ReadAll(src)
		want := s.log[start : min(end, size-1)+1]
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("chunks of %d, %d..%d of %d: %d bytes, %v; want %d", s.r.config.ChunkBytes, start, end, size, len(got), err, len(want))
		}
		if index, err := readIndex(context.Background(), s.r.Manager, s.md, remotelog.OffsetIndex); err != nil || !bytes.Equal(index, s.offset) {
			t.Fatalf("offset index: %q, %v", index, err)
		}
	})
}
