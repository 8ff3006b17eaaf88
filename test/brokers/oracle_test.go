package brokers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// oracle is what the topic says, read by an ordinary consumer and added up by the rules of Kafka's state machine, written down once
// more here (RemoteLogSegmentState.isValidTransition of storage-api).
type oracle struct {
	state   map[remotelog.SegmentID]remotelog.State // that are not DELETE_SEGMENT_FINISHED
	took    map[key]int                             // writes that changed something
	epoch   map[remotelog.SegmentID]int32           // of every one that was ever there, which has one
	highest map[partitionEpoch]int64                // of all that was ever finished
}

// partitionEpoch is a leader epoch of a partition.
type partitionEpoch struct {
	tp    remotelog.TopicIDPartition
	epoch int32
}

func (o *oracle) apply(value []byte) error {
	r, err := rlmm.Decode(value)
	if err != nil {
		return err
	}
	var k key
	end := int64(-1)
	switch r := r.(type) {
	case *rlmm.SegmentRecord:
		k = key{r.Metadata.SegmentID, r.Metadata.State, r.Metadata.BrokerID}
		if k.state != remotelog.CopySegmentStarted {
			return fmt.Errorf("a segment begins in state %v", k.state)
		}
		o.epoch[k.id] = r.Metadata.LeaderEpochs[0].Epoch
	case *rlmm.UpdateRecord:
		k = key{r.Update.SegmentID, r.Update.State, r.Update.BrokerID}
		end = r.Update.EventTimestampMs // the writers of the test say so
	default:
		return fmt.Errorf("a %T, which nobody writes here", r)
	}
	from, known := o.state[k.id]
	if !follows(from, known, k.state) {
		return nil
	}
	o.took[k]++
	switch k.state {
	case remotelog.DeleteSegmentFinished:
		delete(o.state, k.id)
		return nil
	case remotelog.CopySegmentFinished:
		in := partitionEpoch{k.id.TopicIDPartition, o.epoch[k.id]}
		o.highest[in] = max(o.highest[in], end)
	default:
	}
	o.state[k.id] = k.state
	return nil
}

func follows(from remotelog.State, known bool, to remotelog.State) bool {
	const s, f, ds, df = remotelog.CopySegmentStarted, remotelog.CopySegmentFinished, remotelog.DeleteSegmentStarted, remotelog.DeleteSegmentFinished
	if !known {
		return to == s
	}
	switch to {
	case s:
		return from == s
	case f:
		return from == s || from == f
	case ds:
		return true
	default:
		return to == df && from == ds
	}
}

// dump reads the whole topic.
func dump(ctx context.Context, t *testing.T, c *cluster) *oracle {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	o := &oracle{
		state: map[remotelog.SegmentID]remotelog.State{}, took: map[key]int{}, epoch: map[remotelog.SegmentID]int32{}, highest: map[partitionEpoch]int64{},
	}
	ends, from := map[int32]int64{}, map[int32]kgo.Offset{}
	ps, err := topicPartitions(ctx, c)
	must(t, "dump", err)
	for _, p := range ps {
		end, err := c.ListOffset(ctx, kafkalog.Topic, p.Partition, testbed.Latest)
		must(t, "dump", err)
		if end > 0 {
			ends[p.Partition], from[p.Partition] = end, kgo.NewOffset().At(0)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{kafkalog.Topic: from}))
	must(t, "dump", err)
	defer cl.Close()
	for len(ends) > 0 {
		fs := cl.PollFetches(ctx)
		must(t, "dump", ctx.Err())
		fs.EachRecord(func(r *kgo.Record) {
			if err := o.apply(r.Value); err != nil {
				t.Errorf("metadata partition %d, offset %d: %v", r.Partition, r.Offset, err)
			}
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
		})
	}
	return o
}

// compare compares the segments of a partition and their states.
func (o *oracle) compare(ctx context.Context, t *testing.T, who string, m *rlmm.Manager, tp remotelog.TopicIDPartition) {
	t.Helper()
	listed := map[remotelog.SegmentID]remotelog.State{}
	for md, err := range m.Segments(ctx, tp) {
		must(t, who, err)
		listed[md.SegmentID] = md.State
	}
	for id, want := range o.state {
		if id.TopicIDPartition != tp {
			continue
		}
		if got, ok := listed[id]; !ok || got != want {
			t.Errorf("%s says of %v: %v, listed %v; the topic says %v", who, id, got, ok, want)
		}
		delete(listed, id)
	}
	for id, got := range listed {
		t.Errorf("%s says of %v: %v; the topic has it deleted, or never had it", who, id, got)
	}
	for in, want := range o.highest {
		if in.tp != tp {
			continue
		}
		got, ok, err := m.HighestOffset(ctx, tp, in.epoch)
		if err != nil || !ok || got != want {
			t.Errorf("%s has highest offset %d, %v, %v of %v in epoch %d; the topic says %d", who, got, ok, err, tp, in.epoch, want)
		}
	}
	if o.tiered(tp) < 0 {
		t.Errorf("the topic says that nothing of %v was ever finished", tp)
	}
}

// tiered is how far a partition was ever tiered, -1: not at all.
func (o *oracle) tiered(tp remotelog.TopicIDPartition) int64 {
	highest := int64(-1)
	for in, end := range o.highest {
		if in.tp == tp {
			highest = max(highest, end)
		}
	}
	return highest
}

// brokersAgree starts the brokers anew, so that they read the topic again. They say how far the partitions are tiered; and told that
// all records are deleted, they delete every segment that they know of, which must be every segment that there is.
func (o *oracle) brokersAgree(ctx context.Context, t *testing.T, c *cluster, m *rlmm.Manager, tps []remotelog.TopicIDPartition) {
	t.Helper()
	must(t, "settings", c.Configure(map[string]string{"remote.log.manager.task.interval.ms": "500"}))
	must(t, "restart", errors.Join(c.Stop(), c.Start()))
	for _, tp := range tps {
		until(ctx, t, "the brokers know how far it is tiered", func(ctx context.Context) error {
			got, err := c.ListOffset(ctx, tp.Topic, tp.Partition, testbed.LatestTiered)
			if want := o.tiered(tp); err != nil || got != want {
				return fmt.Errorf("%v is tiered up to %d (%w), the topic says %d", tp, got, err, want)
			}
			return nil
		})
		must(t, "delete records", c.DeleteRecords(ctx, tp.Topic, tp.Partition, -1))
	}
	for _, tp := range tps {
		until(ctx, t, "the brokers delete every segment", func(ctx context.Context) error {
			n := 0
			for md, err := range m.Segments(ctx, tp) {
				if err != nil {
					return err
				}
				n++
				if n > 3 {
					return fmt.Errorf("%v and others are still there", md.SegmentID)
				}
			}
			if n > 0 {
				return fmt.Errorf("%d segments of %v are still there", n, tp)
			}
			return nil
		})
	}
	after := dump(ctx, t, c)
	for id := range o.state {
		deleted := 0
		for b := range int32(len(c.Brokers)) {
			deleted += after.took[key{id, remotelog.DeleteSegmentFinished, b + 1}]
		}
		if deleted != 1 {
			t.Errorf("%v was there; brokers have deleted it %d times", id, deleted)
		}
	}
}
