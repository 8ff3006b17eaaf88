package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

const (
	writers    = 8
	perWriter  = 313 // 2,504 segments
	keptBack   = 8 * writers
	oneWrite   = 2 * time.Second
	untilKnown = 2 * time.Minute
	// A call that has returned this long after its context ended has hung, even here.
	grace = 10 * time.Second

	metadataPartitions = 3
)

// TestBroker_Chaos writes 2,500 segments from 8 goroutines while brokers are killed, all three are rolled, and the topic's leaders
// are moved. What the writes returned, the manager, a fresh one, and the brokers after a restart are compared with an
// independent dump of the topic.
func TestBroker_Chaos(t *testing.T) {
	for _, version := range testbed.KafkaTestedLong() {
		t.Run(version, func(t *testing.T) { chaos(t, version) })
	}
}

func chaos(t *testing.T, version string) {
	ctx := testbed.Within(t, 15*time.Minute)
	// The brokers do nothing about segments by themselves until the end, but for one look when they become leaders.
	c := start(t, testbed.KafkaOptions{Version: version, Brokers: 3, MetadataPartitions: metadataPartitions,
		Properties: map[string]string{"remote.log.manager.task.interval.ms": "3600000"}})
	tps := c.tiered(ctx, "chaos", writers, map[string]string{"segment.bytes": "", "internal.segment.bytes": ""})
	ws := make([]*writer, writers)
	for i, tp := range tps {
		ws[i] = &writer{tp: tp, records: fill(ctx, t, c, tp), id: int32(100 + i), wrote: map[key]bool{}}
	}
	m := c.manager(ctx, tps...)

	f := newFaults(c, tps)
	var wg sync.WaitGroup
	for i := range ws {
		ws[i].m = m
		wg.Go(func() { ws[i].run(ctx, f.share) })
	}
	f.run(ctx, t)
	wg.Wait()

	var writes, unknown, failed int
	for _, w := range ws {
		for _, err := range w.errs {
			t.Error(err)
		}
		writes, unknown, failed = writes+w.writes, unknown+w.unknown, failed+w.failed
	}
	t.Logf("%d faults (%v) during %d writes of %d segments: %d of unknown outcome, all resolved afterwards; %d that had failed were tried again",
		len(f.done), f.done, writes, writers*perWriter, unknown, failed)
	if len(f.done) < 8 || unknown == 0 || unknown*20 >= writes {
		t.Errorf("%d faults, %d of %d writes of unknown outcome: want 8 faults, and some but less than 5 %%", len(f.done), unknown, writes)
	}

	o := dump(ctx, t, c)
	for _, w := range ws {
		for k := range w.wrote {
			if o.took[k] == 0 {
				t.Errorf("%v of %v was acknowledged and took no effect in the topic", k.state, k.id)
			}
		}
	}
	fresh := c.manager(ctx, tps...)
	for _, tp := range tps {
		o.compare(ctx, t, "the manager that wrote", m, tp)
		o.compare(ctx, t, "a fresh manager", fresh, tp)
	}
	o.brokersAgree(ctx, t, c, m, tps)
}

// fill writes to a partition the records of which the segments will say that they hold them, and returns them as they are there.
func fill(ctx context.Context, t *testing.T, c *cluster, tp remotelog.TopicIDPartition) []*kgo.Record {
	t.Helper()
	records := make([]*kgo.Record, perWriter)
	for i := range records {
		records[i] = &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Value: []byte("x")}
	}
	must(t, "produce", c.Client().ProduceSync(ctx, records...).FirstErr())
	there, err := c.consume(ctx, tp, perWriter)
	must(t, "consume", err)
	return there
}

// key is a write as it is found again in the topic: nobody else has our broker id.
type key struct {
	id     remotelog.SegmentID
	state  remotelog.State
	broker int32
}

// writer writes the life of segments of one partition, one after the other.
type writer struct {
	m       *rlmm.Manager
	tp      remotelog.TopicIDPartition
	records []*kgo.Record
	id      int32

	wrote                   map[key]bool
	writes, unknown, failed int
	errs                    []error
}

func (w *writer) run(ctx context.Context, share <-chan struct{}) {
	for i := range perWriter {
		select {
		case <-share:
		case <-ctx.Done():
			return
		}
		if err := w.segment(ctx, i); err != nil {
			w.errs = append(w.errs, fmt.Errorf("segment %d of %v: %w", i, w.tp, err))
		}
	}
}

// segment writes one, and of every second one its deletion.
func (w *writer) segment(ctx context.Context, i int) error {
	md := segment(w.tp, i)
	md.StartOffset, md.EndOffset, md.BrokerID = int64(i), int64(i), w.id
	md.LeaderEpochs = epochsOf(w.records[i : i+1])
	states := []remotelog.State{remotelog.CopySegmentStarted, remotelog.CopySegmentFinished}
	if i%2 == 1 {
		states = append(states, remotelog.DeleteSegmentStarted, remotelog.DeleteSegmentFinished)
	}
	for _, s := range states {
		do := func(ctx context.Context) error { return w.m.Add(ctx, md) }
		if s != remotelog.CopySegmentStarted {
			do = func(ctx context.Context) error {
				return w.m.Update(ctx, remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: s, BrokerID: w.id, EventTimestampMs: int64(i)})
			}
		}
		acknowledged, err := w.write(ctx, s, do)
		if err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
		if acknowledged {
			w.wrote[key{md.SegmentID, s, w.id}] = true
		}
	}
	return nil
}

// write writes once with little time, and then for as long as it takes. It reports whether a call returned nil; without one the
// segment is nevertheless in the state, since a write whose outcome was unknown has landed, or a broker was faster.
func (w *writer) write(ctx context.Context, s remotelog.State, do func(context.Context) error) (acknowledged bool, err error) {
	w.writes++
	doubt := false
	for try, limit := 0, oneWrite; ; try, limit = try+1, untilKnown {
		err := w.once(ctx, limit, do)
		switch {
		case err == nil:
			return true, nil
		case try == 20 || ctx.Err() != nil:
			return false, err
		case errors.Is(err, remotelog.ErrOutcomeUnknown):
			if !doubt {
				w.unknown++
			}
			doubt = true
		case s == remotelog.DeleteSegmentFinished && (errors.Is(err, remotelog.ErrNotFound) || errors.Is(err, remotelog.ErrConflict)):
			return false, nil // it is gone: a broker that became leader had found it in DELETE_SEGMENT_STARTED
		case doubt && s == remotelog.CopySegmentStarted && errors.Is(err, remotelog.ErrInvalidArgument):
			return false, nil // it exists: the write in doubt has landed
		default:
			w.failed++
		}
	}
}

// once does one write and says if it hung.
func (w *writer) once(ctx context.Context, within time.Duration, do func(context.Context) error) error {
	wctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	err := do(wctx)
	if took := time.Since(began); took > within+grace {
		w.errs = append(w.errs, fmt.Errorf("a write of %v took %v, its context %v", w.tp, took, within))
	}
	return err
}

// faults does something to the brokers, and gives the writers their share of the work with each fault, so that they write during
// all of them. Some of it they get when a leader is dead and no other one leads yet: the outcome of a write to it is unknown then.
type faults struct {
	c       *cluster
	written []int // the metadata partitions that somebody writes to
	share   chan struct{}
	done    []string
	due     atomic.Int32
}

func newFaults(c *cluster, tps []remotelog.TopicIDPartition) *faults {
	f := &faults{c: c, share: make(chan struct{}, writers*perWriter)}
	for _, tp := range tps {
		if p := int(rlmm.MetadataPartition(tp, metadataPartitions)); !slices.Contains(f.written, p) {
			f.written = append(f.written, p)
		}
	}
	return f
}

func (f *faults) run(ctx context.Context, t *testing.T) {
	list := []struct {
		name string
		do   func() error
	}{
		{"kill a leader", func() error { return f.kill(ctx, 0) }},
		{"move the leaders", func() error { return f.move(ctx) }},
		{"roll broker 1", func() error { return f.roll(0) }},
		{"roll broker 2", func() error { return f.roll(1) }},
		{"roll broker 3", func() error { return f.roll(2) }},
		{"kill a leader", func() error { return f.kill(ctx, 1) }},
		{"move the leaders", func() error { return f.move(ctx) }},
		{"kill a leader", func() error { return f.kill(ctx, 2) }},
	}
	stop := f.drip()
	defer func() {
		f.due.Store(writers * perWriter) // whatever happened
		stop()
	}()
	for i, fault := range list {
		due := int32(writers * perWriter * (i + 1) / len(list))
		f.due.Store(due - keptBack)
		began := time.Now()
		if err := fault.do(); err != nil {
			t.Errorf("%s: %v", fault.name, err)
			break
		}
		f.due.Store(due)
		until(ctx, t, "the topic is healthy after: "+fault.name, func(ctx context.Context) error { return healthy(ctx, f.c) })
		f.done = append(f.done, fmt.Sprintf("%s, %.0f s", fault.name, time.Since(began).Seconds()))
	}
}

// drip gives out what is due little by little, and all of it in the end.
func (f *faults) drip() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for given := int32(0); given < writers*perWriter; {
			select {
			case <-tick.C:
			case <-end:
				end = nil
			}
			for more := min(f.due.Load()-given, 2); more > 0 || end == nil && given < f.due.Load(); more-- {
				f.share <- struct{}{}
				given++
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// kill ends the leader of a metadata partition that is written to as kill -9 does, and starts it again once another one leads.
func (f *faults) kill(ctx context.Context, i int) error {
	p := f.written[i%len(f.written)]
	leader, err := f.leads(ctx, p, 0)
	if err != nil {
		return err
	}
	b := f.c.Brokers[leader-1]
	b.Kill()
	f.due.Add(keptBack)
	if _, err := f.leads(ctx, p, leader); err != nil {
		return fmt.Errorf("broker %d was killed: %w", leader, err)
	}
	return b.Start()
}

// leads waits until a metadata partition has a leader, and not a certain one.
func (f *faults) leads(ctx context.Context, p int, not int32) (int32, error) {
	for {
		now, err := leaderOf(ctx, f.c, p)
		if err == nil && now > 0 && now != not {
			return now, nil
		}
		if pe := pause(ctx); pe != nil {
			return 0, fmt.Errorf("%d leads metadata partition %d: %w", now, p, errors.Join(pe, err))
		}
	}
}

func (f *faults) roll(broker int) error {
	b := f.c.Brokers[broker]
	return errors.Join(b.Stop(), b.Start())
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
