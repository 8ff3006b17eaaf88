package manifest

import (
	"github.com/tierkit/tierkit/remotelog"
)

// Metadata is what a manifest says about its segment (remoteLogSegmentMetadata): the metadata that the broker handed over, but
// for size, state and custom metadata.
type Metadata struct {
	remotelog.SegmentID
	StartOffset      int64
	EndOffset        int64
	MaxTimestampMs   int64
	BrokerID         int32
	EventTimestampMs int64
	LeaderEpochs     []remotelog.LeaderEpoch // ascending
	// TxnIndexEmpty is nil where the writer's broker API did not have the flag (before Kafka 4.0).
	TxnIndexEmpty *bool
}

// MetadataOf takes from md what a manifest says.
func MetadataOf(md *remotelog.SegmentMetadata) *Metadata {
	empty := md.TxnIndexEmpty
	return &Metadata{
		SegmentID: md.SegmentID, StartOffset: md.StartOffset, EndOffset: md.EndOffset, MaxTimestampMs: md.MaxTimestampMs,
		BrokerID: md.BrokerID, EventTimestampMs: md.EventTimestampMs, LeaderEpochs: md.LeaderEpochs, TxnIndexEmpty: &empty,
	}
}

// Segment returns the metadata of a finished segment with the given size of its .log file; without custom metadata.
func (m *Metadata) Segment(sizeBytes int64) remotelog.SegmentMetadata {
	return remotelog.SegmentMetadata{
		SegmentID: m.SegmentID, StartOffset: m.StartOffset, EndOffset: m.EndOffset, LeaderEpochs: m.LeaderEpochs,
		MaxTimestampMs: m.MaxTimestampMs, BrokerID: m.BrokerID, EventTimestampMs: m.EventTimestampMs, SizeBytes: sizeBytes,
		State: remotelog.CopySegmentFinished, TxnIndexEmpty: m.TxnIndexEmpty != nil && *m.TxnIndexEmpty,
	}
}
