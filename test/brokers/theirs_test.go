package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// alive is the time in which a broker whose metadata consumer is alive has tiered something, on a machine that does much else.
const alive = 4 * time.Minute

// A real broker and we on one topic: we read what it wrote and agree with what it serves; it survives all that we write, live and
// when it reads that again at its next start; and one record that we never write shows that this would be noticed.
func TestBroker_OneTopic(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		ctx := testbed.Within(t, 12*time.Minute)
		notedRarely := map[string]string{"log.flush.start.offset.checkpoint.interval.ms": "3600000"}
		c := start(t, testbed.KafkaOptions{Version: version, Properties: notedRarely})
		topicOfBroker(ctx, t, c)
		theirs := c.tiered(ctx, "theirs", 3, map[string]string{"local.retention.ms": "1"})
		ours := c.tiered(ctx, "ours", 1, nil)[0]
		for i, tp := range theirs {
			must(t, "produce", c.Produce(ctx, tp.Topic, tp.Partition, 12+6*i))
		}
		m := c.manager(ctx, append(slices.Clone(theirs), ours)...)
		agreeAll(ctx, t, c, m, theirs)

		must(t, "write", repertoire(ctx, c, m, ours))
		if err := c.tiers(ctx, "after-live", alive); err != nil {
			t.Fatalf("after all that we write the metadata consumer is dead: %v", err)
		}
		// In the middle of a segment, and up to the next: a broker that restarts with what it has written down in between (notedRarely)
		// begins at the segment's start, for which it has no epoch any more, and does not serve it.
		for _, before := range middleAndEnd(ctx, t, m, theirs[2]) {
			must(t, "delete records", c.DeleteRecords(ctx, theirs[2].Topic, theirs[2].Partition, before))
			agreeAll(ctx, t, c, m, theirs[2:])
		}

		c.Kill()
		must(t, "start again", c.Start())
		if err := c.tiers(ctx, "after-restart", alive); err != nil {
			t.Fatalf("after reading all that we wrote again the metadata consumer is dead: %v", err)
		}
		for _, tp := range theirs { // in another leader epoch
			must(t, "produce", c.Produce(ctx, tp.Topic, tp.Partition, 6))
		}
		agreeAll(ctx, t, c, m, theirs)
		must(t, "write after the restart", m.Add(ctx, segment(ours, 6)))

		poison := &kgo.Record{Topic: kafkalog.Topic, Value: []byte{1, 9, 0}}
		must(t, "poison", c.Client().ProduceSync(ctx, poison).FirstErr())
		if err := c.tiers(ctx, "after-poison", 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a record that ends the metadata consumer: %v, want nothing to be tiered", err)
		}
		topicOfOurs(ctx, t, c)
	})
}

// middleAndEnd are an offset in the middle of a segment behind the first ones, and that of the next segment. Where they begin is not known beforehand: a
// broker that is slow between two records rolls a segment with one of them, since local retention is short.
func middleAndEnd(ctx context.Context, t *testing.T, m *rlmm.Manager, tp remotelog.TopicIDPartition) []int64 {
	t.Helper()
	finished, err := segments(ctx, m, tp, remotelog.CopySegmentFinished)
	must(t, "segments", err)
	for i := 3; i+3 < len(finished); i++ { // three stay
		if md := finished[i]; md.EndOffset > md.StartOffset {
			return []int64{md.StartOffset + 1, md.EndOffset + 1}
		}
	}
	t.Fatalf("no segment of %v with a middle among %d", tp, len(finished))
	return nil
}

// agreeAll waits until the manager says of each partition what the broker says.
func agreeAll(ctx context.Context, t *testing.T, c *cluster, m *rlmm.Manager, tps []remotelog.TopicIDPartition) {
	t.Helper()
	for _, tp := range tps {
		until(ctx, t, "agree with the broker about "+tp.String(), func(ctx context.Context) error { return agree(ctx, c, m, tp) })
	}
}

// agree compares what is tiered: the broker's offsets, the files in its store, and each record that it serves from there.
func agree(ctx context.Context, c *cluster, m *rlmm.Manager, tp remotelog.TopicIDPartition) error {
	var at [4]int64
	for i, kind := range []int64{testbed.Earliest, testbed.EarliestLocal, testbed.LatestTiered, testbed.Latest} {
		var err error
		if at[i], err = c.ListOffset(ctx, tp.Topic, tp.Partition, kind); err != nil {
			return err
		}
	}
	earliest, local, tiered, latest := at[0], at[1], at[2], at[3]
	finished, err := segments(ctx, m, tp, remotelog.CopySegmentFinished)
	if err != nil {
		return err
	}
	ids, err := c.stored(tp)
	switch {
	case err != nil:
		return err
	case len(finished) < 3:
		return fmt.Errorf("%d segments are tiered so far", len(finished))
	case local <= earliest || local > tiered+1 || tiered+1 != latest: // local retention of 1 ms rolls what is active, too
		return fmt.Errorf("not all is tiered and gone locally: earliest %d, local %d, tiered %d, latest %d", earliest, local, tiered, latest)
	}
	first, last := finished[0], finished[len(finished)-1]
	epochs := last.LeaderEpochs
	highest, _, err := m.HighestOffset(ctx, tp, epochs[len(epochs)-1].Epoch)
	switch {
	case err != nil:
		return err
	case highest != tiered || last.EndOffset != tiered:
		return fmt.Errorf("the broker has tiered up to %d; our highest offset is %d, the last segment ends at %d", tiered, highest, last.EndOffset)
	case earliest < first.StartOffset || earliest > first.EndOffset || earliest == 0 && first.StartOffset != 0:
		return fmt.Errorf("the broker begins at %d; our first segment is [%d-%d]", earliest, first.StartOffset, first.EndOffset)
	}
	var ours []string
	for _, md := range finished {
		ours = append(ours, md.SegmentID.ID.String())
	}
	slices.Sort(ours)
	if !slices.Equal(ours, ids) {
		return fmt.Errorf("the store holds segments %v, we say %v", ids, ours)
	}
	records, err := c.consume(ctx, tp, latest)
	if err != nil {
		return err
	}
	for _, r := range records {
		md, found, err := m.Segment(ctx, tp, r.LeaderEpoch, r.Offset)
		if err != nil || !found || r.Offset < md.StartOffset || r.Offset > md.EndOffset {
			return fmt.Errorf("offset %d of epoch %d, which the broker serves: segment [%d-%d], %v, %w", r.Offset, r.LeaderEpoch, md.StartOffset, md.EndOffset, found, err)
		}
	}
	return nil
}

func segment(tp remotelog.TopicIDPartition, i int) remotelog.SegmentMetadata {
	return remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.UUID{byte(tp.Partition), byte(i), byte(i >> 8), 9}},
		StartOffset: int64(100 * i), EndOffset: int64(100*i + 99), BrokerID: 1, MaxTimestampMs: 5, EventTimestampMs: 6,
		SizeBytes: 1000, LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: int64(100 * i)}},
		State: remotelog.CopySegmentStarted,
	}
}

// repertoire writes whatever a manager of ours publishes, for a partition that the broker hosts: in its present leader epoch, since a broker deletes segments
// of epochs that its log does not go back to.
func repertoire(ctx context.Context, c *cluster, m *rlmm.Manager, tp remotelog.TopicIDPartition) error {
	ps, err := partitionsOf(ctx, c.Client(), tp.Topic)
	if err != nil {
		return err
	}
	epoch, now := ps[tp.Partition].LeaderEpoch, time.Now().UnixMilli()
	custom := remotelog.CustomMetadata("custom")
	step := func(md remotelog.SegmentMetadata, states ...remotelog.State) error {
		md.EventTimestampMs, md.MaxTimestampMs = now, now
		for i := range md.LeaderEpochs {
			md.LeaderEpochs[i].Epoch += epoch
		}
		if err := m.Add(ctx, md); err != nil {
			return err
		}
		for _, s := range states {
			u := remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: s, BrokerID: 1, EventTimestampMs: now}
			if s == remotelog.CopySegmentFinished {
				u.CustomMetadata = custom
			}
			if err := m.Update(ctx, u); err != nil {
				return err
			}
		}
		return nil
	}
	withEpochs := segment(tp, 4)
	withEpochs.LeaderEpochs = append(withEpochs.LeaderEpochs, remotelog.LeaderEpoch{Epoch: 3, StartOffset: 450})
	withEpochs.TxnIndexEmpty = true
	const (
		f, ds, df = remotelog.CopySegmentFinished, remotelog.DeleteSegmentStarted, remotelog.DeleteSegmentFinished
	)
	return errors.Join(
		step(segment(tp, 0), f), step(segment(tp, 1), f, f), step(segment(tp, 2), f, ds, df), step(segment(tp, 3), ds, ds, df), step(withEpochs, f), step(segment(tp, 5)),
		m.PutPartitionDelete(ctx, remotelog.PartitionDelete{TopicIDPartition: tp, State: remotelog.DeletePartitionMarked, BrokerID: 1, EventTimestampMs: now}),
		m.PutPartitionDelete(ctx, remotelog.PartitionDelete{TopicIDPartition: tp, State: remotelog.DeletePartitionStarted, BrokerID: 1, EventTimestampMs: now}),
	)
}

// topic is what a metadata topic is like: the settings are those that somebody gave it.
type topic struct {
	Partitions, ReplicationFactor int
	Settings                      map[string]string
}

func describeTopic(ctx context.Context, c *cluster) (topic, error) {
	name := kafkalog.Topic
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &name
	mreq := kmsg.NewPtrMetadataRequest()
	mreq.Topics = append(mreq.Topics, rt)
	meta, err := mreq.RequestWith(ctx, c.Client())
	if err == nil {
		err = kerr.ErrorForCode(meta.Topics[0].ErrorCode)
	}
	if err != nil {
		return topic{}, err
	}
	out := topic{Partitions: len(meta.Topics[0].Partitions), Settings: map[string]string{}}
	out.ReplicationFactor = len(meta.Topics[0].Partitions[0].Replicas)
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.Client())
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		return topic{}, err
	}
	for _, kv := range resp.Resources[0].Configs {
		if kv.Source == kmsg.ConfigSourceDynamicTopicConfig {
			out.Settings[kv.Name] = *kv.Value
		}
	}
	return out, nil
}

// golden reads a topic.json: the topic as a broker of that version made it.
func golden(t *testing.T, version string) topic {
	t.Helper()
	var from struct {
		Partitions, ReplicationFactor int
		Configs                       []struct{ Name, Value, Source string }
	}
	b, err := os.ReadFile(filepath.Join("testdata", version+".topic.json"))
	if err == nil {
		err = json.Unmarshal(b, &from)
	}
	must(t, "golden topic", err)
	out := topic{Partitions: from.Partitions, ReplicationFactor: from.ReplicationFactor, Settings: map[string]string{}}
	for _, kv := range from.Configs {
		if kv.Source == "DYNAMIC_TOPIC_CONFIG" {
			out.Settings[kv.Name] = kv.Value
		}
	}
	return out
}

// topicOfBroker: what the golden files say is what brokers do, so that the next test compares with the truth.
func topicOfBroker(ctx context.Context, t *testing.T, c *cluster) {
	t.Helper()
	if c.Version != testbed.KafkaOldest && c.Version != testbed.KafkaNewest {
		return
	}
	want := golden(t, c.Version)
	want.Partitions = 1
	got, err := describeTopic(ctx, c)
	must(t, "describe the topic", err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the topic as the broker made it, - golden, + now:\n%s", diff)
	}
}

// topicOfOurs: the topic that we make is the one that the newest broker makes. It takes the place of the brokers' own, so it
// comes last.
func topicOfOurs(ctx context.Context, t *testing.T, c *cluster) {
	t.Helper()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	name := kafkalog.Topic
	rt.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames, req.Topics = 30_000, []string{name}, append(req.Topics, rt)
	must(t, "delete the topic", testbed.Again(ctx, func() error {
		resp, err := req.RequestWith(ctx, c.Client())
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) { // by an attempt of which the answer was late
			return nil
		}
		return err
	}))
	until(ctx, t, "the topic is gone", func(ctx context.Context) error {
		if _, err := describeTopic(ctx, c); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("describe: %w", errors.Join(err, errors.New("it is there")))
		}
		return nil
	})
	want := golden(t, testbed.KafkaNewest)
	cl := kafkalog.Client{Bootstrap: c.Bootstrap()}
	conf := kafkalog.Config{Producer: cl, Consumer: cl, Admin: cl, Partitions: int32(want.Partitions), ReplicationFactor: int16(want.ReplicationFactor)}
	l, err := kafkalog.Open(ctx, kafkalog.Options{Config: conf, Create: true})
	must(t, "make the topic", err)
	defer func() { _ = l.Close() }()
	got, err := describeTopic(ctx, c)
	must(t, "describe our topic", err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the topic as we make it, - golden, + ours:\n%s", diff)
	}
	// A broker that is not through with what it had to tier goes on with that in partition 0.
	if pos, err := l.Append(ctx, 1, []byte(strconv.Itoa(1))); err != nil || pos.Offset != 1 {
		t.Errorf("the first event of our topic: %+v, %v", pos, err)
	}
}
