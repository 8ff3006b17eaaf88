package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/tierkit/tierkit/remotelog"
)

// Sizes of the layout (DefaultRecordBatch).
const (
	LogOverhead   = 12 // base offset and length: what the length field does not count
	HeaderSize    = 61 // up to and including the record count
	magicOffset   = 16
	crcOffset     = 17
	crcDataOffset = 21 // the CRC covers everything from the attributes on
	minLength     = 14 // LegacyRecord.RECORD_OVERHEAD_V0; less, as in a preallocated file's zeros, is no batch of any format
)

// ErrUnsupportedMagic: a batch of message format 0 or 1. It is also remotelog.ErrInvalidArgument.
var ErrUnsupportedMagic = fmt.Errorf("%w: message formats 0 and 1 (before Kafka 0.11) are not supported", remotelog.ErrInvalidArgument)

// ErrTruncated: the bytes end inside a batch. It is also remotelog.ErrCorrupt.
var ErrTruncated = fmt.Errorf("%w: the bytes end inside a record batch", remotelog.ErrCorrupt)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Codec is the compression of a batch.
type Codec int8

// The codecs, numbered as in the attributes.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is Kafka's name of the codec.
func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return fmt.Sprintf("Codec(%d)", int8(c))
	}
	return codecNames[c]
}

// Header is the fixed part of a batch.
type Header struct {
	BaseOffset           int64
	BatchLength          int32 // bytes behind this field
	PartitionLeaderEpoch int32
	Magic                int8
	CRC                  uint32
	Attributes           int16
	LastOffsetDelta      int32
	BaseTimestampMs      int64
	MaxTimestampMs       int64
	ProducerID           int64 // -1: none
	ProducerEpoch        int16
	BaseSequence         int32
	RecordCount          int32
}

// ParseHeader reads the header at the start of b, which may hold more or less than the batch. Less than a header is ErrTruncated, a
// field that no batch can have remotelog.ErrCorrupt. The CRC is not checked: see [Check].
func ParseHeader(b []byte) (Header, error) {
	if len(b) >= LogOverhead {
		if n := int32(binary.BigEndian.Uint32(b[8:])); n < minLength {
			return Header{}, corrupt("length %d is below that of any batch", n)
		}
	}
	if len(b) > magicOffset {
		if err := checkMagic(int8(b[magicOffset])); err != nil {
			return Header{}, err
		}
	}
	if len(b) < HeaderSize {
		return Header{}, ErrTruncated
	}
	be := binary.BigEndian
	h := Header{
		BaseOffset:           int64(be.Uint64(b)),
		BatchLength:          int32(be.Uint32(b[8:])),
		PartitionLeaderEpoch: int32(be.Uint32(b[12:])),
		Magic:                int8(b[magicOffset]),
		CRC:                  be.Uint32(b[crcOffset:]),
		Attributes:           int16(be.Uint16(b[21:])),
		LastOffsetDelta:      int32(be.Uint32(b[23:])),
		BaseTimestampMs:      int64(be.Uint64(b[27:])),
		MaxTimestampMs:       int64(be.Uint64(b[35:])),
		ProducerID:           int64(be.Uint64(b[43:])),
		ProducerEpoch:        int16(be.Uint16(b[51:])),
		BaseSequence:         int32(be.Uint32(b[53:])),
		RecordCount:          int32(be.Uint32(b[57:])),
	}
	return h, h.validate()
}

func checkMagic(m int8) error {
	switch m {
	case 2:
		return nil
	case 0, 1:
		return fmt.Errorf("%w: batch has magic %d", ErrUnsupportedMagic, m)
	default:
		return corrupt("magic %d is unknown", m)
	}
}

func (h *Header) validate() error {
	switch {
	case h.BatchLength < HeaderSize-LogOverhead:
		return corrupt("length %d is below the %d bytes of a header", h.BatchLength, HeaderSize-LogOverhead)
	case h.BaseOffset < 0:
		return corrupt("base offset %d is negative", h.BaseOffset)
	case h.LastOffsetDelta < 0 || h.BaseOffset > math.MaxInt64-int64(h.LastOffsetDelta):
		return corrupt("last offset delta %d at base offset %d", h.LastOffsetDelta, h.BaseOffset)
	case h.RecordCount < 0 || int64(h.RecordCount) > int64(h.LastOffsetDelta)+1:
		return corrupt("%d records in %d offsets", h.RecordCount, int64(h.LastOffsetDelta)+1)
	case h.Attributes&7 > int16(Zstd):
		return corrupt("codec %d is unknown", h.Attributes&7)
	}
	return nil
}

// Size is the whole batch in bytes, the length field and what stands before it included.
func (h *Header) Size() int64 { return LogOverhead + int64(h.BatchLength) }

// LastOffset is the last offset that the batch holds. Compaction may have removed its record.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Codec is the compression of the records.
func (h *Header) Codec() Codec { return Codec(h.Attributes & 7) }

// LogAppendTime reports whether all records carry the broker's time, which is MaxTimestampMs.
func (h *Header) LogAppendTime() bool { return h.Attributes&(1<<3) != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (h *Header) Transactional() bool { return h.Attributes&(1<<4) != 0 }

// Control reports whether the batch holds a control record (a transaction marker) and no data.
func (h *Header) Control() bool { return h.Attributes&(1<<5) != 0 }

// LastSequence is the sequence number of the last offset, wrapped as Kafka wraps it; -1 without sequence numbers.
func (h *Header) LastSequence() int32 {
	if h.BaseSequence < 0 {
		return -1
	}
	return int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & math.MaxInt32)
}

// Check parses the header of batch, which holds exactly one batch, and compares its length and CRC.
func Check(batch []byte) (Header, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return h, err
	}
	if int64(len(batch)) < h.Size() {
		return h, ErrTruncated
	}
	if int64(len(batch)) > h.Size() {
		return h, corrupt("%d bytes behind a batch of %d", int64(len(batch))-h.Size(), h.Size())
	}
	if sum := crc32.Checksum(batch[crcDataOffset:], castagnoli); sum != h.CRC {
		return h, corrupt("batch at offset %d has CRC %08x, its bytes have %08x", h.BaseOffset, h.CRC, sum)
	}
	return h, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w record batch: %s", remotelog.ErrCorrupt, fmt.Sprintf(format, args...))
}
