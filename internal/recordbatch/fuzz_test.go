package recordbatch

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

func FuzzParseHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			if !errors.Is(err, remotelog.ErrCorrupt) && !errors.Is(err, ErrUnsupportedMagic) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		if h.LastOffset() < h.BaseOffset || h.Size() < HeaderSize || h.RecordCount < 0 {
			t.Fatalf("accepted %+v", h)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b), ReaderOptions{})
		for {
			before := r.Position()
			batch, err := r.Next()
			if errors.Is(err, io.EOF) {
				if before != int64(len(b)) {
					t.Fatalf("end at %d of %d bytes", before, len(b))
				}
				return
			}
			if err != nil {
				return
			}
			if batch.Position != before || !bytes.Equal(batch.Bytes, b[before:r.Position()]) {
				t.Fatalf("batch at %d has other bytes than the input", before)
			}
		}
	})
}

// The CRC is made right first: what a hostile or broken producer sends has a good CRC too.
func FuzzRecords(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderSize {
			return
		}
		b = bytes.Clone(b)
		b[magicOffset] = 2
		seal(b)
		h, err := Check(b)
		if err != nil {
			return
		}
		d := NewDecoder(Limits{MaxDecompressedBytes: 1 << 20})
		defer d.Close()
		last, n := h.BaseOffset-1, int32(0)
		for rec, err := range d.Records(b) {
			if err != nil {
				if !errors.Is(err, remotelog.ErrCorrupt) {
					t.Fatalf("error of no kind: %v", err)
				}
				return
			}
			if rec.Offset <= last || rec.Offset > h.LastOffset() {
				t.Fatalf("offset %d behind %d in [%d, %d]", rec.Offset, last, h.BaseOffset, h.LastOffset())
			}
			last = rec.Offset
			n++
		}
		if n != h.RecordCount {
			t.Fatalf("%d records without an error, header says %d", n, h.RecordCount)
		}
	})
}
