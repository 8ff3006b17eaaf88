package filelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// memFile is a partition file in memory.
type memFile struct{ b []byte }

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(b, f.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt([]byte, int64) (int, error) { return 0, errInjected }
func (f *memFile) Truncate(int64) error               { return errInjected }
func (f *memFile) Sync() error                        { return errInjected }
func (f *memFile) Close() error                       { return nil }
func (f *memFile) Stat() (fs.FileInfo, error)         { return memInfo(len(f.b)), nil }

type memInfo int64

func (i memInfo) Name() string       { return "mem" }
func (i memInfo) Size() int64        { return int64(i) }
func (i memInfo) Mode() fs.FileMode  { return 0o600 }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return false }
func (i memInfo) Sys() any           { return nil }

// checksums makes the checksums and the chain right wherever lengths allow it, so that fuzzing gets behind them.
func checksums(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize {
		return b
	}
	crc := crc32.Checksum(b[:headerSize-4], castagnoli)
	binary.BigEndian.PutUint32(b[headerSize-4:], crc)
	for g := b[headerSize:]; len(g) >= groupHead; {
		size, err := groupSize(g)
		if err != nil || size > int64(len(g)) {
			break
		}
		binary.BigEndian.PutUint32(g[12:], crc)
		crc = groupCRC(g[:size])
		binary.BigEndian.PutUint32(g[4:], crc)
		g = g[size:]
	}
	return b
}

// FuzzFile: any bytes as a partition file. Nothing panics; errors have a kind; memory stays within bounds; what is accepted is
// what encoding the events gives; a follower reads exactly what verifying found.
func FuzzFile(f *testing.F) {
	b, ends, _ := content(f)
	f.Add(b, false)
	f.Add(b[:ends[3]-5], true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix {
			b = checksums(b)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := openPartition("x", func(string, int) (file, error) { return &memFile{b}, nil }, 0)
		if err == nil {
			_, err = p.load(t.Context())
		}
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+4*len(b)); got > limit {
			t.Fatalf("%d bytes allocated for a file of %d", got, len(b))
		}
		if err != nil {
			if !errors.Is(err, remotelog.ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		scanned, encoded := walkAgain(t, p, b)
		if whole := b[:p.st.end.pos]; !bytes.Equal(whole, encoded) {
			t.Fatalf("encoded again:\n got %x\nwant %x", encoded, whole)
		}
		l := &Log{parts: []*partition{p}, lock: noLock} // as a writer: the file does not change
		for _, limit := range []int64{1, 100, batchBytes} {
			if d := cmp.Diff(scanned, followAll(t, l, limit)); d != "" {
				t.Fatalf("read in steps of %d bytes (-scan +follower):\n%s", limit, d)
			}
		}
	})
}

// walkAgain decodes the valid part of a file, and encodes it again.
func walkAgain(t *testing.T, p *partition, b []byte) (events []rlmm.Event, encoded []byte) {
	encoded = append(encoded, b[:headerSize]...)
	s := scanner{r: p.f, name: "x", size: p.st.end.pos}
	at := headerTail(p.head, p.crc)
	err := s.walk(t.Context(), &at, func(before tail, g group) {
		var in []rlmm.Event
		place := before
		if err := place.accept("x", p.num, g, func(e rlmm.Event) {
			e.Key, e.Value = clone(e.Key), clone(e.Value) // the scanner uses its buffer again
			in = append(in, e)
		}); err != nil {
			t.Fatal(err)
		}
		encoded = appendGroup(encoded, before, g.epoch, g.offsets, in)
		events = append(events, in...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, encoded
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// followAll reads the first partition with steps of about limit bytes.
func followAll(t *testing.T, l *Log, limit int64) []rlmm.Event {
	var events []rlmm.Event
	p := l.parts[0]
	from := &cursor{pos: rlmm.Position{Offset: p.st.first, Epoch: -1}}
	for from.pos.Offset < p.st.end.next {
		s := step{part: 0, from: from, to: *from}
		if err := l.advance(t.Context(), &s, limit); err != nil {
			t.Fatal(err)
		}
		if len(s.lost) > 0 || s.to.pos.Offset <= from.pos.Offset {
			t.Fatalf("a step from %+v to %+v, lost %+v", from.pos, s.to.pos, s.lost)
		}
		events = append(events, s.events...)
		*from = s.to
	}
	return events
}

// noLock stands for the lock of a log that has no directory.
var noLock = new(os.File)
