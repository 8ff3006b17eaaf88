package chunking

import (
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/membudget"
)

// ErrSourceSize: the source delivered fewer or more bytes than announced. The file changed while it was read, or the size
// in its metadata is wrong.
var ErrSourceSize = errors.New("source does not have the announced size")

// castagnoli is the polynomial of the per-chunk checksums; the standard library uses the CPU's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeOptions say how a segment file becomes stored chunks.
type EncodeOptions struct {
	PlainBytes int64           // what the source delivers, exactly
	ChunkBytes int             // plain bytes per chunk, > 0; the last chunk is the rest
	Codecs     *Codecs         // nil: chunks are not compressed
	Key        *crypto.DataKey // nil: chunks are not encrypted
	// Memory has at least [EncodeMemory] unused bytes. The encoder grows it, without waiting, for chunks in parallel, gives
	// back what it no longer needs, and holds no buffer of it after Close.
	Memory  *membudget.Reservation
	Workers int // chunks encoded at the same time; 0: GOMAXPROCS
}

// EncodeMemory returns the fewest bytes with which an Encoder of these options makes progress: one chunk as read, when it
// is compressed, and one as stored.
func EncodeMemory(o EncodeOptions) int64 { return o.rawCharge() + o.storedCharge() }

// EncodedChunks returns how many chunks an Encoder makes: as in the index, an empty file has one of 0 bytes.
func EncodedChunks(o EncodeOptions) int64 {
	return max(1, (o.PlainBytes+int64(o.ChunkBytes)-1)/int64(o.ChunkBytes))
}

// prepare checks the options and fills in the defaults.
func (o *EncodeOptions) prepare() error {
	if o.ChunkBytes <= 0 || o.PlainBytes < 0 {
		return fmt.Errorf("chunking: encode %d bytes in chunks of %d: the one must not be negative, the other must be positive",
			o.PlainBytes, o.ChunkBytes)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.Workers = int(min(int64(o.Workers), EncodedChunks(*o)))
	return nil
}

// chunkCap is the plain size of the largest chunk.
func (o *EncodeOptions) chunkCap() int { return int(min(int64(o.ChunkBytes), o.PlainBytes)) }

// storedCap is the capacity that no stored chunk exceeds: with less, the codec or the cipher would allocate.
func (o *EncodeOptions) storedCap() int {
	n := o.chunkCap()
	if o.Codecs != nil {
		n = MaxEncodedSize(n)
	}
	if o.Key != nil {
		n += crypto.Overhead
	}
	return max(n, 1)
}

// rawCap is the size of the buffer that a worker reads chunks into; 0: they are read where they are encrypted or sent from.
func (o *EncodeOptions) rawCap() int {
	if o.Codecs == nil {
		return 0
	}
	return max(o.chunkCap(), 1)
}

func (o *EncodeOptions) storedCharge() int64 { return membudget.Capacity(o.storedCap()) }

func (o *EncodeOptions) rawCharge() int64 {
	if o.Codecs == nil {
		return 0
	}
	return membudget.Capacity(o.rawCap())
}

// worker tells the goroutine that works in the memory reserved from those that exist only while more can be had.
type worker uint8

const (
	firstWorker worker = iota // spawns the others
	extraWorker               // holds grown memory
)
