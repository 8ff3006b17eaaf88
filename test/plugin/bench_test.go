package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

const (
	benchSegment  = 32 << 20
	benchSegments = 8                     // so many of one partition are read
	benchEach     = 2                     // and so many of each of ten are uploaded
	defaultBudget = 256 << 20             // of the daemon's memory
	besideBudget  = 64 << 20              // the most that its process may hold beside
	oneWay        = 30 * time.Millisecond // of 60 ms of latency
)

// figures are what a store costs a broker.
type figures struct {
	cold, warm            *reading
	gets, repeated        float64
	uploadOne, uploadTen  float64 // MiB/s
	heapBefore, heapAfter int64
	rss                   int64
}

// TestBench_CatchUpAndBacklog: a broker with 1 GiB of heap reads 256 MiB from the tier and uploads a backlog, through the plug-in with default settings, zstd and
// AES; the limit is what the same broker does with Kafka's LocalTieredStorage, which copies files.
func TestBench_CatchUpAndBacklog(t *testing.T) {
	need.Bench(t)
	var local, near, far *figures
	t.Run("local", func(t *testing.T) {
		local = measure(t, testbed.Kafka(t, testbed.KafkaOptions{Heap: "1g"}), nil, 10)
	})
	t.Run("near", func(t *testing.T) {
		c := start(t, testbed.KafkaOptions{Heap: "1g", Properties: defaults(encrypted(t))})
		near = measure(t, c.KafkaCluster, c, 10)
	})
	t.Run("far", func(t *testing.T) {
		settings := defaults(encrypted(t))
		settings["rsm.config.storage.s3.endpoint.url"] = testbed.MinIO(t).Distant(t, oneWay).Endpoint
		c := start(t, testbed.KafkaOptions{Heap: "1g", Properties: settings})
		far = measure(t, c.KafkaCluster, c, 0)
	})
	if local == nil || near == nil || far == nil {
		t.Fatal("not everything was measured")
	}
	say("%-42s %10s %10s %10s", "256 MiB in 32 MiB segments, -Xmx1g", "local", "MinIO", "60 ms")
	for _, row := range []struct {
		what, format string
		of           func(*figures) any
	}{
		{"catch-up cold, MB/s", "%10.0f", func(f *figures) any { return f.cold.speed() }},
		{"catch-up warm, MB/s", "%10.0f", func(f *figures) any { return f.warm.speed() }},
		{"fetch p50, cold", "%10v", func(f *figures) any { return f.cold.fetches.at(0.5).Round(100 * time.Microsecond) }},
		{"fetch p99, cold", "%10v", func(f *figures) any { return f.cold.fetches.at(0.99).Round(100 * time.Microsecond) }},
		{"GETs, cold", "%10.0f", func(f *figures) any { return f.gets }},
		{"fetches repeated because they were late", "%10.0f", func(f *figures) any { return f.repeated }},
		{"fetches refused, cold", "%10d", func(f *figures) any { return f.cold.refused }},
		{"backlog of one partition, MiB/s", "%10.0f", func(f *figures) any { return f.uploadOne }},
		{"backlog of ten partitions, MiB/s", "%10.0f", func(f *figures) any { return f.uploadTen }},
		{"broker's heap before, MiB", "%10d", func(f *figures) any { return f.heapBefore >> 20 }},
		{"broker's heap after, MiB", "%10d", func(f *figures) any { return f.heapAfter >> 20 }},
		{"daemon's peak memory, MiB", "%10d", func(f *figures) any { return f.rss >> 20 }},
	} {
		say("%-42s "+row.format+" "+row.format+" "+row.format, row.what, row.of(local), row.of(near), row.of(far))
	}
	for _, want := range []struct {
		what       string
		got, least float64
	}{
		{"catch-up cold against the local directory", near.cold.speed() / local.cold.speed(), 0.6},
		{"catch-up warm against the local directory", near.warm.speed() / local.warm.speed(), 0.6},
		{"catch-up through 60 ms, MB/s", far.cold.speed(), 100},
		{"backlog of ten partitions, MiB/s", near.uploadTen, 180},
	} {
		if want.got < want.least {
			t.Errorf("%s: %.2f, want %.2f", want.what, want.got, want.least)
		}
	}
	if far.repeated > 0 {
		t.Errorf("through 60 ms %v fetches were repeated because they were late", far.repeated)
	}
	if most := max(near.rss, far.rss); most > defaultBudget+besideBudget {
		t.Errorf("the daemon's peak memory is %d MiB, want at most %d MiB", most>>20, (defaultBudget+besideBudget)>>20)
	}
}

// measure uploads backlogs and reads. tier is nil for Kafka's own storage; ten is the partitions of the second backlog, 0 for none.
func measure(t *testing.T, c *testbed.KafkaCluster, ours *tier, ten int) *figures {
	t.Helper()
	ctx := testbed.Within(t, 10*time.Minute)
	f := &figures{heapBefore: heap(t, c.Brokers[0])}
	topics := ours
	if topics == nil {
		topics = &tier{KafkaCluster: c, t: t}
	}
	var active []int64
	f.uploadOne, active = topics.backlog(ctx, "one", 1, benchSegments)
	topics.configureTopic(ctx, "one", "local.retention.bytes", "1")
	evictedAll(ctx, t, c, "one", 0, active[0])
	count := func(name string, labels ...string) float64 {
		if ours == nil {
			return 0
		}
		return ours.metric(ctx, name, labels...)
	}
	gets, late := count("tierkit_backend_attempts_total", `op="get"`), count("tierkit_serve_late_total")
	var err error
	f.cold, err = consumeBulk(ctx, c, "one", 0, active[0])
	must(t, "read cold", err)
	f.gets = count("tierkit_backend_attempts_total", `op="get"`) - gets
	f.repeated = count("tierkit_serve_late_total") - late
	f.warm, err = consumeBulk(ctx, c, "one", 0, active[0])
	must(t, "read warm", err)
	if ten > 0 {
		f.uploadTen, _ = topics.backlog(ctx, "ten", ten, benchEach)
	}
	f.heapAfter = heap(t, c.Brokers[0])
	if ours != nil {
		f.rss = peakRSS(t, ours.daemons()[0])
	}
	return f
}

// backlog fills partitions while nothing is tiered, then turns tiering on and returns the MiB/s until everything is in the tier, and where the active segments
// begin.
func (c *tier) backlog(ctx context.Context, topic string, partitions, segments int) (speed float64, active []int64) {
	c.t.Helper()
	bulkTopic(ctx, c.t, c.KafkaCluster, topic, partitions, benchSegment, map[string]string{"remote.storage.enable": "false"})
	records := int64(segments*benchSegment+benchSegment/4) / bulkBytes
	must(c.t, "produce", produceBulk(ctx, c.KafkaCluster, topic, partitions, 0, records))
	var bytes int64
	for p := range int32(partitions) {
		_, size := rolled(c.t, c.KafkaCluster, topic, p)
		bytes += size
	}
	if want := int64(partitions) * int64(segments-1) * benchSegment; bytes < want {
		c.t.Fatalf("the backlog has %d bytes, want %d", bytes, want)
	}
	began := time.Now()
	c.configureTopic(ctx, topic, "remote.storage.enable", "true")
	active = tieredAll(ctx, c.t, c.KafkaCluster, topic, partitions)
	return float64(bytes) / (1 << 20) / time.Since(began).Seconds(), active
}
