package manifest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

func isCorrupt(err error) bool { return errors.Is(err, remotelog.ErrCorrupt) }

var (
	topicID   = remotelog.UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	segmentID = remotelog.UUID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0}
	md        = remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: topicID, Topic: "orders", Partition: 3}, ID: segmentID},
		StartOffset: 1234, EndOffset: 5678, MaxTimestampMs: 1700000000123, BrokerID: 7, EventTimestampMs: 1700000000456, SizeBytes: 2500,
		LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: 1234}, {Epoch: 2, StartOffset: 3000}},
		State:        remotelog.CopySegmentFinished,
	}
)

// The example of the format description, made by the plug-in's own classes under a 4.x broker API.
const examplePlain = `{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":1000,"originalFileSize":2500,"transformedChunkSize":1000,"finalTransformedChunkSize":500},"segmentIndexes":{"offset":{"position":0,"size":10},"timestamp":{"position":10,"size":20},"producerSnapshot":{"position":30,"size":0},"leaderEpoch":{"position":30,"size":30},"transaction":null},"compression":false,"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"AAECAwQFBgcICQoLDA0ODw","topicPartition":{"topic":"orders","partition":3}},"id":"_-7dzLuqmYh3ZlVEMyIRAA"},"startOffset":1234,"endOffset":5678,"maxTimestampMs":1700000000123,"brokerId":7,"eventTimestampMs":1700000000456,"segmentLeaderEpochs":{"0":1234,"2":3000},"txnIdxEmpty":false}}`

// example returns the manifest of examplePlain.
func example(t testing.TB) *manifest.Manifest {
	t.Helper()
	x, err := chunking.Layout(1000, 2500, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest.Manifest{Chunks: x, Metadata: manifest.MetadataOf(&md)}
	for i, size := range []int64{10, 20, 0, 30} {
		m.Indexes.Append(manifest.StoredOrder()[i], size)
	}
	return m
}

func TestMarshal_IsWhatJacksonWrites(t *testing.T) {
	m := example(t)
	if got := marshal(t, m); got != examplePlain {
		t.Errorf("got  %s\nwant %s", got, examplePlain)
	}
	x, err := chunking.NewVariable(1000, 2500, []int32{1000, 1016, 77})
	if err != nil {
		t.Fatal(err)
	}
	m.Chunks, m.Compression = x, true
	m.Encryption = &manifest.Encryption{DataKey: "k\"\\1\u00e9<&>\n\x01:AAAA", AAD: []byte{1, 2, 3, 4}}
	m.Indexes = manifest.Indexes{}
	for i, size := range []int64{38, 48, 0, 58, 0} {
		m.Indexes.Append(manifest.StoredOrder()[i], size)
	}
	got := marshal(t, m)
	for _, part := range []string{
		`"chunkIndex":{"type":"variable","originalChunkSize":1000,"originalFileSize":2500,"transformedChunks":"KLUv/SAPeQAAAAAAAwAAA+gBABAAAABN"}`,
		`"leaderEpoch":{"position":86,"size":58},"transaction":{"position":144,"size":0}},"compression":true,`,
		`,"encryption":{"dataKey":"k\"\\1` + "\u00e9" + `<&>\n\u0001:AAAA","aad":"AQIDBA=="},"remoteLogSegmentMetadata":`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s\nis not in\n%s", part, got)
		}
	}
}

func marshal(t testing.TB, m *manifest.Manifest) string {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := manifest.Parse(b)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, b)
	}
	again, err := back.Marshal()
	if err != nil || !bytes.Equal(again, b) {
		t.Fatalf("written, read and written again: %v\n%s\n%s", err, again, b)
	}
	return string(b)
}

func TestParse_GivesTheMetadata(t *testing.T) {
	m, err := manifest.Parse([]byte(examplePlain))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(md, m.Metadata.Segment(m.Chunks.FileSize())); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
}

// Each is a change of examplePlain. What Aiven's reader does with them was run, or is Jackson's rule.
func TestParse_AcceptsWhatJacksonAccepts(t *testing.T) {
	for name, c := range map[string][2]string{
		"version is a number":           {`"version":"1"`, `"version":1`},
		"white space":                   {`,`, " ,\r\n\t"},
		"BOM":                           {`{"version"`, "\ufeff" + `{"version"`},
		"trailing garbage":              {`"txnIdxEmpty":false}}`, `"txnIdxEmpty":false}} }]garbage` + "\x00\xff"},
		"int as a string":               {`"originalFileSize":2500`, `"originalFileSize":" 2500 "`},
		"decimal is cut":                {`"originalFileSize":2500`, `"originalFileSize":2500.7`},
		"exponent":                      {`"originalFileSize":2500`, `"originalFileSize":25e2`},
		"duplicate, last wins":          {`"originalFileSize":2500`, `"originalFileSize":7,"originalFileSize":2500`},
		"duplicate object, last wins":   {`"compression":false`, `"segmentIndexes":{"offset":{"position":0,"size":10},"timestamp":{"position":10,"size":20},"producerSnapshot":{"position":30,"size":0},"leaderEpoch":{"position":30,"size":30},"transaction":null},"compression":false`},
		"compression null":              {`"compression":false`, `"compression":null`},
		"compression 0":                 {`"compression":false`, `"compression":0`},
		"compression as a string":       {`"compression":false`, `"compression":"false"`},
		"encryption null":               {`"compression":false`, `"compression":false,"encryption":null`},
		"escaped names":                 {`"compression"`, `"\u0063ompression"`},
		"unknown in metadata":           {`"startOffset"`, `"future":[{"a":[1,2.5e-3,true,null,"\ud83d\ude00"]},{}],"startOffset"`},
		"order of metadata":             {`"startOffset":1234,"endOffset":5678`, `"endOffset":5678,"startOffset":1234`},
		"duplicate metadata, last wins": {`"remoteLogSegmentMetadata":`, `"remoteLogSegmentMetadata":"x","remoteLogSegmentMetadata":`},
	} {
		data := strings.ReplaceAll(examplePlain, c[0], c[1])
		if data == examplePlain {
			t.Fatalf("%s: nothing changed", name)
		}
		m, err := manifest.Parse([]byte(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := m.Marshal(); err != nil || string(got) != examplePlain {
			t.Errorf("%s: %v, reads as\n%s", name, err, got)
		}
	}
}

func TestParse_AnyShapeOfMetadataIsAccepted(t *testing.T) {
	i := strings.Index(examplePlain, `,"remoteLogSegmentMetadata"`)
	for _, c := range []string{``, `null`, `"text"`, `7`, `[]`, `[[1],{"a":2}]`, `{}`, `true`, `{"remoteLogSegmentId":7}`, `{"startOffset":"5"}`,
		`{"segmentLeaderEpochs":{"x":1}}`, `{"segmentLeaderEpochs":[1]}`, `{"tierkit":7}`, `{"tierkit":null}`, `{"brokerId":99999999999}`} {
		data := examplePlain[:i]
		if c != "" {
			data += `,"remoteLogSegmentMetadata":` + c
		}
		m, err := manifest.Parse([]byte(data + "}"))
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if m.Metadata != nil || m.Checksums != nil || m.MetadataProblem == "" {
			t.Errorf("%s: metadata %+v, problem %q", c, m.Metadata, m.MetadataProblem)
		}
	}
}

func TestParse_RefusesWhatCannotBeRight(t *testing.T) {
	deep := strings.Repeat(`[`, 1001) + strings.Repeat(`]`, 1001)
	for name, c := range map[string][3]string{ // replaced, by, said in the error
		"version 2":                {`"version":"1"`, `"version":"2"`, "version"},
		"version 1.0":              {`"version":"1"`, `"version":1.0`, "version"},
		"version null":             {`"version":"1"`, `"version":null`, "version"},
		"version missing":          {`"version":"1",`, ``, "version: missing"},
		"version in another case":  {`"version"`, `"Version"`, "Version: unknown field"},
		"unknown at the top":       {`"compression"`, `"x":1,"compression"`, "x: unknown field"},
		"unknown in chunkIndex":    {`"originalChunkSize"`, `"y":1,"originalChunkSize"`, "chunkIndex.y: unknown field"},
		"unknown in an entry":      {`"position":0,`, `"position":0,"z":{},`, "segmentIndexes.offset.z: unknown field"},
		"field of the other kind":  {`"originalChunkSize"`, `"transformedChunks":"","originalChunkSize"`, "chunkIndex.transformedChunks"},
		"type missing":             {`"type":"fixed",`, ``, "chunkIndex.type"},
		"type unknown":             {`"fixed"`, `"other"`, "chunkIndex.type"},
		"file size missing":        {`"originalFileSize":2500,`, ``, "chunkIndex.originalFileSize: missing"},
		"file size null":           {`"originalFileSize":2500`, `"originalFileSize":null`, "chunkIndex.originalFileSize"},
		"file size negative":       {`"originalFileSize":2500`, `"originalFileSize":-1`, "negative"},
		"file size above int":      {`"originalFileSize":2500`, `"originalFileSize":2147483648`, "32 bits"},
		"file size 10 GB":          {`"originalFileSize":2500`, `"originalFileSize":10000000000`, "32 bits"},
		"file size beyond int64":   {`"originalFileSize":2500`, `"originalFileSize":99999999999999999999`, "32 bits"},
		"file size 1e99":           {`"originalFileSize":2500`, `"originalFileSize":1e99`, "32 bits"},
		"file size as a word":      {`"originalFileSize":2500`, `"originalFileSize":"many"`, "32 bits"},
		"decimal as a string":      {`"originalFileSize":2500`, `"originalFileSize":"2500.7"`, "32 bits"},
		"file size true":           {`"originalFileSize":2500`, `"originalFileSize":true`, "no integer"},
		"number with zeros":        {`"originalFileSize":2500`, `"originalFileSize":002500`, "malformed number"},
		"number with a plus":       {`"originalFileSize":2500`, `"originalFileSize":+2500`, "no JSON value"},
		"number without digits":    {`"originalFileSize":2500`, `"originalFileSize":2500.`, "malformed number"},
		"not a number":             {`"originalFileSize":2500`, `"originalFileSize":NaN`, "no JSON value"},
		"chunk size 0":             {`"originalChunkSize":1000`, `"originalChunkSize":0`, "originalChunkSize is 0"},
		"sizes do not add up":      {`"transformedChunkSize":1000`, `"transformedChunkSize":999`, "possible are"},
		"last size does not":       {`"finalTransformedChunkSize":500`, `"finalTransformedChunkSize":499`, "possible are"},
		"compression on fixed":     {`"compression":false`, `"compression":true`, ""},
		"compression missing":      {`"compression":false,`, ``, "compression: missing"},
		"compression a word":       {`"compression":false`, `"compression":"no"`, "no boolean"},
		"compression a decimal":    {`"compression":false`, `"compression":0.0`, "no boolean"},
		"encryption on plain":      {`"compression":false`, `"compression":false,"encryption":{"dataKey":"k:AA==","aad":"AA=="}`, "possible are"},
		"encryption without aad":   {`"compression":false`, `"compression":false,"encryption":{"dataKey":"k:AA=="}`, "encryption.aad: missing"},
		"encryption without key":   {`"compression":false`, `"compression":false,"encryption":{"aad":"AA=="}`, "encryption.dataKey: missing"},
		"encryption is a string":   {`"compression":false`, `"compression":false,"encryption":"on"`, "want an object"},
		"aad is a number":          {`"compression":false`, `"compression":false,"encryption":{"dataKey":"k:AA==","aad":1}`, "want a string"},
		"aad url-safe":             {`"compression":false`, `"compression":false,"encryption":{"dataKey":"k:AA==","aad":"-_-_"}`, "encryption.aad"},
		"offset index null":        {`"offset":{"position":0,"size":10}`, `"offset":null`, "segmentIndexes.offset: null"},
		"offset index missing":     {`"offset":{"position":0,"size":10},`, ``, "segmentIndexes.offset"},
		"transaction missing":      {`,"transaction":null`, ``, "segmentIndexes.transaction: missing"},
		"size missing":             {`,"size":10}`, `}`, "segmentIndexes.offset.size: missing"},
		"size negative":            {`"size":10`, `"size":-10`, "negative"},
		"parts with a gap":         {`"position":10`, `"position":11`, "position is 11"},
		"parts that overlap":       {`"position":10`, `"position":9`, "position is 9"},
		"parts beyond an int":      {`"position":30,"size":30`, `"position":30,"size":2147483647`, "above"},
		"not an object":            {examplePlain, `[]`, "an array"},
		"not JSON":                 {examplePlain, `hello`, "no JSON value"},
		"cut":                      {`"txnIdxEmpty":false}}`, `"txnIdx`, "JSON ends in a string"},
		"nested too deep":          {`"startOffset"`, `"x":` + deep + `,"startOffset"`, "nested deeper"},
		"JSON broken in metadata":  {`"startOffset":1234`, `"startOffset":1234 5`, "not closed"},
		"trailing comma":           {`"txnIdxEmpty":false}`, `"txnIdxEmpty":false,}`, "no field name"},
		"single quotes":            {`"compression"`, `'compression'`, "no field name"},
		"comment":                  {`"compression"`, `/**/"compression"`, "no field name"},
		"control character":        {`"topic":"orders"`, "\"topic\":\"or\nders\"", "control character"},
		"not UTF-8":                {`"topic":"orders"`, "\"topic\":\"or\xffders\"", "not UTF-8"},
		"unknown escape":           {`"topic":"orders"`, `"topic":"or\xders"`, "unknown escape"},
		"escape without digits":    {`"topic":"orders"`, `"topic":"or\u12g4"`, "hexadecimal"},
		"word runs on":             {`"compression":false`, `"compression":falsey`, "no JSON value"},
		"name longer than a line":  {`"compression"`, `"` + strings.Repeat("n\\n", 500) + `":1,"compression"`, "unknown field"},
		"value longer than a line": {`"version":"1"`, `"version":"` + strings.Repeat("v", 5000) + `"`, "version"},
	} {
		data := strings.Replace(examplePlain, c[0], c[1], 1)
		if data == examplePlain {
			t.Fatalf("%s: nothing changed", name)
		}
		if name == "compression on fixed" {
			// Sizes between the smallest and the largest frame are possible; reading the chunks will tell.
			continue
		}
		m, err := manifest.Parse([]byte(data))
		if !isCorrupt(err) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt with %q", name, m, err, c[2])
			continue
		}
		if strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 400 {
			t.Errorf("%s: error is not one short line: %q", name, err)
		}
	}
	for n := range examplePlain {
		if _, err := manifest.Parse([]byte(examplePlain[:n])); !isCorrupt(err) {
			t.Fatalf("cut to %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	if _, err := manifest.Parse(bytes.Repeat([]byte(" "), manifest.MaxBytes+1)); !isCorrupt(err) || !strings.Contains(err.Error(), "67108864") {
		t.Errorf("above the limit: %v", err)
	}
}

func TestMarshal_RefusesWhatParseWould(t *testing.T) {
	for name, change := range map[string]func(*manifest.Manifest){
		"no chunks":         func(m *manifest.Manifest) { m.Chunks = nil },
		"flag":              func(m *manifest.Manifest) { m.Encryption = &manifest.Encryption{DataKey: "k:AA=="} },
		"a gap":             func(m *manifest.Manifest) { m.Indexes.LeaderEpoch.Position++ },
		"negative":          func(m *manifest.Manifest) { m.Indexes.LeaderEpoch.Size = -1 },
		"above int":         func(m *manifest.Manifest) { m.Indexes.LeaderEpoch.Size = math.MaxInt32 },
		"too few checksums": func(m *manifest.Manifest) { m.Checksums = manifest.NewChecksums(0) },
	} {
		m := example(t)
		change(m)
		if b, err := m.Marshal(); !isCorrupt(err) {
			t.Errorf("%s: %s, %v, want ErrCorrupt", name, b, err)
		}
	}
}

// withChecksums is example with the extension.
func withChecksums(t testing.TB) *manifest.Manifest {
	t.Helper()
	m := example(t)
	c := manifest.NewChecksums(3)
	for i := range uint32(3) {
		c.AppendChunk(0xffffff00 + i)
	}
	for i, it := range manifest.StoredOrder()[:4] {
		c.SetPart(it, math.MaxUint32-uint32(i))
	}
	c.LogBytes, c.IndexBytes = 2500, 60
	m.Checksums = c
	return m
}

const exampleExtension = `,"tierkit":{"version":1,"chunkCrc32c":"////AP///wH///8C","indexCrc32c":{"offset":4294967295,"timestamp":4294967294,"producerSnapshot":4294967293,"leaderEpoch":4294967292},"logBytes":2500,"indexBytes":60}`

func TestChecksums_AreLastInTheMetadata(t *testing.T) {
	want := strings.TrimSuffix(examplePlain, "}}") + exampleExtension + "}}"
	if got := marshal(t, withChecksums(t)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	m, err := manifest.Parse([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if m.Checksums.Chunks() != 3 || m.Checksums.Chunk(2) != 0xffffff02 {
		t.Errorf("%d checksums, the last is %x", m.Checksums.Chunks(), m.Checksums.Chunk(2))
	}
	if v, ok := m.Checksums.Part(remotelog.LeaderEpochIndex); !ok || v != 4294967292 {
		t.Errorf("leader epoch index: %d, %t", v, ok)
	}
	if _, ok := m.Checksums.Part(remotelog.TransactionIndex); ok {
		t.Error("checksum of a transaction index that is not there")
	}
	// Without metadata of ours the extension still has its place.
	m.Metadata = nil
	if got := marshal(t, m); !strings.HasSuffix(got, `"remoteLogSegmentMetadata":{`+exampleExtension[1:]+"}}") {
		t.Errorf("got %s", got)
	}
	if got := manifest.Checksum([]byte("123456789")); got != 0xe3069283 {
		t.Errorf("CRC-32C of the check string is %x", got)
	}
}

func TestChecksums_OtherVersionsAreIgnoredDamageIsNot(t *testing.T) {
	whole := strings.TrimSuffix(examplePlain, "}}") + exampleExtension + "}}"
	for name, c := range map[string][3]string{
		"version 2":             {`"tierkit":{"version":1`, `"tierkit":{"version":2`, "ignored"},
		"version 2, other form": {exampleExtension, `,"tierkit":{"version":2,"chunkCrc32c":7,"logBytes":"x"}`, "ignored"},
		"no object":             {exampleExtension, `,"tierkit":"1"`, "ignored"},
		"more fields":           {`,"indexBytes":60`, `,"indexBytes":60,"later":{"a":[1]}`, "read"},
		"more parts":            {`"leaderEpoch":4294967292`, `"leaderEpoch":4294967292,"later":"x"`, "read"},
		"no version":            {`"tierkit":{"version":1,`, `"tierkit":{`, "corrupt"},
		"version a string":      {`"tierkit":{"version":1`, `"tierkit":{"version":"1"`, "corrupt"},
		"version negative":      {`"tierkit":{"version":1`, `"tierkit":{"version":-1`, "corrupt"},
		"no chunks":             {`"chunkCrc32c":"////AP///wH///8C",`, ``, "corrupt"},
		"chunks not base64":     {`////AP`, `-___AP`, "corrupt"},
		"chunks cut":            {`"////AP///wH///8C"`, `"////AP///wH//w=="`, "corrupt"},
		"one chunk too few":     {`"////AP///wH///8C"`, `"////AP///wE="`, "corrupt"},
		"logBytes other":        {`"logBytes":2500`, `"logBytes":2501`, "corrupt"},
		"logBytes missing":      {`"logBytes":2500,`, ``, "corrupt"},
		"logBytes a string":     {`"logBytes":2500`, `"logBytes":"2500"`, "corrupt"},
		"indexBytes other":      {`"indexBytes":60`, `"indexBytes":0`, "corrupt"},
		"a part missing":        {`"offset":4294967295,`, ``, "corrupt"},
		"a part too much":       {`"offset":4294967295,`, `"offset":4294967295,"transaction":0,`, "corrupt"},
		"a part beyond 32 bits": {`4294967295`, `4294967296`, "corrupt"},
		"a part negative":       {`4294967295`, `-1`, "corrupt"},
		"parts an array":        {`"indexCrc32c":{`, `"indexCrc32c":[],"x":{`, "corrupt"},
	} {
		data := strings.Replace(whole, c[0], c[1], 1)
		if data == whole {
			t.Fatalf("%s: nothing changed", name)
		}
		m, err := manifest.Parse([]byte(data))
		got := "corrupt"
		switch {
		case err == nil && m.Metadata == nil:
			t.Errorf("%s: metadata are lost: %s", name, m.MetadataProblem)
		case err == nil && m.Checksums == nil:
			got = "ignored"
		case err == nil:
			got = "read"
		case !isCorrupt(err):
			t.Errorf("%s: %v is not ErrCorrupt", name, err)
		}
		if got != c[2] {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c[2])
		}
	}
}

func TestParse_LargestIndex(t *testing.T) {
	const n = 3_000_000
	sizes := make([]int32, n)
	for i := range sizes {
		sizes[i] = int32(10 + i%200)
	}
	x, err := chunking.NewVariable(1, n, sizes)
	if err != nil {
		t.Fatal(err)
	}
	m := example(t)
	m.Chunks, m.Compression = x, true
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := manifest.Parse(b)
	if err != nil || back.Chunks.Chunk(n-1) != x.Chunk(n-1) {
		t.Fatalf("%d chunks do not come back: %v", n, err)
	}
	if got := back.MemoryBytes(); got > 2*n {
		t.Errorf("manifest of %d chunks holds %d bytes", n, got)
	}
}

func BenchmarkParse(b *testing.B) {
	sizes := make([]int32, 256) // a segment of 1 GiB
	for i := range sizes {
		sizes[i] = int32(1_500_000 + i*7919%90_000)
	}
	x, err := chunking.NewVariable(4<<20, 1<<30, sizes)
	if err != nil {
		b.Fatal(err)
	}
	m := example(b)
	m.Chunks, m.Compression = x, true
	data, err := m.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := manifest.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(examplePlain))
	f.Add([]byte(fmt.Sprintf("%s%s}}", strings.TrimSuffix(examplePlain, "}}"), exampleExtension)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse(data)
		if err != nil {
			if !isCorrupt(err) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q is not one line of ErrCorrupt", err)
			}
			return
		}
		b, err := m.Marshal()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := manifest.Parse(b)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, b)
		}
		if d := cmp.Diff(m.Metadata, again.Metadata); d != "" {
			t.Fatalf("metadata changed:\n%s", d)
		}
	})
}
