package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// batchHead is what a record batch says beside its records.
type batchHead struct {
	producer int64
	epoch    int16
	seq      int32
	timeMs   int64
}

// recordOverhead is what a record without key and headers has beside its value, at most: two varints of up to five bytes,
// attributes, and four varints of one to five.
const recordOverhead = 24

// encodeBatch makes a record batch of format 2 (org.apache.kafka.common.record.DefaultRecordBatch) of the values, without keys,
// headers and compression, as brokers write metadata records.
func encodeBatch(values [][]byte, h batchHead) []byte {
	const (
		headSize = 61
		crcFrom  = 21 // the checksum covers what follows it, from the attributes on
	)
	size := headSize
	for _, v := range values {
		size += len(v) + recordOverhead
	}
	be := binary.BigEndian
	b := make([]byte, headSize, size)
	be.PutUint32(b[12:], math.MaxUint32) // leader epoch: the broker's to say
	b[16] = 2                            // magic
	be.PutUint32(b[23:], uint32(len(values)-1))
	be.PutUint64(b[27:], uint64(h.timeMs))
	be.PutUint64(b[35:], uint64(h.timeMs))
	be.PutUint64(b[43:], uint64(h.producer))
	be.PutUint16(b[51:], uint16(h.epoch))
	be.PutUint32(b[53:], uint32(h.seq))
	be.PutUint32(b[57:], uint32(len(values)))
	for i, v := range values {
		b = appendRecord(b, i, v)
	}
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[17:], crc32.Checksum(b[crcFrom:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// appendRecord appends a record (org.apache.kafka.common.record.DefaultRecord); varints are zigzag.
func appendRecord(b []byte, delta int, value []byte) []byte {
	var body []byte
	body = append(body, 0)              // attributes
	body = binary.AppendVarint(body, 0) // timestamp delta
	body = binary.AppendVarint(body, int64(delta))
	body = binary.AppendVarint(body, -1) // no key
	body = binary.AppendVarint(body, int64(len(value)))
	b = binary.AppendVarint(b, int64(len(body)+len(value)+1))
	b = append(b, body...)
	b = append(b, value...)
	return binary.AppendVarint(b, 0) // no headers
}

// wrap returns the sequence number n events behind seq. They go round behind 2^31-1 (DefaultRecordBatch.incrementSequence).
func wrap(seq int32, n int) int32 {
	next := int64(seq) + int64(n)
	if next > math.MaxInt32 {
		next -= math.MaxInt32 + 1
	}
	return int32(next)
}
