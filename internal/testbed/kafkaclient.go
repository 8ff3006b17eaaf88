package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Offsets that ListOffsets takes in place of a timestamp.
const (
	Latest        = -1
	Earliest      = -2
	EarliestLocal = -4 // KIP-405
	LatestTiered  = -5 // KIP-1005, 3.9
)

type kafkaClient struct {
	once sync.Once
	cl   *kgo.Client
	err  error
}

// Client is a client of the cluster that is closed with the test. A record that it produces names its partition.
func (c *KafkaCluster) Client() *kgo.Client {
	c.t.Helper()
	c.client.once.Do(func() {
		c.client.cl, c.client.err = kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.UnknownTopicRetries(-1)) // of several brokers some hear of a new topic late; the context ends it
		if c.client.err == nil {
			c.t.Cleanup(c.client.cl.Close)
		}
	})
	if c.client.err != nil {
		c.t.Fatal(c.client.err)
	}
	return c.client.cl
}

// TieredTopic makes a topic with tiered storage whose segments are the smallest that Produce fills with two records, on all brokers.
// Further settings may be given; one that is "" is left to the broker. It returns the topic's id.
func (c *KafkaCluster) TieredTopic(ctx context.Context, name string, partitions int, settings map[string]string) ([16]byte, error) {
	segment := "segment.bytes" // from 4.1 on at least 1 MiB; the internal one is for tests
	if !Before41(c.Version) {
		segment = "internal.segment.bytes"
	}
	all := map[string]string{
		"remote.storage.enable": "true", segment: "1024", "segment.index.bytes": "4096", "index.interval.bytes": "1024", "retention.ms": "-1",
		"file.delete.delay.ms": "500",
	}
	maps.Copy(all, settings)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), int16(len(c.Brokers))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		kv := kmsg.NewCreateTopicsRequestTopicConfig()
		kv.Name, kv.Value = key, kmsg.StringPtr(all[key])
		t.Configs = append(t.Configs, kv)
	}
	return c.makeTopic(ctx, t)
}

// makeTopic makes a topic on all brokers. INVALID_REPLICATION_FACTOR passes, too: a controller that has had no heartbeat in time says so ("All brokers are
// currently fenced").
func (c *KafkaCluster) makeTopic(ctx context.Context, t kmsg.CreateTopicsRequestTopic) (id [16]byte, err error) {
	passes := func(err error) bool { return kerr.IsRetriable(err) || errors.Is(err, kerr.InvalidReplicationFactor) }
	before := false
	err = again(ctx, passes, func() error {
		var err error
		id, err = c.createTopic(ctx, t)
		if before && errors.Is(err, kerr.TopicAlreadyExists) { // by an attempt of which only the answer was late
			id, err = c.topicID(ctx, t.Topic)
		}
		before = true
		return err
	})
	if err != nil {
		return [16]byte{}, fmt.Errorf("make topic %s: %w", t.Topic, err)
	}
	return id, nil
}

func (c *KafkaCluster) createTopic(ctx context.Context, t kmsg.CreateTopicsRequestTopic) ([16]byte, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.Client())
	if err != nil {
		return [16]byte{}, err
	}
	got := resp.Topics[0]
	err = kerr.ErrorForCode(got.ErrorCode)
	if err != nil && got.ErrorMessage != nil {
		err = fmt.Errorf("%w: %s", err, *got.ErrorMessage)
	}
	return got.TopicID, err
}

func (c *KafkaCluster) topicID(ctx context.Context, name string) ([16]byte, error) {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.Client())
	if err != nil {
		return [16]byte{}, err
	}
	return resp.Topics[0].TopicID, kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// ConfigureTopic gives a topic settings, all at once: each a name and a value.
func (c *KafkaCluster) ConfigureTopic(ctx context.Context, topic string, settings ...string) error {
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i+1 < len(settings); i += 2 {
		conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		conf.Name, conf.Value = settings[i], kmsg.StringPtr(settings[i+1])
		res.Configs = append(res.Configs, conf)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, res)
	return Again(ctx, func() error {
		resp, err := req.RequestWith(ctx, c.Client())
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	})
}

// DeleteRecords moves the beginning of a partition up to an offset; -1 is its end.
func (c *KafkaCluster) DeleteRecords(ctx context.Context, topic string, partition int32, before int64) error {
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, rt)
	return Again(ctx, func() error {
		resp, err := req.RequestWith(ctx, c.Client())
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
}

// Produce appends n records of 400 bytes to a partition, each in a batch of its own.
func (c *KafkaCluster) Produce(ctx context.Context, topic string, partition int32, n int) error {
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(strconv.Itoa(i)), Value: bytes.Repeat([]byte("x"), 400)}
		if err := c.Client().ProduceSync(ctx, r).FirstErr(); err != nil {
			return fmt.Errorf("produce to %s-%d: %w", topic, partition, err)
		}
	}
	return nil
}

// Again asks until the answer is none after which Kafka's own clients ask again: another leader, none for the moment, one that is not as far yet, an
// answer that took too long. The end of ctx ends it, too.
func Again(ctx context.Context, ask func() error) error { return again(ctx, kerr.IsRetriable, ask) }

func again(ctx context.Context, passes func(error) bool, ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil || !passes(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// ListOffset asks the leader of a partition for the offset at a timestamp, or for one of Latest, Earliest and so on; -1 is none. See Again.
//
// Brokers of 4.0 and later answer REQUEST_TIMED_OUT at once when the search in the tier ends between the two looks that
// DelayedRemoteListOffsets.tryComplete takes at it (Kafka 4.4.0): the answer it holds then is the one made in advance.
func (c *KafkaCluster) ListOffset(ctx context.Context, topic string, partition int32, at int64) (offset int64, err error) {
	err = Again(ctx, func() (err error) {
		offset, err = c.listOffset(ctx, topic, partition, at)
		return err
	})
	return offset, err
}

func (c *KafkaCluster) listOffset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, at
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.Client())
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("the answer is about other partitions than were asked for")
	}
	got := resp.Topics[0].Partitions[0]
	return got.Offset, kerr.ErrorForCode(got.ErrorCode)
}

// WaitTiered waits until a partition has been moved to the tier up to an offset, and returns how far it is.
func (c *KafkaCluster) WaitTiered(ctx context.Context, topic string, partition int32, offset int64) (int64, error) {
	tick := time.NewTicker(20 * time.Millisecond) // the end of a backlog is measured by it
	defer tick.Stop()
	for {
		at, err := c.ListOffset(ctx, topic, partition, LatestTiered)
		if err == nil && at >= offset {
			return at, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return at, fmt.Errorf("%s-%d is tiered up to %d, want %d: %w", topic, partition, at, offset, errors.Join(ctx.Err(), err))
		}
	}
}
