package rlmm_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// scripted is a memory log whose answers a test may replace. Functions that are nil leave the log as it is.
type scripted struct {
	*memlogtest.Log

	mu     sync.Mutex
	bounds func(ctx context.Context, ps []int32, ask func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error)
	next   map[int]func(ctx context.Context) error // an error of Next, asked before each; by follower from 1, 0: all
	follow int                                     // followers that were made
}

var errDenied = errors.New("topic authorization failed")

func newScripted(partitions int32) *scripted {
	return &scripted{Log: memlogtest.New(partitions), next: map[int]func(context.Context) error{}}
}

func (s *scripted) onBounds(f func(ctx context.Context, ps []int32, ask func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds = f
}

func (s *scripted) onNext(f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = map[int]func(context.Context) error{0: f}
}

func (s *scripted) onNextOf(follower int, f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[follower] = f
}

func (s *scripted) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	s.mu.Lock()
	f := s.bounds
	s.mu.Unlock()
	ask := func() (map[int32]rlmm.Bounds, error) { return s.Log.Bounds(ctx, ps) }
	if f == nil {
		return ask()
	}
	return f(ctx, ps, ask)
}

func (s *scripted) Follow(from map[int32]rlmm.Position) rlmm.Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow++
	return &scriptedFollower{Follower: s.Log.Follow(from), s: s, n: s.follow}
}

func (s *scripted) followers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow
}

type scriptedFollower struct {
	rlmm.Follower
	s *scripted
	n int
}

func (f *scriptedFollower) Next(ctx context.Context) (rlmm.Batch, error) {
	f.s.mu.Lock()
	next := f.s.next[f.n]
	if next == nil {
		next = f.s.next[0]
	}
	f.s.mu.Unlock()
	if next != nil {
		if err := next(ctx); err != nil {
			return rlmm.Batch{}, err
		}
	}
	return f.Follower.Next(ctx)
}

// bubble runs f in a synctest bubble: its clock moves only when every goroutine waits, and settle returns then.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func settle() { synctest.Wait() }

// hold makes something wait until release is called, once or more.
func hold() (wait func(ctx context.Context) error, release func()) {
	ch := make(chan struct{})
	var once sync.Once
	wait = func(ctx context.Context) error {
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return wait, func() { once.Do(func() { close(ch) }) }
}

// status returns the status of one metadata partition.
func status(t testing.TB, m *rlmm.Manager, p int32) rlmm.PartitionStatus {
	t.Helper()
	for _, ps := range m.Status().Partitions {
		if ps.Partition == p {
			return ps
		}
	}
	t.Fatalf("metadata partition %d is not followed: %+v", p, m.Status())
	return rlmm.PartitionStatus{}
}

// wantErr checks that an error matches the kind; nil wants none.
func wantErr(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || (kind == nil) != (err == nil) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

// everyRead calls each read of a partition and returns their errors by name.
func everyRead(ctx context.Context, m rlmm.Implementation, tp remotelog.TopicIDPartition) map[string]error {
	out := map[string]error{}
	_, _, out["Segment"] = m.Segment(ctx, tp, 0, 0)
	_, _, out["NextSegmentWithTxnIndex"] = m.NextSegmentWithTxnIndex(ctx, tp, 0, 0)
	_, _, out["HighestOffset"] = m.HighestOffset(ctx, tp, 0)
	_, out["RemoteLogSize"] = m.RemoteLogSize(ctx, tp, 0)
	out["Segments"] = listErr(m.Segments(ctx, tp))
	out["SegmentsOfEpoch"] = listErr(m.SegmentsOfEpoch(ctx, tp, 0))
	return out
}

// everyWrite calls each write.
func everyWrite(ctx context.Context, m rlmm.Implementation, tp remotelog.TopicIDPartition) map[string]error {
	md := seg(tp, 77, 0, 9, 0, 0)
	return map[string]error{
		"Add":                m.Add(ctx, md),
		"Update":             m.Update(ctx, upd(md, finished)),
		"PutPartitionDelete": m.PutPartitionDelete(ctx, remotelog.PartitionDelete{TopicIDPartition: tp, State: remotelog.DeletePartitionMarked}),
	}
}
