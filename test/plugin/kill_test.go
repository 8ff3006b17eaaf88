package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/testbed"
)

// TestKill_DuringCopiesAndFetches: in the middle of copies and fetches the daemon is killed, then the broker, and then a signal goes to the whole group of
// processes, as Ctrl-C sends it. A consumer goes on beside a killed daemon without a wrong record, and in the end everything is tiered and read back,
// with nothing but finished segments in the bucket.
func TestKill_DuringCopiesAndFetches(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	slow := testbed.MinIO(t).Slow(t)
	c := start(t, testbed.KafkaOptions{Properties: map[string]string{
		"rsm.config.storage.s3.endpoint.url": slow.Endpoint, "rsm.config.fetch.chunk.cache.size": "0", "rsm.config.chunk.size": "1048576",
	}})
	const segment, perSegment = 2 << 20, 2 << 20 / bulkBytes
	for _, topic := range []string{"read", "copied"} {
		bulkTopic(ctx, t, c.KafkaCluster, topic, 1, segment, map[string]string{"local.retention.bytes": "1"})
	}
	must(t, "produce", produceBulk(ctx, c.KafkaCluster, "read", 1, 0, 4*perSegment))
	tiered := tieredAll(ctx, t, c.KafkaCluster, "read", 1)[0]
	evictedAll(ctx, t, c.KafkaCluster, "read", 0, tiered)
	copied := int64(0)
	// middle returns while copies and fetches wait for the store.
	middle := func() (stop func() error) {
		t.Helper()
		slow.Hold(0)
		must(t, "produce", produceBulk(ctx, c.KafkaCluster, "copied", 1, copied, copied+8*perSegment))
		copied += 8 * perSegment
		slow.Hold(300 * time.Millisecond)
		stop = c.readOn(ctx, tiered)
		c.busy(ctx, slow)
		return stop
	}

	stop := middle()
	for range 2 {
		c.replaceDaemon(ctx)
		c.busy(ctx, slow)
	}
	must(t, "read beside a killed daemon", stop())

	stop = middle()
	c.Kill()
	_ = stop() // it had nobody to ask
	must(t, "start again", c.Start())

	stop = middle()
	for _, pid := range append(c.daemons(), pidOf(t, c.Brokers[0])) {
		must(t, "interrupt", syscall.Kill(pid, syscall.SIGINT))
	}
	must(t, "stop", c.Stop())
	_ = stop()
	if left := c.daemons(); len(left) > 0 {
		t.Errorf("after the broker has stopped, daemons %v run", left)
	}
	must(t, "start again", c.Start())

	slow.Hold(0)
	ends := map[string]int64{"read": tiered, "copied": tieredAll(ctx, t, c.KafkaCluster, "copied", 1)[0]}
	for topic, end := range ends {
		evictedAll(ctx, t, c.KafkaCluster, topic, 0, end)
		_, err := consumeBulk(ctx, c.KafkaCluster, topic, 0, end)
		must(t, "read back", err)
	}
	until(ctx, t, "only finished segments are in the bucket", c.onlyFinished) // a minute after its start a daemon cleans up for those before it
	for topic := range ends {
		c.deleteTopic(ctx, topic)
	}
	until(ctx, t, "every object is gone", c.empty)
}

// replaceDaemon kills the daemon and waits for the next one.
func (c *tier) replaceDaemon(ctx context.Context) {
	c.t.Helper()
	killed := c.daemons()
	if n := c.killDaemons(); n != 1 {
		c.t.Errorf("%d daemons ran, want 1", n)
	}
	until(ctx, c.t, "another daemon", func() error {
		if now := c.daemons(); len(now) != 1 || slices.Equal(now, killed) {
			return fmt.Errorf("daemons %v", now)
		}
		return nil
	})
}

// readOn reads the topic read up to an offset, again and again until it is stopped.
func (c *tier) readOn(ctx context.Context, to int64) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		for failed == nil {
			_, failed = consumeBulk(ctx, c.KafkaCluster, "read", 0, to)
		}
		if ctx.Err() != nil {
			failed = nil
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return failed
	}
}

// busy waits until a copy and a fetch wait for the store.
func (c *tier) busy(ctx context.Context, slow *testbed.SlowS3) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	testbed.Until(ctx, c.t, "a copy and a fetch", 10*time.Millisecond, func() error {
		if puts, gets := slow.Holds(); puts == 0 || gets == 0 {
			return fmt.Errorf("%d requests that store and %d that read are held", puts, gets)
		}
		return nil
	})
}
