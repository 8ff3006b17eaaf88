package rlmm

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// goldenVectors are the values of golden/kafka/metadata-records.json: name to bytes.
func goldenVectors(t testing.TB) map[string][]byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/metadata-records.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Records []struct{ Name, Hex string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, r := range file.Records {
		b, err := hex.DecodeString(r.Hex)
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		out[r.Name] = b
	}
	return out
}

// goldenRecord is a line of golden/kafka/remote-log-metadata/*.jsonl: a record as a real broker wrote it, and as Kafka's own
// serde decodes it.
type goldenRecord struct {
	Partition int32
	Offset    int64
	Timestamp int64
	Value     []byte
	Decoded   goldenDecoded
}

type goldenDecoded struct {
	Type                string
	TopicID             string
	Topic               string
	Partition           int32
	SegmentID           string
	StartOffset         int64
	EndOffset           int64
	BrokerID            int32
	MaxTimestampMs      int64
	EventTimestampMs    int64
	SegmentSizeInBytes  int64
	State               string
	CustomMetadata      *string
	SegmentLeaderEpochs map[string]int64
	TxnIdxEmpty         bool
}

func goldenTopic(t testing.TB, version string) []goldenRecord {
	t.Helper()
	f, err := os.Open("testdata/remote-log-metadata-" + version + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // read only
	var out []goldenRecord
	for s := bufio.NewScanner(f); s.Scan(); {
		var r goldenRecord
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("%s line %d: %v", version, len(out)+1, err)
		}
		out = append(out, r)
	}
	return out
}

// record is what Kafka's serde says the value is, as this package represents it.
func (d *goldenDecoded) record(t testing.TB) Record {
	t.Helper()
	id := func(s string) remotelog.UUID {
		if s == "" {
			return remotelog.UUID{}
		}
		u, err := remotelog.ParseUUID(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	tp := remotelog.TopicIDPartition{TopicID: id(d.TopicID), Topic: d.Topic, Partition: d.Partition}
	sid := remotelog.SegmentID{TopicIDPartition: tp, ID: id(d.SegmentID)}
	var custom remotelog.CustomMetadata
	if d.CustomMetadata != nil {
		b, err := base64.StdEncoding.DecodeString(*d.CustomMetadata)
		if err != nil {
			t.Fatal(err)
		}
		custom = append(remotelog.CustomMetadata{}, b...)
	}
	switch d.Type {
	case "RemoteLogSegmentMetadata":
		md := remotelog.SegmentMetadata{
			SegmentID: sid, StartOffset: d.StartOffset, EndOffset: d.EndOffset, BrokerID: d.BrokerID, MaxTimestampMs: d.MaxTimestampMs,
			EventTimestampMs: d.EventTimestampMs, SizeBytes: d.SegmentSizeInBytes, CustomMetadata: custom, State: stateNamed(t, d.State),
			TxnIndexEmpty: d.TxnIdxEmpty,
		}
		for e, o := range d.SegmentLeaderEpochs {
			n, err := strconv.ParseInt(e, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: int32(n), StartOffset: o})
		}
		md.LeaderEpochs = normalEpochs(md.LeaderEpochs) // a map has no order
		return &SegmentRecord{Metadata: md}
	case "RemoteLogSegmentMetadataUpdate":
		return &UpdateRecord{Update: remotelog.SegmentUpdate{
			SegmentID: sid, BrokerID: d.BrokerID, EventTimestampMs: d.EventTimestampMs, CustomMetadata: custom, State: stateNamed(t, d.State),
		}}
	case "RemotePartitionDeleteMetadata":
		for s := remotelog.DeletePartitionMarked; s.Valid(); s++ {
			if s.String() == d.State {
				return &PartitionDeleteRecord{Delete: remotelog.PartitionDelete{
					TopicIDPartition: tp, State: s, BrokerID: d.BrokerID, EventTimestampMs: d.EventTimestampMs,
				}}
			}
		}
	}
	t.Fatalf("golden record of type %q, state %q", d.Type, d.State)
	return nil
}

func stateNamed(t testing.TB, name string) remotelog.State {
	t.Helper()
	for s := remotelog.CopySegmentStarted; s.Valid(); s++ {
		if s.String() == name {
			return s
		}
	}
	t.Fatalf("no state is named %q", name)
	return 0
}
