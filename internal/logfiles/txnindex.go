package logfiles

import "encoding/binary"

const txnEntrySize = 34 // int16 version, int64 producer id, first, last and last stable offset

// AbortedTxn is an entry of a transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the marker
	LastStableOffset int64 // every transaction that begins below it is decided
}

// ParseTxnIndex parses a transaction index. Entries are ascending by the offset of their marker.
func ParseTxnIndex(b []byte) ([]AbortedTxn, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, corrupt("transaction index has %d bytes, no multiple of %d", len(b), txnEntrySize)
	}
	txns := make([]AbortedTxn, 0, len(b)/txnEntrySize)
	last := int64(-1)
	for ; len(b) > 0; b = b[txnEntrySize:] {
		be := binary.BigEndian
		if v := be.Uint16(b); v != 0 {
			return nil, corrupt("transaction index entry %d has version %d, want 0", len(txns), v)
		}
		t := AbortedTxn{int64(be.Uint64(b[2:])), int64(be.Uint64(b[10:])), int64(be.Uint64(b[18:])), int64(be.Uint64(b[26:]))}
		if t.FirstOffset < 0 || t.LastOffset < t.FirstOffset || t.LastOffset <= last {
			return nil, corrupt("transaction index entry %d: transaction [%d, %d] behind a marker at %d", len(txns), t.FirstOffset, t.LastOffset, last)
		}
		last = t.LastOffset
		txns = append(txns, t)
	}
	return txns, nil
}
