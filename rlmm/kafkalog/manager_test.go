package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func partition(topic string, n int32) remotelog.TopicIDPartition {
	return remotelog.TopicIDPartition{TopicID: remotelog.UUID{1, 2, byte(n)}, Topic: topic, Partition: n}
}

func segment(tp remotelog.TopicIDPartition, i int) remotelog.SegmentMetadata {
	return remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.UUID{byte(tp.Partition), byte(i), byte(i >> 8), 9}},
		StartOffset: int64(100 * i), EndOffset: int64(100*i + 99), BrokerID: 1, MaxTimestampMs: 5, EventTimestampMs: 6,
		SizeBytes: 1000, LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: int64(100 * i)}},
		State: remotelog.CopySegmentStarted,
	}
}

func finish(md remotelog.SegmentMetadata) remotelog.SegmentUpdate {
	return remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: remotelog.CopySegmentFinished, BrokerID: 1, EventTimestampMs: 7}
}

func manager(t *testing.T, l *Log, o rlmm.Options) *rlmm.Manager {
	t.Helper()
	m, err := rlmm.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

// Scenario 70, and what a manager is for: two managers on one topic, each with a Log of its own, write and see the same; a third
// one that starts later, and follows whatever is there, too.
func TestScenario70_ManagersOnOneTopic(t *testing.T) {
	const each = 20
	f := withTopic(t, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tps := []remotelog.TopicIDPartition{partition("orders", 0), partition("orders", 1), partition("payments", 2)}
	var ms []*rlmm.Manager
	for range 2 {
		m := manager(t, f.open(Options{}), rlmm.Options{})
		if err := m.Reconcile(ctx, tps); err != nil {
			t.Fatal(err)
		}
		if err := m.WaitReady(ctx, tps...); err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	var wg sync.WaitGroup
	for i, m := range ms {
		for _, tp := range tps {
			wg.Go(func() {
				for n := range each {
					md := segment(tp, 2*n+i)
					if err := errors.Join(m.Add(ctx, md), m.Update(ctx, finish(md))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	late := manager(t, f.open(Options{}), rlmm.Options{All: true})
	if err := late.WaitReady(ctx, tps...); err != nil {
		t.Fatal(err)
	}
	for _, m := range append(ms, late) {
		for _, tp := range tps {
			waitFor(t, func() bool { // what the other one wrote comes when it comes
				high, ok, err := m.HighestOffset(ctx, tp, 0)
				return err == nil && ok && high == 2*each*100-1
			})
			n := 0
			for md, err := range m.Segments(ctx, tp) {
				if err != nil || md.State != remotelog.CopySegmentFinished {
					t.Errorf("%v: %v, %v", tp, md, err)
				}
				n++
			}
			if n != 2*each {
				t.Errorf("%v: %d segments, want %d", tp, n, 2*each)
			}
		}
	}
}

// The topic is made again under a manager: what it knew is not served any more, and writes name both ids.
func TestManager_ReplacedTopic(t *testing.T) {
	f := withTopic(t, 2)
	l := f.open(Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tp := partition("orders", 0)
	m := manager(t, l, rlmm.Options{})
	if err := errors.Join(m.Reconcile(ctx, []remotelog.TopicIDPartition{tp}), m.WaitReady(ctx, tp)); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(ctx, segment(tp, 0)); err != nil {
		t.Fatal(err)
	}
	f.recreate(2)
	waitFor(t, func() bool { return !m.IsReady(tp) })
	if _, _, err := m.Segment(ctx, tp, 0, 5); !errors.Is(err, remotelog.ErrNotReady) {
		t.Errorf("Segment: %v, want ErrNotReady", err)
	}
	// Every write fails at once; the manager learns of the two ids a moment after it stopped being ready.
	waitFor(t, func() bool {
		err := m.Add(ctx, segment(tp, 1))
		r, ok := errors.AsType[*ReplacedError](err)
		if !ok && !errors.Is(err, remotelog.ErrNotReady) || ok && (r.Old == "" || r.New == "") {
			t.Fatalf("Add: %v, want both ids, or ErrNotReady before they are known", err)
		}
		return ok
	})
	short, cancel2 := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel2()
	if err := m.WaitReady(short, tp); err == nil {
		t.Error("WaitReady: ready on a topic that was replaced")
	} else if text := fmt.Sprint(err); !strings.Contains(text, l.topicID.String()) {
		t.Errorf("WaitReady does not say why: %v", err)
	}
}
