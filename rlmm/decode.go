package rlmm

import (
	"math"

	"github.com/tierkit/tierkit/remotelog"
)

const (
	frameVersion   = 1
	messageVersion = 0
	tagTxnIdxEmpty = 0 // of api keys 0 and 3, since Kafka 4.0

	leastEpochBytes = 4 + 8 + 1 // an entry of SegmentLeaderEpochs without tagged fields
)

// Decode reads one value of the metadata topic; nil is a tombstone. It accepts what the decoder of a Kafka 4.4 broker accepts
// and nothing else; the error is a *DecodeError, which matches remotelog.ErrCorrupt. The result shares no memory with value.
func Decode(value []byte) (Record, error) {
	var d decoder
	switch api, err := d.decode(value); {
	case err != nil:
		return nil, err
	case api == apiSegment:
		return &SegmentRecord{Metadata: d.segment, Unknown: d.unknown}, nil
	case api == apiUpdate:
		return &UpdateRecord{Update: d.update, Unknown: d.unknown}, nil
	case api == apiPartitionDelete:
		return &PartitionDeleteRecord{Delete: d.delete, Unknown: d.unknown}, nil
	default:
		return &SnapshotRecord{Metadata: d.segment, Unknown: d.unknown}, nil
	}
}

// decoder reads one value after the other into the same place, so that a replay does not allocate what it does not keep. Only
// the field that belongs to the message is set by decode.
type decoder struct {
	segment remotelog.SegmentMetadata
	update  remotelog.SegmentUpdate
	delete  remotelog.PartitionDelete
	unknown *UnknownTags

	topic string // the last topic name: most records are of the same topic as the one before
}

// decode reads one value and returns its api key.
func (d *decoder) decode(value []byte) (api uint32, err *DecodeError) {
	if value == nil {
		return 0, &DecodeError{Reason: DropTombstone, Detail: "the value is null"}
	}
	d.unknown = nil
	r := wireReader{b: value, left: value}
	api = d.envelope(&r)
	switch {
	case r.err != nil:
	case api == apiSegment:
		d.segment = remotelog.SegmentMetadata{SegmentID: d.segmentID(&r)}
		d.segmentBody(&r)
	case api == apiUpdate:
		d.updateBody(&r)
	case api == apiPartitionDelete:
		d.deleteBody(&r)
	default:
		d.segment = remotelog.SegmentMetadata{}
		d.segment.ID = r.uuid("segment id")
		d.segmentBody(&r)
	}
	if r.err == nil && len(r.left) > 0 {
		r.fail(DropUndecodable, "%d bytes are left behind the message", len(r.left))
	}
	return api, r.err
}

func (d *decoder) envelope(r *wireReader) uint32 {
	number := func(what string) uint32 {
		v := r.uvarint(what)
		if v > math.MaxInt16 {
			r.fail(DropUndecodable, "%s %d is above %d", what, v, math.MaxInt16)
		}
		return v
	}
	frame, api, version := number("frame version"), number("api key"), number("message version")
	switch {
	case r.err != nil:
	case frame != frameVersion:
		r.fail(DropUndecodable, "frame version %d, want %d", frame, frameVersion)
	case api > apiSnapshot:
		r.fail(DropUnknownMessage, "api key %d, want 0..%d", api, apiSnapshot)
	case version != messageVersion:
		r.fail(DropUndecodable, "version %d of message %d, want %d", version, api, messageVersion)
	}
	return api
}

func (d *decoder) partition(r *wireReader) (tp remotelog.TopicIDPartition) {
	name := r.sized("topic name")
	switch {
	case name == nil && r.err == nil:
		r.fail(DropUndecodable, "topic name is null")
	case len(name) > math.MaxInt16:
		r.fail(DropUndecodable, "topic name has %d bytes, at most %d are allowed", len(name), math.MaxInt16)
	case string(name) != d.topic:
		d.topic = string(name)
	}
	tp.Topic = d.topic
	tp.TopicID = r.uuid("topic id")
	tp.Partition = r.i32("partition")
	if ts := r.tags("tags of the partition", nil); ts != nil {
		d.tags().Partition = ts
	}
	return tp
}

func (d *decoder) segmentID(r *wireReader) (id remotelog.SegmentID) {
	id.TopicIDPartition = d.partition(r)
	id.ID = r.uuid("segment id")
	if ts := r.tags("tags of the segment id", nil); ts != nil {
		d.tags().Segment = ts
	}
	return id
}

// segmentBody reads what api keys 0 and 3 have in common.
func (d *decoder) segmentBody(r *wireReader) {
	m := &d.segment
	m.StartOffset = r.i64("start offset")
	m.EndOffset = r.i64("end offset")
	m.BrokerID = r.i32("broker id")
	m.MaxTimestampMs = r.i64("max timestamp")
	m.EventTimestampMs = r.i64("event timestamp")
	m.LeaderEpochs = d.epochs(r)
	m.SizeBytes = int64(r.i32("segment size"))
	m.CustomMetadata = custom(r)
	m.State = state(r)
	ts := r.tags("tags of the message", func(id uint32, data []byte) bool {
		if id != tagTxnIdxEmpty {
			return false
		}
		if len(data) != 1 {
			r.fail(DropUndecodable, "TxnIndexEmpty has %d bytes, want 1", len(data))
			return true
		}
		m.TxnIndexEmpty = data[0] != 0
		return true
	})
	if ts != nil {
		d.tags().Message = ts
	}
	switch {
	case r.err != nil:
	case m.StartOffset < 0:
		r.fail(DropInvalidSegment, "start offset %d is negative", m.StartOffset)
	case m.EndOffset < m.StartOffset:
		r.fail(DropInvalidSegment, "end offset %d is below start offset %d", m.EndOffset, m.StartOffset)
	case len(m.LeaderEpochs) == 0:
		r.fail(DropInvalidSegment, "segment has no leader epoch")
	}
}

func (d *decoder) epochs(r *wireReader) []remotelog.LeaderEpoch {
	n := r.compact("leader epochs")
	switch {
	case r.err != nil:
		return nil
	case n < 0:
		r.fail(DropUndecodable, "leader epochs are null")
		return nil
	case n*leastEpochBytes > int64(len(r.left)):
		r.fail(DropUndecodable, "%d leader epochs, but %d bytes are left", n, len(r.left))
		return nil
	}
	es := make([]remotelog.LeaderEpoch, n)
	for i := range es {
		es[i] = remotelog.LeaderEpoch{Epoch: r.i32("leader epoch"), StartOffset: r.i64("offset of a leader epoch")}
		if ts := r.tags("tags of a leader epoch", nil); ts != nil {
			if d.tags().Epochs == nil {
				d.unknown.Epochs = map[int][]Tag{}
			}
			d.unknown.Epochs[i] = ts
		}
	}
	return es
}

func (d *decoder) updateBody(r *wireReader) {
	d.update = remotelog.SegmentUpdate{SegmentID: d.segmentID(r)}
	d.update.BrokerID = r.i32("broker id")
	d.update.EventTimestampMs = r.i64("event timestamp")
	d.update.CustomMetadata = custom(r)
	d.update.State = state(r)
	d.messageTags(r)
}

func (d *decoder) deleteBody(r *wireReader) {
	d.delete = remotelog.PartitionDelete{TopicIDPartition: d.partition(r)}
	d.delete.BrokerID = r.i32("broker id")
	d.delete.EventTimestampMs = r.i64("event timestamp")
	d.delete.State = remotelog.DeleteState(r.i8("partition delete state"))
	if r.err == nil && !d.delete.State.Valid() {
		r.fail(DropInvalidState, "partition delete state %d is unknown", int8(d.delete.State))
	}
	d.messageTags(r)
}

func (d *decoder) messageTags(r *wireReader) {
	if ts := r.tags("tags of the message", nil); ts != nil {
		d.tags().Message = ts
	}
}

// tags returns the place for unknown tags.
func (d *decoder) tags() *UnknownTags {
	if d.unknown == nil {
		d.unknown = &UnknownTags{}
	}
	return d.unknown
}

// custom reads custom metadata, a copy: nil for null, not nil for empty.
func custom(r *wireReader) remotelog.CustomMetadata {
	b := r.sized("custom metadata")
	if b == nil {
		return nil
	}
	return append(remotelog.CustomMetadata{}, b...)
}

func state(r *wireReader) remotelog.State {
	s := remotelog.State(r.i8("segment state"))
	if r.err == nil && !s.Valid() {
		r.fail(DropInvalidState, "segment state %d is unknown", int8(s))
	}
	return s
}
