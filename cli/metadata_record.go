package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// metaRecord is one record of a metadata partition. Key and value are valid until the next one.
type metaRecord struct {
	partition   int32
	offset      int64
	timestampMs int64
	key, value  []byte
}

// recordPrinter shows records, for people or as JSON.
type recordPrinter struct {
	w    *bufio.Writer
	enc  *json.Encoder
	json bool
}

func (a *app) recordPrinter() *recordPrinter {
	p := &recordPrinter{w: bufio.NewWriter(a.Out), json: a.json}
	p.enc = json.NewEncoder(p.w)
	p.enc.SetEscapeHTML(false)
	return p
}

func (p *recordPrinter) flush() error { return p.w.Flush() }

// show writes one record. For people it is the line of Kafka's console formatter, with what is unusual behind it.
func (p *recordPrinter) show(r *metaRecord, v *rlmm.Verdict) error {
	if p.json {
		return p.enc.Encode(recordJSON(r, v))
	}
	line := fmt.Sprintf("partition: %d, offset: %d, invalid: %v", r.partition, r.offset, v.Err)
	if v.Record != nil {
		line = rlmm.FormatRecord(r.partition, r.offset, v.Record)
		if v.Dropped != 0 {
			line += "  [" + effect(v) + "]"
		}
	}
	if v.Fatal != rlmm.Harmless {
		line += "  [FATAL: " + v.Fatal.String() + "]"
	}
	_, err := io.WriteString(p.w, printable(line)+"\n")
	return err
}

func effect(v *rlmm.Verdict) string {
	if v.Dropped == 0 {
		return "applied"
	}
	return "dropped: " + v.Dropped.String()
}

// The JSON shapes of dump and watch. Between head and tail stand the fields that Kafka's own decoder gives (package golden has
// its output): scripts rely on the names.
type recordHead struct {
	MetadataPartition int32  `json:"metadataPartition"`
	Offset            int64  `json:"offset"`
	Timestamp         int64  `json:"timestamp"`
	Key               []byte `json:"key"` // base64; null: none
	Value             []byte `json:"value"`
	Type              string `json:"type"`
}

type recordTail struct {
	Fatal  *string `json:"fatal"` // what it does to a broker; null: nothing
	Effect string  `json:"effect"`
}

type recordPlace struct {
	TopicID   string `json:"topicId"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type recordBody struct {
	StartOffset      int64    `json:"startOffset"`
	EndOffset        int64    `json:"endOffset"`
	BrokerID         int32    `json:"brokerId"`
	MaxTimestampMs   int64    `json:"maxTimestampMs"`
	EventTimestampMs int64    `json:"eventTimestampMs"`
	SizeBytes        int64    `json:"segmentSizeInBytes"`
	State            string   `json:"state"`
	CustomMetadata   []byte   `json:"customMetadata"`
	LeaderEpochs     epochMap `json:"segmentLeaderEpochs"`
	TxnIndexEmpty    bool     `json:"txnIdxEmpty"`
}

type segmentRecordJSON struct {
	recordHead
	recordPlace
	SegmentID string `json:"segmentId"`
	recordBody
	recordTail
}

type updateRecordJSON struct {
	recordHead
	recordPlace
	SegmentID        string `json:"segmentId"`
	BrokerID         int32  `json:"brokerId"`
	EventTimestampMs int64  `json:"eventTimestampMs"`
	State            string `json:"state"`
	CustomMetadata   []byte `json:"customMetadata"`
	recordTail
}

type deleteRecordJSON struct {
	recordHead
	recordPlace
	BrokerID         int32  `json:"brokerId"`
	EventTimestampMs int64  `json:"eventTimestampMs"`
	State            string `json:"state"`
	recordTail
}

type snapshotRecordJSON struct {
	recordHead
	SegmentID string `json:"segmentId"`
	recordBody
	recordTail
}

type invalidRecordJSON struct {
	recordHead
	Error string `json:"error"`
	recordTail
}

func recordJSON(r *metaRecord, v *rlmm.Verdict) any {
	head := recordHead{MetadataPartition: r.partition, Offset: r.offset, Timestamp: r.timestampMs, Key: r.key, Value: r.value, Type: "Invalid"}
	tail := recordTail{Effect: effect(v)}
	if v.Fatal != rlmm.Harmless {
		text := v.Fatal.String()
		tail.Fatal = &text
	}
	place := func(tp remotelog.TopicIDPartition) recordPlace {
		return recordPlace{TopicID: tp.TopicID.String(), Topic: tp.Topic, Partition: tp.Partition}
	}
	switch rec := v.Record.(type) {
	case *rlmm.SegmentRecord:
		head.Type = "RemoteLogSegmentMetadata"
		md := rec.Segment()
		return segmentRecordJSON{head, place(md.TopicIDPartition), md.ID.String(), bodyJSON(&md), tail}
	case *rlmm.UpdateRecord:
		head.Type = "RemoteLogSegmentMetadataUpdate"
		u := &rec.Update
		return updateRecordJSON{head, place(u.TopicIDPartition), u.ID.String(), u.BrokerID, u.EventTimestampMs, u.State.String(), u.CustomMetadata, tail}
	case *rlmm.PartitionDeleteRecord:
		head.Type = "RemotePartitionDeleteMetadata"
		d := &rec.Delete
		return deleteRecordJSON{head, place(d.TopicIDPartition), d.BrokerID, d.EventTimestampMs, d.State.String(), tail}
	case *rlmm.SnapshotRecord:
		head.Type = "RemoteLogSegmentMetadataSnapshot"
		return snapshotRecordJSON{head, rec.Metadata.ID.String(), bodyJSON(&rec.Metadata), tail}
	default:
		return invalidRecordJSON{head, v.Err.Error(), tail}
	}
}

func bodyJSON(md *remotelog.SegmentMetadata) recordBody {
	return recordBody{
		StartOffset: md.StartOffset, EndOffset: md.EndOffset, BrokerID: md.BrokerID, MaxTimestampMs: md.MaxTimestampMs,
		EventTimestampMs: md.EventTimestampMs, SizeBytes: md.SizeBytes, State: md.State.String(), CustomMetadata: md.CustomMetadata,
		LeaderEpochs: md.LeaderEpochs, TxnIndexEmpty: md.TxnIndexEmpty,
	}
}
