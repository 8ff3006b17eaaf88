package brokers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// Segments that we copied, with records of ours: the broker that starts with them takes them for its own. It copies nothing of
// them again, drops the local files, and answers offsets, times and reads from what we wrote.
func TestBroker_ServesOurSegments(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		ctx := testbed.Within(t, 12*time.Minute)
		// At first the broker itself copies and deletes nothing. Its first look at a new topic may be late, so a long interval alone is not enough.
		c := start(t, testbed.KafkaOptions{Version: version, Properties: map[string]string{
			"remote.log.manager.task.interval.ms": "3600000", "log.retention.check.interval.ms": "3600000",
		}})
		tp := c.tiered(ctx, "orders", 1, map[string]string{"remote.log.copy.disable": "true"})[0]
		const n, firstMs = 21, 1_700_000_000_000 // two records fill a segment, the last is in the active one
		value := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 400) }
		for i := range n {
			r := &kgo.Record{Topic: tp.Topic, Value: value(i), Timestamp: time.UnixMilli(firstMs + int64(1000*i))}
			must(t, "produce", c.Client().ProduceSync(ctx, r).FirstErr())
		}
		if at, err := c.ListOffset(ctx, tp.Topic, 0, testbed.LatestTiered); err != nil || at != -1 {
			t.Fatalf("before we copied: tiered up to %d, %v", at, err)
		}
		local, err := c.consume(ctx, tp, n)
		must(t, "consume what is not tiered", err)
		m := c.manager(ctx, tp)
		mine, err := copySegments(ctx, c, m, tp, local)
		must(t, "copy", err)
		if len(mine) != (n-1)/2 {
			t.Fatalf("copied %d segments, want %d", len(mine), (n-1)/2)
		}

		must(t, "stop", c.Stop())
		must(t, "settings", c.Configure(map[string]string{"remote.log.manager.task.interval.ms": "500", "log.retention.check.interval.ms": "1000"}))
		must(t, "start again", c.Start())
		must(t, "let it copy", c.ConfigureTopic(ctx, tp.Topic, "remote.log.copy.disable", "false", "local.retention.ms", "1"))
		last := mine[len(mine)-1].EndOffset
		until(ctx, t, "the broker takes our segments for tiered", func(ctx context.Context) error {
			tiered, err1 := c.ListOffset(ctx, tp.Topic, 0, testbed.LatestTiered)
			local, err2 := c.ListOffset(ctx, tp.Topic, 0, testbed.EarliestLocal)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if tiered < last || local <= last {
				return fmt.Errorf("tiered up to %d, want %d; local from %d", tiered, last, local)
			}
			return nil
		})
		if at, err := c.ListOffset(ctx, tp.Topic, 0, testbed.Earliest); err != nil || at != 0 {
			t.Errorf("earliest offset %d, %v, want 0", at, err)
		}
		for i := range n {
			if at, err := c.ListOffset(ctx, tp.Topic, 0, firstMs+int64(1000*i)-1); err != nil || at != int64(i) {
				t.Errorf("offset at the time of record %d: %d, %v", i, at, err)
			}
		}
		records, err := c.consume(ctx, tp, n)
		must(t, "consume", err)
		for i, r := range records {
			if r.Offset != int64(i) || !bytes.Equal(r.Value, value(i)) || r.Timestamp.UnixMilli() != firstMs+int64(1000*i) {
				t.Errorf("record %d: offset %d, time %v, value %.10q", i, r.Offset, r.Timestamp, r.Value)
			}
		}
		until(ctx, t, "the broker copied nothing again", func(ctx context.Context) error { return onlyOurs(ctx, c, m, tp, mine) })
	})
}

// onlyOurs checks that up to the end of what we copied there is nothing but that, and behind it what the broker has copied.
func onlyOurs(ctx context.Context, c *cluster, m *rlmm.Manager, tp remotelog.TopicIDPartition, mine []remotelog.SegmentMetadata) error {
	finished, err := segments(ctx, m, tp, remotelog.CopySegmentFinished)
	if err != nil {
		return err
	}
	if len(finished) <= len(mine) {
		return fmt.Errorf("%d segments are tiered: the broker has not gone on behind our %d", len(finished), len(mine))
	}
	stored, err := c.stored(tp)
	if err != nil || len(stored) != len(finished) {
		return fmt.Errorf("%d files for %d segments, %w", len(stored), len(finished), err)
	}
	for i, md := range mine {
		if finished[i].SegmentID != md.SegmentID {
			return fmt.Errorf("segment %d is %v, want ours, %v", i, finished[i].SegmentID, md.SegmentID)
		}
	}
	return nil
}

// copySegments does what the broker would do for the closed segments of a partition with some records, and returns their metadata.
func copySegments(ctx context.Context, c *cluster, m *rlmm.Manager, tp remotelog.TopicIDPartition, records []*kgo.Record) ([]remotelog.SegmentMetadata, error) {
	dir := filepath.Join(c.Brokers[0].DataDir(), tp.Topic+"-"+strconv.Itoa(int(tp.Partition)))
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(logs)
	var out []remotelog.SegmentMetadata
	for i, log := range logs[:len(logs)-1] {
		base, err1 := baseOffset(log)
		next, err2 := baseOffset(logs[i+1])
		info, err3 := os.Stat(log)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		md := remotelog.SegmentMetadata{
			SegmentID:   remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.UUID{0xc0, byte(i + 1)}},
			StartOffset: base, EndOffset: next - 1, BrokerID: 7, MaxTimestampMs: records[next-1].Timestamp.UnixMilli(), EventTimestampMs: time.Now().UnixMilli(),
			SizeBytes: info.Size(), LeaderEpochs: epochsOf(records[base:next]), TxnIndexEmpty: true,
			State: remotelog.CopySegmentStarted,
		}
		up := remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: remotelog.CopySegmentFinished, BrokerID: 7, EventTimestampMs: md.EventTimestampMs}
		if err := m.Add(ctx, md); err != nil {
			return nil, err
		}
		if err := c.store(md, dir, epochsOf(records[:next])); err != nil {
			return nil, err
		}
		if err := m.Update(ctx, up); err != nil {
			return nil, err
		}
		out = append(out, md)
	}
	return out, nil
}

func baseOffset(log string) (int64, error) {
	return strconv.ParseInt(strings.TrimSuffix(filepath.Base(log), ".log"), 10, 64)
}

// store puts the files of a segment where LocalTieredStorage has them. The snapshot of the producers is the one that is named
// after the next segment. The epochs are those of the log up to the end of the segment.
func (c *cluster) store(md remotelog.SegmentMetadata, dir string, epochs []remotelog.LeaderEpoch) error {
	to := c.partitionStore(md.SegmentID.TopicIDPartition)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	name := filepath.Join(to, fmt.Sprintf("%020d-%s", md.StartOffset, md.SegmentID.ID))
	base, next := fmt.Sprintf("%020d", md.StartOffset), fmt.Sprintf("%020d", md.EndOffset+1)
	for from, suffix := range map[string]string{
		base + ".log": ".log", base + ".index": ".index", base + ".timeindex": ".timeindex", next + ".snapshot": ".snapshot",
	} {
		b, err := os.ReadFile(filepath.Join(dir, from))
		if err == nil {
			err = os.WriteFile(name+suffix, b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	checkpoint := fmt.Appendf(nil, "0\n%d\n", len(epochs))
	for _, e := range epochs {
		checkpoint = fmt.Appendf(checkpoint, "%d %d\n", e.Epoch, e.StartOffset)
	}
	return os.WriteFile(name+".leader_epoch_checkpoint", checkpoint, 0o644)
}
