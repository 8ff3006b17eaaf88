package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
)

func TestDemo_DoesTheWholeCycleAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	r := must(t, "demo")
	for _, want := range []string{
		"20 segments copied", "20 segments, ", ": all equal", "read_uncommitted", "read_committed", "objects left in the store: 0", "Next:",
		"230  2023-11-14 22:17:10.000  epoch 4  k-230",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the demonstration does not show %q:\n%s", want, r.out)
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in the temporary directory: %v, %v", left, err)
	}
}

func TestDemo_KeepLeavesAStoreThatCommandsWorkOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	r := must(t, "demo", "--keep", dir)
	config := filepath.Join(dir, "tierkit.properties")
	if !strings.Contains(r.out, "--config "+config) {
		t.Errorf("the end does not say how to go on:\n%s", r.out)
	}
	if got := lines(t, must(t, "ls", "--config", config, "--json").out); len(got) != 20 {
		t.Errorf("ls shows %d segments, want 20", len(got))
	}
	fails(t, cli.ExitUsage, []string{dir, "not empty"}, "demo", "--keep", dir)
}

// The names of fields are promised by docs/cli.md, "JSON": more may come, none may go.
func TestJSON_ShapesHoldWhatScriptsRelyOn(t *testing.T) {
	b := newBed(t, []string{"compression.enabled=true", "custom.metadata.fields.include=REMOTE_SIZE"}, "payments-0")
	check := func(what string, m map[string]any, fields ...string) {
		t.Helper()
		for _, f := range fields {
			if _, ok := m[f]; !ok {
				t.Errorf("%s: no field %q in %v", what, f, m)
			}
		}
	}
	copied := lines(t, must(t, "copy", "--config", b.config, "--json", b.logs).out)
	for _, m := range copied[:len(copied)-1] {
		check("copy", m, "topic", "partition", "segmentId", "startOffset", "endOffset", "segmentSizeInBytes", "storedBytes", "seconds", "result", "error")
		if m["result"] != "copied" || m["error"] != nil || m["storedBytes"] == nil {
			t.Errorf("copy: %v, want copied, without error, with storedBytes", m)
		}
	}
	sum, _ := copied[len(copied)-1]["summary"].(map[string]any)
	check("copy summary", sum, "copied", "skipped", "failed", "bytes", "seconds")
	if got := sum["copied"]; got != json.Number("6") {
		t.Errorf("summary.copied = %v, want 6", got)
	}
	again := lines(t, must(t, "copy", "--config", b.config, "--json", b.logs).out)
	if sum, _ := again[len(again)-1]["summary"].(map[string]any); sum["copied"] != json.Number("0") || sum["skipped"] != json.Number("6") {
		t.Errorf("copied again: %v, want all 6 skipped", sum)
	}

	listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	if len(listed) != 6 {
		t.Fatalf("ls: %d segments, want 6", len(listed))
	}
	for i, m := range listed {
		check("ls", m, "topic", "topicId", "partition", "segmentId", "state", "startOffset", "endOffset", "maxTimestampMs", "segmentSizeInBytes",
			"segmentLeaderEpochs", "brokerId", "eventTimestampMs", "txnIdxEmpty", "customMetadata", "storedBytes", "objectKey")
		if m["state"] != "COPY_SEGMENT_FINISHED" || m["storedBytes"] == nil {
			t.Errorf("ls: %v", m)
		}
		key, _ := m["objectKey"].(string)
		if _, err := os.Stat(filepath.Join(b.store, key+".rsm-manifest")); err != nil {
			t.Errorf("ls: segment %d: objectKey: %v", i, err)
		}
	}
	id, _ := listed[1]["segmentId"].(string)
	key, _ := listed[1]["objectKey"].(string)

	for _, name := range []string{filepath.Join(b.store, key+".rsm-manifest"), key + ".rsm-manifest", key} {
		inspected := lines(t, must(t, "inspect", "--config", b.config, "--json", "--chunks", name).out)
		check("inspect", inspected[0], "version", "chunkIndex", "segmentIndexes", "compression", "remoteLogSegmentMetadata", "format")
		f, _ := inspected[0]["format"].(map[string]any)
		check("inspect format", f, "chunks", "compression", "encryption", "keyId", "originalBytes", "storedBytes")
		if len(inspected) != 2 {
			t.Errorf("inspect --chunks: %d lines, want the manifest and 1 chunk", len(inspected))
		}
	}
	for name, want := range map[string]string{"offset": ".index", "timestamp": ".timeindex", "transaction": ".txnindex"} {
		got := must(t, "index", "--config", b.config, "--topic", "payments", "--partition", "0", "--segment", id, "--type", name)
		if raw, err := os.ReadFile(filepath.Join(b.partition("payments-0"), "00000000000000000024"+want)); err != nil || got.out != string(raw) {
			t.Errorf("index %s: %d bytes, want the %d of %s (%v)", name, len(got.out), len(raw), want, err)
		}
	}
	deleted := lines(t, must(t, "delete", "--config", b.config, "--json", "--topic", "payments", "--partition", "0", "--before-offset", "55").out)
	if len(deleted) != 3 {
		t.Fatalf("delete: %d lines, want 2 segments and the summary", len(deleted))
	}
	check("delete", deleted[0], "topic", "partition", "segmentId", "startOffset", "endOffset", "result")
	if s, _ := deleted[2]["summary"].(map[string]any); s["deleted"] != json.Number("2") {
		t.Errorf("delete: summary %v, want 2 deleted", s)
	}
	if got := lines(t, must(t, "ls", "--config", b.config, "--json").out); len(got) != 4 {
		t.Errorf("after the delete %d segments are left, want 4", len(got))
	}
}

func TestFetch_RangesAndOutputFile(t *testing.T) {
	b := newBed(t, []string{"chunk.size=4096"}, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	id, _ := listed[0]["segmentId"].(string)
	want, err := os.ReadFile(filepath.Join(b.partition("orders-0"), "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(more ...string) []string {
		return append([]string{"fetch", "--config", b.config, "--topic", "orders", "--partition", "0", "--segment", id}, more...)
	}
	for name, c := range map[string]struct {
		args []string
		want []byte
	}{
		"all":             {nil, want},
		"a range":         {[]string{"--from", "4000", "--to", "8200"}, want[4000:8201]},
		"to the end":      {[]string{"--from", "15000"}, want[15000:]},
		"behind the end":  {[]string{"--from", "15000", "--to", "99999999"}, want[15000:]},
		"at the very end": {[]string{"--from", "15918"}, nil},
	} {
		if got := must(t, fetch(c.args...)...).out; got != string(c.want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.want))
		}
	}
	file := filepath.Join(b.dir, "out.log")
	must(t, fetch("-o", file)...)
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("-o: %d bytes, %v, want %d", len(got), err, len(want))
	}
	fails(t, cli.ExitUsage, []string{"15919"}, fetch("--from", "15919")...)
	fails(t, cli.ExitUsage, []string{"--from"}, fetch("--from", "-1")...)
	fails(t, cli.ExitUsage, []string{"--to"}, fetch("--from", "5", "--to", "4")...)
	fails(t, cli.ExitUsage, []string{"--segment"}, "fetch", "--config", b.config, "--topic", "orders", "--partition", "0", "--segment", "abc")
	fails(t, cli.ExitFailed, []string{"AAECAwQFBgcICQoLDA0ODw", "tierkit ls"},
		"fetch", "--config", b.config, "--topic", "orders", "--partition", "0", "--segment", "AAECAwQFBgcICQoLDA0ODw")
	// A failed write leaves neither the file nor a temporary one.
	before, _ := os.ReadDir(b.dir)
	fails(t, cli.ExitFailed, []string{"none"}, fetch("-o", filepath.Join(b.dir, "none", "out"))...)
	if after, _ := os.ReadDir(b.dir); len(after) != len(before) {
		t.Errorf("left behind: %v", after)
	}
}

func TestRead_EveryRecordOfWhatIsTieredEqualsTheTruth(t *testing.T) {
	for _, name := range golden.Partitions() {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(truth.Records) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b := newBed(t, []string{"compression.enabled=true"}, name)
			must(t, "copy", "--config", b.config, "--include-active", b.logs)
			topic, partition := truth.Topic, name[strings.LastIndex(name, "-")+1:]
			listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
			first := listed[0]["startOffset"].(json.Number).String()
			last, _ := listed[len(listed)-1]["endOffset"].(json.Number).Int64()
			from, _ := listed[0]["startOffset"].(json.Number).Int64()
			got := must(t, "read", "--config", b.config, "--topic", topic, "--partition", partition, "--offset", first, "--format", "json").out
			checkRecords(t, got, truth, from, last)
		})
	}
}

// checkRecords compares the output of read with what consumers of the broker got, in a range of offsets.
func checkRecords(t *testing.T, out string, truth *golden.Truth, from, last int64) {
	t.Helper()
	got := lines(t, out)
	var want []golden.Record
	for _, r := range truth.Records {
		if r.Offset >= from && r.Offset <= last {
			want = append(want, r)
		}
	}
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d records from offset %d to %d, want %d", len(got), from, last, len(want))
	}
	for i, m := range got {
		if m["offset"].(json.Number).String() != itoa(want[i].Offset) || m["timestamp"].(json.Number).String() != itoa(want[i].Timestamp) {
			t.Fatalf("record %d is %v, want offset %d and timestamp %d", i, m, want[i].Offset, want[i].Timestamp)
		}
		for field, bytes := range map[string]*golden.Bytes{"key": want[i].Key, "value": want[i].Value} {
			if err := bytes.Match(fieldBytes(t, m, field)); err != nil {
				t.Fatalf("offset %d: %s: %v", want[i].Offset, field, err)
			}
		}
	}
}

// fieldBytes returns the bytes of key or value as the JSON shape has them; nil is null.
func fieldBytes(t *testing.T, m map[string]any, name string) []byte {
	t.Helper()
	if text, ok := m[name+"Base64"].(string); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v, ok := m[name]
	if !ok {
		t.Fatalf("neither %s nor %sBase64 in %v", name, name, m)
	}
	if v == nil {
		return nil
	}
	return append([]byte{}, v.(string)...)
}

func itoa(n int64) string { b, _ := json.Marshal(n); return string(b) }

func TestRead_IsolationTimestampFormatsAndLimits(t *testing.T) {
	b := newBed(t, nil, "payments-0", "orders-1")
	must(t, "copy", "--config", b.config, b.logs)
	read := func(topic, partition string, more ...string) result {
		t.Helper()
		return must(t, append([]string{"read", "--config", b.config, "--topic", topic, "--partition", partition}, more...)...)
	}
	r := read("payments", "0", "--offset", "0", "--isolation", "read_committed", "--json")
	if !strings.Contains(r.err, "147") {
		t.Errorf("the notice about the end of what is committed is missing: %q", r.err)
	}
	for _, m := range lines(t, r.out) {
		if n, _ := m["offset"].(json.Number).Int64(); n > 146 {
			t.Errorf("offset %d is shown as committed", n)
		}
	}
	if got := read("orders", "1", "--offset", "10", "--max", "3", "--format", "raw").out; strings.Count(got, "\n") != 3 {
		t.Errorf("raw: %q, want 3 lines", got)
	}
	if got := lines(t, read("orders", "1", "--timestamp", "1700000000000", "--max", "1", "--json").out); len(got) != 1 {
		t.Errorf("by timestamp: %v, want 1 record", got)
	} else if ts, _ := got[0]["timestamp"].(json.Number).Int64(); ts < 1700000000000 {
		t.Errorf("by timestamp: record of %d", ts)
	}
	fails(t, cli.ExitFailed, []string{"999999", "0", "539"}, "read", "--config", b.config, "--topic", "orders", "--partition", "1", "--offset", "999999")
	fails(t, cli.ExitFailed, []string{"timestamp"}, "read", "--config", b.config, "--topic", "orders", "--partition", "1", "--timestamp", "99999999999999")
	fails(t, cli.ExitFailed, []string{"orders-7", "tierkit ls"}, "read", "--config", b.config, "--topic", "orders", "--partition", "7", "--offset", "0")
}

func TestConfig_ReferenceOfAllAndOfOneComponent(t *testing.T) {
	all := must(t, "config").out
	for _, want := range []string{"chunk.size", "memory.budget.bytes", "metadata.log", "storage.root", "encryption.key.pairs.<id>.public.key.file", "compression.zstd.level"} {
		if !strings.Contains(all, want) {
			t.Errorf("the reference does not have %s", want)
		}
	}
	var names []string
	for _, m := range lines(t, must(t, "config", "fs", "--json").out) {
		names = append(names, m["name"].(string))
	}
	if !slices.Contains(names, "storage.root") || slices.Contains(names, "chunk.size") {
		t.Errorf("config fs: %v", names)
	}
	fails(t, cli.ExitUsage, []string{"s4", "fs", "rsm"}, "config", "s4")
}
