package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

const bootstrapKey = "remote.log.metadata.common.client.bootstrap.servers="

func newKafka(t *testing.T, opts ...kfake.Opt) (addresses string) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return strings.Join(c.ListenAddrs(), ",")
}

// The whole cycle with the metadata in the topic, each command with connections of its own, and the same list as with files.
func TestKafka_WholeCycle(t *testing.T) {
	files := newBed(t, nil, "payments-0")
	must(t, "copy", "--config", files.config, files.logs)
	at := newKafka(t)
	b := newBed(t, []string{
		bootstrapKey + at, "remote.log.metadata.topic.num.partitions=5", "remote.log.metadata.topic.replication.factor=1",
	}, "payments-0")
	must(t, "copy", "--config", b.config, b.logs)
	offsets := func(b bed) (out []string) {
		for _, m := range lines(t, must(t, "ls", "--config", b.config, "--json").out) {
			if m["state"] != "COPY_SEGMENT_FINISHED" {
				t.Errorf("ls: %v", m)
			}
			out = append(out, m["startOffset"].(json.Number).String()+"-"+m["endOffset"].(json.Number).String())
		}
		return out
	}
	want, got := offsets(files), offsets(b)
	if len(want) == 0 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("ls: %v, want %v", got, want)
	}
	again := lines(t, must(t, "copy", "--config", b.config, "--json", b.logs).out)
	if sum := again[len(again)-1]["summary"].(map[string]any); sum["copied"] != json.Number("0") {
		t.Errorf("copy again: %v, want everything skipped", sum)
	}
	read := []string{"read", "--topic", "payments", "--partition", "0", "--offset", "10", "--max", "30", "--format", "json", "--config"}
	if got, want := must(t, append(read, b.config)...).out, must(t, append(read, files.config)...).out; got != want || want == "" {
		t.Errorf("read:\n%s\nwant\n%s", got, want)
	}
	must(t, "delete", "--config", b.config, "--topic", "payments", "--partition", "0", "--all")
	if left := must(t, "ls", "--config", b.config, "--json").out; left != "" {
		t.Errorf("ls after delete: %s", left)
	}
	if objects, _ := b.objects(t); len(objects) != 0 {
		t.Errorf("objects after delete: %v", objects)
	}
}

// No command makes the topic but copy, and that only by numbers that somebody chose.
func TestKafka_TopicIsMadeByExplicitSettingsOnly(t *testing.T) {
	at := newKafka(t)
	b := newBed(t, []string{bootstrapKey + at}, "payments-0")
	missing := []string{kafkalog.Topic, "num.partitions"}
	fails(t, cli.ExitFailed, missing, "copy", "--config", b.config, b.logs)
	b.configure(t, bootstrapKey+at, "remote.log.metadata.topic.num.partitions=5", "remote.log.metadata.topic.replication.factor=1")
	fails(t, cli.ExitFailed, missing, "ls", "--config", b.config)
	fails(t, cli.ExitFailed, missing, "read", "--config", b.config, "--topic", "payments", "--partition", "0", "--offset", "0")
	fails(t, cli.ExitFailed, missing, "delete", "--config", b.config, "--topic", "payments", "--partition", "0", "--all")
	must(t, "copy", "--config", b.config, b.logs)
	b.configure(t, bootstrapKey+at, "remote.log.metadata.topic.num.partitions=50")
	fails(t, cli.ExitUsage, []string{"5", "50", "num.partitions"}, "ls", "--config", b.config)
}

func TestKafka_MistakesAreReportedTogether(t *testing.T) {
	b := newBed(t, []string{
		"chunk.size=0", bootstrapKey + "nowhere", "remote.log.metadata.topic.num.partitons=5",
		"remote.log.metadata.producer.security.protocol=SASL_SSL", "remote.log.metadata.producer.sasl.password=hush",
	})
	r := run(t, "ls", "--config", b.config)
	if r.code != cli.ExitUsage {
		t.Errorf("exit code %d, want %d", r.code, cli.ExitUsage)
	}
	for _, want := range []string{"chunk.size", "host:port", "did you mean remote.log.metadata.topic.num.partitions?", "sasl.mechanism: is required"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("no %q in\n%s", want, r.err)
		}
	}
	if strings.Contains(r.err, "hush") {
		t.Errorf("a password in\n%s", r.err)
	}
}

// A topic that cannot be read ends a command, which says why, instead of holding it up.
func TestKafka_TopicThatCannotBeRead(t *testing.T) {
	need.Long(t)
	t.Parallel() // it waits for half a minute
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, kafkalog.Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := newBed(t, []string{bootstrapKey + c.ListenAddrs()[0]})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: kafkalog.Topic, Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
	r := fails(t, cli.ExitFailed, []string{"does not go on", "LEADER_NOT_AVAILABLE"}, "ls", "--config", b.config)
	if n := strings.Count(r.err, "waiting for the metadata log"); n != 1 {
		t.Errorf("it is said %d times that the log is waited for, want once:\n%s", n, r.err)
	}
}

// mute is an address where connections are taken and nothing is answered, as behind a firewall that swallows.
func mute(t *testing.T) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// onText ends a context when a text is written.
type onText struct {
	all  []byte
	text string
	end  context.CancelFunc
}

func (w *onText) Write(b []byte) (int, error) {
	if w.all = append(w.all, b...); strings.Contains(string(w.all), w.text) {
		w.end()
	}
	return len(b), nil
}

// A command says what it waits for while Kafka is silent, and Ctrl-C ends it then.
func TestKafka_SilentOneIsWaitedForAloud(t *testing.T) {
	at := mute(t)
	b := newBed(t, []string{bootstrapKey + at}, "payments-0")
	for _, args := range [][]string{{"copy", "--config", b.config, b.logs}, {"ls", "--config", b.config}} {
		ctx, cancel := context.WithCancel(t.Context())
		said := &onText{text: "waiting for Kafka", end: cancel}
		code := cli.Run(ctx, args, registry(), cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: said})
		cancel()
		if code != cli.ExitInterrupted || !strings.Contains(string(said.all), at) || !strings.HasSuffix(string(said.all), "tierkit: interrupted\n") {
			t.Errorf("%s: exit code %d, standard error %q, want 130, the address and the word", args[0], code, said.all)
		}
	}
}

func TestKafka_NobodyAnswers(t *testing.T) {
	// The first try has to come to its end on a slow machine, too.
	b := newBed(t, []string{bootstrapKey + "127.0.0.1:1", "remote.log.metadata.initialization.retry.max.timeout.ms=1000"}, "payments-0")
	fails(t, cli.ExitFailed, []string{"127.0.0.1:1", "refused", "bootstrap.servers"}, "ls", "--config", b.config)
	b.configure(t, bootstrapKey+mute(t), "remote.log.metadata.initialization.retry.max.timeout.ms=200")
	fails(t, cli.ExitFailed, []string{"tried for 200ms", "retry.max.timeout.ms", "bootstrap.servers"}, "copy", "--config", b.config, b.logs)
}

// The metadata commands work on the topic as they do on files, and make nothing.
func TestKafka_MetadataCommands(t *testing.T) {
	at := newKafka(t)
	b := newBed(t, []string{bootstrapKey + at}, "payments-0")
	for _, sub := range []string{"dump", "status", "watch"} {
		fails(t, cli.ExitFailed, []string{kafkalog.Topic}, "metadata", sub, "--config", b.config)
	}
	b.configure(t, bootstrapKey+at, "remote.log.metadata.topic.num.partitions=5", "remote.log.metadata.topic.replication.factor=1")
	must(t, "copy", "--config", b.config, b.logs)
	listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	records := lines(t, must(t, "metadata", "dump", "--config", b.config, "--json").out)
	if len(records) != 2*len(listed) {
		t.Errorf("%d records, want two for each of %d segments", len(records), len(listed))
	}
	for _, m := range records {
		if m["effect"] != "applied" || m["fatal"] != nil || m["key"] != nil || m["topic"] != "payments" {
			t.Errorf("record: %v", m)
		}
	}
	for _, m := range lines(t, must(t, "metadata", "status", "--config", b.config, "--json").out) {
		if segments, ok := m["segments"].(map[string]any); ok && segments["COPY_SEGMENT_FINISHED"] != json.Number(strconv.Itoa(len(listed))) {
			t.Errorf("status: %v", m)
		}
		if m["type"] == "log" && (m["kind"] != "kafka" || m["metadataPartitions"] != json.Number("5")) {
			t.Errorf("status: %v", m)
		}
	}
}

// What the topic says of itself: as copy makes it nothing is dangerous; with the defaults of a broker it is.
func TestKafka_MetadataStatusShowsLeadersAndSettings(t *testing.T) {
	at := newKafka(t)
	b := newBed(t, []string{
		bootstrapKey + at, "remote.log.metadata.topic.num.partitions=5", "remote.log.metadata.topic.replication.factor=1",
	}, "payments-0")
	must(t, "copy", "--config", b.config, b.logs)
	rows := lines(t, must(t, "metadata", "status", "--config", b.config, "--json").out)
	settings, _ := rows[0]["settings"].(map[string]any)
	if settings["retention.ms"] != "-1" || settings["min.insync.replicas"] != "2" || rows[0]["settingsError"] != nil || len(rows[0]["dangers"].([]any)) != 0 {
		t.Errorf("log: %v", rows[0])
	}
	for _, m := range rows[1:6] {
		if m["type"] != "metadataPartition" || m["leader"] != json.Number("0") {
			t.Errorf("metadata partition: %v, want leader 0", m)
		}
	}
	at = newKafka(t, kfake.SeedTopics(2, kafkalog.Topic))
	b.configure(t, bootstrapKey+at)
	text := must(t, "metadata", "status", "--config", b.config).out
	for _, want := range []string{"settings cleanup.policy=delete ", " retention.ms=604800000", "DANGER: retention.ms=604800000: ", "DANGER: min.insync.replicas=1: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Who may not see the topic's settings is told so, and sees the rest.
func TestKafka_MetadataStatusWithoutDescribeConfigs(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, kafkalog.Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := newBed(t, []string{bootstrapKey + c.ListenAddrs()[0]})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	text := must(t, "metadata", "status", "--config", b.config).out
	if !strings.Contains(text, "settings not known: the principal needs DescribeConfigs") || strings.Contains(text, "DANGER") {
		t.Errorf("status:\n%s", text)
	}
	rows := lines(t, must(t, "metadata", "status", "--config", b.config, "--json").out)
	if why, _ := rows[0]["settingsError"].(string); rows[0]["settings"] != nil || !strings.Contains(why, "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("log: %v", rows[0])
	}
	if len(rows) != 3 || rows[1]["leader"] != json.Number("0") {
		t.Errorf("metadata partitions: %v", rows[1:])
	}
}
