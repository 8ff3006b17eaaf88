package segmentjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
)

func sample() remotelog.SegmentMetadata {
	md := remotelog.SegmentMetadata{
		StartOffset: 5, EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 2, StartOffset: 5}, {Epoch: 10, StartOffset: 17}},
		MaxTimestampMs: -1, BrokerID: 1, EventTimestampMs: 1760000000123, SizeBytes: 1 << 20, State: remotelog.DeleteSegmentStarted,
		TxnIndexEmpty: true, CustomMetadata: remotelog.CustomMetadata{1, 2},
	}
	md.Topic, md.Partition = "orders", 3
	md.TopicID, md.ID = remotelog.UUID{1, 2, 3}, remotelog.UUID{9}
	return md
}

func TestParse_ReadsWhatOfWrites(t *testing.T) {
	bare := sample()
	bare.CustomMetadata, bare.TxnIndexEmpty = nil, false
	empty := sample()
	empty.CustomMetadata = remotelog.CustomMetadata{}
	for name, md := range map[string]remotelog.SegmentMetadata{"all": sample(), "no custom metadata": bare, "empty custom metadata": empty} {
		data, err := json.Marshal(Of(&md))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(md, got); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", name, diff)
		}
	}
}

// The bytes are promised to clients and scripts.
func TestOf_HasKafkasNames(t *testing.T) {
	md := sample()
	got, err := json.Marshal(Of(&md))
	const want = `{"topic":"orders","topicId":"AQIDAAAAAAAAAAAAAAAAAA","partition":3,"segmentId":"CQAAAAAAAAAAAAAAAAAAAA",` +
		`"state":"DELETE_SEGMENT_STARTED","startOffset":5,"endOffset":41,"maxTimestampMs":-1,"segmentSizeInBytes":1048576,` +
		`"segmentLeaderEpochs":{"2":5,"10":17},"brokerId":1,"eventTimestampMs":1760000000123,"txnIdxEmpty":true,"customMetadata":"AQI="}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestParse_MissingFieldsAreNamed(t *testing.T) {
	md := sample()
	data, err := json.Marshal(Of(&md))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		delete(fields, name)
		without, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(without)
		optional := name == "customMetadata" || name == "txnIdxEmpty"
		if optional && err != nil || !optional && (!errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), name)) {
			t.Errorf("without %s: %v", name, err)
		}
		fields[name] = value
	}
	for _, bad := range []string{"", "{", "[]", "null", `"x"`, `{"partition":1e3}`, `{"segmentLeaderEpochs":{"x":1}}`} {
		if _, err := Parse([]byte(bad)); !errors.Is(err, remotelog.ErrInvalidArgument) {
			t.Errorf("Parse(%q): %v, want ErrInvalidArgument", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	md := sample()
	data, err := json.Marshal(Of(&md))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		md, err := Parse(data)
		if err != nil {
			if !errors.Is(err, remotelog.ErrInvalidArgument) {
				t.Errorf("%v, want ErrInvalidArgument", err)
			}
			return
		}
		again, err := json.Marshal(Of(&md))
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(again)
		if diff := cmp.Diff(md, back); err != nil || diff != "" {
			t.Errorf("%v: first (-), second (+):\n%s", err, diff)
		}
	})
}
