package manifest

import (
	"fmt"
	"math"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/remotelog"
)

// MaxBytes is the largest manifest that is read or written. One with the largest chunk index that the format allows has 14 MB.
const MaxBytes = 64 << 20

// version is the only one there is.
const version = "1"

// Manifest describes the objects of one segment. It is not modified once parsed or marshalled.
type Manifest struct {
	Chunks      *chunking.Index
	Indexes     Indexes
	Compression bool
	Encryption  *Encryption // nil: not encrypted
	// Metadata is what the manifest says about the segment. It is nil when the manifest does not say it in the written form,
	// which readers of the data do not need: MetadataProblem then says what is missing.
	Metadata        *Metadata
	MetadataProblem string
	// Checksums is tierkit's extension; nil in data that others wrote, and where its version is unknown.
	Checksums *Checksums
}

// Encryption is the wrapped data key of a segment.
type Encryption struct {
	DataKey string // as crypto.KeyWrapper made it
	AAD     []byte
}

// Part is where one index is in the .indexes object.
type Part struct {
	Position int64
	Size     int64 // stored bytes; 0 for an empty index, which is not sealed either
}

// Indexes are the parts of the .indexes object.
type Indexes struct {
	Offset           Part
	Timestamp        Part
	ProducerSnapshot Part
	LeaderEpoch      Part
	Transaction      *Part // nil: the segment has no transaction index, which is not the same as an empty one
}

// StoredOrder returns the index types in the order of their parts in an .indexes object. It is not that of Kafka's enum.
func StoredOrder() []remotelog.IndexType {
	return []remotelog.IndexType{remotelog.OffsetIndex, remotelog.TimestampIndex, remotelog.ProducerSnapshotIndex, remotelog.LeaderEpochIndex, remotelog.TransactionIndex}
}

// Part returns the part of an index; false if the segment was stored without it (transaction only).
func (x *Indexes) Part(t remotelog.IndexType) (Part, bool) {
	p := x.part(t)
	if p == nil {
		return Part{}, false
	}
	return *p, true
}

// Append adds the part of an index of size stored bytes behind those that are there. Call it in StoredOrder.
func (x *Indexes) Append(t remotelog.IndexType, size int64) {
	p := Part{Position: x.StoredSize(), Size: size}
	if t == remotelog.TransactionIndex {
		x.Transaction = &p
		return
	}
	*x.part(t) = p
}

// StoredSize is the size of the .indexes object.
func (x *Indexes) StoredSize() int64 {
	var n int64
	for _, t := range StoredOrder() {
		if p := x.part(t); p != nil {
			n += p.Size
		}
	}
	return n
}

func (x *Indexes) part(t remotelog.IndexType) *Part {
	switch t {
	case remotelog.OffsetIndex:
		return &x.Offset
	case remotelog.TimestampIndex:
		return &x.Timestamp
	case remotelog.ProducerSnapshotIndex:
		return &x.ProducerSnapshot
	case remotelog.LeaderEpochIndex:
		return &x.LeaderEpoch
	default:
		return x.Transaction
	}
}

// fieldName is the name of an index in the JSON.
func fieldName(t remotelog.IndexType) string {
	switch t {
	case remotelog.OffsetIndex:
		return "offset"
	case remotelog.TimestampIndex:
		return "timestamp"
	case remotelog.ProducerSnapshotIndex:
		return "producerSnapshot"
	case remotelog.LeaderEpochIndex:
		return "leaderEpoch"
	default:
		return "transaction"
	}
}

// Transform says what was done to each chunk.
func (m *Manifest) Transform() chunking.Transform {
	return chunking.Transform{Compressed: m.Compression, Encrypted: m.Encryption != nil}
}

// MemoryBytes is what the manifest holds in memory, for caches that weigh.
func (m *Manifest) MemoryBytes() int64 {
	n := int64(512) + m.Chunks.MemoryBytes()
	if m.Encryption != nil {
		n += int64(len(m.Encryption.DataKey) + len(m.Encryption.AAD))
	}
	if m.Metadata != nil {
		n += int64(len(m.Metadata.Topic)) + 16*int64(len(m.Metadata.LeaderEpochs))
	}
	if m.Checksums != nil {
		n += int64(len(m.Checksums.chunks))
	}
	return n
}

// check reports what contradicts itself. Each of these is something that no writer writes and that a reader would otherwise
// return wrong bytes for.
func (m *Manifest) check() error {
	if m.Chunks == nil {
		return corrupt("chunkIndex", "missing")
	}
	if err := m.Chunks.Check(m.Transform()); err != nil {
		return corrupt("chunkIndex", "%w", err)
	}
	var next int64
	for _, t := range StoredOrder() {
		p := m.Indexes.part(t)
		if p == nil {
			continue
		}
		path := "segmentIndexes." + fieldName(t)
		switch {
		case p.Size < 0 || p.Position < 0:
			return corrupt(path, "position %d, size %d: negative", p.Position, p.Size)
		case p.Position != next:
			return corrupt(path, "position is %d, the part before it ends at %d", p.Position, next)
		case m.Encryption != nil && p.Size > 0 && p.Size < crypto.Overhead:
			return corrupt(path, "%d bytes are too few for a sealed part", p.Size)
		}
		if next += p.Size; next > math.MaxInt32 {
			return corrupt(path, "it ends at %d, above %d", next, math.MaxInt32)
		}
	}
	if m.Encryption != nil && m.Encryption.DataKey == "" {
		return corrupt("encryption.dataKey", "empty")
	}
	return m.checkChecksums()
}

// corrupt makes an ErrCorrupt that names the field. The format may wrap.
func corrupt(path, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if path == "" {
		return fmt.Errorf("%w: manifest: %w", remotelog.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: manifest: %s: %w", remotelog.ErrCorrupt, path, err)
}
