package manifest

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tierkit/tierkit/internal/b64"
	"github.com/tierkit/tierkit/remotelog"
)

// extensionVersion is the version of Checksums that is written and understood.
const extensionVersion = 1

// castagnoli is CRC-32C. The table is made once and never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C that Checksums holds, of the stored bytes of a chunk or index part.
func Checksum(stored []byte) uint32 { return crc32.Checksum(stored, castagnoli) }

// Checksums is tierkit's extension of the manifest, last inside remoteLogSegmentMetadata:
//
//	"tierkit":{"version":1,"chunkCrc32c":"<base64 of one big-endian uint32 per chunk>","indexCrc32c":{"offset":n,...},"logBytes":n,"indexBytes":n}
//
// All are over stored bytes, so that they can be checked without keys. Another version is ignored: its data are read without
// checksums; so is a "tierkit" that is no object, which is not ours. An object of version 1, or without a version, that is
// malformed or does not fit the rest of the manifest makes the manifest corrupt: leaving it out would switch off silently what
// it is there for.
type Checksums struct {
	chunks []byte // 4 bytes for each, big endian
	parts  [5]uint32
	has    [5]bool
	// LogBytes and IndexBytes are the sizes of the two objects.
	LogBytes   int64
	IndexBytes int64
}

// NewChecksums returns checksums with room for n chunks.
func NewChecksums(n int) *Checksums { return &Checksums{chunks: make([]byte, 0, 4*n)} }

// AppendChunk adds the checksum of the next chunk.
func (c *Checksums) AppendChunk(sum uint32) { c.chunks = binary.BigEndian.AppendUint32(c.chunks, sum) }

// Chunks is the number of chunks that have a checksum.
func (c *Checksums) Chunks() int { return len(c.chunks) / 4 }

// Chunk returns the checksum of chunk i; it panics if there is none.
func (c *Checksums) Chunk(i int) uint32 { return binary.BigEndian.Uint32(c.chunks[4*i:]) }

// SetPart sets the checksum of an index part.
func (c *Checksums) SetPart(t remotelog.IndexType, sum uint32) { c.parts[t], c.has[t] = sum, true }

// Part returns the checksum of an index part.
func (c *Checksums) Part(t remotelog.IndexType) (uint32, bool) { return c.parts[t], c.has[t] }

func (m *Manifest) checkChecksums() error {
	c := m.Checksums
	if c == nil {
		return nil
	}
	const path = "remoteLogSegmentMetadata.tierkit"
	if len(c.chunks) != 4*m.Chunks.Chunks() {
		return corrupt(path, "checksums of %d chunks, the segment has %d", c.Chunks(), m.Chunks.Chunks())
	}
	if want := m.Chunks.StoredSize(); c.LogBytes != want {
		return corrupt(path, "logBytes is %d, the chunks have %d", c.LogBytes, want)
	}
	if want := m.Indexes.StoredSize(); c.IndexBytes != want {
		return corrupt(path, "indexBytes is %d, the parts have %d", c.IndexBytes, want)
	}
	for _, t := range StoredOrder() {
		if has := m.Indexes.part(t) != nil; has != c.has[t] {
			return corrupt(path, "indexCrc32c and segmentIndexes disagree about %q", fieldName(t))
		}
	}
	return nil
}

func (c *Checksums) append(w *writer) {
	w.raw(`{"version":`).int(extensionVersion)
	w.raw(`,"chunkCrc32c":"`).raw(b64.Encode(c.chunks)).raw(`","indexCrc32c":{`)
	first := true
	for _, t := range StoredOrder() {
		if !c.has[t] {
			continue
		}
		if !first {
			w.raw(",")
		}
		first = false
		w.string(fieldName(t)).raw(":").int(int64(c.parts[t]))
	}
	w.raw(`},"logBytes":`).int(c.LogBytes).raw(`,"indexBytes":`).int(c.IndexBytes).raw("}")
}
