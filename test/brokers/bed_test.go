package brokers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onVersions runs a test for each version of Kafka, all at the same time: brokers mostly wait.
func onVersions(t *testing.T, test func(t *testing.T, version string)) {
	for _, v := range testbed.KafkaTested() {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// must ends the test with an error.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// until asks again until the answer is nil, and ends the test with the last one if that takes too long: a question ends then, too.
func until(ctx context.Context, t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	testbed.Until(ctx, t, what, 100*time.Millisecond, func() error { return ask(ctx) })
}

// cluster is brokers with what the tests ask of them.
type cluster struct {
	*testbed.KafkaCluster
	t *testing.T
}

func start(t *testing.T, o testbed.KafkaOptions) *cluster {
	t.Helper()
	c := &cluster{KafkaCluster: testbed.Kafka(t, o), t: t}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, b := range c.Brokers {
			t.Logf("the end of what broker %d said:\n%s", b.ID, b.Log())
		}
	})
	return c
}

// log opens the topic.
func (c *cluster) log(ctx context.Context) *kafkalog.Log {
	c.t.Helper()
	cl := kafkalog.Client{Bootstrap: c.Bootstrap(), ID: "tierkit-test"}
	l, err := kafkalog.Open(ctx, kafkalog.Options{Config: kafkalog.Config{Producer: cl, Consumer: cl, Admin: cl}})
	must(c.t, "open the topic", err)
	c.t.Cleanup(func() { _ = l.Close() })
	return l
}

// manager has partitions ready.
func (c *cluster) manager(ctx context.Context, tps ...remotelog.TopicIDPartition) *rlmm.Manager {
	c.t.Helper()
	m, err := rlmm.New(c.log(ctx), rlmm.Options{})
	must(c.t, "manager", err)
	c.t.Cleanup(func() { _ = m.Close(context.WithoutCancel(ctx)) })
	asked := m.Reconcile(ctx, tps) // an error that passes: the manager asks again by itself
	if err := m.WaitReady(ctx, tps...); err != nil {
		c.t.Fatalf("ready: %v", errors.Join(asked, err))
	}
	return m
}

// tiered makes a topic with tiered storage.
func (c *cluster) tiered(ctx context.Context, name string, partitions int, settings map[string]string) []remotelog.TopicIDPartition {
	c.t.Helper()
	id, err := c.TieredTopic(ctx, name, partitions, settings)
	must(c.t, "make a topic", err)
	var tps []remotelog.TopicIDPartition
	for p := range partitions {
		tps = append(tps, remotelog.TopicIDPartition{TopicID: id, Topic: name, Partition: int32(p)})
	}
	return tps
}

// tiers says whether the brokers' metadata consumers are alive: a new topic becomes ready, and something of it is tiered. A dead
// consumer thread cannot be seen in another way.
func (c *cluster) tiers(ctx context.Context, name string, within time.Duration) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := c.TieredTopic(ctx, name, 1, nil); err != nil {
		return err
	}
	if err := c.Produce(ctx, name, 0, 10); err != nil {
		return err
	}
	_, err := c.WaitTiered(ctx, name, 0, 1)
	return err
}

// consume reads a partition through the brokers, from the first offset there to an end.
func (c *cluster) consume(ctx context.Context, tp remotelog.TopicIDPartition, end int64) ([]*kgo.Record, error) {
	from, err := c.ListOffset(ctx, tp.Topic, tp.Partition, testbed.Earliest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Topic: {tp.Partition: kgo.NewOffset().At(from)}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []*kgo.Record
	for next := from; next < end; {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("consume %v: at %d of %d: %w", tp, next, end, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			out = append(out, r)
			next = r.Offset + 1
		})
	}
	return out, nil
}

// epochsOf are the leader epochs of records that follow one another, and where each begins.
func epochsOf(records []*kgo.Record) []remotelog.LeaderEpoch {
	var out []remotelog.LeaderEpoch
	for _, r := range records {
		if n := len(out); n == 0 || out[n-1].Epoch != r.LeaderEpoch {
			out = append(out, remotelog.LeaderEpoch{Epoch: r.LeaderEpoch, StartOffset: r.Offset})
		}
	}
	return out
}

// stored returns the ids of the segments of a partition that LocalTieredStorage holds.
func (c *cluster) stored(tp remotelog.TopicIDPartition) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(c.partitionStore(tp), "*.log"))
	var ids []string
	for _, f := range files {
		_, id, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".log"), "-")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, err
}

func (c *cluster) partitionStore(tp remotelog.TopicIDPartition) string {
	return filepath.Join(c.Store, "kafka-tiered-storage", fmt.Sprintf("%s-%d-%s", tp.Topic, tp.Partition, tp.TopicID))
}

// segments lists a partition in one state.
func segments(ctx context.Context, m remotelog.MetadataReader, tp remotelog.TopicIDPartition, state remotelog.State) ([]remotelog.SegmentMetadata, error) {
	var out []remotelog.SegmentMetadata
	for md, err := range m.Segments(ctx, tp) {
		if err != nil {
			return nil, err
		}
		if md.State == state {
			out = append(out, md)
		}
	}
	return out, nil
}
