package logfiles

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	snapshotVersion   = 1 // ProducerStateManager.PRODUCER_SNAPSHOT_VERSION
	snapshotHeader    = 10
	snapshotCRCOffset = 2
	snapshotCRCData   = 6 // the CRC covers the count and the entries
	snapshotEntrySize = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ProducerState is what Kafka remembers of a producer. A producer without a batch has LastSequence and LastOffset -1.
type ProducerState struct {
	ProducerID            int64
	ProducerEpoch         int16
	LastSequence          int32
	LastOffset            int64
	OffsetDelta           int32
	TimestampMs           int64
	CoordinatorEpoch      int32
	CurrentTxnFirstOffset int64 // -1: no transaction is open
}

// ParseSnapshot parses a producer snapshot.
func ParseSnapshot(b []byte) ([]ProducerState, error) {
	if len(b) < snapshotHeader {
		return nil, corrupt("producer snapshot has %d bytes, want %d at least", len(b), snapshotHeader)
	}
	be := binary.BigEndian
	if v := be.Uint16(b); v != snapshotVersion {
		return nil, corrupt("producer snapshot has version %d, want %d", v, snapshotVersion)
	}
	if want, got := be.Uint32(b[snapshotCRCOffset:]), crc32.Checksum(b[snapshotCRCData:], castagnoli); got != want {
		return nil, corrupt("producer snapshot has CRC %08x, its bytes have %08x", want, got)
	}
	n := int64(int32(be.Uint32(b[snapshotCRCData:])))
	b = b[snapshotHeader:]
	if n < 0 || n*snapshotEntrySize != int64(len(b)) {
		return nil, corrupt("producer snapshot announces %d producers in %d bytes", n, len(b))
	}
	states := make([]ProducerState, 0, n)
	for ; len(b) > 0; b = b[snapshotEntrySize:] {
		states = append(states, ProducerState{
			ProducerID:            int64(be.Uint64(b)),
			ProducerEpoch:         int16(be.Uint16(b[8:])),
			LastSequence:          int32(be.Uint32(b[10:])),
			LastOffset:            int64(be.Uint64(b[14:])),
			OffsetDelta:           int32(be.Uint32(b[22:])),
			TimestampMs:           int64(be.Uint64(b[26:])),
			CoordinatorEpoch:      int32(be.Uint32(b[34:])),
			CurrentTxnFirstOffset: int64(be.Uint64(b[38:])),
		})
	}
	return states, nil
}

// MarshalSnapshot writes a producer snapshot.
func MarshalSnapshot(states []ProducerState) []byte {
	be := binary.BigEndian
	b := make([]byte, snapshotHeader, snapshotHeader+len(states)*snapshotEntrySize)
	be.PutUint16(b, snapshotVersion)
	be.PutUint32(b[snapshotCRCData:], uint32(len(states)))
	for _, s := range states {
		b = be.AppendUint64(b, uint64(s.ProducerID))
		b = be.AppendUint16(b, uint16(s.ProducerEpoch))
		b = be.AppendUint32(b, uint32(s.LastSequence))
		b = be.AppendUint64(b, uint64(s.LastOffset))
		b = be.AppendUint32(b, uint32(s.OffsetDelta))
		b = be.AppendUint64(b, uint64(s.TimestampMs))
		b = be.AppendUint32(b, uint32(s.CoordinatorEpoch))
		b = be.AppendUint64(b, uint64(s.CurrentTxnFirstOffset))
	}
	be.PutUint32(b[snapshotCRCOffset:], crc32.Checksum(b[snapshotCRCData:], castagnoli))
	return b
}

// FirstOpen returns the smallest first offset of an open transaction; ok is false if none is open.
func FirstOpen(states []ProducerState) (offset int64, ok bool) {
	for _, s := range states {
		if s.CurrentTxnFirstOffset >= 0 && (!ok || s.CurrentTxnFirstOffset < offset) {
			offset, ok = s.CurrentTxnFirstOffset, true
		}
	}
	return offset, ok
}
