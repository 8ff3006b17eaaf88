package chunking

import (
	"errors"
	"fmt"
	"math"

	"github.com/tierkit/tierkit/crypto"
)

// ErrBadIndex: a chunk index contradicts itself or the limits of the format.
var ErrBadIndex = errors.New("bad chunk index")

// Transform says what was done to each chunk.
type Transform struct {
	Compressed bool
	Encrypted  bool
}

// Kind is the form in which an index is written.
type Kind uint8

// The two kinds.
const (
	Fixed    Kind = iota // all chunks but the last have the same stored size
	Variable             // each chunk has a stored size of its own
)

// String is the name in the manifest.
func (k Kind) String() string {
	if k == Variable {
		return "variable"
	}
	return "fixed"
}

// Chunk is one chunk: where its content is in the segment file and where its stored bytes are in the .log object.
type Chunk struct {
	Number      int
	Start       int64 // in the segment file
	Size        int64 // of the content; the last chunk may have been stored with more (see Index.Check), which is dropped
	StoredStart int64 // in the .log object
	StoredSize  int64
}

// Index is an immutable chunk index. All arithmetic is in 64 bits, so that segments close to 2 GiB work too. An index has at
// least one chunk: an empty file has one of 0 bytes.
type Index struct {
	kind      Kind
	chunkSize int64
	fileSize  int64
	chunks    int
	// fixed
	stored, lastStored int64
	// variable
	sizes *sizes
}

// Layout returns the fixed index of a file whose chunks are not compressed.
func Layout(chunkSize, fileSize int64, encrypted bool) (*Index, error) {
	var over int64
	if encrypted {
		over = crypto.Overhead
	}
	n, err := countChunks(chunkSize, fileSize)
	if err != nil {
		return nil, err
	}
	return NewFixed(chunkSize, fileSize, chunkSize+over, fileSize-int64(n-1)*chunkSize+over)
}

// NewFixed returns a fixed index of the numbers in a manifest: stored is the stored size of all chunks but the last, lastStored
// that of the last one.
func NewFixed(chunkSize, fileSize, stored, lastStored int64) (*Index, error) {
	n, err := countChunks(chunkSize, fileSize)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkInt32("transformedChunkSize", stored), checkInt32("finalTransformedChunkSize", lastStored)); err != nil {
		return nil, err
	}
	return &Index{kind: Fixed, chunkSize: chunkSize, fileSize: fileSize, chunks: n, stored: stored, lastStored: lastStored}, nil
}

// NewVariable returns a variable index of the stored sizes of all chunks, in order. There must be one for each chunk of the file.
func NewVariable(chunkSize, fileSize int64, stored []int32) (*Index, error) {
	s, err := packSizes(stored)
	if err != nil {
		return nil, err
	}
	return newVariable(chunkSize, fileSize, s)
}

// ParseVariable returns a variable index of the numbers and the text (transformedChunks) in a manifest. What the text claims is
// bounded before anything is allocated for it.
func ParseVariable(chunkSize, fileSize int64, text string) (*Index, error) {
	n, err := countChunks(chunkSize, fileSize)
	if err != nil {
		return nil, err
	}
	s, err := parseSizes(text, n)
	if err != nil {
		return nil, err
	}
	return newVariable(chunkSize, fileSize, s)
}

// newVariable refuses a number of sizes that does not add up with the file. Aiven's reader does not look: with one too few it
// fails when a range touches the missing chunk, with one too many it reads as if nothing were wrong. Neither can have been
// written by a healthy writer, and which of the numbers is wrong cannot be known.
func newVariable(chunkSize, fileSize int64, s *sizes) (*Index, error) {
	n, err := countChunks(chunkSize, fileSize)
	if err != nil {
		return nil, err
	}
	if s.count() != n {
		return nil, fmt.Errorf("%w: transformedChunks has %d sizes, a file of %d bytes has %d chunks of %d", ErrBadIndex, s.count(), fileSize, n, chunkSize)
	}
	return &Index{kind: Variable, chunkSize: chunkSize, fileSize: fileSize, chunks: n, sizes: s}, nil
}

// Kind returns the kind.
func (x *Index) Kind() Kind { return x.kind }

// ChunkSize is the size of every chunk but the last, before any transform.
func (x *Index) ChunkSize() int64 { return x.chunkSize }

// FileSize is the size of the segment file.
func (x *Index) FileSize() int64 { return x.fileSize }

// Chunks is the number of chunks, at least 1.
func (x *Index) Chunks() int { return x.chunks }

// StoredSize is the size of the .log object.
func (x *Index) StoredSize() int64 {
	last := x.Chunk(x.chunks - 1)
	return last.StoredStart + last.StoredSize
}

// FixedSizes returns the stored sizes of a fixed index as the manifest has them: of every chunk but the last, and of the last.
func (x *Index) FixedSizes() (stored, last int64) { return x.stored, x.lastStored }

// Start returns the position of chunk i in the segment: cheap, where Chunk has to look the stored sizes up.
func (x *Index) Start(i int) int64 { return int64(i) * x.chunkSize }

// Chunk returns the i-th chunk; it panics if there is none. It costs a bounded number of additions, whatever the index's length.
func (x *Index) Chunk(i int) Chunk {
	if i < 0 || i >= x.chunks {
		panic(fmt.Sprintf("chunking: chunk %d of %d", i, x.chunks))
	}
	c := Chunk{Number: i, Start: int64(i) * x.chunkSize, Size: x.chunkSize}
	last := i == x.chunks-1
	if last {
		c.Size = x.fileSize - c.Start
	}
	switch {
	case x.kind == Variable:
		c.StoredStart, c.StoredSize = x.sizes.at(i)
	case last:
		c.StoredStart, c.StoredSize = int64(i)*x.stored, x.lastStored
	default:
		c.StoredStart, c.StoredSize = int64(i)*x.stored, x.stored
	}
	return c
}

// Find returns the number of the chunk that holds the byte at pos of the segment file; false outside the file.
func (x *Index) Find(pos int64) (int, bool) {
	if pos < 0 || pos >= x.fileSize {
		return 0, false
	}
	return int(pos / x.chunkSize), true
}

// MaxStored is the largest stored size of any chunk.
func (x *Index) MaxStored() int64 {
	switch {
	case x.kind == Variable:
		return x.sizes.max()
	case x.chunks == 1:
		return x.lastStored
	default:
		return max(x.stored, x.lastStored)
	}
}

// MemoryBytes is what the index holds in memory, for caches that weigh.
func (x *Index) MemoryBytes() int64 {
	const fields = 160
	if x.sizes == nil {
		return fields
	}
	return fields + int64(len(x.sizes.bin)) + 8*int64(len(x.sizes.marks))
}

// Check reports, as ErrBadIndex, stored sizes that the transform cannot have made: without compression they follow from the
// sizes of the chunks; a compressed chunk is at least a frame and at most a little larger than its content. It is what finds a
// manifest whose flags were changed, which Aiven's plug-in would read as wrong bytes.
//
// The last chunk of a fixed index may hold more than the file: the plug-in stores a file that grew behind its announced size
// whole, up to the end of the last chunk. Readers take the first Size bytes of its content.
func (x *Index) Check(t Transform) error {
	lastContent := x.fileSize - int64(x.chunks-1)*x.chunkSize
	if x.kind == Fixed {
		// The stored size of chunks that a file does not have is written all the same.
		if err := checkSize(t, 0, x.chunkSize, x.chunkSize, x.stored); err != nil {
			return err
		}
		return checkSize(t, x.chunks-1, lastContent, x.chunkSize, x.lastStored)
	}
	for i, size := range x.sizes.all() {
		content := x.chunkSize
		if i == x.chunks-1 {
			content = lastContent
		}
		if err := checkSize(t, i, content, content, size); err != nil {
			return err
		}
	}
	return nil
}

// checkSize checks the stored size of a chunk whose content has least to most bytes.
func checkSize(t Transform, i int, least, most, stored int64) error {
	lo, hi := least, most
	if t.Compressed {
		lo, hi = minFrame, MaxFrame(most)
	}
	if t.Encrypted {
		lo, hi = lo+crypto.Overhead, hi+crypto.Overhead
	}
	if stored < lo || stored > hi {
		return fmt.Errorf("%w: chunk %d of %d bytes is said to have %d stored bytes, possible are %d to %d (compression %t, encryption %t)",
			ErrBadIndex, i, least, stored, lo, hi, t.Compressed, t.Encrypted)
	}
	return nil
}

// minFrame is the smallest zstd frame with a content size: magic, descriptor, size, one block header.
const minFrame = 9

// MaxFrame is more than any encoder makes of n bytes that do not compress (libzstd's ZSTD_compressBound is n + n/256 and at most
// 64 more). It bounds what a manifest can make a reader allocate.
func MaxFrame(n int64) int64 { return n + n/128 + 1024 }

// countChunks is the number of chunks of a file; it refuses what the manifest cannot hold.
func countChunks(chunkSize, fileSize int64) (int, error) {
	if err := errors.Join(checkInt32("originalChunkSize", chunkSize), checkInt32("originalFileSize", fileSize)); err != nil {
		return 0, err
	}
	if chunkSize == 0 {
		return 0, fmt.Errorf("%w: originalChunkSize is 0", ErrBadIndex)
	}
	return int(max(1, (fileSize+chunkSize-1)/chunkSize)), nil
}

func checkInt32(name string, v int64) error {
	if v < 0 || v > math.MaxInt32 {
		return fmt.Errorf("%w: %s is %d, outside 0..%d", ErrBadIndex, name, v, math.MaxInt32)
	}
	return nil
}
