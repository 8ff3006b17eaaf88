package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// collect reads with one Follower until it has n events of partition 0, and returns them with their offsets.
func collect(ctx context.Context, l *Log, n int) ([]string, error) {
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	var out []string
	next := int64(0)
	for len(out) < n {
		b, err := f.Next(ctx)
		if err != nil {
			return out, err
		}
		if len(b.Lost) > 0 {
			return out, fmt.Errorf("lost: %+v", b.Lost)
		}
		for _, ev := range b.Events {
			if ev.Offset < next {
				return out, fmt.Errorf("offset %d after %d", ev.Offset, next)
			}
			next = ev.Offset + 1
			out = append(out, string(ev.Value))
		}
	}
	return out, nil
}

// Writers and a reader go on while something happens to the brokers: each event is there once, in the order of its writer.
func ride(t *testing.T, f *fake, happen func(i int)) {
	t.Helper()
	const writers, each = 3, 40
	l := f.open(Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(ctx, 0, fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Errorf("Append: %v", err)
				}
				if w == 0 {
					happen(i)
				}
			}
		})
	}
	got, err := collect(ctx, l, writers*each)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]int{}
	for _, v := range got {
		var w, i int
		if _, err := fmt.Sscanf(v, "%d %d", &w, &i); err != nil || i != seen[w] {
			t.Fatalf("event %q, want number %d of that writer (%v)", v, seen[w], err)
		}
		seen[w]++
	}
	if at := values(t, l, 0); len(at) != writers*each {
		t.Errorf("%d events in the log, want %d", len(at), writers*each)
	}
}

func TestLog_RidesOutLeaderChanges(t *testing.T) {
	f := withTopic(t, 1)
	ride(t, f, func(i int) {
		if i%5 == 0 {
			if err := f.c.MoveTopicPartition(Topic, 0, int32(i/5%2)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLog_RidesOutRestarts(t *testing.T) {
	f := withTopic(t, 1)
	ride(t, f, func(i int) {
		if i%15 == 7 {
			f.restart(func() {})
		}
	})
}

// Answers that carry errors for a while, of every kind that passes.
func TestLog_RidesOutRetriableErrors(t *testing.T) {
	f := withTopic(t, 1)
	errs := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.LeaderNotAvailable, kerr.KafkaStorageError,
		kerr.UnknownTopicOrPartition, kerr.OffsetNotAvailable, kerr.UnknownServerError,
	}
	var hits []*kfake.FaultHandle
	ride(t, f, func(i int) {
		if i%5 == 0 {
			hits = append(hits, f.c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch}, Topic: Topic, Err: errs[i/5], Count: 2,
			}))
		}
	})
	met := 0
	for _, h := range hits {
		met += h.Hits()
		h.Remove()
	}
	if met < len(errs) {
		t.Errorf("%d faults were met, want at least %d", met, len(errs))
	}
}

// Transactions leave offsets without events, at the end too; aborted data is read, as brokers read it.
func TestFollower_TransactionalHoles(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	tx := f.client(kgo.TransactionalID("x"))
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: Topic, Value: fmt.Append(nil, i)}
		if err := tx.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	b, err := l.Bounds(t.Context(), []int32{0})
	if err != nil || b[0].Next != 6 {
		t.Fatalf("Bounds %v, %v, want 6 offsets", b, err)
	}
	if got := strings.Join(values(t, l, 0), " "); got != "0 1 2" { // values ends at Bounds.Next: it would hang on the last marker
		t.Errorf("events %q, want 0 1 2", got)
	}
}

// No authorization comes out at once, and reading goes on when it is there.
func TestLog_AuthorizationComesOutAtOnce(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	if _, err := l.Append(t.Context(), 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	h := f.c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Produce}, Topic: Topic, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	fol := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = fol.Close() }()
	for name, call := range map[string]func() error{
		"Next":   func() error { _, err := fol.Next(ctx); return err },
		"Bounds": func() error { _, err := l.Bounds(ctx, []int32{0}); return err },
		"Append": func() error { _, err := l.Append(ctx, 0, []byte("no")); return err },
	} {
		err := call()
		if !errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, remotelog.ErrOutcomeUnknown) {
			t.Errorf("%s: %v, want %v", name, err, kerr.TopicAuthorizationFailed)
		}
	}
	h.Remove()
	for n := 0; n == 0; {
		b, err := fol.Next(ctx)
		if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) { // one may have been on its way
			t.Fatal(err)
		}
		n += len(b.Events)
	}
}

// A topic that was made again is another log: what was read is reported as lost, once, and then everything fails with both ids.
func TestLog_ReplacedTopic(t *testing.T) {
	f := withTopic(t, 2)
	l := f.open(Options{})
	if _, err := l.Append(t.Context(), 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fol := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}, 1: {Epoch: -1}})
	defer func() { _ = fol.Close() }()
	if _, err := fol.Next(ctx); err != nil {
		t.Fatal(err)
	}
	old := l.topicID.String()
	f.recreate(2)
	lost := map[int32]rlmm.Loss{}
	var err error
	for err == nil {
		var b rlmm.Batch
		b, err = fol.Next(ctx)
		for _, loss := range b.Lost {
			if _, again := lost[loss.Partition]; again || loss.Kind != rlmm.Truncated || b.Next[loss.Partition] != loss.Resume {
				t.Errorf("loss %+v with Next %v", loss, b.Next)
			}
			lost[loss.Partition] = loss
		}
	}
	if len(lost) != 2 {
		t.Errorf("lost %v, want both partitions", lost)
	}
	_, aerr := l.Append(ctx, 0, []byte("y"))
	_, berr := l.Bounds(ctx, []int32{1})
	_, cerr := l.Check(ctx, map[int32]rlmm.Position{0: {Epoch: -1}})
	for name, err := range map[string]error{"Next": err, "Append": aerr, "Bounds": berr, "Check": cerr} {
		r, ok := errors.AsType[*ReplacedError](err)
		if !ok || r.Old != old || r.New == old || errors.Is(err, remotelog.ErrOutcomeUnknown) {
			t.Errorf("%s: %v, want a ReplacedError of %s", name, err, old)
		}
	}
	if n := len(values(t, f.open(Options{}), 0)); n != 0 {
		t.Errorf("%d events in the new topic", n)
	}
}

// recreate deletes the topic and makes it again.
func (f *fake) recreate(partitions int32) {
	f.t.Helper()
	cl := f.client()
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis = 5000
	del.TopicNames = []string{Topic}
	dt := kmsg.NewDeleteTopicsRequestTopic()
	dt.Topic = kmsg.StringPtr(Topic)
	del.Topics = append(del.Topics, dt)
	resp, err := del.RequestWith(context.Background(), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		f.t.Fatalf("DeleteTopics: %v %+v", err, resp)
	}
	o := Options{Config: f.config()}
	o.Config.Partitions, o.Config.ReplicationFactor = partitions, 1
	o = o.withDefaults()
	if err := o.create(context.Background(), cl); err != nil {
		f.t.Fatal(err)
	}
}

// A topic that is gone is said to be, after a while in which a broker may only not know it yet.
func TestFollower_DeletedTopic(t *testing.T) {
	need.Long(t)
	f := withTopic(t, 1)
	l := f.open(Options{})
	fol := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = fol.Close() }()
	h := f.c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: kerr.UnknownTopicOrPartition, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}, Topic: Topic, Err: kerr.UnknownTopicID, Count: -1},
	)
	defer h.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := fol.Next(ctx); !errors.Is(err, ErrNoTopic) {
		t.Errorf("Next: %v, want ErrNoTopic", err)
	}
}

// A head that moves, an answer that is cut in a batch, and one with a broken byte.
func TestDecode_WhatABrokerMaySend(t *testing.T) {
	var b []byte
	for i := range 5 {
		b = append(b, batchAt(int64(2*i), 3, []byte("a"), []byte("b"))...)
	}
	b = append(b, hole(10, 4, 5)...)
	d := recordbatch.NewDecoder(recordbatch.Limits{})
	defer d.Close()
	for _, tc := range []struct {
		name string
		from int64
		b    []byte
		n    int
		next rlmm.Position
		bad  bool
	}{
		{"all", 0, b, 10, rlmm.Position{Offset: 15, Epoch: 4}, false},
		{"from the middle of a batch", 3, b, 7, rlmm.Position{Offset: 15, Epoch: 4}, false},
		{"inside the hole", 12, b, 0, rlmm.Position{Offset: 15, Epoch: 4}, false},
		{"nothing", 7, nil, 0, rlmm.Position{Offset: 7, Epoch: 9}, false},
		{"cut in the last batch", 0, b[:len(b)-1], 10, rlmm.Position{Offset: 10, Epoch: 3}, false},
		{"cut in the first batch", 0, b[:70], 0, rlmm.Position{Offset: 0, Epoch: 9}, false},
		{"broken third batch", 0, flipped(b, 2*len(b)/5), 4, rlmm.Position{Offset: 4, Epoch: 3}, false},
		{"broken first batch", 0, flipped(b, 65), 0, rlmm.Position{Offset: 0, Epoch: 9}, true},
	} {
		events, next, err := decode(d, 1, rlmm.Position{Offset: tc.from, Epoch: 9}, tc.b)
		if len(events) != tc.n || next != tc.next || errors.Is(err, remotelog.ErrCorrupt) != tc.bad || !tc.bad && err != nil {
			t.Errorf("%s: %d events, %+v, %v; want %d, %+v", tc.name, len(events), next, err, tc.n, tc.next)
		}
	}
}

func flipped(b []byte, at int) []byte {
	c := append([]byte(nil), b...)
	c[at] ^= 1
	return c
}

func FuzzDecode(f *testing.F) {
	f.Add(int64(0), batchAt(0, 1, []byte("a"), []byte("bc")))
	f.Add(int64(1), append(batchAt(0, 1, []byte("a"), []byte("bc")), hole(2, 2, 3)...))
	f.Add(int64(0), []byte{})
	d := recordbatch.NewDecoder(recordbatch.Limits{MaxDecompressedBytes: 1 << 20})
	f.Cleanup(d.Close)
	f.Fuzz(func(t *testing.T, from int64, b []byte) {
		events, next, err := decode(d, 0, rlmm.Position{Offset: from, Epoch: -1}, b)
		if next.Offset < from || err != nil && (len(events) > 0 || next.Offset != from) {
			t.Fatalf("from %d: %d events, %+v, %v", from, len(events), next, err)
		}
		at := from
		for _, ev := range events {
			if ev.Offset < at || ev.Offset >= next.Offset {
				t.Fatalf("event at %d, from %d to %d", ev.Offset, at, next.Offset)
			}
			at = ev.Offset + 1
		}
	})
}

// Questions that name the topic without its id are not answered from another topic.
func TestBounds_ReplacedTopic(t *testing.T) {
	f := withTopic(t, 1)
	for name, ask := range map[string]func(*Log) error{
		"Bounds": func(l *Log) error { _, err := l.Bounds(t.Context(), []int32{0}); return err },
		"Check": func(l *Log) error {
			_, err := l.Check(t.Context(), map[int32]rlmm.Position{0: {Epoch: -1}})
			return err
		},
	} {
		l := f.open(Options{})
		f.recreate(1)
		if _, ok := errors.AsType[*ReplacedError](ask(l)); !ok {
			t.Errorf("%s answers from another topic", name)
		}
	}
}
