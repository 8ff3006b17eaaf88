package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/testbed"
)

// say is what whoever runs `make demo-kafka` sees.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// TestDemo_ABrokerTiersToMinIO is `make demo-kafka`: from nothing to a topic that is in the tier and comes back from there.
func TestDemo_ABrokerTiersToMinIO(t *testing.T) {
	ctx := testbed.Within(t, 12*time.Minute)
	say("\n1. MinIO, and a broker of Kafka %s with the plug-in, which starts tierkit beside it", testbed.KafkaNewest)
	c := start(t, testbed.KafkaOptions{})
	say("   broker %s, store %s/%s, tierkit is process %v", c.Brokers[0].Address, c.s3.Endpoint, c.bucket, c.daemons())
	c.tieredTopic(ctx, "orders", 1, nil)
	h := c.history("orders", 0)
	must(t, "write", h.write(ctx, 4))
	say("\n2. %d records in topic orders, with all codecs and with transactions, a third of which were aborted", len(h.records))
	h.tieredUp(ctx)
	c.offsets(ctx, "orders")
	say("\n3. What is in the bucket, as tierkit sees it without the broker's metadata")
	config := filepath.Join(t.TempDir(), "tierkit.properties")
	must(t, "write the configuration", os.WriteFile(config, []byte(c.storeSettings()), 0o600))
	out, err := exec.CommandContext(ctx, c.program(), "ls", "--config", config, "--from-store").CombinedOutput()
	if err != nil {
		t.Fatalf("tierkit ls: %v\n%s", err, out)
	}
	say("%s", "   "+strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n   "))
	began := time.Now()
	must(t, "read back", h.check(ctx))
	say("\n4. Every record read back through the broker, read_uncommitted and read_committed, compared: %.1f s", time.Since(began).Seconds())
	c.deleteTopic(ctx, "orders")
	until(ctx, t, "every object is gone", c.empty)
	say("\n5. The topic deleted, and with it every object in the bucket.\n\nHow to have the same with a broker of yours: docs/kafka.md")
}

// offsets says where a partition begins and ends in each of the two places.
func (c *tier) offsets(ctx context.Context, topic string) {
	c.t.Helper()
	for _, o := range []struct {
		what string
		at   int64
	}{{"earliest", testbed.Earliest}, {"earliest on the broker's disk", testbed.EarliestLocal}, {"latest in the tier", testbed.LatestTiered}, {"latest", testbed.Latest}} {
		at, err := c.ListOffset(ctx, topic, 0, o.at)
		must(c.t, "list offsets", err)
		say("   %-30s %6d", o.what, at)
	}
}

func (c *tier) storeSettings() string {
	return fmt.Sprintf("storage.backend=s3\nstorage.s3.bucket.name=%s\nstorage.s3.endpoint.url=%s\nstorage.aws.access.key.id=%s\nstorage.aws.secret.access.key=%s\nmetadata.log=memory\n",
		c.bucket, c.s3.Endpoint, c.s3.AccessKey, c.s3.SecretKey)
}
