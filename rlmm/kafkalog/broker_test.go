package kafkalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// broker is a real broker with clients.
type broker struct {
	*testbed.KafkaCluster
	t *testing.T
}

// newBroker starts one whose metadata topic has one partition, so that everything meets there.
func newBroker(t *testing.T, version string) *broker {
	t.Helper()
	return &broker{KafkaCluster: testbed.Kafka(t, testbed.KafkaOptions{Version: version}), t: t}
}

func (b *broker) config() Config {
	cl := Client{Bootstrap: b.Bootstrap()}
	return Config{Producer: cl, Consumer: cl, Admin: cl, Partitions: 1}
}

// tiered makes a topic of one partition whose segments are small, and returns its partition.
func (b *broker) tiered(ctx context.Context, name string) remotelog.TopicIDPartition {
	b.t.Helper()
	id, err := b.TieredTopic(ctx, name, 1, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return remotelog.TopicIDPartition{TopicID: id, Topic: name}
}

// tiers produces until the broker has moved something to the tier: its metadata consumer is alive.
func (b *broker) tiers(ctx context.Context, topic string) error {
	b.t.Helper()
	if err := b.Produce(ctx, topic, 0, 10); err != nil {
		return err
	}
	_, err := b.WaitTiered(ctx, topic, 0, 1)
	return err
}

// restart kills the broker and starts it again.
func (b *broker) restart() {
	b.t.Helper()
	b.Kill()
	if err := b.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// repertoire writes whatever a manager of ours publishes, for a partition that the broker hosts.
func repertoire(ctx context.Context, m *rlmm.Manager, tp remotelog.TopicIDPartition) error {
	now := time.Now().UnixMilli()
	custom := remotelog.CustomMetadata("custom")
	step := func(md remotelog.SegmentMetadata, states ...remotelog.State) error {
		md.EventTimestampMs, md.MaxTimestampMs = now, now
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

// A real broker and we on one topic: we read what it wrote and agree with it, it survives all that we write, live and when it
// reads that again at its next start.
func TestBroker_OneTopic(t *testing.T) {
	need.Long(t)
	for _, version := range []string{testbed.KafkaOldest, testbed.KafkaNewest} {
		t.Run(version, func(t *testing.T) {
			b := newBroker(t, version)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			theirs, ours := b.tiered(ctx, "theirs"), b.tiered(ctx, "ours")
			if err := b.tiers(ctx, "theirs"); err != nil {
				t.Fatal(err)
			}
			l, err := Open(ctx, Options{Config: b.config()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			m := manager(t, l, rlmm.Options{})
			if err := errors.Join(m.Reconcile(ctx, []remotelog.TopicIDPartition{theirs, ours}), m.WaitReady(ctx, theirs, ours)); err != nil {
				t.Fatal(err)
			}
			agree(ctx, t, b, m, theirs)
			if err := repertoire(ctx, m, ours); err != nil {
				t.Fatal(err)
			}
			for _, when := range []string{"live", "replayed"} {
				name := "after-" + when
				b.tiered(ctx, name)
				if err := b.tiers(ctx, name); err != nil {
					t.Fatalf("%s: the broker's metadata consumer is dead: %v\n%s", when, err, b.Brokers[0].Log())
				}
				if when == "live" {
					b.restart()
				}
			}
			if err := b.Produce(ctx, "theirs", 0, 4); err != nil {
				t.Fatal(err)
			}
			agree(ctx, t, b, m, theirs)
			if err := m.Add(ctx, segment(ours, 6)); err != nil { // our producer and reader have survived the restart, too
				t.Errorf("Add after the restart: %v", err)
			}
		})
	}
}

// agree waits until the manager says what the broker says.
func agree(ctx context.Context, t *testing.T, b *broker, m *rlmm.Manager, tp remotelog.TopicIDPartition) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		want, err := b.ListOffset(ctx, tp.Topic, 0, testbed.LatestTiered)
		got := int64(-1)
		for md, serr := range m.Segments(ctx, tp) {
			err = errors.Join(err, serr)
			if md.State == remotelog.CopySegmentFinished {
				got = max(got, md.EndOffset)
			}
		}
		if err == nil && got == want && got > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the broker has tiered up to %d, we say %d (%v)", want, got, err)
		}
	}
}

// The test above can fail: one record that no manager of ours writes ends the broker's metadata consumer, and it is noticed.
func TestBroker_PoisonIsNoticed(t *testing.T) {
	need.Long(t)
	b := newBroker(t, testbed.KafkaNewest)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b.tiered(ctx, "before")
	if err := b.tiers(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	if err := b.Client().ProduceSync(ctx, &kgo.Record{Topic: Topic, Value: []byte{1, 9, 0}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.tiered(ctx, "after")
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := b.tiers(short, "after"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after a record that ends its metadata consumer: %v, want nothing to be tiered", err)
	}
}

// A broker is killed while managers write: no write hangs, every one that returned nil is in the topic, once, and took effect.
func TestBroker_KilledDuringWrites(t *testing.T) {
	need.Long(t)
	const writers, each, kills = 4, 60, 2
	b := newBroker(t, testbed.KafkaNewest)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	open := func() *rlmm.Manager {
		l, err := Open(ctx, Options{Config: b.config()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return manager(t, l, rlmm.Options{})
	}
	var tps []remotelog.TopicIDPartition
	for w := range int32(writers) {
		tps = append(tps, partition("nobodys", w))
	}
	m := open()
	if err := errors.Join(m.Reconcile(ctx, tps), m.WaitReady(ctx, tps...)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var written atomic.Int32
	acked, unknown := make([][]bool, writers), atomic.Int32{}
	for w, tp := range tps {
		acked[w] = make([]bool, each)
		wg.Go(func() {
			for i := range each {
				md := segment(tp, i)
				err := m.Add(ctx, md)
				if err == nil {
					err = m.Update(ctx, finish(md))
				}
				acked[w][i] = err == nil
				written.Add(1)
				switch {
				case errors.Is(err, remotelog.ErrOutcomeUnknown):
					unknown.Add(1)
				case err != nil:
					t.Errorf("segment %d of %v: %v", i, tp, err)
				}
			}
		})
	}
	for k := range kills {
		waitFor(t, func() bool { return written.Load() > int32((k+1)*writers*each/(kills+2)) })
		b.restart()
	}
	wg.Wait()
	fresh := open()
	if err := errors.Join(fresh.Reconcile(ctx, tps), fresh.WaitReady(ctx, tps...)); err != nil {
		t.Fatal(err)
	}
	for w, tp := range tps {
		found := map[int64]remotelog.State{}
		for md, err := range fresh.Segments(ctx, tp) {
			if err != nil {
				t.Fatal(err)
			}
			found[md.StartOffset] = md.State
		}
		for i, ok := range acked[w] {
			if state, there := found[int64(100*i)]; ok && (!there || state != remotelog.CopySegmentFinished) {
				t.Errorf("segment %d of %v was acknowledged; the topic says %v, %v", i, tp, state, there)
			}
		}
	}
	t.Logf("%d segments, %d kills, %d with unknown outcome", writers*each, kills, unknown.Load())
	if st := fresh.Status(); len(st.Partitions) != 1 || len(st.Partitions[0].Dropped) != 0 {
		t.Errorf("events that changed nothing, as one written twice would: %+v", st.Partitions)
	}
}
