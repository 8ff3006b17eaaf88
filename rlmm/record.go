package rlmm

import (
	"cmp"
	"slices"

	"github.com/tierkit/tierkit/remotelog"
)

// The message types of the envelope (Kafka: apiKey, declared in storage/src/main/resources/message/*.json).
const (
	apiSegment         = 0
	apiUpdate          = 1
	apiPartitionDelete = 2
	apiSnapshot        = 3
)

// Record is one value of the metadata topic: a [SegmentRecord], [UpdateRecord], [PartitionDeleteRecord] or [SnapshotRecord].
type Record interface {
	// String is Kafka's text form of the message, as its console formatter prints it.
	String() string

	append(w *wireWriter)
	unknown() *UnknownTags
}

// Tag is a tagged field that this version does not know: the data of a later Kafka, kept so that a record that passes through
// comes out with it.
type Tag struct {
	ID   uint32
	Data []byte
}

// UnknownTags are the unknown tagged fields of one record, by the struct that they end, in the order of the wire.
type UnknownTags struct {
	Partition []Tag         // of TopicIdPartition
	Segment   []Tag         // of RemoteLogSegmentId
	Epochs    map[int][]Tag // of SegmentLeaderEpochs, by index
	Message   []Tag         // of the message itself
}

// SegmentRecord is a RemoteLogSegmentMetadataRecord (api key 0): a new segment.
type SegmentRecord struct {
	// Metadata has its leader epochs in the order of the wire, which foreign writers may choose freely; see Segment.
	Metadata remotelog.SegmentMetadata
	Unknown  *UnknownTags // nil: none
}

// UpdateRecord is a RemoteLogSegmentMetadataUpdateRecord (api key 1): a change of state.
type UpdateRecord struct {
	Update  remotelog.SegmentUpdate
	Unknown *UnknownTags // nil: none
}

// PartitionDeleteRecord is a RemotePartitionDeleteMetadataRecord (api key 2).
type PartitionDeleteRecord struct {
	Delete  remotelog.PartitionDelete
	Unknown *UnknownTags // nil: none
}

// SnapshotRecord is a RemoteLogSegmentMetadataSnapshotRecord (api key 3): an entry of the snapshot file that brokers before 3.8
// kept. It never belongs into the topic.
type SnapshotRecord struct {
	// Metadata has no TopicIDPartition: the file's place says which partition it is.
	Metadata remotelog.SegmentMetadata
	Unknown  *UnknownTags // nil: none
}

var (
	_ Record = (*SegmentRecord)(nil)
	_ Record = (*UpdateRecord)(nil)
	_ Record = (*PartitionDeleteRecord)(nil)
	_ Record = (*SnapshotRecord)(nil)
)

func (r *SegmentRecord) unknown() *UnknownTags         { return r.Unknown }
func (r *UpdateRecord) unknown() *UnknownTags          { return r.Unknown }
func (r *PartitionDeleteRecord) unknown() *UnknownTags { return r.Unknown }
func (r *SnapshotRecord) unknown() *UnknownTags        { return r.Unknown }

// Segment returns the metadata with its leader epochs as Kafka reads them: ascending, and of an epoch that is given twice the
// last one.
func (r *SegmentRecord) Segment() remotelog.SegmentMetadata {
	md := r.Metadata
	md.LeaderEpochs = normalEpochs(md.LeaderEpochs)
	return md
}

// normalEpochs returns es if it is strictly ascending, else a sorted copy in which the last entry of an epoch wins.
func normalEpochs(es []remotelog.LeaderEpoch) []remotelog.LeaderEpoch {
	byEpoch := func(a, b remotelog.LeaderEpoch) int { return cmp.Compare(a.Epoch, b.Epoch) }
	ascending := true
	for i := 1; i < len(es) && ascending; i++ {
		ascending = es[i-1].Epoch < es[i].Epoch
	}
	if ascending {
		return es
	}
	out := slices.Clone(es)
	slices.SortStableFunc(out, byEpoch)
	n := 0
	for i, e := range out {
		if i+1 < len(out) && out[i+1].Epoch == e.Epoch {
			continue
		}
		out[n] = e
		n++
	}
	return out[:n]
}
