package rlmm

import (
	"fmt"
	"strings"

	"github.com/tierkit/tierkit/remotelog"
)

// The text forms are those of the toString methods of Kafka 4.4 (org.apache.kafka.server.log.remote.storage), so that logs and
// scripts made for kafka-console-consumer with RemoteLogMetadataFormatter work here too.

// FormatRecord returns the line that Kafka's console formatter prints for a record of a metadata partition, without line end.
func FormatRecord(partition int32, offset int64, r Record) string {
	return fmt.Sprintf("partition: %d, offset: %d, value: %s", partition, offset, r)
}

// String implements Record.
func (r *SegmentRecord) String() string {
	md := r.Segment()
	return "RemoteLogSegmentMetadata{remoteLogSegmentId=" + segmentText(md.SegmentID) + bodyText(&md) + "}"
}

// String implements Record.
func (r *UpdateRecord) String() string {
	u := &r.Update
	return fmt.Sprintf("RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=%s, customMetadata=%s, state=%v, eventTimestampMs=%d, brokerId=%d}",
		segmentText(u.SegmentID), customText(u.CustomMetadata), u.State, u.EventTimestampMs, u.BrokerID)
}

// String implements Record.
func (r *PartitionDeleteRecord) String() string {
	d := &r.Delete
	return fmt.Sprintf("RemotePartitionDeleteMetadata{topicPartition=%s, state=%v, eventTimestampMs=%d, brokerId=%d}",
		partitionText(d.TopicIDPartition), d.State, d.EventTimestampMs, d.BrokerID)
}

// String implements Record.
func (r *SnapshotRecord) String() string {
	md := r.Metadata
	md.LeaderEpochs = normalEpochs(md.LeaderEpochs)
	return "RemoteLogSegmentMetadataSnapshot{segmentId=" + md.ID.String() + bodyText(&md) + "}"
}

func bodyText(m *remotelog.SegmentMetadata) string {
	var epochs strings.Builder
	for i, e := range m.LeaderEpochs {
		if i > 0 {
			epochs.WriteString(", ")
		}
		fmt.Fprintf(&epochs, "%d=%d", e.Epoch, e.StartOffset)
	}
	return fmt.Sprintf(", startOffset=%d, endOffset=%d, brokerId=%d, maxTimestampMs=%d, eventTimestampMs=%d, segmentLeaderEpochs={%s}, "+
		"segmentSizeInBytes=%d, customMetadata=%s, state=%v, txnIdxEmpty=%t", m.StartOffset, m.EndOffset, m.BrokerID, m.MaxTimestampMs,
		m.EventTimestampMs, epochs.String(), m.SizeBytes, customText(m.CustomMetadata), m.State, m.TxnIndexEmpty)
}

func segmentText(id remotelog.SegmentID) string {
	return fmt.Sprintf("RemoteLogSegmentId{topicIdPartition=%s, id=%v}", partitionText(id.TopicIDPartition), id.ID)
}

func partitionText(tp remotelog.TopicIDPartition) string {
	return fmt.Sprintf("%v:%v", tp.TopicID, tp)
}

func customText(c remotelog.CustomMetadata) string {
	if c == nil {
		return "Optional.empty"
	}
	return fmt.Sprintf("Optional[CustomMetadata{%d bytes}]", len(c))
}
