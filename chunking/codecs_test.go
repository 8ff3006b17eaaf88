package chunking

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/internal/need"
)

// frameSizes are those at which the form of a frame header changes, and a chunk of the default size.
var frameSizes = []int{0, 1, 255, 256, 1023, 1024, 4 << 20}

// text is the longest of them, written once.
var text = sync.OnceValue(func() []byte {
	var b []byte
	for i := 0; len(b) < 4<<20; i++ {
		b = fmt.Appendf(b, "order %d of customer %d\n", i, i%97)
	}
	return b
})

// frameContent is what the frames in testdata hold: text lines that compress well. It is to be read only.
func frameContent(n int) []byte { return text()[:n:n] }

func codecOf(t testing.TB, o CodecOptions) *Codec {
	t.Helper()
	o.Pairs = 1
	c, err := NewCodecs(o)
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The committed frames were made by the zstd tool 1.5.4: `zstd -3 --no-check FILE`, and with its checksum.
func TestCodec_ReadsFramesOfTheReferenceTool(t *testing.T) {
	k := codecOf(t, CodecOptions{})
	for _, n := range frameSizes {
		for _, check := range []string{"", ".check"} {
			frame, err := os.ReadFile(filepath.Join("testdata", "frames", fmt.Sprintf("%d%s.zst", n, check)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := k.Decompress(make([]byte, 0, n), frame, n)
			if err != nil || !bytes.Equal(got, frameContent(n)) {
				t.Errorf("%d bytes%s: %v", n, check, err)
			}
		}
	}
}

func TestCodec_ReferenceToolReadsOurFrames(t *testing.T) {
	tool := need.Command(t, "zstd", "apt-get install zstd")
	for _, level := range []int{1, 3, 7, 12} {
		k := codecOf(t, CodecOptions{Level: level, ChunkSize: 4 << 20})
		for _, n := range frameSizes {
			cmd := exec.CommandContext(t.Context(), tool, "-d", "-c")
			cmd.Stdin = bytes.NewReader(k.Compress(nil, frameContent(n)))
			got, err := cmd.Output()
			if err != nil || !bytes.Equal(got, frameContent(n)) {
				t.Errorf("level %d, %d bytes: %v", level, n, err)
			}
		}
	}
}

// The headers are those that zstd-jni writes for the plug-in: single segment, content size, no checksum, no dictionary.
func TestCodec_HeadersSayTheContentSize(t *testing.T) {
	for _, o := range []CodecOptions{{}, {Level: 1, ChunkSize: 1}, {Level: 22, ChunkSize: 1 << 20}} {
		k := codecOf(t, o)
		for _, n := range append(frameSizes, 257, 65535, 65791, 65792, 1<<20) {
			frame := k.Compress(nil, frameContent(n))
			var h zstd.Header
			if err := h.Decode(frame); err != nil {
				t.Fatal(err)
			}
			if !h.HasFCS || !h.SingleSegment || h.FrameContentSize != uint64(n) || h.HasCheckSum || h.DictionaryID != 0 {
				t.Errorf("%d bytes: header %+v", n, h)
			}
			if got, err := k.Decompress(make([]byte, 0, n), frame, n); err != nil || !bytes.Equal(got, frameContent(n)) {
				t.Errorf("%d bytes do not come back: %v", n, err)
			}
		}
	}
}

func TestCodec_NeverMakesMoreThanMaxEncodedSize(t *testing.T) {
	var codecs []*Codec
	for _, level := range []int{1, 3, 7, 12} {
		codecs = append(codecs, codecOf(t, CodecOptions{Level: level, ChunkSize: 64 << 10}))
	}
	for _, n := range []int{0, 1, 255, 256, 65791, 65792, 65536, 131071, 131072, 1 << 20, 4 << 20, 1<<31 - 2, 1<<31 - 1, 1 << 31} {
		for _, k := range codecs {
			if got, want := MaxEncodedSize(n), k.enc.MaxEncodedSize(n); got < want {
				t.Errorf("MaxEncodedSize(%d) = %d, the encoder says %d", n, got, want)
			}
		}
		if int64(MaxEncodedSize(n)) > MaxFrame(int64(n)) {
			t.Errorf("MaxEncodedSize(%d) = %d, above MaxFrame %d: readers would refuse it", n, MaxEncodedSize(n), MaxFrame(int64(n)))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		src := half(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 300_000).Draw(t, "n"))
		if rapid.Bool().Draw(t, "random") {
			for i := range src {
				src[i] *= byte(i*i + 31)
			}
		}
		for _, k := range codecs {
			frame := k.Compress(nil, src)
			if len(frame) > MaxEncodedSize(len(src)) {
				t.Fatalf("%d bytes became %d, above %d", len(src), len(frame), MaxEncodedSize(len(src)))
			}
			if got, err := k.Decompress(make([]byte, 0, len(src)), frame, len(src)); err != nil || !bytes.Equal(got, src) {
				t.Fatalf("%d bytes do not come back: %v", len(src), err)
			}
		}
	})
}

func TestCodec_RefusesAllButOneExactFrame(t *testing.T) {
	k := codecOf(t, CodecOptions{})
	content := frameContent(5000)
	frame := k.Compress(nil, content)
	skippable := []byte{0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	noSize, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	checked, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	badSum := checked.EncodeAll(content, nil)
	badSum[len(badSum)-1] ^= 1
	claim := bytes.Clone(frame)
	binary.LittleEndian.PutUint16(claim[5:], 5100-256)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		frame []byte
		want  int
	}{
		"wanted one less":         {frame, 4999},
		"wanted one more":         {frame, 5001},
		"header claims more":      {claim, 5100},
		"two frames":              {join(k.Compress(nil, content[:2500]), k.Compress(nil, content[2500:])), 5000},
		"the frame twice":         {join(frame, frame), 5000},
		"trailing bytes":          {join(frame, []byte{0, 0, 0}), 5000},
		"skippable frame behind":  {join(frame, skippable), 5000},
		"skippable frame first":   {join(skippable, frame), 5000},
		"only a skippable frame":  {skippable, 0},
		"no content size":         {noSize.EncodeAll(content[:100], nil), 100},
		"wrong checksum":          {badSum, 5000},
		"empty":                   {nil, 0},
		"no frame":                {content[:100], 100},
		"raw block beyond":        {raw(5000, rawHeader(0, 5001, true), make([]byte, 5001)), 5000},
		"run beyond":              {raw(10, rawHeader(1, 1<<21-1, true), []byte{7}), 10},
		"many runs":               {raw(10, bytes.Repeat(join(rawHeader(1, 100_000, false), []byte{7}), 1000)), 10},
		"reserved block":          {raw(10, rawHeader(3, 10, true), make([]byte, 10)), 10},
		"blocks stop short":       {raw(10, rawHeader(0, 9, true), make([]byte, 9)), 10},
		"no last block":           {raw(10, rawHeader(0, 10, false), make([]byte, 10)), 10},
		"dictionary":              {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 9, 1, 0x09, 0, 0, 'a'}, 1},
		"compressed block beyond": {overlong(t), 100},
	} {
		got, err := k.Decompress(make([]byte, 0, c.want), c.frame, c.want)
		if !errors.Is(err, ErrBadFrame) || got != nil {
			t.Errorf("%s: %d bytes, %v, want ErrBadFrame and nothing", name, len(got), err)
		}
	}
	for n := range frame {
		if _, err := k.Decompress(make([]byte, 0, 5000), frame[:n], 5000); !errors.Is(err, ErrBadFrame) {
			t.Fatalf("cut to %d of %d bytes: %v, want ErrBadFrame", n, len(frame), err)
		}
	}
	if _, err := k.Decompress(make([]byte, 0, 4999), frame, 5000); err == nil || errors.Is(err, ErrBadFrame) {
		t.Errorf("too little room: %v, want an error that does not blame the frame", err)
	}
	// What comes behind the refusals is unharmed.
	if got, err := k.Decompress(make([]byte, 0, 5000), frame, 5000); err != nil || !bytes.Equal(got, content) {
		t.Errorf("a good frame after bad ones: %v", err)
	}
}

// raw is a frame made by hand: single segment, one byte of content size (two from 256 on), then blocks.
func raw(size int, blocks ...[]byte) []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, byte(size)}
	if size >= 256 {
		f = binary.LittleEndian.AppendUint16([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x60}, uint16(size-256))
	}
	return append(f, bytes.Join(blocks, nil)...)
}

func rawHeader(kind, size int, last bool) []byte {
	h := size<<3 | kind<<1
	if last {
		h |= 1
	}
	return []byte{byte(h), byte(h >> 8), byte(h >> 16)}
}

// overlong is a frame that announces 100 bytes and whose compressed block holds 5000.
func overlong(t *testing.T) []byte {
	t.Helper()
	frame := codecOf(t, CodecOptions{}).Compress(nil, frameContent(5000))
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 100}, frame[7:]...)
}

func TestCodec_AppendsBehindWhatIsThere(t *testing.T) {
	k := codecOf(t, CodecOptions{})
	frame := k.Compress([]byte("front"), frameContent(1000))
	got, err := k.Decompress(append(make([]byte, 0, 2000), "head"...), frame[5:], 1000)
	if err != nil || string(frame[:5]) != "front" || !bytes.Equal(got, append([]byte("head"), frameContent(1000)...)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// leastAllocs is the fewest allocations that a run of f makes. The decoder keeps tables in a sync.Pool, which the garbage collector empties and
// the race detector does at random: one run without any shows that none is needed.
func leastAllocs(f func()) float64 {
	least := testing.AllocsPerRun(1, f)
	for range 40 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

func TestCodec_AllocatesNothingPerChunk(t *testing.T) {
	const n = 1 << 20
	src := half(3, n)
	for _, level := range []int{1, 3, 7} {
		k := codecOf(t, CodecOptions{Level: level, ChunkSize: n})
		frame, out := make([]byte, 0, MaxEncodedSize(n)), make([]byte, 0, n)
		frame = k.Compress(frame, src)
		if a := leastAllocs(func() { frame = k.Compress(frame[:0], src) }); a != 0 {
			t.Errorf("level %d: %v allocations to compress a chunk", level, a)
		}
		if a := leastAllocs(func() {
			if _, err := k.Decompress(out, frame, n); err != nil {
				t.Error(err)
			}
		}); a != 0 {
			t.Errorf("level %d: %v allocations to decompress a chunk", level, a)
		}
	}
}

// PairBytes goes into the budget's fixed part: too small breaks the promise on memory, far too large wastes what is promised.
func TestPairBytes_IsWhatAPairHolds(t *testing.T) {
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const slack = 1280 << 10 // tables and blocks that small chunks do not fill
	for chunk, levels := range map[int][]int{64 << 10: {1, 3, 6, 10}, 1 << 20: {1, 3, 6, 10}, 4 << 20: {1, 3, 6}, 9 << 20: {1, 3}} {
		src := half(5, chunk)
		frame, out := make([]byte, 0, MaxEncodedSize(chunk)), make([]byte, 0, chunk)
		for _, level := range levels {
			before := held()
			k, err := newCodec(CodecOptions{Level: level, ChunkSize: int64(chunk)})
			if err != nil {
				t.Fatal(err)
			}
			frame = k.Compress(frame[:0], src)
			if _, err := k.Decompress(out, frame, chunk); err != nil {
				t.Fatal(err)
			}
			got, want := held()-before, PairBytes(level, int64(chunk))
			if got > want || got < want*3/4-slack {
				t.Errorf("level %d, chunks of %d KiB: a pair holds %d KiB, PairBytes says %d", level, chunk>>10, got>>10, want>>10)
			}
			runtime.KeepAlive(k)
		}
		runtime.KeepAlive(out)
	}
}

func TestCodecs_BoundsAndWaitsWithTheContext(t *testing.T) {
	c, err := NewCodecs(CodecOptions{Pairs: 2, Level: 6})
	if err != nil {
		t.Fatal(err)
	}
	if c.Pairs() != 2 || c.Level() != 6 {
		t.Errorf("%d pairs, level %d", c.Pairs(), c.Level())
	}
	a, err := c.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("third Acquire of 2 under a cancelled context: %v", err)
	}
	got := make(chan *Codec)
	go func() {
		k, err := c.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- k
	}()
	c.Release(a)
	if k := <-got; k != a {
		t.Error("the released codec was not handed on")
	}
	for _, o := range []CodecOptions{{Pairs: -1}, {Level: -1}, {Level: 23}, {ChunkSize: -1}} {
		if _, err := NewCodecs(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func FuzzDecompress(f *testing.F) {
	f.Add([]byte("\x28\xb5\x2f\xfd\x20\x0f\x79\x00\x00123456789012345"), 15)
	f.Fuzz(func(t *testing.T, frame []byte, want int) {
		if want < 0 || want > 1<<20 {
			return
		}
		k := codecOf(t, CodecOptions{Level: 1, ChunkSize: 1 << 10})
		got, err := k.Decompress(make([]byte, 0, want), frame, want)
		if err != nil {
			if !errors.Is(err, ErrBadFrame) || got != nil {
				t.Fatalf("%v with %d bytes", err, len(got))
			}
			return
		}
		if len(got) != want {
			t.Fatalf("%d bytes, want %d", len(got), want)
		}
	})
}
