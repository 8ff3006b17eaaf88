// Package aiven gives tests the objects that Aiven's plug-in wrote: 83 cases and 82 damaged ones, under rsm/testdata/aiven. Its
// README says how they were made.
package aiven

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// Case is one golden case.
type Case struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	KafkaAPI    string            `json:"kafkaApi"`
	JVMLocale   string            `json:"jvmLocale"`
	Layout      string            `json:"layout"`
	ReadConfig  map[string]string `json:"readConfig"` // without storage settings; key files are absolute
	Segments    []Segment         `json:"segments"`
}

// Segment is one segment of a case.
type Segment struct {
	Case               *Case             `json:"-"`
	Config             map[string]string `json:"config"` // settings it was written with; key files are absolute
	Topic              string            `json:"topic"`
	TopicID            remotelog.UUID    `json:"topicId"`
	Partition          int32             `json:"partition"`
	SegmentID          remotelog.UUID    `json:"segmentId"`
	StartOffset        int64             `json:"startOffset"`
	EndOffset          int64             `json:"endOffset"`
	MaxTimestampMs     int64             `json:"maxTimestampMs"`
	EventTimestampMs   int64             `json:"eventTimestampMs"`
	BrokerID           int32             `json:"brokerId"`
	SizeInBytes        int64             `json:"segmentSizeInBytes"`
	LeaderEpochs       map[string]int64  `json:"segmentLeaderEpochs"`
	TxnIdxEmpty        *bool             `json:"txnIdxEmpty"`
	CustomMetadata     *CustomMetadata   `json:"customMetadata"`
	Parts              map[string]*File  `json:"parts"`   // log offset timestamp producerSnapshot leaderEpoch transaction(nil: none)
	Objects            map[string]Object `json:"objects"` // log indexes rsm-manifest
	Expect             Expect            `json:"expect"`
	PluginReadResult   string            `json:"pluginReadResult"`
	PluginDeleteResult string            `json:"pluginDeleteResult"`
}

// File is a source file, by its path in the case's directory.
type File struct {
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Object is a stored object.
type Object struct {
	Key    string `json:"key"`
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// CustomMetadata is what the plug-in returned from the copy.
type CustomMetadata struct {
	Base64 string         `json:"base64"`
	Fields map[string]any `json:"fields"`
}

// Expect is what the manifest says, decoded.
type Expect struct {
	IndexType   string `json:"chunkIndexType"`
	Chunks      int    `json:"chunks"`
	DeltaWidth  int    `json:"deltaWidth"`
	ChunkSizes  string `json:"transformedChunkSizes"`
	Compression bool   `json:"compression"`
	Encryption  bool   `json:"encryption"`
	KeyID       string `json:"keyId"`
	DataKeyHex  string `json:"dataKeyHex"`
	AADHex      string `json:"aadHex"`
}

// Dir is the directory of the golden data.
func Dir(tb testing.TB) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("golden/aiven: no caller")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "rsm", "testdata", "aiven")
}

// Cases returns all cases in the order of their names.
func Cases(tb testing.TB) []*Case {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(Dir(tb), "*", "case.json"))
	if err != nil {
		tb.Fatal(err)
	}
	const want = 83
	if len(files) != want {
		tb.Fatalf("golden/aiven: %d cases, want %d", len(files), want)
	}
	cases := make([]*Case, 0, len(files))
	for _, f := range files {
		c := &Case{}
		readJSON(tb, f, c)
		c.ReadConfig = absolute(tb, c.ReadConfig)
		for i := range c.Segments {
			c.Segments[i].Case = c
			c.Segments[i].Config = absolute(tb, c.Segments[i].Config)
		}
		cases = append(cases, c)
	}
	return cases
}

// Store returns the objects of the case by their keys.
func (c *Case) Store(tb testing.TB) map[string][]byte {
	tb.Helper()
	objects := map[string][]byte{}
	for i := range c.Segments {
		for _, o := range c.Segments[i].Objects {
			data := read(tb, filepath.Join(Dir(tb), c.Name, filepath.FromSlash(o.File)))
			if int64(len(data)) != o.Size {
				tb.Fatalf("%s: %s has %d bytes, want %d", c.Name, o.File, len(data), o.Size)
			}
			objects[o.Key] = data
		}
	}
	return objects
}

// Part returns the bytes of a source file and whether the segment has it. The log is cut at the announced size: what lies behind
// it does not count.
func (s *Segment) Part(tb testing.TB, name string) ([]byte, bool) {
	tb.Helper()
	f, ok := s.Parts[name]
	if !ok {
		tb.Fatalf("%s: no part %q", s.Case.Name, name)
	}
	if f == nil {
		return nil, false
	}
	data := read(tb, s.Path(tb, name))
	if name == "log" {
		data = data[:s.SizeInBytes]
	}
	return data, true
}

// Path returns the path of a source file.
func (s *Segment) Path(tb testing.TB, name string) string {
	return filepath.Join(Dir(tb), s.Case.Name, filepath.FromSlash(s.Parts[name].File))
}

// Index returns the bytes of an index and whether the segment has it.
func (s *Segment) Index(tb testing.TB, t remotelog.IndexType) ([]byte, bool) {
	return s.Part(tb, PartName(t))
}

// PartName is the name of an index in case.json.
func PartName(t remotelog.IndexType) string {
	return map[remotelog.IndexType]string{
		remotelog.OffsetIndex: "offset", remotelog.TimestampIndex: "timestamp", remotelog.ProducerSnapshotIndex: "producerSnapshot",
		remotelog.LeaderEpochIndex: "leaderEpoch", remotelog.TransactionIndex: "transaction",
	}[t]
}

// ID returns the segment id.
func (s *Segment) ID() remotelog.SegmentID {
	return remotelog.SegmentID{
		TopicIDPartition: remotelog.TopicIDPartition{TopicID: s.TopicID, Topic: s.Topic, Partition: s.Partition}, ID: s.SegmentID,
	}
}

// Metadata returns the finished segment as the broker knows it, custom metadata included.
func (s *Segment) Metadata(tb testing.TB) remotelog.SegmentMetadata {
	tb.Helper()
	md := remotelog.SegmentMetadata{
		SegmentID: s.ID(), StartOffset: s.StartOffset, EndOffset: s.EndOffset, MaxTimestampMs: s.MaxTimestampMs,
		BrokerID: s.BrokerID, EventTimestampMs: s.EventTimestampMs, SizeBytes: s.SizeInBytes, LeaderEpochs: s.epochs(tb),
		CustomMetadata: s.Custom(tb), State: remotelog.CopySegmentFinished,
	}
	if s.TxnIdxEmpty != nil {
		md.TxnIndexEmpty = *s.TxnIdxEmpty
	}
	return md
}

// Custom returns the custom metadata, nil if there are none.
func (s *Segment) Custom(tb testing.TB) remotelog.CustomMetadata {
	tb.Helper()
	if s.CustomMetadata == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(s.CustomMetadata.Base64)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Data returns the source files as a copy takes them.
func (s *Segment) Data(tb testing.TB) remotelog.SegmentData {
	tb.Helper()
	epochs, _ := s.Part(tb, "leaderEpoch")
	d := remotelog.SegmentData{
		Log: remotelog.File(s.Path(tb, "log")), OffsetIndex: remotelog.File(s.Path(tb, "offset")),
		TimeIndex: remotelog.File(s.Path(tb, "timestamp")), ProducerSnapshot: remotelog.File(s.Path(tb, "producerSnapshot")),
		LeaderEpochs: epochs,
	}
	if s.Parts["transaction"] != nil {
		d.TransactionIndex = remotelog.File(s.Path(tb, "transaction"))
	}
	return d
}

// DataKey returns the unwrapped data key and the additional data of an encrypted segment.
func (s *Segment) DataKey(tb testing.TB) (key, aad []byte) {
	tb.Helper()
	key, err := hex.DecodeString(s.Expect.DataKeyHex)
	if err != nil {
		tb.Fatal(err)
	}
	if aad, err = hex.DecodeString(s.Expect.AADHex); err != nil {
		tb.Fatal(err)
	}
	return key, aad
}

// StoredSizes returns the stored chunk sizes of a variable index.
func (s *Segment) StoredSizes(tb testing.TB) []int32 {
	tb.Helper()
	var sizes []int32
	for f := range strings.SplitSeq(s.Expect.ChunkSizes, ",") {
		v, err := strconv.ParseInt(strings.TrimSpace(f), 10, 32)
		if err != nil {
			tb.Fatal(err)
		}
		sizes = append(sizes, int32(v))
	}
	return sizes
}

// absolute makes the key files in the settings absolute.
func absolute(tb testing.TB, props map[string]string) map[string]string {
	out := make(map[string]string, len(props))
	for k, v := range props {
		if strings.HasSuffix(k, ".key.file") {
			v = filepath.Join(Dir(tb), filepath.FromSlash(v))
		}
		out[k] = v
	}
	return out
}

func readJSON(tb testing.TB, path string, into any) {
	tb.Helper()
	if err := json.Unmarshal(read(tb, path), into); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func (s *Segment) epochs(tb testing.TB) []remotelog.LeaderEpoch {
	var epochs []remotelog.LeaderEpoch
	for k, v := range s.LeaderEpochs {
		e, err := strconv.ParseInt(k, 10, 32)
		if err != nil {
			tb.Fatal(err)
		}
		epochs = append(epochs, remotelog.LeaderEpoch{Epoch: int32(e), StartOffset: v})
	}
	sortEpochs(epochs)
	return epochs
}
