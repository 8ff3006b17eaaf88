package rlmm

import (
	"fmt"
	"math"
	"reflect"

	"github.com/tierkit/tierkit/remotelog"
)

// Encode returns the value of the metadata topic for r, byte for byte as Kafka 4.4 writes it. What the wire cannot hold, and
// nil, is remotelog.ErrInvalidArgument; whether a broker survives the record is not checked here (Manager does that before it
// publishes).
func Encode(r Record) ([]byte, error) {
	if r == nil || reflect.ValueOf(r).IsNil() {
		return nil, fmt.Errorf("%w: a metadata record is nil", remotelog.ErrInvalidArgument)
	}
	var topic string
	var size int64
	switch r := r.(type) {
	case *SegmentRecord:
		topic, size = r.Metadata.Topic, r.Metadata.SizeBytes
	case *UpdateRecord:
		topic = r.Update.Topic
	case *PartitionDeleteRecord:
		topic = r.Delete.Topic
	case *SnapshotRecord:
		size = r.Metadata.SizeBytes
	}
	switch {
	case len(topic) > math.MaxInt16:
		return nil, fmt.Errorf("%w: topic name has %d bytes, a metadata record holds %d", remotelog.ErrInvalidArgument, len(topic), math.MaxInt16)
	case size < math.MinInt32 || size > math.MaxInt32:
		return nil, fmt.Errorf("%w: segment of %d bytes, a metadata record holds up to %d", remotelog.ErrInvalidArgument, size, math.MaxInt32)
	}
	w := wireWriter{b: make([]byte, 0, 160)}
	r.append(&w)
	return w.b, nil
}

// tagsOf returns what r carries beyond the fields that are known.
func tagsOf(r Record) *UnknownTags {
	if u := r.unknown(); u != nil {
		return u
	}
	return &UnknownTags{}
}

func (w *wireWriter) envelope(api uint32) {
	w.uvarint(frameVersion)
	w.uvarint(api)
	w.uvarint(messageVersion)
}

func (w *wireWriter) partition(tp remotelog.TopicIDPartition, u *UnknownTags) {
	w.str(tp.Topic)
	w.uuid(tp.TopicID)
	w.i32(tp.Partition)
	w.tags(u.Partition)
}

func (w *wireWriter) segmentID(id remotelog.SegmentID, u *UnknownTags) {
	w.partition(id.TopicIDPartition, u)
	w.uuid(id.ID)
	w.tags(u.Segment)
}

// segmentBody writes what api keys 0 and 3 have in common.
func (w *wireWriter) segmentBody(m *remotelog.SegmentMetadata, u *UnknownTags) {
	w.i64(m.StartOffset)
	w.i64(m.EndOffset)
	w.i32(m.BrokerID)
	w.i64(m.MaxTimestampMs)
	w.i64(m.EventTimestampMs)
	w.uvarint(uint32(len(m.LeaderEpochs)) + 1)
	for i, e := range m.LeaderEpochs {
		w.i32(e.Epoch)
		w.i64(e.StartOffset)
		w.tags(u.Epochs[i])
	}
	w.i32(int32(m.SizeBytes))
	w.bytes(m.CustomMetadata)
	w.i8(int8(m.State))
	if !m.TxnIndexEmpty {
		w.tags(u.Message)
		return
	}
	w.uvarint(uint32(len(u.Message)) + 1)
	w.rawTags([]Tag{{ID: tagTxnIdxEmpty, Data: []byte{1}}})
	w.rawTags(u.Message)
}

func (r *SegmentRecord) append(w *wireWriter) {
	u := tagsOf(r)
	w.envelope(apiSegment)
	w.segmentID(r.Metadata.SegmentID, u)
	w.segmentBody(&r.Metadata, u)
}

func (r *UpdateRecord) append(w *wireWriter) {
	u := tagsOf(r)
	w.envelope(apiUpdate)
	w.segmentID(r.Update.SegmentID, u)
	w.i32(r.Update.BrokerID)
	w.i64(r.Update.EventTimestampMs)
	w.bytes(r.Update.CustomMetadata)
	w.i8(int8(r.Update.State))
	w.tags(u.Message)
}

func (r *PartitionDeleteRecord) append(w *wireWriter) {
	u := tagsOf(r)
	w.envelope(apiPartitionDelete)
	w.partition(r.Delete.TopicIDPartition, u)
	w.i32(r.Delete.BrokerID)
	w.i64(r.Delete.EventTimestampMs)
	w.i8(int8(r.Delete.State))
	w.tags(u.Message)
}

func (r *SnapshotRecord) append(w *wireWriter) {
	w.envelope(apiSnapshot)
	w.uuid(r.Metadata.ID)
	w.segmentBody(&r.Metadata, tagsOf(r))
}
