package plugin

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/testbed"
)

// TestTiering_EverythingComesBack: records of every codec, transactions of either end; the segments go to the bucket and leave the broker's disk. Then
// the daemon is killed, the broker restarted and killed, and each time everything is read back and more is tiered. In the end the topic is
// deleted, and with it every object.
func TestTiering_EverythingComesBack(t *testing.T) {
	onVersions(t, testbed.KafkaTested(), func(t *testing.T, version string) {
		ctx := testbed.Within(t, 15*time.Minute)
		c := start(t, testbed.KafkaOptions{Version: version, Properties: map[string]string{"broker.session.timeout.ms": ""}})
		c.tieredTopic(ctx, "orders", 2, nil)
		parts := []*history{c.history("orders", 0), c.history("orders", 1)}
		grow := func(what string) {
			t.Helper()
			for _, h := range parts {
				must(t, "write after "+what, h.write(ctx, 2))
			}
			for _, h := range parts {
				h.tieredUp(ctx)
			}
		}
		check := func(what string) {
			t.Helper()
			for _, h := range parts {
				if err := h.check(ctx); err != nil {
					t.Errorf("after %s: %v", what, err)
				}
			}
		}
		grow("the start")
		check("the start")
		if n := c.killDaemons(); n != 1 {
			t.Errorf("%d daemons ran, want 1", n)
		}
		check("the daemon was killed")
		grow("the daemon was killed")
		c.stop(ctx)
		must(t, "start again", c.Start())
		check("a restart")
		c.Kill()
		until(ctx, t, "the daemon ends with its broker", c.noDaemon)
		must(t, "start again", c.Start())
		grow("the broker was killed")
		check("the broker was killed")
		until(ctx, t, "only finished segments are in the bucket", c.onlyFinished)
		c.deleteTopic(ctx, "orders")
		until(ctx, t, "every object is gone", c.empty)
	})
}

// empty says what is still in the bucket.
func (c *tier) empty() error {
	if left := c.objects(); len(left) > 0 {
		return fmt.Errorf("%d objects are in the bucket, %s the first", len(left), left[0])
	}
	return nil
}

// TestTopicDeletion_WhileTheDaemonIsDown: the broker's metadata goes on at once, and when a daemon runs again the objects go.
func TestTopicDeletion_WhileTheDaemonIsDown(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	c := start(t, testbed.KafkaOptions{})
	c.tieredTopic(ctx, "orders", 1, nil)
	h := c.history("orders", 0)
	must(t, "write", h.write(ctx, 1))
	h.tieredUp(ctx)
	if len(c.objects()) == 0 {
		t.Fatal("nothing is in the bucket")
	}
	away := c.program() + ".away"
	must(t, "take the program away", os.Rename(c.program(), away))
	for _, pid := range c.pidsOf(away) {
		must(t, "kill the daemon", kill(pid))
	}
	c.deleteTopic(ctx, "orders")
	// What applies the cluster's metadata is not held up: another topic can be made.
	c.tieredTopic(ctx, "invoices", 1, nil)
	if len(c.objects()) == 0 {
		t.Error("objects went although nobody runs who could remove them")
	}
	must(t, "put the program back", os.Rename(away, c.program()))
	until(ctx, t, "every object is gone", c.empty)
}

// TestRetention_RemovesTheRightSegments: by size, then by time.
func TestRetention_RemovesTheRightSegments(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	c := start(t, testbed.KafkaOptions{})
	c.tieredTopic(ctx, "orders", 1, nil)
	h := c.history("orders", 0)
	h.firstMs -= (24 * time.Hour).Milliseconds()
	must(t, "write", h.write(ctx, 4))
	h.tieredUp(ctx)
	before := len(c.objects())
	c.configureTopic(ctx, "orders", "retention.bytes", "20000")
	until(ctx, t, "retention by size", func() error {
		if at := h.earliest(ctx); at == 0 {
			return errors.New("the partition begins at 0 still")
		}
		if n := len(c.objects()); n >= before {
			return fmt.Errorf("%d objects, as many as before", n)
		}
		return c.onlyFinished()
	})
	until(ctx, t, "retention by size comes to its end", func() error {
		from := h.earliest(ctx)
		err := h.read(ctx, from)
		if at := h.earliest(ctx); at != from { // it had removed some segments, and removes more while the partition is read
			return errors.Join(fmt.Errorf("the partition began at %d and begins at %d", from, at), err)
		}
		if err != nil {
			t.Errorf("what is left: %v", err)
		}
		return nil
	})
	if at := h.earliest(ctx); at > h.last()*9/10 {
		t.Errorf("the partition begins at %d of %d: too much was removed", at, h.last())
	}
	c.configureTopic(ctx, "orders", "retention.ms", "1000")
	until(ctx, t, "retention by time", c.empty)
}
