package recordbatch

import "encoding/binary"

// ControlType is the type of a control record.
type ControlType int16

// The transaction markers (org.apache.kafka.common.record.ControlRecordType). Other types are not part of a user partition's
// transactions and are ignored.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

// Marker is a transaction marker.
type Marker struct {
	Type             ControlType
	CoordinatorEpoch int32
	TimestampMs      int64
}

// EndTxn returns the transaction marker in a control batch. ok is false for an empty batch (compaction removed the whole transaction)
// and for control records of another type.
func (d *Decoder) EndTxn(batch []byte) (m Marker, ok bool, err error) {
	for rec, err := range d.Records(batch) {
		if err != nil {
			return Marker{}, false, err
		}
		if len(rec.Key) < 4 {
			return Marker{}, false, corrupt("control record at offset %d has a key of %d bytes", rec.Offset, len(rec.Key))
		}
		// Key: int16 version, int16 type. Value: int16 version, int32 coordinator epoch.
		t := ControlType(binary.BigEndian.Uint16(rec.Key[2:]))
		if t != Abort && t != Commit {
			return Marker{}, false, nil
		}
		if len(rec.Value) < 6 {
			return Marker{}, false, corrupt("transaction marker at offset %d has a value of %d bytes", rec.Offset, len(rec.Value))
		}
		return Marker{Type: t, CoordinatorEpoch: int32(binary.BigEndian.Uint32(rec.Value[2:])), TimestampMs: rec.TimestampMs}, true, nil
	}
	return Marker{}, false, nil
}
