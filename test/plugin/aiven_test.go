package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// TestAiven_SegmentsAreServed: segments that Aiven's plug-in wrote, compressed and encrypted with keys that were rotated in between, with the settings that it
// had, of which all are given. A broker with our plug-in takes them for what is in the tier and serves their records.
func TestAiven_SegmentsAreServed(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	var golden *aiven.Case
	for _, g := range aiven.Cases(t) {
		if g.Name == "keys-rotated" {
			golden = g
		}
	}
	o := testbed.KafkaOptions{Properties: map[string]string{
		// At first the broker itself copies and deletes nothing; its first look at a topic may come late, so that the topic says so, too.
		"remote.log.manager.task.interval.ms": "3600000", "log.retention.check.interval.ms": "3600000",
	}}
	for k, v := range golden.ReadConfig {
		o.Properties["rsm.config."+k] = v
	}
	maps.Copy(o.Properties, aivens(t))
	c := start(t, o)
	if n, err := c.Brokers[0].Lines("characters do not fit"); err != nil || n == 0 {
		t.Errorf("the broker's log does not say that long topic names need more custom metadata than it takes, %v", err)
	}
	first := &golden.Segments[0]
	id, err := c.TieredTopic(ctx, first.Topic, int(first.Partition)+1, map[string]string{"remote.log.copy.disable": "true"})
	must(t, "make a topic", err)
	tp := remotelog.TopicIDPartition{TopicID: id, Topic: first.Topic, Partition: first.Partition}
	last := golden.Segments[len(golden.Segments)-1].EndOffset
	must(t, "produce what Aiven's segments hide", c.Produce(ctx, tp.Topic, tp.Partition, int(last)+20))
	for key, data := range golden.Store(t) {
		_, err := c.s3.Client(t).PutObject(ctx, c.bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
		must(t, "store "+key, err)
	}
	must(t, "tell the brokers", c.finished(ctx, tp, golden))

	must(t, "stop", c.Stop())
	must(t, "settings", c.Configure(map[string]string{"remote.log.manager.task.interval.ms": "500", "log.retention.check.interval.ms": "1000"}))
	must(t, "start again", c.Start())
	c.configureTopic(ctx, tp.Topic, "remote.log.copy.disable", "false", "local.retention.ms", "1")
	c.evicted(ctx, tp.Topic, tp.Partition, last)
	var want []*kgo.Record
	for i := range golden.Segments {
		log, _ := golden.Segments[i].Part(t, "log")
		more, err := decode(log)
		must(t, "decode", err)
		want = append(want, more...)
	}
	h := c.history(tp.Topic, tp.Partition)
	if err := h.begins(ctx, want); err != nil {
		t.Error(err)
	}
}

// aivens are the settings that Aiven's plug-in has beside those of a golden case and of the test bed, as a file of brokers has them.
func aivens(t *testing.T) map[string]string {
	t.Helper()
	cached := t.TempDir()
	all := map[string]string{
		// In place of our own setting.
		"storage.backend": "", "storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
		"custom.metadata.fields.include":     "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY",
		"upload.rate.limit.bytes.per.second": "1000000000", "segment.format": "kafka", "compression.heuristic.enabled": "true",
		"metrics.num.samples": "2", "metrics.sample.window.ms": "30000", "metrics.recording.level": "DEBUG",
		"fetch.chunk.cache.class": "io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache", "fetch.chunk.cache.path": cached,
		"fetch.chunk.cache.size": "16777216", "fetch.chunk.cache.retention.ms": "600000", "fetch.chunk.cache.thread.pool.size": "2",
		"fetch.chunk.cache.get.timeout.ms": "10000", "fetch.chunk.cache.prefetch.max.size": "16777216",
		"fetch.indexes.cache.size": "10485760", "fetch.indexes.cache.retention.ms": "600000", "fetch.indexes.cache.thread.pool.size": "0",
		"fetch.indexes.cache.get.timeout.ms": "10000", "fetch.manifest.cache.size": "1000", "fetch.manifest.cache.retention.ms": "3600000",
		"fetch.manifest.cache.thread.pool.size": "0", "fetch.manifest.cache.get.timeout.ms": "10000", "segment.manifest.cache.size": "1000",
		"storage.overwrite.enabled": "true", "storage.key.prefix": "of/the/readme",
		"storage.s3.region": "us-east-1", "storage.s3.path.style.access.enabled": "true", "storage.s3.multipart.upload.part.size": "26214400",
		"storage.s3.storage.class": "STANDARD", "storage.s3.api.call.timeout": "60000", "storage.s3.api.call.attempt.timeout": "30000",
		"storage.s3.legacy.md5.plugin.enabled": "false", "storage.aws.certificate.check.enabled": "true", "storage.aws.checksum.check.enabled": "false",
		"storage.aws.credentials.provider.class": "software.amazon.awssdk.auth.credentials.StaticCredentialsProvider",
	}
	for _, key := range slices.Collect(maps.Keys(all)) {
		all["rsm.config."+key] = all[key]
		delete(all, key)
	}
	return all
}

// finished writes the records of the segments into the metadata topic. The objects lie where another cluster's topic id put them, which the custom
// metadata say.
func (c *tier) finished(ctx context.Context, tp remotelog.TopicIDPartition, golden *aiven.Case) error {
	cl := kafkalog.Client{Bootstrap: c.Bootstrap(), ID: "tierkit-test"}
	log, err := kafkalog.Open(ctx, kafkalog.Options{Config: kafkalog.Config{Producer: cl, Consumer: cl, Admin: cl}})
	if err != nil {
		return err
	}
	defer log.Close()
	m, err := rlmm.New(log, rlmm.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	if err := errors.Join(m.Reconcile(ctx, []remotelog.TopicIDPartition{tp}), m.WaitReady(ctx, tp)); err != nil {
		return err
	}
	for i := range golden.Segments {
		s := &golden.Segments[i]
		md := s.Metadata(c.t)
		md.SegmentID.TopicIDPartition, md.State, md.CustomMetadata = tp, remotelog.CopySegmentStarted, nil
		custom := manifest.Custom{ObjectKey: strings.TrimSuffix(s.Objects["log"].Key, ".log")}
		custom.Has[manifest.ObjectKey] = true
		up := remotelog.SegmentUpdate{
			SegmentID: md.SegmentID, State: remotelog.CopySegmentFinished, BrokerID: 1, EventTimestampMs: md.EventTimestampMs, CustomMetadata: custom.Append(nil),
		}
		if err := errors.Join(m.Add(ctx, md), m.Update(ctx, up)); err != nil {
			return err
		}
	}
	return nil
}

// decode returns the records of a segment file.
func decode(log []byte) ([]*kgo.Record, error) {
	r, d := recordbatch.NewReader(bytes.NewReader(log), recordbatch.ReaderOptions{}), recordbatch.NewDecoder(recordbatch.Limits{})
	defer d.Close()
	var out []*kgo.Record
	for {
		b, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if b.Control() {
			continue
		}
		for rec, err := range d.Records(b.Bytes) {
			if err != nil {
				return nil, err
			}
			k := &kgo.Record{Offset: rec.Offset, Key: bytes.Clone(rec.Key), Value: bytes.Clone(rec.Value), Timestamp: time.UnixMilli(rec.TimestampMs)}
			for _, h := range rec.Headers {
				k.Headers = append(k.Headers, kgo.RecordHeader{Key: string(h.Key), Value: bytes.Clone(h.Value)})
			}
			out = append(out, k)
		}
	}
}

// TestReplica_ANewOneFindsItsStateInTheTier: in a cluster of three a partition moves to a broker that never had it, which becomes its leader, serves
// everything from the tier and goes on tiering.
func TestReplica_ANewOneFindsItsStateInTheTier(t *testing.T) {
	ctx := testbed.Within(t, 15*time.Minute)
	c := start(t, testbed.KafkaOptions{Brokers: 3})
	c.tieredTopic(ctx, "orders", 1, map[string]string{"min.insync.replicas": "1"})
	c.reassign(ctx, "orders", 1, 2)
	h := c.history("orders", 0)
	must(t, "write", h.write(ctx, 2))
	h.tieredUp(ctx)
	c.reassign(ctx, "orders", 3)
	if err := h.check(ctx); err != nil {
		t.Errorf("from the new replica: %v", err)
	}
	must(t, "write more", h.write(ctx, 2))
	h.tieredUp(ctx)
	if err := h.check(ctx); err != nil {
		t.Errorf("what the new replica has tiered: %v", err)
	}
	if got, want := len(c.daemons()), 3; got != want {
		t.Errorf("%d daemons run beside three brokers", got)
	}
	c.deleteTopic(ctx, "orders")
	until(ctx, t, "every object is gone", c.empty)
}
