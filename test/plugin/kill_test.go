package plugin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/testbed"
)

const killSegment, killPerSegment = 2 << 20, 2 << 20 / bulkBytes

// TestKill_DuringCopiesAndFetches: in the middle of a copy and of a fetch's body the daemon is killed, then the broker, then a signal goes to the whole group
// of processes, as Ctrl-C sends it, and then both are killed at once, after which nobody is left who could clean up. A consumer goes on beside a killed
// daemon without a wrong record, and in the end everything is tiered and read back, with nothing but finished segments in the bucket.
func TestKill_DuringCopiesAndFetches(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	slow := testbed.MinIO(t).Slow(t)
	k := &killing{slow: slow, tier: start(t, testbed.KafkaOptions{Properties: map[string]string{
		"rsm.config.storage.s3.endpoint.url": slow.Endpoint, "rsm.config.fetch.chunk.cache.size": "0", "rsm.config.chunk.size": "262144",
		"broker.session.timeout.ms": "",
		"remote.fetch.max.wait.ms":  "60000", // a broker throws away what a fetch brings that takes longer, here one that is resumed
	}})}
	for _, topic := range []string{"read", "copied"} {
		bulkTopic(ctx, t, k.KafkaCluster, topic, 1, killSegment, map[string]string{"local.retention.bytes": "1"})
	}
	must(t, "produce", produceBulk(ctx, k.KafkaCluster, "read", 1, 0, 4*killPerSegment))
	k.tiered = tieredAll(ctx, t, k.KafkaCluster, "read", 1)[0]
	evictedAll(ctx, t, k.KafkaCluster, "read", 0, k.tiered)

	for range 2 {
		k.theDaemon(ctx)
	}
	k.theBroker(ctx)
	k.interruptAll(ctx)
	k.both(ctx)

	ends := map[string]int64{"read": k.tiered, "copied": tieredAll(ctx, t, k.KafkaCluster, "copied", 1)[0]}
	for topic, end := range ends {
		evictedAll(ctx, t, k.KafkaCluster, topic, 0, end)
		_, err := consumeBulk(ctx, k.KafkaCluster, topic, 0, end)
		must(t, "read back", err)
	}
	until(ctx, t, "only finished segments are in the bucket", k.onlyFinished) // a minute after its start a daemon cleans up for those before it
	for topic := range ends {
		k.deleteTopic(ctx, topic)
	}
	until(ctx, t, "every object is gone", k.empty)
}

// killing is brokers and daemons that end while they copy and fetch.
type killing struct {
	*tier
	slow   *testbed.SlowS3
	tiered int64 // where the topic read ends in the tier
	copied int64 // records that were written to the topic copied
}

// middle returns while the store holds a .log on its way, of a segment that has another object there already, and a fetch after the first chunk of its body.
// release lets the store go on.
func (k *killing) middle(ctx context.Context) (c *consumer, release func()) {
	k.t.Helper()
	release = k.slow.Catch(func(r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".log") {
			return false
		}
		return r.Method == http.MethodPut || r.Method == http.MethodGet && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-")
	})
	k.t.Cleanup(release)
	must(k.t, "produce", produceBulk(ctx, k.KafkaCluster, "copied", 1, k.copied, k.copied+8*killPerSegment))
	k.copied += 8 * killPerSegment
	c = k.consume(ctx)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	testbed.Until(within, k.t, "a copy and a fetch in the middle", 10*time.Millisecond, func() error {
		puts, gets := k.slow.Holds()
		if puts == 0 || gets == 0 || k.onlyFinished() == nil {
			return fmt.Errorf("%d requests that store and %d that read are held; the bucket: %w", puts, gets, k.onlyFinished())
		}
		return nil
	})
	return c, release
}

// theDaemon kills the daemon alone. The fetch is resumed with the next one, and its consumer gets every record.
func (k *killing) theDaemon(ctx context.Context) {
	k.t.Helper()
	c, release := k.middle(ctx)
	k.replaceDaemon(ctx)
	release()
	must(k.t, "read beside a killed daemon", c.end())
}

// theBroker kills the broker alone. The daemon ends with it, and cleans up.
func (k *killing) theBroker(ctx context.Context) {
	k.t.Helper()
	c, release := k.middle(ctx)
	k.Kill()
	c.giveUp() // it had nobody to ask
	until(ctx, k.t, "the daemon ends with its broker", k.noDaemon)
	release()
	if err := k.onlyFinished(); err != nil {
		k.t.Errorf("the daemon that ended with its broker has left: %v", err)
	}
	must(k.t, "start again", k.Start())
}

// interruptAll interrupts broker and daemon.
func (k *killing) interruptAll(ctx context.Context) {
	k.t.Helper()
	c, release := k.middle(ctx)
	for _, pid := range append(k.daemons(), pidOf(k.t, k.Brokers[0])) {
		must(k.t, "interrupt", syscall.Kill(pid, syscall.SIGINT))
	}
	release()
	k.stop(ctx)
	c.giveUp()
	must(k.t, "start again", k.Start())
}

// both kills daemon and broker. What the copy left stays until a daemon cleans up for this one.
func (k *killing) both(ctx context.Context) {
	k.t.Helper()
	c, release := k.middle(ctx)
	broker := pidOf(k.t, k.Brokers[0])
	must(k.t, "hold the broker", syscall.Kill(broker, syscall.SIGSTOP)) // it would start a daemon that cleans up
	for _, pid := range append(k.daemons(), broker) {
		must(k.t, "kill", kill(pid))
	}
	k.Kill()
	c.giveUp()
	until(ctx, k.t, "no daemon is left", k.noDaemon)
	release()
	if k.onlyFinished() == nil {
		k.t.Error("the copy that was killed has left nothing: the test shows nothing")
	}
	must(k.t, "start again", k.Start())
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

// consumer reads what is tiered of the topic read, once.
type consumer struct {
	cancel context.CancelFunc
	result chan error
}

func (k *killing) consume(ctx context.Context) *consumer {
	ctx, cancel := context.WithCancel(ctx)
	c := &consumer{cancel, make(chan error, 1)}
	go func() {
		_, err := consumeBulk(ctx, k.KafkaCluster, "read", 0, k.tiered)
		c.result <- err
	}()
	return c
}

// end waits until it has read everything.
func (c *consumer) end() error {
	defer c.cancel()
	return <-c.result
}

func (c *consumer) giveUp() {
	c.cancel()
	<-c.result
}
