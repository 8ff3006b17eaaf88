package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// emptyTopic removes every record of the metadata topic, as retention does.
func emptyTopic(t *testing.T, at string, partitions int32) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(at, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = kafkalog.Topic
	for p := range partitions {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = p, -1 // the high watermark
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// Commands leave a snapshot and begin with it: what has left the topic since then is still there with it. One that is damaged is
// passed over, with a line that says so.
func TestSnapshot_CommandsBeginWithIt(t *testing.T) {
	at := newKafka(t)
	topic := []string{bootstrapKey + at, "remote.log.metadata.topic.num.partitions=5", "remote.log.metadata.topic.replication.factor=1"}
	dir := filepath.Join(t.TempDir(), "snapshots")
	b := newBed(t, append(topic, "metadata.snapshot.dir="+dir), "payments-0")
	must(t, "copy", "--config", b.config, b.logs)
	files, err := filepath.Glob(filepath.Join(dir, "metadata-*.snapshot"))
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots in %s: %v, %v, want one", dir, files, err)
	}
	ls := func() result { return must(t, "ls", "--config", b.config, "--json") }
	want := ls().out
	if want == "" {
		t.Fatal("ls lists nothing")
	}
	emptyTopic(t, at, 5)
	if got := ls().out; got != want {
		t.Errorf("ls with the snapshot:\n%s\nwant\n%s", got, want)
	}
	raw, err := os.ReadFile(files[0])
	if err == nil {
		raw[len(raw)/2] ^= 1
		err = os.WriteFile(files[0], raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := ls(); got.out != "" || !strings.Contains(got.err, filepath.Base(files[0])) {
		t.Errorf("ls with a damaged snapshot: %q, %q, want what the topic has, and a line that names the file", got.out, got.err)
	}
}
