package rlmm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

func mustSwap(t testing.TB, s *rlmm.Swappable, next rlmm.Implementation) rlmm.Implementation {
	t.Helper()
	old, err := s.Swap(next)
	if err != nil {
		t.Fatal(err)
	}
	return old
}

func TestNotReady_RefusesEverythingAndCanBeAskedAgain(t *testing.T) {
	tp := kafkaTopic(t, 0)
	m := rlmm.NotReady{Cause: errors.Join(remotelog.ErrNotFound, errDenied)}
	check := func(name string, err error) {
		t.Helper()
		wantErr(t, name, err, remotelog.ErrNotReady)
		if !remotelog.Retriable(err) || errors.Is(err, remotelog.ErrNotFound) || !strings.Contains(err.Error(), errDenied.Error()) {
			t.Errorf("%s: %v, want a retriable error that names the cause and is nothing else", name, err)
		}
	}
	for name, err := range everyRead(t.Context(), m, tp) {
		check(name, err)
	}
	for name, err := range everyWrite(t.Context(), m, tp) {
		check(name, err)
	}
	check("Partitions", listErr(m.Partitions(t.Context())))
	check("WaitReady", m.WaitReady(t.Context(), tp))
	if m.IsReady(tp) {
		t.Error("it is ready")
	}
	wantErr(t, "Segment without a cause", everyRead(t.Context(), rlmm.NotReady{}, tp)["Segment"], remotelog.ErrNotReady)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range everyRead(ctx, m, tp) {
		wantErr(t, name+" with a context that has ended", err, context.Canceled)
	}
	ps := []remotelog.TopicIDPartition{tp}
	mustDo(t, errors.Join(m.OnLeadershipChange(ps, ps), m.OnStop(ps), m.Reconcile(t.Context(), ps), m.Close(t.Context())))
}

// Assignments made while there is no manager reach the one that comes.
func TestSwappable_GivesTheAssignedSetToTheNextOne(t *testing.T) {
	one, two, three := kafkaTopic(t, 0), kafkaTopic(t, 1), kafkaTopic(t, 2)
	s := rlmm.NewSwappable(rlmm.NotReady{})
	mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{one}, []remotelog.TopicIDPartition{two, three}))
	mustDo(t, s.OnStop([]remotelog.TopicIDPartition{two}))
	m := newManager(t, memlogtest.New(1), rlmm.Options{})
	if old := mustSwap(t, s, m); old != (rlmm.NotReady{}) {
		t.Errorf("Swap returned %v, want what stood there", old)
	}
	want := func(want ...remotelog.TopicIDPartition) {
		t.Helper()
		if got := list(t, m.Partitions(t.Context())); !slices.Equal(got, want) {
			t.Errorf("assigned: %v, want %v", got, want)
		}
	}
	want(one, three)
	mustDo(t, s.WaitReady(within(t), one, three))
	mustAdd(t, m, seg(one, 1, 0, 9, 0, 0), finished)
	if got := list(t, s.Segments(t.Context(), one)); len(got) != 1 {
		t.Errorf("%d segments through the Swappable, want 1", len(got))
	}
	mustDo(t, s.Reconcile(within(t), []remotelog.TopicIDPartition{two, three}))
	want(two, three)
	closeNow(t, m)
	mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{one}, nil)) // the closed one does not matter
	mustDo(t, s.Reconcile(within(t), []remotelog.TopicIDPartition{one, two}))
	m = newManager(t, memlogtest.New(1), rlmm.Options{})
	mustSwap(t, s, m)
	want(one, two)
}

// spy is an implementation that looks at the moment when it is given the set.
type spy struct {
	rlmm.NotReady
	assigned func(ps []remotelog.TopicIDPartition) error
	asks     atomic.Int64
}

func (s *spy) OnLeadershipChange(leaders, _ []remotelog.TopicIDPartition) error {
	return s.assigned(leaders)
}

func (s *spy) IsReady(remotelog.TopicIDPartition) bool { s.asks.Add(1); return true }

func TestSwappable_HandsTheSetOverBeforeTheSwapIsVisible(t *testing.T) {
	tp := kafkaTopic(t, 0)
	s := rlmm.NewSwappable(rlmm.NotReady{})
	mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil))
	handed := 0
	next := &spy{assigned: func(ps []remotelog.TopicIDPartition) error {
		handed += len(ps)
		if s.IsReady(tp) {
			t.Error("a call reached the new one before it had the set")
		}
		return nil
	}}
	mustSwap(t, s, next)
	if !s.IsReady(tp) || handed != 1 || next.asks.Load() != 1 {
		t.Errorf("after the swap: %d partitions handed over, %d calls; want 1 and 1", handed, next.asks.Load())
	}
	broken := &spy{assigned: func([]remotelog.TopicIDPartition) error { return errDenied }}
	if old, err := s.Swap(broken); old != nil || !errors.Is(err, errDenied) {
		t.Errorf("Swap to one that does not take the set: %v, %v", old, err)
	}
	if !s.IsReady(tp) || broken.asks.Load() != 0 {
		t.Error("a swap that failed took effect")
	}
}

// A call and an iteration that began before a swap end on the manager they began with.
func TestSwappable_WhatHasBegunEndsWhereItBegan(t *testing.T) {
	tp := kafkaTopic(t, 0)
	log := memlogtest.New(1)
	a, b := newManager(t, log, rlmm.Options{}), newManager(t, memlogtest.New(1), rlmm.Options{})
	s := rlmm.NewSwappable(a)
	mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil))
	mustDo(t, s.WaitReady(within(t), tp))
	for i := range 3 {
		mustAdd(t, a, seg(tp, i, int64(10*i), int64(10*i+9), 0, int64(10*i)), finished)
	}
	arrived, release := make(chan struct{}), make(chan struct{})
	log.OnAppend(func(_ context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
		close(arrived)
		<-release
		return land()
	})
	wrote := make(chan error)
	go func() { wrote <- s.Add(within(t), seg(tp, 9, 90, 99, 0, 90)) }()
	<-arrived
	before := s.Segments(t.Context(), tp) // has not begun
	seen := 0
	for _, err := range s.SegmentsOfEpoch(t.Context(), tp, 0) {
		mustDo(t, err)
		if seen++; seen == 1 {
			if old := mustSwap(t, s, b); old != rlmm.Implementation(a) {
				t.Errorf("Swap returned %v, want the first manager", old)
			}
		}
	}
	if seen != 3 {
		t.Errorf("the listing that was under way gave %d segments, want the 3 of the manager it began with", seen)
	}
	close(release)
	mustDo(t, <-wrote)
	mustDo(t, s.WaitReady(within(t), tp))
	if n, m := len(list(t, before)), len(list(t, s.Segments(t.Context(), tp))); n != 0 || m != 0 {
		t.Errorf("listings that began after the swap gave %d and %d segments, want none: the new manager has none", n, m)
	}
	if n := len(list(t, a.Segments(t.Context(), tp))); n != 4 {
		t.Errorf("the old manager has %d segments, want 4: the write went to it", n)
	}
}

func TestSwappable_CloseClosesAndRefuses(t *testing.T) {
	tp := kafkaTopic(t, 0)
	m := newManager(t, memlogtest.New(1), rlmm.Options{})
	s := rlmm.NewSwappable(m)
	mustDo(t, s.Close(within(t)))
	for name, err := range everyRead(t.Context(), s, tp) {
		wantErr(t, name, err, remotelog.ErrClosed)
	}
	ps := []remotelog.TopicIDPartition{tp}
	wantErr(t, "OnLeadershipChange", s.OnLeadershipChange(ps, nil), remotelog.ErrClosed)
	wantErr(t, "OnStop", s.OnStop(ps), remotelog.ErrClosed)
	wantErr(t, "Reconcile", s.Reconcile(t.Context(), ps), remotelog.ErrClosed)
	_, err := s.Swap(rlmm.NotReady{})
	wantErr(t, "Swap", err, remotelog.ErrClosed)
}

// Readers, assignments and swaps at once: a partition that stays assigned is never unknown, and the last manager has the last set.
func TestSwappable_Concurrently(t *testing.T) {
	log := memlogtest.New(2)
	stays, changes := kafkaTopic(t, 0), kafkaTopic(t, 3)
	s := rlmm.NewSwappable(rlmm.NotReady{})
	mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{stays}, nil))
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _, err := s.Segment(t.Context(), stays, 0, 0)
				if errors.Is(err, remotelog.ErrNotAssigned) {
					t.Errorf("a partition that stays: %v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			mustDo(t, s.OnLeadershipChange([]remotelog.TopicIDPartition{changes}, nil))
			mustDo(t, s.OnStop([]remotelog.TopicIDPartition{changes}))
		}
		mustDo(t, s.Reconcile(t.Context(), []remotelog.TopicIDPartition{stays, changes}))
	})
	swaps := 0
	for ; ctx.Err() == nil || swaps < 2; swaps++ {
		next, err := rlmm.New(log, rlmm.Options{})
		mustDo(t, err)
		mustDo(t, mustSwap(t, s, next).Close(t.Context()))
	}
	wg.Wait()
	if got := list(t, s.Partitions(t.Context())); !slices.Equal(got, []remotelog.TopicIDPartition{stays, changes}) {
		t.Errorf("after %d swaps: assigned %v", swaps, got)
	}
	mustDo(t, s.Close(within(t)))
}
