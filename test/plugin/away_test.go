package plugin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

// TestStoreAway_BrokersTryAgain: while the store cannot be reached a broker is told of fetches and deletes that they may succeed later, with the exception that
// 4.3 and later count as no error, and of a copy with the ordinary one: for the other kind they would neither clean up nor count an error. Earlier
// brokers have the one exception only. All of them ask again, and are served when the store is back.
func TestStoreAway_BrokersTryAgain(t *testing.T) {
	onVersions(t, testbed.KafkaTested(), func(t *testing.T, version string) {
		ctx := testbed.Within(t, 8*time.Minute)
		slow := testbed.MinIO(t).Slow(t)
		c := start(t, testbed.KafkaOptions{Version: version, Properties: map[string]string{
			"rsm.config.storage.s3.endpoint.url": slow.Endpoint, "rsm.config.storage.s3.max.attempts": "1", "rsm.config.tierkit.metrics.listen": "127.0.0.1:0",
		}})
		knows := !testbed.Before41(version) // the retriable exception, and what it stands for
		id, err := c.TieredTopic(ctx, "orders", 1, map[string]string{"local.retention.bytes": "1"})
		must(t, "make a topic", err)
		h := c.past("orders", 0)
		h.put(ctx, 5, alone)
		h.stands(ctx, 4)
		c.inBucket(ctx, "orders", 4)
		c.fetches(ctx, id, 0, errRecords) // so that the broker has the indexes of this segment
		c.replaceDaemon(ctx)              // by one that has nothing of it

		slow.Away(true)
		c.fetches(ctx, id, 0, kerr.UnknownServerError)
		c.fetches(ctx, id, 1, kerr.UnknownServerError)
		c.says(ctx, knows, "fetch segment")
		c.says(ctx, knows, "fetch the OFFSET index of segment")
		until(ctx, t, "the daemon is not ready", func() error { return c.ready(ctx, 0) })

		h.deleteRecords(ctx, 2)
		until(ctx, t, "deletes are asked for again", func() error { return c.metersReach(ctx, 3, "RemoteDeleteRequestsPerSec") })
		h.put(ctx, 1, alone)
		until(ctx, t, "copies are asked for again", func() error { return c.metersReach(ctx, 2, "RemoteCopyRequestsPerSec", "RemoteCopyErrorsPerSec") })
		c.says(ctx, false, "copy segment")
		if n, err := c.Brokers[0].Lines("retriable error for segment"); err != nil || n > 0 {
			t.Errorf("the broker takes %d failed copies for what it need not clean up after, %v", n, err)
		}

		slow.Away(false)
		h.stands(ctx, 5)
		c.inBucket(ctx, "orders", 3)
		until(ctx, t, "only finished segments are in the bucket", c.onlyFinished)
		until(ctx, t, "the daemon is ready", func() error { return c.ready(ctx, 1) })
		h.comesBack(ctx, 2)
		var got []int
		until(ctx, t, "the errors of deletes", func() (err error) { // a broker that is busy does not let a JVM attach in time
			got, err = c.meters(ctx, "RemoteDeleteErrorsPerSec")
			return err
		})
		if got[0] == 0 != knows {
			t.Errorf("%v errors of deletes were counted; a broker that knows the retriable exception (this one: %v) counts none", got, knows)
		}
	})
}

// ready is an error while the daemon's metric of that name has another value.
func (c *tier) ready(ctx context.Context, want float64) error {
	got, err := c.readMetric(ctx, "tierkit_serve_ready") // a daemon that has been replaced may not say yet where its metrics are
	if err == nil && got != want {
		err = fmt.Errorf("tierkit_serve_ready is %g, want %g", got, want)
	}
	return err
}

// fetches asks the broker once for a record of the topic orders.
func (c *tier) fetches(ctx context.Context, id [16]byte, offset int64, want error) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	must(c.t, "make a client", err)
	defer cl.Close()
	until(ctx, c.t, fmt.Sprintf("a fetch of record %d", offset), func() error {
		err := fetchRaw(ctx, cl, int(c.Brokers[0].ID), "orders", id, offset)
		if errors.Is(err, want) {
			return nil
		}
		return fmt.Errorf("got %v, want %w", err, want) // nil: it took longer than a broker waits, and is answered the next time
	})
}

// says checks with which exception the broker was told of a failure.
func (c *tier) says(ctx context.Context, retriable bool, what string) {
	c.t.Helper()
	const retries, plain = "RetriableRemoteStorageException: ", "storage.RemoteStorageException: "
	want, not := retries, plain
	if !retriable {
		want, not = plain, retries
	}
	until(ctx, c.t, "the broker says "+want+what, func() error {
		n, err := c.Brokers[0].Lines(want + what)
		if err == nil && n == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	if n, err := c.Brokers[0].Lines(not + what); err != nil || n > 0 {
		c.t.Errorf("the broker says %s%s in %d lines, %v", not, what, n, err)
	}
}

// meters is the counts of a broker's meters.
func (c *tier) meters(ctx context.Context, names ...string) ([]int, error) {
	args := append([]string{filepath.Join("testdata", "Meters.java"), strconv.Itoa(pidOf(c.t, c.Brokers[0]))}, names...)
	cmd := exec.CommandContext(ctx, need.Command(c.t, "java", "install a JDK, 17 or newer"), args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	var counts []int
	for _, text := range strings.Fields(string(out)) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	if len(counts) != len(names) {
		return nil, fmt.Errorf("%d meters of %d: %s", len(counts), len(names), out)
	}
	return counts, nil
}

// metersReach says which of a broker's meters have counted less than that.
func (c *tier) metersReach(ctx context.Context, least int, names ...string) error {
	counts, err := c.meters(ctx, names...)
	if err != nil {
		return err
	}
	var errs []error
	for i, n := range counts {
		if n < least {
			errs = append(errs, fmt.Errorf("%s is %d, want %d", names[i], n, least))
		}
	}
	return errors.Join(errs...)
}
