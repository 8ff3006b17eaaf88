package segmentjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tierkit/tierkit/remotelog"
)

// Segment is one segment. It has no methods of its own, so that it can be embedded in an object with more fields.
type Segment struct {
	Topic            string  `json:"topic"`
	TopicID          string  `json:"topicId"`
	Partition        int32   `json:"partition"`
	SegmentID        string  `json:"segmentId"`
	State            string  `json:"state"`
	StartOffset      int64   `json:"startOffset"`
	EndOffset        int64   `json:"endOffset"`
	MaxTimestampMs   int64   `json:"maxTimestampMs"`
	SizeBytes        int64   `json:"segmentSizeInBytes"`
	LeaderEpochs     Epochs  `json:"segmentLeaderEpochs"`
	BrokerID         int32   `json:"brokerId"`
	EventTimestampMs int64   `json:"eventTimestampMs"`
	TxnIndexEmpty    bool    `json:"txnIdxEmpty"`
	CustomMetadata   *[]byte `json:"customMetadata"` // base64; null: none
}

// Of returns the shape of md.
func Of(md *remotelog.SegmentMetadata) Segment {
	s := Segment{
		Topic: md.Topic, TopicID: md.TopicID.String(), Partition: md.Partition, SegmentID: md.ID.String(), State: md.State.String(),
		StartOffset: md.StartOffset, EndOffset: md.EndOffset, MaxTimestampMs: md.MaxTimestampMs, SizeBytes: md.SizeBytes,
		LeaderEpochs: md.LeaderEpochs, BrokerID: md.BrokerID, EventTimestampMs: md.EventTimestampMs, TxnIndexEmpty: md.TxnIndexEmpty,
		CustomMetadata: Custom(md.CustomMetadata),
	}
	return s
}

// Custom is custom metadata as a field: null for none.
func Custom(c remotelog.CustomMetadata) *[]byte {
	if c == nil {
		return nil
	}
	b := []byte(c)
	return &b
}

// missing marks the numbers that no segment has, so that a field that is not given is told from 0.
const (
	missing32 = math.MinInt32
	missing64 = math.MinInt64
)

// Parse reads the shape. Every mistake is remotelog.ErrInvalidArgument. Fields that it does not know are passed over. That the values
// make sense together is for remotelog.SegmentMetadata.Validate to say.
func Parse(data []byte) (remotelog.SegmentMetadata, error) {
	s := Segment{
		Partition: missing32, StartOffset: missing64, EndOffset: missing64, MaxTimestampMs: missing64, SizeBytes: missing64,
		BrokerID: missing32, EventTimestampMs: missing64,
	}
	var none remotelog.SegmentMetadata
	if err := json.Unmarshal(data, &s); err != nil {
		return none, fmt.Errorf("%w: segment: %v", remotelog.ErrInvalidArgument, err) //nolint:errorlint // of no use to anybody
	}
	state, err := parseState(s.State)
	if err == nil {
		err = s.given()
	}
	if err != nil {
		return none, err
	}
	md := remotelog.SegmentMetadata{
		StartOffset: s.StartOffset, EndOffset: s.EndOffset, LeaderEpochs: s.LeaderEpochs, MaxTimestampMs: s.MaxTimestampMs,
		BrokerID: s.BrokerID, EventTimestampMs: s.EventTimestampMs, SizeBytes: s.SizeBytes, State: state, TxnIndexEmpty: s.TxnIndexEmpty,
	}
	md.Topic, md.Partition = s.Topic, s.Partition
	if md.TopicID, err = remotelog.ParseUUID(s.TopicID); err != nil {
		return none, fmt.Errorf("segment: topicId: %w", err)
	}
	if md.ID, err = remotelog.ParseUUID(s.SegmentID); err != nil {
		return none, fmt.Errorf("segment: segmentId: %w", err)
	}
	if s.CustomMetadata != nil {
		md.CustomMetadata = *s.CustomMetadata
	}
	return md, nil
}

// given finds the field that is not there.
func (s *Segment) given() error {
	for _, f := range []struct {
		name   string
		absent bool
	}{
		{"topic", s.Topic == ""}, {"partition", s.Partition < 0}, {"startOffset", s.StartOffset < 0}, {"endOffset", s.EndOffset == missing64},
		{"maxTimestampMs", s.MaxTimestampMs == missing64}, {"segmentSizeInBytes", s.SizeBytes < 0}, {"brokerId", s.BrokerID == missing32},
		{"eventTimestampMs", s.EventTimestampMs == missing64}, {"segmentLeaderEpochs", len(s.LeaderEpochs) == 0},
	} {
		if f.absent {
			return fmt.Errorf("%w: segment: %s is missing or no value that a segment has", remotelog.ErrInvalidArgument, f.name)
		}
	}
	return nil
}

func parseState(text string) (remotelog.State, error) {
	for s := remotelog.CopySegmentStarted; s.Valid(); s++ {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: segment: state %.40q is none of Kafka's", remotelog.ErrInvalidArgument, text)
}

// Epochs are leader epochs as Kafka's JSON has them: an object from epoch to offset, in ascending order.
type Epochs []remotelog.LeaderEpoch

var (
	_ json.Marshaler   = Epochs(nil)
	_ json.Unmarshaler = (*Epochs)(nil)
)

// MarshalJSON implements json.Marshaler.
func (m Epochs) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, e := range m {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, e.StartOffset, 10)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler. An epoch that is given twice has the offset that came last.
func (m *Epochs) UnmarshalJSON(data []byte) error {
	*m = nil
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var byEpoch map[int32]int64
	if err := json.Unmarshal(data, &byEpoch); err != nil {
		return err
	}
	for epoch, start := range byEpoch {
		*m = append(*m, remotelog.LeaderEpoch{Epoch: epoch, StartOffset: start})
	}
	slices.SortFunc(*m, func(x, y remotelog.LeaderEpoch) int { return cmp.Compare(x.Epoch, y.Epoch) })
	return nil
}
