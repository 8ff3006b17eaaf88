package rlmm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/remotelog"
)

func testPartition(topic string, p int32) remotelog.TopicIDPartition {
	tp := remotelog.TopicIDPartition{Topic: topic, Partition: p}
	for i := range tp.TopicID {
		tp.TopicID[i] = byte(i)
	}
	return tp
}

func codecSegment() remotelog.SegmentMetadata {
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: testPartition("orders", 0)}, EndOffset: 100, MaxTimestampMs: -1, BrokerID: 1,
		EventTimestampMs: 123, SizeBytes: 1024, CustomMetadata: remotelog.CustomMetadata{0, 1, 2, 3},
		LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: 0}, {Epoch: 1, StartOffset: 20}, {Epoch: 2, StartOffset: 80}},
	}
	for i := range md.ID {
		md.ID[i] = byte(16 + i)
	}
	return md
}

func mustEncode(t testing.TB, r Record) []byte {
	t.Helper()
	b, err := Encode(r)
	if err != nil {
		t.Fatalf("encode %v: %v", r, err)
	}
	return b
}

func roundTrip(t *testing.T, r Record) {
	t.Helper()
	b := mustEncode(t, r)
	got, err := Decode(b)
	if err != nil {
		t.Fatalf("decode %x of %v: %v", b, r, err)
	}
	if d := cmp.Diff(r, got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
}

func TestScenario01_SegmentRoundTrip(t *testing.T) {
	roundTrip(t, &SegmentRecord{Metadata: codecSegment()})
}

func TestScenario02_UpdateRoundTrip(t *testing.T) {
	roundTrip(t, &UpdateRecord{Update: remotelog.SegmentUpdate{
		SegmentID: codecSegment().SegmentID, CustomMetadata: remotelog.CustomMetadata{0, 1, 2, 3}, State: remotelog.CopySegmentFinished, BrokerID: 2,
	}})
}

func TestScenario03_PartitionDeleteMarkedRoundTrip(t *testing.T) {
	roundTrip(t, &PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: testPartition("orders", 7), EventTimestampMs: 5}})
}

func TestScenario04_PartitionDeleteStartedRoundTrip(t *testing.T) {
	roundTrip(t, &PartitionDeleteRecord{Delete: remotelog.PartitionDelete{
		TopicIDPartition: testPartition("orders", 7), State: remotelog.DeletePartitionStarted, BrokerID: 1,
	}})
}

// customVariants are bytes, empty and absent, which stay different on the wire.
func customVariants() []remotelog.CustomMetadata {
	return []remotelog.CustomMetadata{{0, 1, 2, 3}, {}, nil}
}

func TestScenario05_SegmentWithCustomBytesEmptyOrAbsent(t *testing.T) {
	for _, c := range customVariants() {
		md := codecSegment()
		md.LeaderEpochs, md.SizeBytes, md.State, md.CustomMetadata = md.LeaderEpochs[:1], 1234, remotelog.CopySegmentFinished, c
		roundTrip(t, &SegmentRecord{Metadata: md})
	}
}

func TestScenario06_UpdateWithCustomBytesEmptyOrAbsent(t *testing.T) {
	for _, c := range customVariants() {
		roundTrip(t, &UpdateRecord{Update: remotelog.SegmentUpdate{
			SegmentID: codecSegment().SegmentID, CustomMetadata: c, State: remotelog.CopySegmentFinished,
		}})
	}
}

func TestScenario07_SnapshotWithCustomBytesEmptyOrAbsentAndFlag(t *testing.T) {
	for _, c := range customVariants() {
		for _, flag := range []bool{false, true} {
			md := codecSegment()
			md.TopicIDPartition, md.CustomMetadata, md.TxnIndexEmpty = remotelog.TopicIDPartition{}, c, flag
			roundTrip(t, &SnapshotRecord{Metadata: md})
		}
	}
}

// A subclass that the serde does not know cannot be written in Go, since Record is sealed; what can be handed over is nil.
func TestScenario08_NilRecordIsInvalidArgument(t *testing.T) {
	for _, r := range []Record{nil, (*SegmentRecord)(nil), (*UpdateRecord)(nil), (*PartitionDeleteRecord)(nil), (*SnapshotRecord)(nil)} {
		if b, err := Encode(r); !errors.Is(err, remotelog.ErrInvalidArgument) {
			t.Errorf("Encode(%T) = %x, %v, want ErrInvalidArgument", r, b, err)
		}
	}
}

func TestScenario09_ConsoleFormatter(t *testing.T) {
	md := codecSegment()
	md.CustomMetadata, md.TxnIndexEmpty = make(remotelog.CustomMetadata, 10), true
	md.LeaderEpochs = []remotelog.LeaderEpoch{{Epoch: 2, StartOffset: 80}, {Epoch: 0, StartOffset: 0}, {Epoch: 1, StartOffset: 20}}
	id := "RemoteLogSegmentId{topicIdPartition=AAECAwQFBgcICQoLDA0ODw:orders-0, id=EBESExQVFhcYGRobHB0eHw}"
	for _, c := range []struct {
		r    Record
		want string
	}{
		{&SegmentRecord{Metadata: md}, "RemoteLogSegmentMetadata{remoteLogSegmentId=" + id + ", startOffset=0, endOffset=100, brokerId=1, " +
			"maxTimestampMs=-1, eventTimestampMs=123, segmentLeaderEpochs={0=0, 1=20, 2=80}, segmentSizeInBytes=1024, " +
			"customMetadata=Optional[CustomMetadata{10 bytes}], state=COPY_SEGMENT_STARTED, txnIdxEmpty=true}"},
		{&UpdateRecord{Update: remotelog.SegmentUpdate{SegmentID: md.SegmentID, EventTimestampMs: 5, State: 2, BrokerID: 7}},
			"RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=" + id + ", customMetadata=Optional.empty, state=DELETE_SEGMENT_STARTED, " +
				"eventTimestampMs=5, brokerId=7}"},
		{&PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: md.TopicIDPartition, EventTimestampMs: 5, State: 1, BrokerID: 7}},
			"RemotePartitionDeleteMetadata{topicPartition=AAECAwQFBgcICQoLDA0ODw:orders-0, state=DELETE_PARTITION_STARTED, " +
				"eventTimestampMs=5, brokerId=7}"},
	} {
		if got, want := FormatRecord(0, 0, c.r), "partition: 0, offset: 0, value: "+c.want; got != want {
			t.Errorf("FormatRecord =\n%s, want\n%s", got, want)
		}
	}
}

func TestScenario10_GoldenVectorsAreByteIdentical(t *testing.T) {
	vectors := goldenVectors(t)
	if len(vectors) != 17 {
		t.Fatalf("%d vectors, want 17", len(vectors))
	}
	for name, want := range vectors {
		r, err := Decode(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := mustEncode(t, r); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
	}
}

// A record of Kafka 4.4, field by field.
func TestScenario10_WorkedExample(t *testing.T) {
	got, err := Decode(goldenVectors(t)["V2 segment 3 epochs custom txnIdxEmpty"])
	if err != nil {
		t.Fatal(err)
	}
	want := codecSegment()
	want.Partition, want.StartOffset, want.EndOffset, want.BrokerID = 3, 300, 399, 2
	want.EventTimestampMs, want.SizeBytes, want.TxnIndexEmpty = 1700000001000, math.MaxInt32, true
	want.CustomMetadata = remotelog.CustomMetadata{0xde, 0xad, 0xbe, 0xef}
	want.LeaderEpochs = []remotelog.LeaderEpoch{{Epoch: 2, StartOffset: 300}, {Epoch: 5, StartOffset: 320}, {Epoch: 7, StartOffset: 350}}
	if d := cmp.Diff(&SegmentRecord{Metadata: want}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestScenario10_RecordsOfRealBrokersAreByteIdentical(t *testing.T) {
	for version, n := range map[string]int{"3.9.2": 50, "4.4.0": 126} {
		records := goldenTopic(t, version)
		if len(records) != n {
			t.Fatalf("%s: %d records, want %d", version, len(records), n)
		}
		for _, g := range records {
			got, err := Decode(g.Value)
			if err != nil {
				t.Fatalf("%s partition %d offset %d: %v", version, g.Partition, g.Offset, err)
			}
			want := g.Decoded.record(t)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s partition %d offset %d (-want +got):\n%s", version, g.Partition, g.Offset, d)
			}
			if b := mustEncode(t, want); !bytes.Equal(b, g.Value) {
				t.Errorf("%s partition %d offset %d:\n got %x\nwant %x", version, g.Partition, g.Offset, b, g.Value)
			}
		}
	}
}

func TestScenario11_DecodeErrors(t *testing.T) {
	good := goldenVectors(t)["V1 segment basic"]
	with := func(i int, b ...byte) []byte { return append(append(bytes.Clone(good[:i]), b...), good[i+1:]...) }
	for name, c := range map[string]struct {
		value  []byte
		reason DropReason
	}{
		"null":                            {nil, DropTombstone},
		"empty":                           {[]byte{}, DropUndecodable},
		"three random bytes":              {[]byte{0xc3, 0x1f, 0x99}, DropUndecodable},
		"frame 0":                         {with(0, 0), DropUndecodable},
		"frame 2":                         {with(0, 2), DropUndecodable},
		"frame above 16 bits":             {with(0, 0x81, 0x80, 0x02), DropUndecodable},
		"api key 4":                       {with(1, 4), DropUnknownMessage},
		"version 1":                       {with(2, 1), DropUndecodable},
		"varint of six bytes":             {with(0, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00), DropUndecodable},
		"varint above 32 bits":            {with(0, 0x81, 0x80, 0x80, 0x80, 0x10), DropUndecodable},
		"trailing byte":                   {append(bytes.Clone(good), 0), DropUndecodable},
		"null topic":                      {append(bytes.Clone(good[:3]), append([]byte{0}, good[10:]...)...), DropUndecodable},
		"topic longer than the value":     {with(3, 0xff, 0x7f), DropUndecodable},
		"null epochs":                     {with(84, 0), DropUndecodable},
		"a thousand million epochs":       {with(84, 0xff, 0xff, 0xff, 0xff, 0x0f), DropUndecodable},
		"custom longer than the value":    {with(len(good)-3, 0xff, 0xff, 0xff, 0xff, 0x0f), DropUndecodable},
		"more tags than bytes":            {with(len(good)-1, 0xff, 0xff, 0xff, 0xff, 0x0f), DropUndecodable},
		"tag longer than the value":       {with(len(good)-1, 1, 9, 5, 1), DropUndecodable},
		"TxnIndexEmpty of two bytes":      {with(len(good)-1, 1, 0, 2, 1, 1), DropUndecodable},
		"unknown segment state":           {with(len(good)-2, 9), DropInvalidState},
		"negative segment state":          {with(len(good)-2, 0xff), DropInvalidState},
		"no epochs":                       {append(append(bytes.Clone(good[:84]), 1), good[98:]...), DropInvalidSegment},
		"negative start":                  {with(48, 0x80), DropInvalidSegment},
		"end below start":                 {with(54, 1), DropInvalidSegment},
		"partition delete of state 7":     {[]byte("\x01\x02\x00\x02a" + strings.Repeat("\x00", 33) + "\x07\x00"), DropInvalidState},
		"partition delete without a tail": {[]byte("\x01\x02\x00\x02a" + strings.Repeat("\x00", 33)), DropUndecodable},
	} {
		r, err := Decode(c.value)
		var d *DecodeError
		if !errors.As(err, &d) || !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("%s: %v, %v, want a DecodeError that is ErrCorrupt", name, r, err)
			continue
		}
		if d.Reason != c.reason {
			t.Errorf("%s: reason %v (%v), want %v", name, d.Reason, err, c.reason)
		}
	}
	for name, v := range goldenVectors(t) {
		for i := range v {
			if r, err := Decode(v[:i]); err == nil {
				t.Errorf("%s cut to %d of %d bytes decodes to %v", name, i, len(v), r)
			}
		}
	}
}

func TestScenario12_UnknownTagsAreKept(t *testing.T) {
	md := codecSegment()
	md.TxnIndexEmpty = true
	tag := func(id uint32, s string) []Tag { return []Tag{{ID: id, Data: []byte(s)}} }
	u := &UnknownTags{
		Partition: tag(3, "p"), Segment: tag(0, ""), Epochs: map[int][]Tag{1: tag(200, "epoch"), 2: tag(1, "x")},
		Message: []Tag{{ID: 1, Data: []byte{0}}, {ID: math.MaxUint32, Data: bytes.Repeat([]byte{7}, 300)}},
	}
	roundTrip(t, &SegmentRecord{Metadata: md, Unknown: u})
	roundTrip(t, &SnapshotRecord{
		Metadata: func() remotelog.SegmentMetadata { m := md; m.TopicIDPartition = remotelog.TopicIDPartition{}; return m }(),
		Unknown:  &UnknownTags{Epochs: u.Epochs, Message: u.Message},
	})
	u = &UnknownTags{Partition: u.Partition, Segment: u.Segment, Message: tag(0, "not known in an update")}
	roundTrip(t, &UpdateRecord{Update: remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: 1}, Unknown: u})
	roundTrip(t, &PartitionDeleteRecord{
		Delete: remotelog.PartitionDelete{TopicIDPartition: md.TopicIDPartition}, Unknown: &UnknownTags{Partition: u.Partition, Message: u.Message},
	})
}

func TestScenario13_TxnIndexEmptyWrittenAsFalse(t *testing.T) {
	good := goldenVectors(t)["V1 segment basic"]
	r, err := Decode(append(bytes.Clone(good[:len(good)-1]), 1, 0, 1, 0))
	if err != nil || r.(*SegmentRecord).Metadata.TxnIndexEmpty {
		t.Fatalf("got %v, %v, want a segment whose TxnIndexEmpty is false", r, err)
	}
	if got := mustEncode(t, r); !bytes.Equal(got, good) {
		t.Errorf("re-encoded as %x, want the default left out: %x", got, good)
	}
}

func TestScenario14_LengthPrefixes(t *testing.T) {
	for n, prefix := range map[int]string{126: "7f", 127: "8001", 249: "fa01"} {
		r := &PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: testPartition(strings.Repeat("t", n), 0)}}
		if got := hex.EncodeToString(mustEncode(t, r)[3:5]); !strings.HasPrefix(got, prefix) {
			t.Errorf("name of %d bytes has the prefix %s, want %s", n, got, prefix)
		}
		roundTrip(t, r)
	}
	md := codecSegment()
	md.LeaderEpochs = nil
	for e := range 200 {
		md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: int32(e)})
	}
	if got := hex.EncodeToString(mustEncode(t, &SegmentRecord{Metadata: md})[84:86]); got != "c901" {
		t.Errorf("200 epochs have the prefix %s, want c901", got)
	}
	roundTrip(t, &SegmentRecord{Metadata: md})
	r := &PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: testPartition("\u00e9", 0)}}
	if got := hex.EncodeToString(mustEncode(t, r)[3:6]); got != "03c3a9" {
		t.Errorf("name e-acute is %s, want 03c3a9", got)
	}
}

func TestEncode_RefusesWhatTheWireCannotHold(t *testing.T) {
	big := codecSegment()
	big.SizeBytes = math.MaxInt32 + 1
	long := codecSegment()
	long.Topic = strings.Repeat("x", math.MaxInt16+1)
	for name, md := range map[string]remotelog.SegmentMetadata{"size": big, "topic": long} {
		if _, err := Encode(&SegmentRecord{Metadata: md}); !errors.Is(err, remotelog.ErrInvalidArgument) {
			t.Errorf("%s: %v, want ErrInvalidArgument", name, err)
		}
	}
}

func TestSegmentRecord_EpochsInAnyOrderTheLastOfADuplicateWins(t *testing.T) {
	md := codecSegment()
	md.LeaderEpochs = []remotelog.LeaderEpoch{{Epoch: 5, StartOffset: 50}, {Epoch: 1, StartOffset: 7}, {Epoch: 5, StartOffset: 60}, {Epoch: 1, StartOffset: 0}}
	r := &SegmentRecord{Metadata: md}
	want := []remotelog.LeaderEpoch{{Epoch: 1, StartOffset: 0}, {Epoch: 5, StartOffset: 60}}
	if d := cmp.Diff(want, r.Segment().LeaderEpochs); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	roundTrip(t, r)
}

func TestCodec_AnyRecordRoundTrips(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		md := remotelog.SegmentMetadata{SegmentID: remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{
			Topic: rapid.StringN(0, 300, -1).Draw(rt, "topic"), Partition: rapid.Int32().Draw(rt, "partition"),
		}}}
		copy(md.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "topic id"))
		copy(md.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
		md.StartOffset = rapid.Int64Range(0, math.MaxInt64).Draw(rt, "start")
		md.EndOffset = rapid.Int64Range(md.StartOffset, math.MaxInt64).Draw(rt, "end")
		md.MaxTimestampMs = rapid.Int64().Draw(rt, "max timestamp")
		md.BrokerID = rapid.Int32().Draw(rt, "broker")
		md.SizeBytes = int64(rapid.Int32().Draw(rt, "size"))
		md.TxnIndexEmpty = rapid.Bool().Draw(rt, "empty")
		md.State = remotelog.State(rapid.IntRange(0, 3).Draw(rt, "state"))
		for range rapid.IntRange(1, 5).Draw(rt, "epochs") {
			md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: rapid.Int32().Draw(rt, "epoch"), StartOffset: rapid.Int64().Draw(rt, "offset")})
		}
		if rapid.Bool().Draw(rt, "custom") {
			md.CustomMetadata = append(remotelog.CustomMetadata{}, rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")...)
		}
		roundTrip(t, &SegmentRecord{Metadata: md})
	})
}

// FuzzDecode: no value crashes the decoder, and what decodes encodes to something that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, v := range goldenVectors(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil {
			if !errors.Is(err, remotelog.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := Decode(mustEncode(t, r))
		if err != nil {
			t.Fatalf("%v: its encoding does not decode: %v", r, err)
		}
		if d := cmp.Diff(r, again); d != "" {
			t.Fatalf("decoding again (-first +second):\n%s", d)
		}
	})
}

// The claims of lengths in a value may be anything; what is allocated for them may not exceed what the value can fill.
func TestDecode_AllocationIsBoundedByTheValue(t *testing.T) {
	good := goldenVectors(t)["V1 segment basic"]
	for name, v := range map[string][]byte{
		"epochs": append(bytes.Clone(good[:84]), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"topic":  {1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"tags":   append(bytes.Clone(good[:len(good)-1]), 0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if _, err := Decode(v); err == nil {
				t.Fatalf("%s: decoded", name)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > 4096 {
			t.Errorf("%s: %d bytes allocated for a value of %d", name, got, len(v))
		}
	}
}
