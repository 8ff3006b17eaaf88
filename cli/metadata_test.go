package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
)

// goldenLine is a record as a broker wrote it and as Kafka decodes it.
type goldenLine struct {
	Partition int32
	Offset    int64
	Timestamp int64
	Value     []byte
	Decoded   map[string]any
}

func goldenLines(t *testing.T, version string) (out []goldenLine) {
	t.Helper()
	raw, err := os.ReadFile("../rlmm/testdata/remote-log-metadata-" + version + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var l goldenLine
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// rawTopic is a copy of the topic's partition directories as the broker left them.
func rawTopic(t *testing.T, version string) string {
	t.Helper()
	root, err := golden.Kafka()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := golden.CopyTree(dir, os.DirFS(filepath.Join(root, "remote-log-metadata", version+"-raw"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// calm leaves out the one record that brokers may not survive, so that the exit code is 0.
func calm(ls []goldenLine) []goldenLine {
	return slices.DeleteFunc(ls, func(l goldenLine) bool { return l.Decoded["state"] == "DELETE_PARTITION_FINISHED" })
}

// checkDump compares what dump --json says with Kafka's decoder, field by field.
func checkDump(t *testing.T, got []map[string]any, want []goldenLine, timestamps bool) (fatal int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		head := map[string]any{"metadataPartition": num(int64(w.Partition)), "offset": num(w.Offset), "key": nil, "effect": "applied"}
		if timestamps {
			head["timestamp"] = num(w.Timestamp)
		}
		for name, v := range head {
			if x, ok := g[name]; !ok || x != v {
				t.Errorf("record %d: %s is %v, want %v", i, name, x, v)
			}
		}
		if text, _ := json.Marshal(w.Value); `"`+fmt.Sprint(g["value"])+`"` != string(text) {
			t.Errorf("record %d: value is %v, want %s", i, g["value"], text)
		}
		if x, ok := g["fatal"]; !ok {
			t.Errorf("record %d has no field fatal", i)
		} else if x != nil {
			fatal++
		}
		decoded := map[string]any{}
		for name := range w.Decoded {
			decoded[name] = g[name]
		}
		if d := cmp.Diff(w.Decoded, decoded); d != "" {
			t.Errorf("record %d (-Kafka +ours):\n%s", i, d)
		}
	}
	return fatal
}

func num(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// fileLogBed is a bed whose file log holds the values of a golden topic, each in its metadata partition.
func fileLogBed(t *testing.T, want []goldenLine, extra ...[]byte) bed {
	t.Helper()
	b := newBed(t, nil)
	log := openLogOf(t, &b, 5)
	for _, l := range want {
		appendTo(t, log, l.Partition, l.Value)
	}
	for _, v := range extra {
		appendTo(t, log, 0, v)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func openLogOf(t *testing.T, b *bed, partitions int32) *filelog.Log {
	t.Helper()
	log, err := filelog.Open(t.Context(), filepath.Join(b.store, ".tierkit", "metadata"), filelog.Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func appendTo(t *testing.T, log rlmm.Log, p int32, value []byte) {
	t.Helper()
	if _, err := log.Append(t.Context(), p, value); err != nil {
		t.Fatal(err)
	}
}

// TestMetadataDump_LogDirIsWhatKafkaDecodes: the partition directories of a stopped broker. Each topic has one record that ends
// the consumer of a broker that loads the partition: DELETE_PARTITION_FINISHED, which was put there by hand.
func TestMetadataDump_LogDirIsWhatKafkaDecodes(t *testing.T) {
	for _, version := range []string{"3.9.2", "4.4.0"} {
		r := run(t, "metadata", "dump", "--json", "--log-dir", rawTopic(t, version))
		checkFailure(t, r, cli.ExitDamage, []string{"1 record", "--fatal"}, []string{version})
		if fatal := checkDump(t, lines(t, r.out), goldenLines(t, version), true); fatal != 1 {
			t.Errorf("%s: %d records are fatal, want 1", version, fatal)
		}
	}
}

func TestMetadataDump_FileLogIsWhatKafkaDecodes(t *testing.T) {
	want := calm(goldenLines(t, "3.9.2"))
	b := fileLogBed(t, want)
	checkDump(t, lines(t, must(t, "metadata", "dump", "--json", "--config", b.config).out), want, false)

	// For people: Kafka's console formatter.
	out := must(t, "metadata", "dump", "--config", b.config).out
	first, _, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(first, "partition: 0, offset: 0, value: RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=") {
		t.Errorf("the first line is %q", first)
	}
}

func TestMetadataDump_Filters(t *testing.T) {
	all := goldenLines(t, "4.4.0")
	b := fileLogBed(t, all)
	segment, _ := all[0].Decoded["segmentId"].(string)
	topic, _ := all[0].Decoded["topic"].(string)
	dir := rawTopic(t, "4.4.0")
	cases := []struct {
		args []string
		keep func(l *goldenLine) bool
	}{
		{[]string{"--topic", topic}, func(l *goldenLine) bool { return l.Decoded["topic"] == topic }},
		{[]string{"--topic", topic, "--partition", "1"}, func(l *goldenLine) bool { return l.Decoded["topic"] == topic && l.Decoded["partition"] == num(1) }},
		{[]string{"--segment", segment}, func(l *goldenLine) bool { return l.Decoded["segmentId"] == segment }},
		{[]string{"--from", "5", "--to", "9"}, func(l *goldenLine) bool { return l.Offset >= 5 && l.Offset <= 9 }},
		{[]string{"--topic", "nothing"}, func(*goldenLine) bool { return false }},
		{[]string{"--from", "2026-11-29T20:38:49Z"}, func(l *goldenLine) bool { return l.Timestamp >= 1795984729000 }},
		{[]string{"--to", "2026-11-29T20:38:49Z"}, func(l *goldenLine) bool { return l.Timestamp <= 1795984729000 }},
	}
	for _, c := range cases {
		where := []string{"--config", b.config}
		if strings.Contains(strings.Join(c.args, " "), "T20:") {
			where = []string{"--log-dir", dir} // there the timestamps are the broker's
		}
		r := run(t, slices.Concat([]string{"metadata", "dump", "--json"}, where, c.args)...)
		var got, want []string
		for _, m := range lines(t, r.out) {
			got = append(got, fmt.Sprint(m["metadataPartition"], "@", m["offset"]))
		}
		for i := range all {
			if c.keep(&all[i]) {
				want = append(want, fmt.Sprint(all[i].Partition, "@", all[i].Offset))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", c.args, got, want)
		}
	}
	for _, args := range [][]string{{"--from", "yesterday"}, {"--segment", "x"}, {"--partition", "1"}, {"--log-dir", t.TempDir()}, {"--log-dir", "/does/not/exist"}, {"more"}} {
		fails(t, cli.ExitUsage, nil, slices.Concat([]string{"metadata", "dump", "--config", b.config}, args)...)
	}
	fails(t, cli.ExitUsage, []string{"dump status watch"}, "metadata")
	fails(t, cli.ExitUsage, []string{"--config"}, "metadata", "dump")
}

// Records that brokers do not survive are shown, named, counted, and make the exit code 3.
func TestMetadataDump_FatalAndInvalidRecords(t *testing.T) {
	want := calm(goldenLines(t, "3.9.2"))
	garbage := []byte("not a record\x1b[2J")
	id := want[0].Decoded["segmentId"]
	done := slices.IndexFunc(want, func(l goldenLine) bool {
		return l.Decoded["segmentId"] == id && l.Decoded["state"] == "COPY_SEGMENT_FINISHED"
	})
	b := fileLogBed(t, want, garbage, want[0].Value, want[done].Value, want[0].Value) // the last one is a segment that exists
	r := run(t, "metadata", "dump", "--json", "--config", b.config)
	checkFailure(t, r, cli.ExitDamage, []string{"1 record", "--fatal"}, nil)
	var bad, dropped map[string]any
	for _, m := range lines(t, r.out) {
		if m["type"] == "Invalid" {
			bad = m
		}
		if m["effect"] == "dropped: invalid-transition" {
			dropped = m
		}
	}
	for _, field := range []string{"metadataPartition", "offset", "timestamp", "key", "value", "type", "error", "fatal", "effect"} {
		if _, ok := bad[field]; !ok {
			t.Errorf("an invalid record has no field %s: %v", field, bad)
		}
	}
	if text, _ := bad["fatal"].(string); !strings.Contains(text, "every broker that reads") || bad["effect"] != "dropped: undecodable" {
		t.Errorf("an invalid record: %v", bad)
	}
	if dropped == nil || dropped["fatal"] != nil {
		t.Errorf("a segment that exists: %v", dropped)
	}
	r = run(t, "metadata", "dump", "--fatal", "--config", b.config)
	if n := strings.Count(r.out, "\n"); r.code != cli.ExitDamage || n != 1 || !strings.Contains(r.out, "[FATAL: ends the metadata consumer") {
		t.Errorf("--fatal: exit code %d, %d lines: %q", r.code, n, r.out)
	}
	if r := run(t, "metadata", "dump", "--fatal", "--topic", "visits", "--config", b.config); r.code != cli.ExitOK || r.out != "" {
		t.Errorf("--fatal of a topic that has none: exit code %d: %q", r.code, r.out)
	}
}

// A torn tail is what a killed broker leaves; damage before it is damage. A directory in use is refused.
func TestMetadataDump_LogDirDamage(t *testing.T) {
	dir := rawTopic(t, "3.9.2")
	file := filepath.Join(dir, "__remote_log_metadata-4", "00000000000000000000.log")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dump := []string{"metadata", "dump", "--json", "--log-dir", dir, "--from", "0"}
	all := len(lines(t, run(t, dump...).out))
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(whole[:len(whole)-5])
	r := run(t, dump...)
	if n := len(lines(t, r.out)); n != all-1 || !strings.Contains(r.err, "ends inside a batch") {
		t.Errorf("a torn tail: %d records, want %d, and a notice: %s", n, all-1, r.err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	write(damaged)
	fails(t, cli.ExitDamage, []string{file, "position"}, "metadata", "dump", "--log-dir", dir)
}

func TestMetadataStatus_SaysWhatTheLogHolds(t *testing.T) {
	want := calm(goldenLines(t, "3.9.2"))
	b := fileLogBed(t, want, []byte("garbage"))
	rows := map[string][]map[string]any{}
	for _, m := range lines(t, must(t, "metadata", "status", "--json", "--config", b.config).out) {
		kind, _ := m["type"].(string)
		rows[kind] = append(rows[kind], m)
	}
	if len(rows["log"]) != 1 || rows["log"][0]["metadataPartitions"] != num(5) || rows["log"][0]["kind"] != "file" {
		t.Errorf("log: %v", rows["log"])
	}
	if len(rows["metadataPartition"]) != 5 {
		t.Fatalf("metadata partitions: %v", rows["metadataPartition"])
	}
	in := int64(0)
	for _, l := range want {
		if l.Partition == 0 {
			in++
		}
	}
	zero := rows["metadataPartition"][0]
	first := map[string]any{"count": num(1), "firstOffset": num(in)}
	for name, v := range map[string]any{
		"first": num(0), "next": num(in + 1), "applied": num(in + 1), "lag": num(0), "leader": nil, "records": num(in + 1), "invalid": first, "fatal": first,
	} {
		if d := cmp.Diff(v, zero[name]); d != "" {
			t.Errorf("metadata partition 0, %s (-want +got):\n%s", name, d)
		}
	}
	// The copy that kill -9 cut off, and was made again (README of the golden data).
	found := false
	for _, m := range rows["partition"] {
		if m["topic"] == "invoices" && m["partition"] == num(0) {
			o, _ := m["oldestUnfinished"].(map[string]any)
			found = o["startOffset"] == num(197) && o["state"] == "COPY_SEGMENT_STARTED"
		}
	}
	if !found {
		t.Errorf("the segment of invoices-0 that was never finished is not there: %v", rows["partition"])
	}
	text := must(t, "metadata", "status", "--config", b.config, "--topic", "invoices", "--partition", "0").out
	for _, w := range []string{"5 metadata partitions", "1 (first at " + fmt.Sprint(in) + ")", "invoices-0", "OLDEST UNFINISHED"} {
		if !strings.Contains(text, w) {
			t.Errorf("for people, %q is missing:\n%s", w, text)
		}
	}
	if strings.Contains(text, "invoices-1") {
		t.Errorf("another partition is shown:\n%s", text)
	}
	fails(t, cli.ExitFailed, []string{"--metadata-partitions"}, "metadata", "status", "--config", b.config, "--topic", "nothing")
}

// The highest offsets are those of a manager over the same log.
func TestMetadataStatus_AgreesWithLs(t *testing.T) {
	b := newBed(t, nil, "payments-0")
	must(t, "copy", "--config", b.config, b.logs)
	listed := lines(t, must(t, "ls", "--json", "--config", b.config).out)
	var row map[string]any
	for _, m := range lines(t, must(t, "metadata", "status", "--json", "--config", b.config).out) {
		if m["type"] == "partition" {
			row = m
		}
	}
	segments, _ := row["segments"].(map[string]any)
	if segments["COPY_SEGMENT_FINISHED"] != num(int64(len(listed))) || row["startOffset"] != listed[0]["startOffset"] || row["endOffset"] != listed[len(listed)-1]["endOffset"] {
		t.Errorf("status: %v, ls: %v", row, listed)
	}
}

// Where is my partition: Kafka's partitioner, without a log.
func TestMetadataStatus_WithANumberNeedsNoLog(t *testing.T) {
	args := []string{"metadata", "status", "--topic", "orders", "--partition", "3", "--topic-id", "AAECAwQFBgcICQoLDA0ODw", "--metadata-partitions", "50"}
	if got := must(t, args...).out; got != "orders-3 (topic id AAECAwQFBgcICQoLDA0ODw): metadata partition 36 of 50\n" {
		t.Errorf("got %q", got)
	}
	m := lines(t, must(t, append(args, "--json")...).out)[0]
	if m["metadataPartition"] != num(36) || m["topic"] != "orders" || m["partition"] != num(3) {
		t.Errorf("JSON: %v", m)
	}
	fails(t, cli.ExitUsage, []string{"--topic-id"}, "metadata", "status", "--topic", "orders", "--partition", "3", "--metadata-partitions", "50")
	fails(t, cli.ExitUsage, []string{"1 or more"}, append(args[:len(args)-1:len(args)-1], "0")...)
}

// holdEnv makes the test binary a process that holds an fcntl lock as a broker's JVM does, until its input ends.
const holdEnv = "TIERKIT_TEST_HOLD_LOCK"

func holdLock(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("locked\n"); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return f.Close()
}

func TestMetadataDump_LogDirOfARunningBrokerIsRefused(t *testing.T) {
	dir := rawTopic(t, "3.9.2")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+filepath.Join(dir, ".lock"))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	r := fails(t, cli.ExitUsage, []string{dir, "in use"}, "metadata", "dump", "--log-dir", dir)
	if r.out != "" {
		t.Errorf("something is shown: %s", r.out)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "metadata", "dump", "--log-dir", dir); r.out == "" {
		t.Errorf("after the broker stopped nothing is shown: %s", r.err)
	}
}

// The commands create nothing and leave nothing.
func TestMetadata_CreatesNothing(t *testing.T) {
	b := newBed(t, nil)
	for _, sub := range []string{"dump", "status", "watch"} {
		fails(t, cli.ExitFailed, []string{"no metadata log"}, "metadata", sub, "--config", b.config)
	}
	if names, err := os.ReadDir(b.store); err != nil || len(names) > 0 {
		t.Errorf("the store has %v, %v", names, err)
	}
}

// watch shows what comes in after it began, with what it changes, and ends with 130.
func TestMetadataWatch_ShowsWhatComesInUntilInterrupted(t *testing.T) {
	all := goldenLines(t, "3.9.2")
	for from, want := range map[string]int{"": 2, "0": len(all) + 2} {
		b := fileLogBed(t, all)
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		var errs bytes.Buffer
		code := make(chan int)
		args := []string{"metadata", "watch", "--json", "--config", b.config}
		if from != "" {
			args = append(args, "--from", from)
		}
		go func() {
			c := cli.Run(ctx, args, registry(), cli.Stdio{In: strings.NewReader(""), Out: pw, Err: &errs})
			_ = pw.CloseWithError(io.EOF)
			code <- c
		}()
		if from == "" {
			// Whatever was there is not shown, so something new is written until it is.
			keepAppending(t, &b, all, pr)
		} else {
			got := readLines(t, pr, want-2)
			if len(got) != want-2 {
				t.Errorf("--from %s: %d records, want %d", from, len(got), want-2)
			}
		}
		cancel()
		_, _ = io.Copy(io.Discard, pr) // a line may be on its way
		if c := <-code; c != cli.ExitInterrupted || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("--from %q: exit code %d: %s", from, c, errs.String())
		}
	}
}

func readLines(t *testing.T, r io.Reader, n int) (out []string) {
	t.Helper()
	s := bufio.NewScanner(r)
	for len(out) < n && s.Scan() {
		out = append(out, s.Text())
	}
	if err := s.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return out
}

// keepAppending appends void records until one comes out of r.
func keepAppending(t *testing.T, b *bed, all []goldenLine, r io.Reader) {
	t.Helper()
	log := openLogOf(t, b, 0)
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	shown := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(r)
		if s.Scan() {
			shown <- s.Text()
		}
		close(shown)
	}()
	last := all[len(all)-1]
	for {
		appendTo(t, log, last.Partition, last.Value)
		select {
		case line := <-shown:
			m := lines(t, line+"\n")[0]
			if off, _ := m["offset"].(json.Number).Int64(); off <= last.Offset || m["metadataPartition"] != num(int64(last.Partition)) {
				t.Errorf("shown: %s, want a record that came in later", line)
			}
			if m["effect"] == "applied" {
				t.Errorf("a record that is there already is shown as applied: %s", line)
			}
			return
		default:
		}
	}
}

// Records in a metadata partition that the partitioner does not name are pointed out: no broker finds them.
func TestMetadataStatus_PointsOutMisplacedRecords(t *testing.T) {
	all := calm(goldenLines(t, "3.9.2"))
	b := newBed(t, nil)
	log := openLogOf(t, &b, 5)
	appendTo(t, log, all[0].Partition+1, all[0].Value)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r := must(t, "metadata", "status", "--config", b.config)
	if want := fmt.Sprintf("metadata partition %d has records of %s-%s", all[0].Partition+1, all[0].Decoded["topic"], all[0].Decoded["partition"]); !strings.Contains(r.err, want) {
		t.Errorf("notices are %q, want %q", r.err, want)
	}
}
