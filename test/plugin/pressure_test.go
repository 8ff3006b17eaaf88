package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

// TestPressure_TenPartitionsUploadAtOnce: a broker with 512 MiB of heap and new data in ten partitions all the time. Each of them goes on tiering, and
// what is in the bucket are finished segments.
func TestPressure_TenPartitionsUploadAtOnce(t *testing.T) {
	tenPartitions(t, 2<<20, 5, time.Millisecond)
}

// TestBench_TenPartitionsUploadForTwoMinutes is the same for longer, with segments that fill what the daemon may hold in memory.
func TestBench_TenPartitionsUploadForTwoMinutes(t *testing.T) {
	need.Bench(t)
	tenPartitions(t, 16<<20, 26, 4800*time.Millisecond) // 4 GiB
}

// tenPartitions writes rounds of one segment for each partition, one in every so long.
func tenPartitions(t *testing.T, segment, rounds int, every time.Duration) {
	const partitions = 10
	for name, settings := range map[string]map[string]string{"zstd+aes": encrypted(t), "plain": {"rsm.config.compression.enabled": "false"}} {
		t.Run(name, func(t *testing.T) {
			ctx := testbed.Within(t, 10*time.Minute)
			c := start(t, testbed.KafkaOptions{Heap: "512m", Properties: defaults(settings)})
			bulkTopic(ctx, t, c.KafkaCluster, "orders", partitions, segment, map[string]string{"local.retention.bytes": "1"})
			perRound := int64(segment / bulkBytes)
			written, began := int64(0), time.Now()
			next := time.NewTicker(every)
			defer next.Stop()
			for range rounds {
				must(t, "produce", produceBulk(ctx, c.KafkaCluster, "orders", partitions, written, written+perRound))
				written += perRound
				<-next.C
			}
			// What is written now is tiered only by partitions that have not stopped.
			before := tieredAll(ctx, t, c.KafkaCluster, "orders", partitions)
			uploading, rss := time.Since(began), peakRSS(t, c.daemons()[0])
			must(t, "produce", produceBulk(ctx, c.KafkaCluster, "orders", partitions, written, written+2*perRound))
			for p, active := range tieredAll(ctx, t, c.KafkaCluster, "orders", partitions) {
				if active <= before[p] {
					t.Errorf("orders-%d: the active segment began at %d and begins at %d after another two segments", p, before[p], active)
				}
				c.evicted(ctx, "orders", int32(p), before[p]-1)
				_, err := consumeBulk(ctx, c.KafkaCluster, "orders", int32(p), min(active, 8*perRound))
				must(t, "read back", err)
			}
			until(ctx, t, "only finished segments are in the bucket", c.onlyFinished)
			after := peakRSS(t, c.daemons()[0])
			t.Logf("%d MiB in %v, %v copies failed and were made again, daemon's peak memory %d MiB, after reading back %d MiB", written*partitions*bulkBytes>>20,
				uploading.Round(time.Second), c.metric(ctx, "tierkit_rsm_copy_seconds_count", `result="error"`), rss>>20, after>>20)
			if after > defaultBudget+besideBudget {
				t.Errorf("the daemon's peak memory is %d MiB, want at most %d MiB", after>>20, (defaultBudget+besideBudget)>>20)
			}
		})
	}
}

// TestPressure_ASlowStoreDoesNotStopTheConsumer: with 300 to 600 ms for each request a broker asks again before the first answer has come. The consumer
// reads everything all the same.
func TestPressure_ASlowStoreDoesNotStopTheConsumer(t *testing.T) {
	ctx := testbed.Within(t, 15*time.Minute)
	slow := testbed.MinIO(t).Slow(t)
	settings := defaults(encrypted(t))
	settings["rsm.config.storage.s3.endpoint.url"] = slow.Endpoint
	c := start(t, testbed.KafkaOptions{Properties: settings})
	delays := []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 600 * time.Millisecond}
	bulkTopic(ctx, t, c.KafkaCluster, "orders", len(delays), 4<<20, map[string]string{"local.retention.bytes": "1"})
	must(t, "produce", produceBulk(ctx, c.KafkaCluster, "orders", len(delays), 0, 18<<20/bulkBytes))
	for p, active := range tieredAll(ctx, t, c.KafkaCluster, "orders", len(delays)) {
		evictedAll(ctx, t, c.KafkaCluster, "orders", int32(p), active)
		slow.Hold(delays[p])
		held := slow.Held()
		reads, cancel := context.WithTimeout(ctx, patience)
		got, err := consumeBulk(reads, c.KafkaCluster, "orders", int32(p), active)
		cancel()
		slow.Hold(0)
		if err != nil {
			t.Errorf("with %v for each request: %v", delays[p], err)
			continue
		}
		if slow.Held() == held {
			t.Errorf("no request was held for %v: nothing was read from the store", delays[p])
		}
		t.Logf("%v for each request: %d MiB in %v, %d requests, %d fetches refused, the slowest %v",
			delays[p], got.bytes>>20, got.took.Round(time.Millisecond), slow.Held()-held, got.refused, got.fetches.at(1).Round(time.Millisecond))
	}
}

// TestPressure_AFailingSegmentDoesNotStopOthers: twenty consumers that ask for a damaged segment all the time, and one that reads a healthy partition.
func TestPressure_AFailingSegmentDoesNotStopOthers(t *testing.T) {
	ctx := testbed.Within(t, 6*time.Minute)
	c := start(t, testbed.KafkaOptions{Properties: defaults()})
	c.beside(ctx, c.damaged(ctx), 1)
}

// TestBench_AFailingSegmentLeavesOthersTheirSpeed is the same with what the healthy partition must be read at: half of the speed without the others. What
// the consumers cost in the broker itself is what they cost beside Kafka's LocalTieredStorage, of which nothing is asked.
func TestBench_AFailingSegmentLeavesOthersTheirSpeed(t *testing.T) {
	need.Bench(t)
	const rounds, least = 7, 0.5
	ctx := testbed.Within(t, 9*time.Minute)
	of := func(c *tier) float64 {
		id := c.damaged(ctx)
		c.beside(ctx, id, 6) // warms up: the JVM compiles for seconds what answers failures
		return c.beside(ctx, id, rounds)
	}
	ratio := of(start(t, testbed.KafkaOptions{Properties: defaults()}))
	limit := of(&tier{KafkaCluster: testbed.Kafka(t, testbed.KafkaOptions{}), t: t})
	say("beside 20 consumers of a damaged segment a healthy partition is read at %.2f of its speed, with LocalTieredStorage at %.2f", ratio, limit)
	if ratio < least {
		t.Errorf("beside consumers of a damaged segment a healthy partition is read at %.2f of its speed, want %.2f", ratio, least)
	}
}

// damaged makes a healthy topic and one whose first segment is damaged, and returns the id of that.
func (c *tier) damaged(ctx context.Context) [16]byte {
	c.t.Helper()
	settings := map[string]string{"local.retention.bytes": "1"}
	bulkTopic(ctx, c.t, c.KafkaCluster, "healthy", 1, 16<<20, settings)
	all := map[string]string{"internal.segment.bytes": "", "segment.bytes": "2097152"}
	maps.Copy(all, settings)
	id, err := c.TieredTopic(ctx, "damaged", 1, all)
	must(c.t, "make a topic", err)
	must(c.t, "produce", errors.Join(produceBulk(ctx, c.KafkaCluster, "damaged", 1, 0, 5<<20/bulkBytes), produceBulk(ctx, c.KafkaCluster, "healthy", 1, 0, 70<<20/bulkBytes)))
	for _, topic := range []string{"healthy", "damaged"} {
		evictedAll(ctx, c.t, c.KafkaCluster, topic, 0, tieredAll(ctx, c.t, c.KafkaCluster, topic, 1)[0])
	}
	c.damage(ctx, "damaged")
	return id
}

// beside reads the healthy partition in rounds, alone and beside twenty consumers of the damaged one, and returns the median of how much of its speed is
// left. Rounds are in turn, since another load of the machine comes and goes.
func (c *tier) beside(ctx context.Context, damaged [16]byte, rounds int) float64 {
	c.t.Helper()
	t := c.t
	active, _ := rolled(t, c.KafkaCluster, "healthy", 0)
	read := func() float64 {
		got, err := consumeBulk(ctx, c.KafkaCluster, "healthy", 0, active)
		must(t, "read the healthy partition", err)
		return got.speed()
	}
	read() // both kinds of rounds find the same in the caches
	var alone, left []float64
	var asked atomic.Int64
	var lasted time.Duration
	failed := c.failedFetches(ctx)
	for range rounds {
		speed := read()
		stop := c.consumers(ctx, 20, "damaged", damaged, &asked)
		began := time.Now()
		beside := read()
		lasted += time.Since(began)
		stop()
		alone, left = append(alone, speed), append(left, beside/speed)
	}
	failed = c.failedFetches(ctx) - failed
	say("alone %.0f MB/s, beside 20 consumers of a damaged segment %.2f of it; they asked %d times in %v, and the daemon %.0f times", alone, left, asked.Load(), lasted.Round(time.Millisecond), failed)
	if asked.Load() == 0 {
		t.Error("nobody asked for the damaged segment")
	}
	if failed > float64(asked.Load())/2 {
		t.Errorf("the daemon was asked %v times, the broker %d times: what is known of failures answers too little", failed, asked.Load())
	}
	return median(left)
}

// failedFetches is how many fetches the daemon refused so far; 0 without one.
func (c *tier) failedFetches(ctx context.Context) float64 {
	if c.s3 == nil {
		return 0
	}
	return c.metric(ctx, "tierkit_serve_calls_total", `call="fetch"`, `error="corrupt"`)
}

// damage writes something else over the first segment of a topic; Kafka's own storage, which would not notice, loses it.
func (c *tier) damage(ctx context.Context, topic string) {
	c.t.Helper()
	if c.s3 == nil {
		logs, err := filepath.Glob(filepath.Join(c.Store, "*", topic+"-*", "*.log"))
		must(c.t, "look for segments", err)
		if len(logs) == 0 {
			c.t.Fatalf("no segment of %s is in %s", topic, c.Store)
		}
		slices.Sort(logs)
		must(c.t, "remove a segment", os.Remove(logs[0]))
		return
	}
	client := c.s3.Client(c.t)
	for _, key := range c.objects() { // in order
		if !strings.Contains(key, topic) || !strings.HasSuffix(key, ".log") {
			continue
		}
		info, err := client.StatObject(ctx, c.bucket, key, minio.StatObjectOptions{})
		must(c.t, "stat "+key, err)
		_, err = client.PutObject(ctx, c.bucket, key, bytes.NewReader(make([]byte, info.Size)), info.Size, minio.PutObjectOptions{})
		must(c.t, "damage "+key, err)
		return
	}
	c.t.Fatalf("no segment of %s is in the bucket", topic)
}

// consumers ask for the beginning of a topic, without a pause, until they are stopped.
func (c *tier) consumers(ctx context.Context, n int, topic string, id [16]byte, asked *atomic.Int64) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var first sync.WaitGroup
	first.Add(n)
	failures := make(chan error, n)
	for range n {
		running.Go(func() {
			var once sync.Once
			defer once.Do(first.Done)
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
			if err != nil {
				failures <- err
				return
			}
			defer cl.Close()
			for ctx.Err() == nil {
				err := fetchRaw(ctx, cl, int(c.Brokers[0].ID), topic, id, 0)
				if errors.Is(err, errRecords) || errors.Is(err, errNoAnswer) {
					failures <- fmt.Errorf("a damaged segment: %w", err)
					return
				}
				asked.Add(1)
				once.Do(first.Done)
			}
		})
	}
	first.Wait()
	return func() {
		c.t.Helper()
		cancel()
		running.Wait()
		close(failures)
		for err := range failures {
			c.t.Error(err)
		}
	}
}
