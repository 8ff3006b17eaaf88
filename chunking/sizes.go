package chunking

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/b64"
)

const (
	// maxSizesBytes is the most that the packed sizes may have, both ways (Aiven's limit).
	maxSizesBytes = 10 << 20
	// markEvery is the distance of the positions kept in memory: a lookup adds up at most markEvery-1 sizes.
	markEvery = 64
)

// sizes holds the stored sizes of a variable index in the packed form of the manifest, with the position of every 64th chunk
// beside it: a little more than w bytes per chunk, not an object for each.
//
// All numbers are big endian and not negative:
//
//	1 chunk:   count(4)=1 value(4)
//	2 or more: count(4) base(4) w(1) then count-1 differences of w bytes, then the last value (4)
//
// base is the least of all values but the last; w, 1 to 4, is the width of the largest difference.
type sizes struct {
	bin   []byte
	n     int
	base  int64
	w     int
	marks []int64
}

const (
	manyHeader = 9
)

func packSizes(values []int32) (*sizes, error) {
	n := len(values)
	if n == 0 {
		return nil, fmt.Errorf("%w: no chunks", ErrBadIndex)
	}
	if i := slices.IndexFunc(values, func(v int32) bool { return v < 0 }); i >= 0 {
		return nil, fmt.Errorf("%w: stored size of chunk %d is %d", ErrBadIndex, i, values[i])
	}
	if n == 1 {
		bin := binary.BigEndian.AppendUint32(nil, 1)
		return unpackSizes(binary.BigEndian.AppendUint32(bin, uint32(values[0])))
	}
	head := values[:n-1]
	base := slices.Min(head)
	w := width(uint32(slices.Max(head) - base))
	if size := packedSize(n, w); size > maxSizesBytes {
		return nil, errTooManyChunks(size)
	}
	bin := make([]byte, 0, packedSize(n, w))
	bin = binary.BigEndian.AppendUint32(bin, uint32(n))
	bin = binary.BigEndian.AppendUint32(bin, uint32(base))
	bin = append(bin, byte(w))
	for _, v := range head {
		d := uint32(v - base)
		for shift := 8 * (w - 1); shift >= 0; shift -= 8 {
			bin = append(bin, byte(d>>shift))
		}
	}
	return unpackSizes(binary.BigEndian.AppendUint32(bin, uint32(values[n-1])))
}

// unpackSizes checks bin and keeps it.
func unpackSizes(bin []byte) (*sizes, error) {
	bad := func(format string, args ...any) (*sizes, error) {
		return nil, fmt.Errorf("%w: transformedChunks: %s", ErrBadIndex, fmt.Sprintf(format, args...))
	}
	if len(bin) < 8 {
		return bad("%d bytes", len(bin))
	}
	n := int64(binary.BigEndian.Uint32(bin))
	s := &sizes{bin: bin, n: int(n)}
	switch {
	case n == 0:
		return bad("no chunks")
	case n > math.MaxInt32:
		return bad("number of chunks is negative")
	case n == 1 && len(bin) != 8:
		return bad("one chunk in %d bytes, want 8", len(bin))
	case n == 1:
		if v := s.value(0); v > math.MaxInt32 {
			return bad("stored size of the chunk is negative")
		}
		s.marks = []int64{0}
		return s, nil
	case len(bin) < manyHeader:
		return bad("%d bytes", len(bin))
	}
	s.base, s.w = int64(binary.BigEndian.Uint32(bin[4:])), int(bin[8])
	if s.w < 1 || s.w > 4 {
		return bad("differences of %d bytes, want 1 to 4", s.w)
	}
	if want := manyHeader + (n-1)*int64(s.w) + 4; int64(len(bin)) != want {
		return bad("%d chunks in %d bytes, want %d", n, len(bin), want)
	}
	s.marks = make([]int64, 0, (n+markEvery-1)/markEvery)
	var sum int64
	for i := range s.n {
		if i%markEvery == 0 {
			s.marks = append(s.marks, sum)
		}
		v := s.value(i)
		if v > math.MaxInt32 {
			return bad("stored size of chunk %d is %d, above %d", i, v, math.MaxInt32)
		}
		sum += v
	}
	return s, nil
}

// value is the stored size of chunk i.
func (s *sizes) value(i int) int64 {
	if i == s.n-1 {
		return int64(binary.BigEndian.Uint32(s.bin[len(s.bin)-4:]))
	}
	var d int64
	for _, b := range s.bin[manyHeader+i*s.w:][:s.w] {
		d = d<<8 | int64(b)
	}
	return s.base + d
}

func (s *sizes) count() int { return s.n }

// at returns position and stored size of chunk i.
func (s *sizes) at(i int) (start, size int64) {
	start = s.marks[i/markEvery]
	for j := i - i%markEvery; j < i; j++ {
		start += s.value(j)
	}
	return start, s.value(i)
}

func (s *sizes) all() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i := range s.n {
			if !yield(i, s.value(i)) {
				return
			}
		}
	}
}

func (s *sizes) max() int64 {
	var m int64
	for _, v := range s.all() {
		m = max(m, v)
	}
	return m
}

// SizesText returns the stored sizes of a variable index as the manifest carries them (transformedChunks). It panics for a
// fixed one.
func (x *Index) SizesText() (string, error) {
	frame, err := packFrame(x.sizes.bin)
	if err != nil {
		return "", fmt.Errorf("pack chunk sizes: %w", err)
	}
	return b64.Encode(frame), nil
}

// parseSizes reads the sizes of a file that has n chunks.
func parseSizes(text string, n int) (*sizes, error) {
	frame, err := b64.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%w: transformedChunks: %w", ErrBadIndex, err)
	}
	bin, err := unpackFrame(frame, n)
	if err != nil {
		return nil, fmt.Errorf("%w: transformedChunks: %w", ErrBadIndex, err)
	}
	return unpackSizes(bin)
}

// packFrame uses an encoder of its own and not one of Codecs: whoever writes a manifest may hold memory, and who holds memory
// must not wait for a codec. It is small: a window of 128 KiB at the fastest level.
func packFrame(bin []byte) ([]byte, error) {
	k, err := newCodec(CodecOptions{Level: MinLevel, ChunkSize: 2 * minBlock})
	if err != nil {
		return nil, err
	}
	return k.Compress(make([]byte, 0, MaxEncodedSize(len(bin))), bin), nil
}

// unpackFrame decodes one strict frame of at most maxSizesBytes, and of no more than n chunks can need, or a few more: so that the
// error can say how many there are.
func unpackFrame(frame []byte, n int) ([]byte, error) {
	const more = 64
	most := min(maxSizesBytes, packedSize(n, 4)+more)
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrBadFrame, err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(most) {
		return nil, fmt.Errorf("%w: header announces %d bytes of content, %d chunks need %d at most", ErrBadFrame, h.FrameContentSize, n, most)
	}
	want := int(h.FrameContentSize)
	if err := checkFrame(frame, want); err != nil {
		return nil, err
	}
	k, err := newCodec(CodecOptions{Level: MinLevel, ChunkSize: 2 * minBlock})
	if err != nil {
		return nil, err
	}
	return k.Decompress(make([]byte, 0, want), frame, want)
}

// CheckVariable reports, before anything is stored, that the chunk sizes of a compressed file could need more room than the
// format has for them. It reckons with the worst differences.
func CheckVariable(chunkSize, fileSize int64) error {
	n, err := countChunks(chunkSize, fileSize)
	if err != nil {
		return err
	}
	if size := packedSize(n, width(uint32(min(MaxFrame(chunkSize)+crypto.Overhead, math.MaxUint32)))); size > maxSizesBytes {
		return errTooManyChunks(size)
	}
	return nil
}

func packedSize(n, w int) int64 { return manyHeader + int64(n-1)*int64(w) + 4 }

func width(v uint32) int {
	switch {
	case v <= 0xff:
		return 1
	case v <= 0xffff:
		return 2
	case v <= 0xffffff:
		return 3
	default:
		return 4
	}
}

func errTooManyChunks(size int64) error {
	return fmt.Errorf("%w: the sizes of so many chunks need %d bytes, the format has room for %d: raise chunk.size", ErrBadIndex, size, maxSizesBytes)
}
