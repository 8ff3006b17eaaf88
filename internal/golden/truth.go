package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Truth is one file of testdata/kafka/truth; the README there defines the fields.
type Truth struct {
	KafkaVersion      string                     `json:"kafkaVersion"`
	Topic             string                     `json:"topic"`
	Partition         int32                      `json:"partition"`
	TopicID           string                     `json:"topicId"`
	CopiedFrom        string                     `json:"copiedFrom"`
	LeaderEpochs      [][2]int64                 `json:"leaderEpochs"`
	ProducerSnapshots map[string][]ProducerState `json:"producerSnapshots"`
	ListOffsets       map[string]ListOffsets     `json:"listOffsets"`
	TimestampType     string                     `json:"timestampType"`
	ReadUncommitted   ReadSummary                `json:"readUncommitted"`
	ReadCommitted     ReadSummary                `json:"readCommitted"`
	Segments          []Segment                  `json:"segments"`
	Records           []Record                   `json:"records"`
}

// ReadSummary describes what a consumer got in one isolation level.
type ReadSummary struct {
	Beginning   int64   `json:"beginning"`
	End         int64   `json:"end"`
	Count       int     `json:"count"`
	Digest      string  `json:"digest"`
	NotReturned []int64 `json:"notReturned"`
}

// Segment is a local segment as DumpLogSegments shows it.
type Segment struct {
	Segment     string           `json:"segment"`
	Files       map[string]int64 `json:"files"`
	OffsetIndex [][2]int64       `json:"offsetIndex"`
	TimeIndex   [][2]int64       `json:"timeIndex"`
	TxnIndex    []AbortedTxn     `json:"txnIndex"`
	Batches     []Batch          `json:"batches"`
}

// AbortedTxn is an entry of a transaction index.
type AbortedTxn struct {
	ProducerID       int64 `json:"producerId"`
	FirstOffset      int64 `json:"firstOffset"`
	LastOffset       int64 `json:"lastOffset"`
	LastStableOffset int64 `json:"lastStableOffset"`
}

// Batch is the header of a record batch.
type Batch struct {
	BaseOffset           int64  `json:"baseOffset"`
	LastOffset           int64  `json:"lastOffset"`
	Count                int32  `json:"count"`
	Position             int64  `json:"position"`
	Size                 int64  `json:"size"`
	Magic                int8   `json:"magic"`
	Codec                string `json:"codec"`
	TimestampType        string `json:"timestampType"`
	MaxTimestamp         int64  `json:"maxTimestamp"`
	IsTransactional      bool   `json:"isTransactional"`
	IsControl            bool   `json:"isControl"`
	ProducerID           int64  `json:"producerId"`
	ProducerEpoch        int16  `json:"producerEpoch"`
	BaseSequence         int32  `json:"baseSequence"`
	LastSequence         int32  `json:"lastSequence"`
	PartitionLeaderEpoch int32  `json:"partitionLeaderEpoch"`
	CRC                  uint32 `json:"crc"`
}

// ProducerState is an entry of a producer snapshot. Entries without a batch have no sequences and offsets (nil).
type ProducerState struct {
	ProducerID            int64     `json:"producerId"`
	ProducerEpoch         int16     `json:"producerEpoch"`
	CoordinatorEpoch      int32     `json:"coordinatorEpoch"`
	CurrentTxnFirstOffset TxnOffset `json:"currentTxnFirstOffset"`
	LastTimestamp         int64     `json:"lastTs"`
	LastSequence          *int32    `json:"lastSequence"`
	LastOffset            *int64    `json:"lastOffset"`
	OffsetDelta           *int32    `json:"offsetDelta"`
}

// TxnOffset is an offset, or -1 where the file says "-".
type TxnOffset int64

// UnmarshalJSON implements json.Unmarshaler.
func (o *TxnOffset) UnmarshalJSON(b []byte) error {
	if string(b) == `"-"` {
		*o = -1
		return nil
	}
	return json.Unmarshal(b, (*int64)(o))
}

// ListOffsets holds the answers of the ListOffsets API.
type ListOffsets struct {
	Earliest     OffsetAnswer   `json:"earliest"`
	Latest       OffsetAnswer   `json:"latest"`
	LatestTiered OffsetAnswer   `json:"latestTiered"`
	ByTimestamp  []OffsetAnswer `json:"byTimestamp"`
}

// OffsetAnswer is one answer; Query is the timestamp asked for. Offset -1: none.
type OffsetAnswer struct {
	Query       int64 `json:"query"`
	Offset      int64 `json:"offset"`
	Timestamp   int64 `json:"timestamp"`
	LeaderEpoch int32 `json:"leaderEpoch"`
}

// Record is a record as a read_uncommitted consumer got it.
type Record struct {
	Offset      int64    `json:"offset"`
	Timestamp   int64    `json:"timestamp"`
	LeaderEpoch int32    `json:"leaderEpoch"`
	Key         *Bytes   `json:"key"`
	Value       *Bytes   `json:"value"`
	Headers     []Header `json:"headers"`
}

// Header is a record header.
type Header struct {
	Key   string `json:"key"`
	Value *Bytes `json:"value"`
}

// Bytes describes a byte string: its length and one of text, hex, sha256. A nil *Bytes stands for null.
type Bytes struct {
	Len    int     `json:"len"`
	Text   *string `json:"text"`
	Hex    *string `json:"hex"`
	SHA256 *string `json:"sha256"`
}

// Match reports why got is not the byte string that b describes; nil got is null.
func (b *Bytes) Match(got []byte) error {
	switch {
	case b == nil && got == nil:
		return nil
	case b == nil:
		return fmt.Errorf("got %d bytes, want null", len(got))
	case got == nil:
		return fmt.Errorf("got null, want %d bytes", b.Len)
	case len(got) != b.Len:
		return fmt.Errorf("got %d bytes, want %d", len(got), b.Len)
	case b.Text != nil && string(got) == *b.Text, b.Hex != nil && hex.EncodeToString(got) == *b.Hex:
		return nil
	case b.SHA256 != nil:
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) == *b.SHA256 {
			return nil
		}
	}
	return fmt.Errorf("%d bytes differ from the truth: %x", b.Len, got[:min(len(got), 40)])
}

// Digest computes the digest of records as the truth files have it.
type Digest struct{ buf bytes.Buffer }

// Add appends one record.
func (d *Digest) Add(offset, timestampMs int64, leaderEpoch int32, key, value []byte) {
	k, v := "null", "null"
	if key != nil {
		k = hex.EncodeToString(key)
	}
	if value != nil {
		sum := sha256.Sum256(value)
		v = hex.EncodeToString(sum[:])
	}
	fmt.Fprintf(&d.buf, "%d|%d|%d|%s|%s\n", offset, timestampMs, leaderEpoch, k, v)
}

// Sum returns the digest in hex.
func (d *Digest) Sum() string {
	sum := sha256.Sum256(d.buf.Bytes())
	return hex.EncodeToString(sum[:])
}
