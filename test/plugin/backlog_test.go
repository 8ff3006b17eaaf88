package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

const (
	backlogRounds = 5
	backlogLeast  = 0.8 // of the local directory's speed
)

// TestBench_BacklogOfOnePartition: a broker copies one segment after the other of a partition, so that the time of one copy counts. The backlog of one
// partition through the plug-in against the same with Kafka's LocalTieredStorage: both brokers run, and rounds are in turn, since another load
// of the machine comes and goes.
func TestBench_BacklogOfOnePartition(t *testing.T) {
	need.Bench(t)
	ctx := testbed.Within(t, 10*time.Minute)
	local := &tier{KafkaCluster: testbed.Kafka(t, testbed.KafkaOptions{Heap: "1g"}), t: t}
	near := start(t, testbed.KafkaOptions{Heap: "1g", Properties: defaults(encrypted(t))})
	var limit, ours []float64
	for round := range backlogRounds + 1 { // the first one warms up
		topic := fmt.Sprint("one", round)
		a, _ := local.backlog(ctx, topic, 1, benchSegments)
		b, _ := near.backlog(ctx, topic, 1, benchSegments)
		if round > 0 {
			limit, ours = append(limit, a), append(ours, b)
		}
	}
	say("backlog of one partition, MiB/s: local directory %.0f, MinIO %.0f; medians %.0f and %.0f, ratio %.2f",
		limit, ours, median(limit), median(ours), median(ours)/median(limit))
	if got := median(ours) / median(limit); got < backlogLeast {
		t.Errorf("the backlog of one partition is uploaded at %.2f of the local directory's speed, want %.2f", got, backlogLeast)
	}
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
