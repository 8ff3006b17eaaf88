package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/testbed"
)

// The numbers are those of the scenarios taken from Kafka's integration tests of tiered storage. Where they count segments fetched, here the
// offsets read lie before the first one on the broker's disk.

// What a segment of a topic made by small holds: one record, or two.
const (
	alone  = 900
	inPair = 400
)

// small makes a topic of segments of one or two records, and a history of its first partition.
func (c *tier) small(ctx context.Context, name string, partitions int, settings map[string]string) *history {
	c.t.Helper()
	all := map[string]string{"local.retention.bytes": "1"}
	for k, v := range settings {
		all[k] = v
	}
	_, err := c.TieredTopic(ctx, name, partitions, all)
	must(c.t, "make "+name, err)
	return c.past(name, 0)
}

// past is a history whose records are old enough for any retention.
func (c *tier) past(topic string, partition int32) *history {
	h := c.history(topic, partition)
	h.firstMs -= (2 * ahead).Milliseconds()
	return h
}

// put appends n records, each in a batch of its own, a second apart.
func (h *history) put(ctx context.Context, n, size int) {
	h.c.t.Helper()
	for range n {
		at := len(h.records)
		r := &kgo.Record{
			Topic: h.topic, Partition: h.partition, Key: []byte("k" + strconv.Itoa(at)), Value: bytes.Repeat([]byte{byte('a' + at)}, size), Timestamp: h.time(at),
		}
		until(ctx, h.c.t, "produce to "+h.topic, func() error {
			err := h.c.Client().ProduceSync(ctx, r).FirstErr()
			if err != nil {
				h.c.Client().ForceMetadataRefresh() // it has not heard of a new partition, and refuses the record itself
			}
			return err
		})
		h.records = append(h.records, r)
	}
}

func (h *history) time(i int) time.Time { return time.UnixMilli(h.firstMs + int64(i)*1000) }

// stands waits until the partition begins on the disk at an offset and everything before is in the tier.
func (h *history) stands(ctx context.Context, local int64) {
	h.c.t.Helper()
	h.offset(ctx, "latest tiered", testbed.LatestTiered, local-1)
	h.offset(ctx, "earliest local", testbed.EarliestLocal, local)
}

// offset waits until ListOffsets answers so.
func (h *history) offset(ctx context.Context, what string, at, want int64) {
	h.c.t.Helper()
	until(ctx, h.c.t, fmt.Sprintf("%s of %s-%d", what, h.topic, h.partition), func() error {
		got, err := h.c.ListOffset(ctx, h.topic, h.partition, at)
		if err == nil && got != want {
			err = fmt.Errorf("it is %d, want %d", got, want)
		}
		return err
	})
}

// comesBack reads the partition from an offset to its end.
func (h *history) comesBack(ctx context.Context, from int64) {
	h.c.t.Helper()
	if err := h.compare(ctx, from, kgo.ReadUncommitted(), h.records[from:], thatIsAll); err != nil {
		h.c.t.Errorf("%s-%d from %d: %v", h.topic, h.partition, from, err)
	}
}

// inBucket waits until the bucket holds that many segments of a topic.
func (c *tier) inBucket(ctx context.Context, topic string, want int) {
	c.t.Helper()
	until(ctx, c.t, "segments of "+topic+" in the bucket", func() error {
		n := 0
		for _, key := range c.objects() {
			if strings.HasPrefix(key, topic+"-") && strings.HasSuffix(key, ".rsm-manifest") {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d, want %d", n, want)
		}
		return nil
	})
}

// epochsFrom waits until the broker's checkpoint of leader epochs has one entry, which begins at an offset.
func (h *history) epochsFrom(ctx context.Context, want string) {
	h.c.t.Helper()
	path := filepath.Join(h.c.Brokers[0].DataDir(), fmt.Sprintf("%s-%d", h.topic, h.partition), "leader-epoch-checkpoint")
	until(ctx, h.c.t, path, func() error {
		text, err := os.ReadFile(path)
		if err == nil && string(text) != "0\n1\n"+want+"\n" {
			err = fmt.Errorf("it says %q, want the entry %q alone", text, want)
		}
		return err
	})
}

// deleteRecords moves the beginning of the partition.
func (h *history) deleteRecords(ctx context.Context, before int64) {
	h.c.t.Helper()
	must(h.c.t, "delete records", h.c.DeleteRecords(ctx, h.topic, h.partition, before))
}

// scenario is one of them: before the brokers are restarted, and afterwards; either may be nil.
type scenario struct {
	name   string
	before func(ctx context.Context, c *tier)
	after  func(ctx context.Context, c *tier)
}

func TestScenarios198To207And211And212_OneBroker(t *testing.T) {
	onVersions(t, testbed.KafkaTestedLong(), func(t *testing.T, version string) {
		ctx := testbed.Within(t, 15*time.Minute)
		properties := map[string]string{}
		if !testbed.Before41(version) { // for 200; before, reads fail with UNKNOWN_SERVER_ERROR now and then while the index cache is full
			properties["remote.log.index.file.cache.total.size.bytes"] = "1"
			properties["remote.fetch.max.wait.ms"] = "10000" // each fetch asks for three indexes anew: what a busy machine does not bring in 500 ms it never brings
		}
		c := start(t, testbed.KafkaOptions{Version: version, Properties: properties})
		all := []scenario{uploads(1, alone, "198"), uploads(2, inPair, "199"), readCommitted(), localTime(), enabledLater(), disabled(),
			retention("size", "retention.bytes"), retention("time", "retention.ms"), recordsDeleted(), topicDeleted(), partitionsAdded(), offsets()}
		for _, s := range all {
			if s.before != nil {
				c.t.Log(s.name)
				s.before(ctx, c)
			}
		}
		must(t, "stop", c.Stop())
		for _, name := range []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"} { // 211
			must(t, "lose "+name, os.Remove(filepath.Join(c.Brokers[0].DataDir(), name)))
		}
		must(t, "start again", c.Start())
		for _, s := range all {
			if s.after != nil {
				c.t.Log(s.name + ", after the restart")
				s.after(ctx, c)
			}
		}
	})
}

// uploads is 198 and 199; what was written is read after the broker lost its checkpoints, and more is tiered (211).
func uploads(perSegment, size int, number string) scenario {
	var h *history
	return scenario{number, func(ctx context.Context, c *tier) {
		h = c.small(ctx, "s"+number, 1, nil)
		h.put(ctx, 2*perSegment+1, size)
		h.stands(ctx, int64(2*perSegment))
		c.inBucket(ctx, h.topic, 2)
	}, func(ctx context.Context, c *tier) {
		h.comesBack(ctx, 1)
		h.put(ctx, perSegment, size)
		h.stands(ctx, int64(3*perSegment))
		h.comesBack(ctx, 0)
	}}
}

func readCommitted() scenario {
	return scenario{"200", func(ctx context.Context, c *tier) {
		h := c.small(ctx, "s200", 1, nil)
		h.put(ctx, 7, alone)
		h.stands(ctx, 6)
		if err := h.compare(ctx, 0, kgo.ReadCommitted(), h.records, thatIsAll); err != nil {
			c.t.Error(err)
		}
	}, nil}
}

func localTime() scenario {
	return scenario{"201", func(ctx context.Context, c *tier) {
		h := c.small(ctx, "s201", 1, map[string]string{"local.retention.bytes": "", "local.retention.ms": "1"})
		h.put(ctx, 4, alone)
		h.stands(ctx, 4)
		c.inBucket(ctx, h.topic, 4)
		h.comesBack(ctx, 0)
	}, nil}
}

func enabledLater() scenario {
	return scenario{"202", func(ctx context.Context, c *tier) {
		hs := []*history{c.small(ctx, "s202", 2, map[string]string{"remote.storage.enable": "", "local.retention.bytes": ""}), c.past("s202", 1)}
		for _, h := range hs {
			h.put(ctx, 3, alone)
		}
		c.configureTopic(ctx, "s202", "remote.storage.enable", "true", "local.retention.bytes", "1")
		for _, h := range hs {
			h.put(ctx, 2, alone)
			h.stands(ctx, 4)
			h.comesBack(ctx, 0)
		}
	}, nil}
}

func disabled() scenario {
	return scenario{"203", func(ctx context.Context, c *tier) {
		h := c.small(ctx, "s203", 1, nil)
		h.put(ctx, 3, alone)
		h.stands(ctx, 2)
		c.configureTopic(ctx, "s203", "remote.log.copy.disable", "true", "local.retention.bytes", "-2")
		h.comesBack(ctx, 0)
		c.configureTopic(ctx, "s203", "remote.log.copy.disable", "false", "local.retention.bytes", "1")
		h.put(ctx, 1, alone)
		h.stands(ctx, 3)
		c.configureTopic(ctx, "s203", "remote.log.copy.disable", "true", "local.retention.bytes", "-2")
		h.comesBack(ctx, 0)
		h.deleteRecords(ctx, 1)
		c.inBucket(ctx, h.topic, 2)
		h.comesBack(ctx, 1)
		c.configureTopic(ctx, "s203", "remote.storage.enable", "false", "remote.log.delete.on.disable", "true")
		c.inBucket(ctx, h.topic, 0)
		h.offset(ctx, "earliest", testbed.Earliest, 3)
		h.comesBack(ctx, 3)
	}, nil}
}

func retention(by, setting string) scenario {
	return scenario{"204 by " + by, func(ctx context.Context, c *tier) {
		h := c.small(ctx, "s204"+by, 1, nil)
		h.put(ctx, 4, alone)
		h.stands(ctx, 3)
		local := strings.Replace(setting, "retention", "local.retention", 1)
		c.configureTopic(ctx, h.topic, local, "1", setting, "1")
		c.inBucket(ctx, h.topic, 0)
		if by == "time" { // the broker rolls and deletes what is old in its own log, too
			h.offset(ctx, "earliest", testbed.Earliest, 4)
			return
		}
		h.offset(ctx, "earliest", testbed.Earliest, 3)
		h.epochsFrom(ctx, "0 3")
		h.comesBack(ctx, 3)
	}, nil}
}

func recordsDeleted() scenario {
	var h *history
	return scenario{"205", func(ctx context.Context, c *tier) {
		h = c.small(ctx, "s205", 1, nil)
		h.put(ctx, 5, inPair)
		h.stands(ctx, 4)
		h.deleteRecords(ctx, 3)
		c.inBucket(ctx, h.topic, 1)
		h.epochsFrom(ctx, "0 3")
		h.comesBack(ctx, 3)
	}, func(ctx context.Context, c *tier) {
		h.put(ctx, 5, inPair)
		h.stands(ctx, 8)
		c.inBucket(ctx, h.topic, 3)
		h.deleteRecords(ctx, 7)
		c.inBucket(ctx, h.topic, 1)
		h.comesBack(ctx, 7)
	}}
}

func topicDeleted() scenario {
	return scenario{"206", func(ctx context.Context, c *tier) {
		hs := []*history{c.small(ctx, "s206", 2, nil), c.past("s206", 1)}
		for _, h := range hs {
			h.put(ctx, 3, alone)
			h.stands(ctx, 2)
		}
		c.inBucket(ctx, "s206", 4)
		c.deleteTopic(ctx, "s206")
		c.inBucket(ctx, "s206", 0)
	}, nil}
}

func partitionsAdded() scenario {
	return scenario{"207", func(ctx context.Context, c *tier) {
		h := c.small(ctx, "s207", 1, nil)
		h.put(ctx, 3, alone)
		h.stands(ctx, 2)
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = "s207", 3
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, rt)
		resp, err := req.RequestWith(ctx, c.Client())
		must(c.t, "add partitions", err)
		must(c.t, "add partitions", kerr.ErrorForCode(resp.Topics[0].ErrorCode))
		for p := int32(1); p < 3; p++ {
			added := c.past("s207", p)
			added.put(ctx, 3, alone)
			added.stands(ctx, 2)
			added.comesBack(ctx, 0)
		}
		h.comesBack(ctx, 0)
	}, nil}
}

func offsets() scenario {
	var h *history
	return scenario{"212", func(ctx context.Context, c *tier) {
		h = c.small(ctx, "s212", 1, nil)
		h.put(ctx, 3, inPair)
		h.stands(ctx, 2)
	}, func(ctx context.Context, c *tier) { // in another leader epoch
		h.put(ctx, 3, inPair)
		h.stands(ctx, 4)
		var errs []error
		ask := func(at, want int64) {
			if got, err := c.ListOffset(ctx, h.topic, 0, at); err != nil || got != want {
				errs = append(errs, fmt.Errorf("ListOffsets %d: %d, %v, want %d", at, got, err, want))
			}
		}
		ask(testbed.Earliest, 0)
		ask(testbed.Latest, 6)
		ask(h.firstMs-1, 0)
		for i := range 6 {
			ask(h.time(i).UnixMilli(), int64(i))
		}
		ask(h.time(6).UnixMilli(), -1)
		h.deleteRecords(ctx, 3)
		ask(testbed.Earliest, 3)
		h.deleteRecords(ctx, 4)
		ask(testbed.Earliest, 4)
		ask(testbed.EarliestLocal, 4)
		ask(testbed.LatestTiered, 3)
		if err := errors.Join(errs...); err != nil {
			c.t.Error(err)
		}
	}}
}

// 208: a broker that already follows every metadata partition becomes the only replica of a partition, and has to read what it passed over.
// 209: the replica that is left becomes the leader and uploads what the one before had not.
func TestScenarios208And209_ReplicasMove(t *testing.T) {
	ctx := testbed.Within(t, 15*time.Minute)
	c := start(t, testbed.KafkaOptions{Brokers: 2, MetadataPartitions: 2})
	c.small(ctx, "wide", 50, nil)
	moved, left := c.small(ctx, "s208", 1, nil), c.small(ctx, "s209", 1, nil)
	c.reassign(ctx, "s208", 1)
	c.reassign(ctx, "s209", 1, 2)
	moved.put(ctx, 4, alone)
	moved.stands(ctx, 3)
	left.put(ctx, 3, alone)
	left.stands(ctx, 2)
	c.reassign(ctx, "s208", 2)
	moved.comesBack(ctx, 0)
	moved.put(ctx, 1, alone)
	moved.stands(ctx, 4)
	moved.comesBack(ctx, 0)
	c.reassign(ctx, "s209", 2)
	left.put(ctx, 1, alone)
	left.stands(ctx, 3)
	left.comesBack(ctx, 0)
	c.inBucket(ctx, "s209", 3)
}

// 210: a replica moves to the other log directory of its broker, and is elected leader. How many segments are in the bucket is not counted: a copy that
// the former leader had begun may stay beside that of the next one, which is Kafka's affair.
func TestScenario210_AReplicaMovesBetweenLogDirectories(t *testing.T) {
	onVersions(t, testbed.KafkaTested(), func(t *testing.T, version string) {
		ctx := testbed.Within(t, 10*time.Minute)
		c := start(t, testbed.KafkaOptions{Version: version, Brokers: 2, LogDirs: 2})
		h := c.small(ctx, "s210", 1, nil)
		c.reassign(ctx, "s210", 1)
		c.reassign(ctx, "s210", 1, 2)
		h.put(ctx, 3, alone)
		h.stands(ctx, 2)
		moving := c.Brokers[1]
		from := h.logDir(ctx, moving)
		to := moving.DataDirs()[0]
		if to == from {
			to = moving.DataDirs()[1]
		}
		h.moveTo(ctx, moving, to)
		c.reassign(ctx, "s210", 2)
		h.put(ctx, 1, alone)
		h.stands(ctx, 3)
		h.comesBack(ctx, 0)
		if now := h.logDir(ctx, moving); now != to {
			t.Errorf("the leader's log is in %s, want %s", now, to)
		}
	})
}

// logDir is the log directory of a broker that the partition is in.
func (h *history) logDir(ctx context.Context, b *testbed.Broker) (dir string) {
	h.c.t.Helper()
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = h.topic, []int32{h.partition}
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = append(req.Topics, rt)
	until(ctx, h.c.t, fmt.Sprintf("%s-%d is in one log directory of broker %d", h.topic, h.partition, b.ID), func() error {
		resp, err := req.RequestWith(ctx, h.c.Client().Broker(int(b.ID)))
		if err != nil {
			return err
		}
		var in []string
		for _, d := range resp.Dirs {
			if len(d.Topics) > 0 {
				in = append(in, d.Dir)
			}
		}
		if len(in) != 1 {
			return fmt.Errorf("it is in %v", in)
		}
		dir = in[0]
		return nil
	})
	return dir
}

// moveTo moves the partition to another log directory of a broker, and returns when it is there and nowhere else.
func (h *history) moveTo(ctx context.Context, b *testbed.Broker, dir string) {
	h.c.t.Helper()
	rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = h.topic, []int32{h.partition}
	to := kmsg.NewAlterReplicaLogDirsRequestDir()
	to.Dir, to.Topics = dir, append(to.Topics, rt)
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Dirs = append(req.Dirs, to)
	h.c.asked(ctx, "move between log directories", func() error {
		answer, err := h.c.Client().Broker(int(b.ID)).RetriableRequest(ctx, req)
		if err != nil {
			return err
		}
		resp, ok := answer.(*kmsg.AlterReplicaLogDirsResponse)
		if !ok {
			return errNoAnswer
		}
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
	until(ctx, h.c.t, "the move to "+dir, func() error {
		if now := h.logDir(ctx, b); now != dir {
			return fmt.Errorf("%s-%d is in %s", h.topic, h.partition, now)
		}
		return nil
	})
}
