package rlmm_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// Scenarios 58 to 87 as far as they hold over any log (Kafka: TopicBasedRemoteLogMetadataManagerTest, ConsumerTaskTest). "Read
// offset" is Status.Next - 1, "applied" Status.Applied.

func TestScenario58And72And73_CloseWithoutAssignmentAndTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, all := range []bool{false, true} {
			m, err := rlmm.New(memlog.New(memlog.Options{Partitions: 5}), rlmm.Options{All: all})
			if err != nil {
				t.Fatal(err)
			}
			settle() // a Next may wait now
			for range 2 {
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// 59, 60: Kafka publishes before it finds out that nobody follows the partition; here the write is refused, and the records that
// the scenario needs come from a second manager.
func TestScenario59And60_AssignedAfterTheRecordsWereWritten(t *testing.T) {
	log := memlog.New(memlog.Options{Partitions: 5})
	m, other := newManager(t, log, rlmm.Options{}), newManager(t, log, rlmm.Options{})
	leader, follower := kafkaTopic(t, 0), kafkaTopic(t, 3)
	for _, tp := range []remotelog.TopicIDPartition{leader, follower} {
		wantErr(t, "Add", m.Add(t.Context(), seg(tp, 1, 0, 9, 0, 0)), remotelog.ErrNotAssigned)
		wantErr(t, "Segments", listErr(m.Segments(t.Context(), tp)), remotelog.ErrNotFound)
		if m.IsReady(tp) {
			t.Errorf("%v is ready before it is assigned", tp)
		}
	}
	follow(t, other, leader, follower)
	mustAdd(t, other, seg(leader, 1, 0, 9, 0, 0))
	mustAdd(t, other, seg(follower, 2, 0, 9, 0, 0))
	if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{leader}, []remotelog.TopicIDPartition{follower}); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(within(t), leader, follower); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "leader", list(t, m.Segments(t.Context(), leader)), seg(leader, 1, 0, 9, 0, 0))
	wantIDs(t, "follower", list(t, m.Segments(t.Context(), follower)), seg(follower, 2, 0, 9, 0, 0))
	if !m.IsReady(leader) || !m.IsReady(follower) {
		t.Error("not ready")
	}
}

func TestScenario61_AssignedInTwoSteps(t *testing.T) {
	log := memlog.New(memlog.Options{Partitions: 5})
	m, other := newManager(t, log, rlmm.Options{}), newManager(t, log, rlmm.Options{})
	l, fo, empty := kafkaTopic(t, 0), kafkaTopic(t, 1), kafkaTopic(t, 3) // l and fo share a metadata partition
	follow(t, other, l, fo)
	mustAdd(t, other, seg(l, 1, 0, 9, 0, 0))
	mustAdd(t, other, seg(fo, 2, 0, 9, 0, 0))
	follow(t, m, l)
	wantIDs(t, "l", list(t, m.Segments(t.Context(), l)), seg(l, 1, 0, 9, 0, 0))
	wantErr(t, "fo", listErr(m.Segments(t.Context(), fo)), remotelog.ErrNotFound)
	follow(t, m, empty, fo)
	wantIDs(t, "fo", list(t, m.Segments(t.Context(), fo)), seg(fo, 2, 0, 9, 0, 0))
	wantIDs(t, "empty", list(t, m.Segments(t.Context(), empty)))
}

func TestScenario62To65_RemoteLogSize(t *testing.T) {
	m := newManager(t, memlog.New(memlog.Options{}), rlmm.Options{})
	one, three := kafkaTopic(t, 0), kafkaTopic(t, 1)
	_, err := m.RemoteLogSize(t.Context(), one, 0)
	wantErr(t, "62: unknown partition", err, remotelog.ErrNotFound)
	follow(t, m, one, three)
	const mib = 1 << 20
	for i := range int64(3) {
		for tp, epoch := range map[remotelog.TopicIDPartition]int64{one: 0, three: i} {
			md := seg(tp, int(i), 100*i, 100*i+100, epoch, 100*i)
			md.SizeBytes = (i + 1) * mib
			mustAdd(t, m, md)
		}
	}
	size := func(tp remotelog.TopicIDPartition, epoch int32, want int64) {
		t.Helper()
		if got, err := m.RemoteLogSize(t.Context(), tp, epoch); err != nil || got != want {
			t.Errorf("RemoteLogSize(%v, %d) = %d, %v, want %d", tp, epoch, got, err, want)
		}
	}
	size(one, 0, 6*mib) // 63
	for e := range int32(3) {
		size(three, e, int64(e+1)*mib) // 64
	}
	size(one, 9001, 0) // 65
}

func TestScenario70_AnotherManagerReadsWhatWasStored(t *testing.T) {
	log := memlog.New(memlog.Options{Partitions: 5})
	first := newManager(t, log, rlmm.Options{})
	leader, follower := kafkaTopic(t, 0), kafkaTopic(t, 3)
	follow(t, first, leader, follower)
	a, b := seg(leader, 1, 0, 100, 0, 0), seg(follower, 2, 0, 100, 0, 0)
	mustAdd(t, first, a)
	mustAdd(t, first, b)
	if err := first.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, log, rlmm.Options{})
	follow(t, m, leader, follower)
	wantIDs(t, "leader", list(t, m.Segments(t.Context(), leader)), a)
	wantIDs(t, "follower", list(t, m.Segments(t.Context(), follower)), b)
	c := seg(leader, 3, 101, 200, 0, 101)
	mustAdd(t, m, c)
	wantIDs(t, "leader afterwards", list(t, m.Segments(t.Context(), leader)), a, c)
}

func TestScenario74_AssigningAgainChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		m := newManager(t, log, rlmm.Options{})
		tp := kafkaTopic(t, 0)
		follow(t, m, tp)
		mustAdd(t, m, seg(tp, 1, 0, 9, 0, 0))
		log.onBounds(func(context.Context, []int32, func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			t.Error("the log was asked again")
			return nil, errDenied
		})
		for range 2 {
			if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{tp, tp}, []remotelog.TopicIDPartition{tp}); err != nil {
				t.Fatal(err)
			}
			settle()
			if !m.IsReady(tp) || status(t, m, 2).Assigned != 1 {
				t.Errorf("ready %v, status %+v", m.IsReady(tp), status(t, m, 2))
			}
		}
	})
}

func TestScenario75And76_AssignThreeAndRemoveOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(5)
		m := newManager(t, log, rlmm.Options{})
		ps := []remotelog.TopicIDPartition{kafkaTopic(t, 0), kafkaTopic(t, 1), kafkaTopic(t, 3)}
		follow(t, m, ps...)
		var followed []int32
		for _, st := range m.Status().Partitions {
			followed = append(followed, st.Partition)
		}
		if !slices.Equal(followed, []int32{2, 4}) {
			t.Errorf("metadata partitions %v, want 2 and 4", followed)
		}
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(ps[0], 1, 0, 9, 0, 0)})
		settle()
		if err := m.OnStop(ps[:1]); err != nil {
			t.Fatal(err)
		}
		if got := list(t, m.Partitions(t.Context())); !slices.Equal(got, ps[1:]) {
			t.Errorf("Partitions = %v, want %v", got, ps[1:])
		}
		for _, tp := range ps[1:] {
			if !m.IsReady(tp) {
				t.Errorf("%v is not ready any more", tp)
			}
		}
		wantErr(t, "the removed one", listErr(m.Segments(t.Context(), ps[0])), remotelog.ErrNotAssigned)
		if err := m.OnStop(ps); err != nil { // unknown ones are passed over
			t.Fatal(err)
		}
		settle()
		if st := m.Status(); len(st.Partitions) != 0 {
			t.Errorf("status %+v, want nothing followed", st)
		}
		follow(t, m, ps[0])
		wantIDs(t, "added again", list(t, m.Segments(t.Context(), ps[0])), seg(ps[0], 1, 0, 9, 0, 0))
	})
}

func TestScenario77And87_AssignmentAndCloseWhileTheLogIsRead(t *testing.T) {
	bubble(t, assignmentAndClose)
}

func assignmentAndClose(t *testing.T) {
	log := memlog.New(memlog.Options{Partitions: 5})
	m := mustNew(t, log)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 500 {
			tp := kafkaTopic(t, int32(i%100))
			raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, i, int64(i), int64(i), 0, int64(i))})
		}
	})
	wg.Go(func() {
		for p := range int32(100) {
			if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{kafkaTopic(t, p)}, nil); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	settle()
	if err := m.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for p := range int32(100) {
		n += len(list(t, m.Segments(t.Context(), kafkaTopic(t, p))))
	}
	if n != 500 {
		t.Errorf("%d segments, want 500", n)
	}
	wg.Go(func() { // 87
		var err error
		for p := int32(100); err == nil; p++ {
			err = m.OnLeadershipChange([]remotelog.TopicIDPartition{kafkaTopic(t, p)}, nil)
		}
		wantErr(t, "OnLeadershipChange", err, remotelog.ErrClosed)
	})
	if err := m.Close(within(t)); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// reads is a memory log with 5 metadata partitions and a manager, in a bubble.
type reads struct {
	log *memlogtest.Log
	m   *rlmm.Manager
}

func (r *reads) record(t *testing.T, p int32, n int) {
	t.Helper()
	raw(t, r.log, &rlmm.SegmentRecord{Metadata: seg(kafkaTopic(t, p), n, int64(n), int64(n), 0, int64(n))})
	settle()
}

func (r *reads) want(t *testing.T, what string, readOffset int64, applied uint64) {
	t.Helper()
	settle()
	if st := status(t, r.m, 2); st.Next-1 != readOffset || st.Applied != applied {
		t.Errorf("%s: read offset %d, %d applied, want %d and %d", what, st.Next-1, st.Applied, readOffset, applied)
	}
}

func TestScenario78To80_ReadOffsetAndApplied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(5)
		r := &reads{log, newManager(t, log, rlmm.Options{})}
		follow(t, r.m, kafkaTopic(t, 0))
		r.record(t, 0, 0)
		r.record(t, 0, 1)
		r.want(t, "78", 1, 2)
		follow(t, r.m, kafkaTopic(t, 1))
		r.record(t, 1, 2)
		r.want(t, "79", 2, 3)
		r.record(t, 2, 3)
		r.want(t, "80", 3, 3)
	})
}

func TestScenario81_UnassignedRecordsMoveTheReadOffset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(5)
		r := &reads{log, newManager(t, log, rlmm.Options{})}
		follow(t, r.m, kafkaTopic(t, 0))
		r.record(t, 1, 0)
		r.record(t, 0, 1)
		r.want(t, "81", 1, 1)
	})
}

func TestScenario82_PartitionAddedLaterIsLoadedFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(5)
		r := &reads{log, newManager(t, log, rlmm.Options{})}
		follow(t, r.m, kafkaTopic(t, 0))
		r.record(t, 1, 0)
		r.record(t, 0, 1)
		follow(t, r.m, kafkaTopic(t, 1))
		follow(t, r.m, kafkaTopic(t, 0), kafkaTopic(t, 3))
		r.want(t, "82", 1, 2)
		for p := range int32(2) {
			if n := len(list(t, r.m.Segments(t.Context(), kafkaTopic(t, p)))); n != 1 {
				t.Errorf("partition %d has %d segments, want 1", p, n)
			}
		}
	})
}

func TestScenario83_ReadyWhenReadToTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		log.onBounds(func(_ context.Context, ps []int32, _ func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			return map[int32]rlmm.Bounds{2: {Next: 2}}, nil // ahead of what is there
		})
		r := &reads{log.Log, newManager(t, log, rlmm.Options{})}
		tp := kafkaTopic(t, 0)
		if err := r.m.Reconcile(t.Context(), []remotelog.TopicIDPartition{tp}); err != nil {
			t.Fatal(err)
		}
		settle()
		if r.m.IsReady(tp) {
			t.Error("ready without records")
		}
		for i := range 5 {
			r.record(t, 0, i)
			if got, want := r.m.IsReady(tp), i >= 1; got != want {
				t.Errorf("after %d records: ready %v, want %v", i+1, got, want)
			}
		}
		r.want(t, "83", 4, 5)
	})
}

func TestScenario84_EmptyMetadataPartitionsAreReadyAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, first := range []int64{0, 500} {
			log := memlogtest.New(5)
			if err := log.Skip(2, first); err != nil {
				t.Fatal(err)
			}
			if err := log.TrimHead(2, first); err != nil {
				t.Fatal(err)
			}
			m := newManager(t, log, rlmm.Options{})
			follow(t, m, kafkaTopic(t, 0))
			if st := status(t, m, 2); st.Next != first || st.LastEventMs != -1 {
				t.Errorf("begin = end = %d: status %+v", first, st)
			}
		}
	})
}

// 85: what is retriable stays inside the Follower; what comes out is tried again, and loses nothing.
func TestScenario85_ErrorsBetweenRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		r := &reads{log.Log, newManager(t, log, rlmm.Options{})}
		follow(t, r.m, kafkaTopic(t, 0))
		for i := range 2 {
			n := 0
			log.onNext(func(context.Context) error {
				if n++; n <= 3 {
					return errDenied
				}
				return nil
			})
			r.record(t, 0, i)
			if err := r.m.OnLeadershipChange([]remotelog.TopicIDPartition{kafkaTopic(t, 3)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute) // of the bubble's clock
		r.want(t, "85", 1, 2)
	})
}
