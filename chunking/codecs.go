package chunking

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

const (
	// DefaultLevel is the zstd level that Aiven's plug-in uses (zstd-jni's default).
	DefaultLevel = 3
	// MinLevel is the least that CodecOptions.Level may be. The Go encoder has four speeds; levels in between are the nearest of
	// them: 1-2, 3-5, 6-9, 10-22.
	MinLevel = 1
	// MaxLevel is the most that CodecOptions.Level may be.
	MaxLevel = 22
)

// ErrBadFrame: the bytes are not exactly one zstd frame whose header gives the wanted content size and whose content has it.
var ErrBadFrame = errors.New("bad zstd frame")

// CodecOptions says how many codecs there are and what they are made for.
type CodecOptions struct {
	// Pairs is the number of encoder-decoder pairs, which bounds how many chunks are worked on at a time. 0: GOMAXPROCS.
	Pairs int
	// Level is the zstd level, MinLevel to MaxLevel. 0: DefaultLevel.
	Level int
	// ChunkSize is the size of the chunks that will be compressed: up to 8 MiB, a smaller one needs less memory. Larger chunks
	// than that still work. 0: not known, the most memory.
	ChunkSize int64
}

// Codecs is a bounded pool of zstd encoder-decoder pairs. There is one for a process, or for a budget: each pair holds
// [PairBytes], whatever it is doing. It is safe for concurrent use and starts no goroutines.
type Codecs struct {
	free  chan *Codec
	level int
}

// NewCodecs returns the pool. Encoders and decoders come into being with their first use.
func NewCodecs(o CodecOptions) (*Codecs, error) {
	if o.Pairs == 0 {
		o.Pairs = runtime.GOMAXPROCS(0)
	}
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	switch {
	case o.Pairs < 0:
		return nil, fmt.Errorf("codecs: %d pairs", o.Pairs)
	case o.Level < MinLevel || o.Level > MaxLevel:
		return nil, fmt.Errorf("codecs: zstd level %d is outside %d..%d", o.Level, MinLevel, MaxLevel)
	case o.ChunkSize < 0:
		return nil, fmt.Errorf("codecs: chunk size %d is negative", o.ChunkSize)
	}
	c := &Codecs{free: make(chan *Codec, o.Pairs), level: o.Level}
	for range o.Pairs {
		k, err := newCodec(o)
		if err != nil {
			return nil, fmt.Errorf("codecs: %w", err)
		}
		c.free <- k
	}
	return c, nil
}

// Pairs is the number of pairs.
func (c *Codecs) Pairs() int { return cap(c.free) }

// Level is the zstd level of the encoders.
func (c *Codecs) Level() int { return c.level }

// Acquire takes a codec out of the pool and waits for one, or for ctx, if all are in use. Who holds a codec must not wait for
// memory, and gives it back with Release.
func (c *Codecs) Acquire(ctx context.Context) (*Codec, error) {
	select {
	case k := <-c.free:
		return k, nil
	default:
	}
	select {
	case k := <-c.free:
		return k, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Release gives a codec back. It never blocks.
func (c *Codecs) Release(k *Codec) { c.free <- k }

// Codec is one encoder and one decoder, for one goroutine at a time.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec(o CodecOptions) (*Codec, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(o.Level)),
		zstd.WithEncoderConcurrency(1),
		// The content size must be in every frame: without this option inputs below 256 bytes have none, and Java decodes such
		// frames to nothing (klauspost/compress 1.20.4).
		zstd.WithSingleSegment(true),
		zstd.WithZeroFrames(true), // no content still gives a frame
		zstd.WithEncoderCRC(false),
	}
	if w := windowFor(o.ChunkSize); w > 0 && w <= levelWindow(o.Level) {
		// Half the history. Only for chunks that fit the window: larger ones would move all of it with every block.
		opts = append(opts, zstd.WithWindowSize(w), zstd.WithLowerEncoderMem(true))
	}
	enc, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		// The destination is the only memory that a frame can ask for: what it claims is checked against dst's capacity, and
		// a window larger than the content needs no memory when the whole content is decoded into one buffer.
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(1<<41),
	)
	if err != nil {
		return nil, err
	}
	return &Codec{enc: enc, dec: dec}, nil
}

// Compress appends one zstd frame of src to dst. It allocates nothing if dst has room for MaxEncodedSize(len(src)) bytes. The
// two must not overlap.
func (k *Codec) Compress(dst, src []byte) []byte { return k.enc.EncodeAll(src, dst) }

// Decompress appends the content of frame, which must be exactly one zstd frame of want bytes of content, to dst, and returns
// the result; everything else is ErrBadFrame: no or another content size in the header, a second or a skippable frame, bytes
// behind the frame, a dictionary, damage. That is what Aiven's plug-in refuses too, and besides it the wrong content size, which
// the plug-in does not look at. dst must have room for want bytes: nothing is allocated, and no claim of a frame makes it
// allocate. After an error the returned slice is nil and the room behind dst undefined.
func (k *Codec) Decompress(dst, frame []byte, want int) ([]byte, error) {
	if want < 0 || want > cap(dst)-len(dst) {
		return nil, fmt.Errorf("decompress %d bytes: destination has room for %d", want, cap(dst)-len(dst))
	}
	if err := checkFrame(frame, want); err != nil {
		return nil, err
	}
	// The limit is on the capacity, so the capacity is cut to what is wanted; a decoder that errs may return another slice.
	room := dst[len(dst):len(dst):(len(dst) + want)]
	out, err := k.dec.DecodeAll(frame, room)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadFrame, err)
	}
	if len(out) != want {
		return nil, fmt.Errorf("%w: content has %d bytes, want %d", ErrBadFrame, len(out), want)
	}
	if want > 0 && &out[0] != &room[:1][0] {
		return nil, fmt.Errorf("%w: content outgrew its buffer", ErrBadFrame)
	}
	return dst[:len(dst)+want], nil
}

// MaxEncodedSize is the largest frame that Compress makes of n bytes: 6 bytes of header, content size, 3 bytes for each block
// of 64 KiB (level 1 and 2; the others have 128) and for one more.
func MaxEncodedSize(n int) int {
	return 6 + fcsSize(n) + 3*((n+minBlock)/minBlock) + n
}

const minBlock = 64 << 10

func fcsSize(n int) int {
	switch {
	case n < 256:
		return 1
	case n < 65536+256:
		return 2
	case uint64(n) < 1<<31-1:
		return 4
	default:
		return 8
	}
}

// levelWindow is the history that the encoder of a level keeps (klauspost/compress 1.20.4, WithEncoderLevel).
func levelWindow(level int) int {
	if zstd.EncoderLevelFromZstd(level) == zstd.SpeedFastest {
		return 4 << 20
	}
	return 8 << 20
}

// windowFor is the least window that holds n bytes and does not make blocks smaller; 0 for 0.
func windowFor(n int64) int {
	if n == 0 || n > 1<<30 {
		return 0
	}
	return max(1<<bits.Len64(uint64(n-1)), 2*minBlock)
}

// PairBytes is the memory that one encoder-decoder pair holds once it has been used, besides the caller's buffers: the
// encoder's tables, its history, and a decoder. Measured with klauspost/compress 1.20.4; a test measures again.
func PairBytes(level int, chunkSize int64) int64 {
	const decoder, block = 512 << 10, 128 << 10
	var tables int64
	switch zstd.EncoderLevelFromZstd(level) {
	case zstd.SpeedFastest:
		tables = 640 << 10
	case zstd.SpeedDefault:
		tables = 2 << 20
	case zstd.SpeedBetterCompression:
		tables = 4864 << 10
	default:
		tables = 35 << 20
	}
	if w := windowFor(chunkSize); w > 0 && w <= levelWindow(level) {
		return decoder + tables + int64(w) + block
	}
	return decoder + tables + 2*int64(levelWindow(level))
}
