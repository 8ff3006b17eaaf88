package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goldenLog returns the bytes of a golden .log file.
func goldenLog(tb testing.TB, partition, segment string) []byte {
	tb.Helper()
	root, err := golden.Kafka()
	if err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "partitions", partition, segment+".log"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// firstBatch returns the first batch of a log.
func firstBatch(tb testing.TB, log []byte) []byte {
	tb.Helper()
	h, err := ParseHeader(log)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Clone(log[:h.Size()])
}

// seal sets length and CRC of a batch whose records were changed.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-LogOverhead))
	binary.BigEndian.PutUint32(b[crcOffset:], crc32.Checksum(b[crcDataOffset:], castagnoli))
	return b
}

// build makes a batch of count records, whose body is already encoded.
func build(codec Codec, count int32, body []byte) []byte {
	b := make([]byte, HeaderSize, HeaderSize+len(body))
	b[magicOffset] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(codec))
	binary.BigEndian.PutUint32(b[23:], uint32(max(count-1, 0)))
	for _, at := range []int{43, 51} { // no producer
		copy(b[at:], bytes.Repeat([]byte{0xff}, 8))
	}
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	return seal(append(b, body...))
}

// record encodes one record with a value and no key.
func record(offsetDelta int64, value []byte) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, 0)
	body = binary.AppendVarint(body, offsetDelta)
	body = binary.AppendVarint(body, -1)
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(body, value...)
	body = binary.AppendVarint(body, 0)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func compress(tb testing.TB, codec Codec, b []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case None:
		return b
	case Gzip:
		w = gzip.NewWriter(&out)
	case Snappy:
		return snappy.Encode(nil, b)
	case LZ4:
		w = lz4.NewWriter(&out)
	case Zstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err != nil {
			tb.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(b); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func count(d *Decoder, batch []byte) (n int, err error) {
	for _, err := range d.Records(batch) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestRecords_EveryCodecBothSnappyFramings(t *testing.T) {
	body := append(record(0, []byte("first")), record(1, bytes.Repeat([]byte("second"), 20_000))...)
	xerial := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for rest := body; len(rest) > 0; {
		n := min(len(rest), 32<<10)
		block := snappy.Encode(nil, rest[:n])
		xerial = append(binary.BigEndian.AppendUint32(xerial, uint32(len(block))), block...)
		rest = rest[n:]
	}
	d := NewDecoder(Limits{})
	defer d.Close()
	for range 2 { // the second round uses the decompressors again
		for c := None; c <= Zstd; c++ {
			if n, err := count(d, build(c, 2, compress(t, c, body))); n != 2 || err != nil {
				t.Errorf("%s: %d records, %v, want 2", c, n, err)
			}
		}
		if n, err := count(d, build(Snappy, 2, xerial)); n != 2 || err != nil {
			t.Errorf("snappy with xerial framing: %d records, %v, want 2", n, err)
		}
		for cut := len(xerial) - 1; cut > len(xerialMagic); cut -= 997 {
			if _, err := count(d, build(Snappy, 2, xerial[:cut])); !errors.Is(err, remotelog.ErrCorrupt) {
				t.Errorf("xerial cut at %d: %v, want ErrCorrupt", cut, err)
			}
		}
	}
}

func TestRecords_WrongRecordsAreCorrupt(t *testing.T) {
	two := append(record(0, []byte("a")), record(1, []byte("b"))...)
	for name, b := range map[string][]byte{
		"fewer records than announced": build(None, 3, two),
		"more bytes than records":      build(None, 2, append(bytes.Clone(two), 0)),
		"offsets descending":           build(None, 2, append(record(1, nil), record(0, nil)...)),
		"the same offset twice":        build(None, 2, append(record(0, nil), record(0, nil)...)),
		"offset behind the last":       build(None, 2, append(record(0, nil), record(2, nil)...)),
		"negative record length":       build(None, 1, binary.AppendVarint(nil, -5)),
		"record of 2 GB announced":     build(None, 1, binary.AppendVarint(nil, 1<<31-1)),
		"endless varint":               build(None, 1, bytes.Repeat([]byte{0xff}, 12)),
		"value longer than record":     build(None, 1, []byte{2 * 6, 0, 0, 0, 1, 2 * 100, 'x'}),
		"many headers announced":       build(None, 1, []byte{2 * 8, 0, 0, 0, 1, 1, 0xfe, 0xff, 0x7f}),
		"header with a null key":       build(None, 1, []byte{2 * 8, 0, 0, 0, 1, 1, 2, 1, 1}),
		"bytes left in the record":     build(None, 1, []byte{2 * 7, 0, 0, 0, 1, 1, 0, 0}),
		"gzip of nothing":              build(Gzip, 1, nil),
		"zstd garbage":                 build(Zstd, 1, []byte("not zstd at all")),
		"lz4 garbage":                  build(LZ4, 1, []byte("not lz4 at all")),
		"snappy claims a gigabyte":     build(Snappy, 1, binary.AppendUvarint(nil, 1<<30)),
		"records behind an empty":      build(None, 0, []byte{0}),
	} {
		d := NewDecoder(Limits{})
		if _, err := count(d, b); !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		d.Close()
	}
	d := NewDecoder(Limits{})
	if n, err := count(d, build(None, 0, nil)); n != 0 || err != nil {
		t.Errorf("empty batch: %d, %v", n, err)
	}
}

// A small batch that decompresses to far more than the limit neither takes that memory nor goes on behind the limit. What a codec needs for itself
// comes on top: two blocks of 4 MiB for lz4, from a sync.Pool, which the race detector empties at random.
func TestRecords_DecompressionIsBounded(t *testing.T) {
	value := make([]byte, 16<<20)
	for _, c := range []Codec{Gzip, LZ4, Zstd} {
		batch := build(c, 1, compress(t, c, record(0, value)))
		d := NewDecoder(Limits{MaxDecompressedBytes: 1 << 20})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := count(d, batch)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", c, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 12<<20 {
			t.Errorf("%s: %d bytes allocated for a limit of 1 MiB", c, used)
		}
		d.Close()
	}
}

func TestCheck_EveryFlippedBitBehindTheCRCIsFound(t *testing.T) {
	batch := firstBatch(t, goldenLog(t, "payments-0", "00000000000000000147"))
	if _, err := Check(batch); err != nil {
		t.Fatal(err)
	}
	for i := crcOffset; i < len(batch); i++ {
		for bit := range 8 {
			batch[i] ^= 1 << bit
			if _, err := Check(batch); !errors.Is(err, remotelog.ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v, want ErrCorrupt", i, bit, err)
			}
			batch[i] ^= 1 << bit
		}
	}
	if _, err := Check(append(bytes.Clone(batch), 0)); !errors.Is(err, remotelog.ErrCorrupt) {
		t.Errorf("a byte behind the batch: %v", err)
	}
}

func TestParseHeader_OldAndUnknownMagic(t *testing.T) {
	batch := firstBatch(t, goldenLog(t, "orders-0", "00000000000000000000"))
	for magic, want := range map[byte]error{0: ErrUnsupportedMagic, 1: ErrUnsupportedMagic, 3: remotelog.ErrCorrupt, 0xff: remotelog.ErrCorrupt} {
		batch[magicOffset] = magic
		if _, err := ParseHeader(batch); !errors.Is(err, want) {
			t.Errorf("magic %d: %v, want %v", magic, err, want)
		}
		// A whole batch of format 0 is shorter than a header of format 2.
		if _, err := ParseHeader(batch[:magicOffset+1]); !errors.Is(err, want) {
			t.Errorf("magic %d in a short batch: %v, want %v", magic, err, want)
		}
	}
}

func TestReader_StopsWhereTheBytesEnd(t *testing.T) {
	log := goldenLog(t, "payments-0", "00000000000000000147")
	for cut := range len(log) {
		r := NewReader(iotest.OneByteReader(bytes.NewReader(log[:cut])), ReaderOptions{})
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if want := r.Position() == int64(cut); errors.Is(err, io.EOF) != want || errors.Is(err, ErrTruncated) == want {
			t.Fatalf("cut at %d, batches end at %d: %v", cut, r.Position(), err)
		}
	}
	broken := errors.New("connection lost")
	r := NewReader(io.MultiReader(bytes.NewReader(log[:100]), iotest.ErrReader(broken)), ReaderOptions{Position: 5000})
	if _, err := r.Next(); !errors.Is(err, broken) || errors.Is(err, remotelog.ErrCorrupt) {
		t.Errorf("error of the stream: %v, want %v", err, broken)
	}
}

func TestReader_BadBytesNameThePosition(t *testing.T) {
	log := goldenLog(t, "orders-0", "00000000000000000000")
	h, err := ParseHeader(log)
	if err != nil {
		t.Fatal(err)
	}
	log[h.Size()+200] ^= 1
	r := NewReader(bytes.NewReader(log), ReaderOptions{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, remotelog.ErrCorrupt) || !strings.Contains(err.Error(), "CRC") ||
		!strings.HasPrefix(err.Error(), "position ") {
		t.Errorf("damaged second batch: %v", err)
	}
}

// A length field that claims 2 GB does not make the reader take them.
func TestReader_MemoryFollowsTheBytesNotTheClaim(t *testing.T) {
	b := firstBatch(t, goldenLog(t, "orders-0", "00000000000000000000"))
	binary.BigEndian.PutUint32(b[8:], 1<<31-1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := NewReader(bytes.NewReader(b), ReaderOptions{}).Next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v, want ErrTruncated", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes allocated", used)
	}
	if _, err := NewReader(bytes.NewReader(b), ReaderOptions{MaxBatchBytes: 1 << 20}).Next(); err == nil || errors.Is(err, ErrTruncated) {
		t.Errorf("above the limit: %v", err)
	}
}

func TestLastSequence_WrapsAsKafkaDoes(t *testing.T) {
	for _, c := range []struct{ base, delta, want int32 }{{-1, 4, -1}, {0, 9, 9}, {1<<31 - 2, 1, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 9, 6}} {
		h := Header{BaseSequence: c.base, LastOffsetDelta: c.delta}
		if got := h.LastSequence(); got != c.want {
			t.Errorf("base %d delta %d: %d, want %d", c.base, c.delta, got, c.want)
		}
	}
}
