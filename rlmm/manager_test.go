package rlmm_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

func TestManager_EveryCallIsGated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		wait, release := hold()
		log.onBounds(func(ctx context.Context, _ []int32, ask func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			if err := wait(ctx); err != nil {
				return nil, err
			}
			return ask()
		})
		tp := kafkaTopic(t, 0)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, 1, 0, 9, 0, 0)})
		m := newManager(t, log, rlmm.Options{})
		all := func(what string, kind error) {
			t.Helper()
			for name, err := range everyRead(t.Context(), m, tp) {
				wantErr(t, what+": "+name, err, kind)
			}
			for name, err := range everyWrite(t.Context(), m, tp) {
				wantErr(t, what+": "+name, err, kind)
			}
		}
		all("not assigned", remotelog.ErrNotAssigned)
		if err := m.OnLeadershipChange(nil, []remotelog.TopicIDPartition{tp}); err != nil {
			t.Fatal(err)
		}
		settle()
		all("target unknown", remotelog.ErrNotReady)
		if m.IsReady(tp) {
			t.Error("ready without a target")
		}
		release()
		settle()
		if !m.IsReady(tp) {
			t.Error("not ready after the log was read to its end")
		}
		for name, err := range everyRead(t.Context(), m, tp) {
			wantErr(t, "ready: "+name, err, nil)
		}
		if end := bounds(t, log.Log, 2).Next; end != 1 {
			t.Errorf("the log ends at %d, want 1: a refused write was published", end)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		all("closed", remotelog.ErrClosed)
		wantErr(t, "closed: Partitions", listErr(m.Partitions(t.Context())), remotelog.ErrClosed)
		wantErr(t, "closed: OnLeadershipChange", m.OnLeadershipChange(nil, nil), remotelog.ErrClosed)
		wantErr(t, "closed: OnStop", m.OnStop(nil), remotelog.ErrClosed)
		wantErr(t, "closed: Reconcile", m.Reconcile(t.Context(), nil), remotelog.ErrClosed)
		wantErr(t, "closed: WaitReady", m.WaitReady(t.Context()), remotelog.ErrClosed)
		wantErr(t, "closed again", m.Close(t.Context()), nil)
	})
}

func bounds(t testing.TB, log rlmm.Log, p int32) rlmm.Bounds {
	t.Helper()
	b, err := log.Bounds(within(t), []int32{p})
	if err != nil {
		t.Fatal(err)
	}
	return b[p]
}

func TestManager_CancelledContextEndsEveryCall(t *testing.T) {
	m := newManager(t, memlog.New(memlog.Options{Partitions: 5}), rlmm.Options{})
	tp := kafkaTopic(t, 0)
	follow(t, m, tp)
	mustAdd(t, m, seg(tp, 1, 0, 9, 0, 0), finished)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range everyRead(ctx, m, tp) {
		wantErr(t, name, err, context.Canceled)
	}
	for name, err := range everyWrite(ctx, m, tp) {
		wantErr(t, name, err, context.Canceled)
	}
	wantErr(t, "Partitions", listErr(m.Partitions(ctx)), context.Canceled)
}

func TestNew_RefusesNoLog(t *testing.T) {
	if m, err := rlmm.New(nil, rlmm.Options{}); !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Errorf("New(nil) = %v, %v, want ErrInvalidArgument", m, err)
	}
}

func TestWaitReady_NamesWhatLagsByHowMuchAndWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		tp := kafkaTopic(t, 3)
		for i := range 3 {
			raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, i, int64(i), int64(i), 0, int64(i))})
		}
		log.onNext(func(context.Context) error { return errDenied })
		m := newManager(t, log, rlmm.Options{})
		if err := m.Reconcile(t.Context(), []remotelog.TopicIDPartition{tp}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := m.WaitReady(ctx, tp)
		for _, kind := range []error{remotelog.ErrNotReady, context.DeadlineExceeded, errDenied} {
			wantErr(t, "WaitReady", err, kind)
		}
		for _, want := range []string{"orders-3", "metadata partition 4", "read to 0 of 3, 3 behind"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		wantErr(t, "not followed", m.WaitReady(t.Context(), kafkaTopic(t, 0)), remotelog.ErrNotAssigned)
		log.onNext(nil)
		if err := m.WaitReady(within(t)); err != nil { // without names: all that is followed
			t.Error(err)
		}
	})
}

func TestScenario25_WaitersReturnWhenThePartitionIsReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		tp := kafkaTopic(t, 0)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, 1, 0, 9, 0, 0)})
		wait, release := hold()
		log.onNext(wait)
		m := newManager(t, log, rlmm.Options{})
		if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			waited <- m.WaitReady(ctx, tp)
		}()
		settle()
		if m.IsReady(tp) {
			t.Error("ready before it was read")
		}
		release()
		if err := <-waited; err != nil || !m.IsReady(tp) {
			t.Errorf("WaitReady: %v, ready %v", err, m.IsReady(tp))
		}
	})
}

// A log that was cut below the target would keep a partition waiting forever: the end is asked for again.
func TestManager_TargetFollowsALogThatIsShorterNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		tp := kafkaTopic(t, 0)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, 1, 0, 9, 0, 0)})
		asked := 0
		log.onBounds(func(_ context.Context, ps []int32, _ func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			asked++
			return map[int32]rlmm.Bounds{0: {Next: []int64{100, 100, 1}[min(asked-1, 2)]}}, nil
		})
		m := newManager(t, log, rlmm.Options{})
		if err := m.Reconcile(t.Context(), []remotelog.TopicIDPartition{tp}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := m.WaitReady(within(t), tp); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); asked != 3 || took != 10*time.Second {
			t.Errorf("ready after %v and %d questions, want 10s and 3", took, asked)
		}
	})
}

func TestManager_BoundsThatFailAreAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		bad := map[int32]bool{2: true}
		log.onBounds(func(_ context.Context, ps []int32, ask func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			if slices.ContainsFunc(ps, func(p int32) bool { return bad[p] }) {
				return nil, errDenied
			}
			return ask()
		})
		m := newManager(t, log, rlmm.Options{})
		sick, well := kafkaTopic(t, 0), kafkaTopic(t, 3)
		err := m.Reconcile(t.Context(), []remotelog.TopicIDPartition{sick, well})
		wantErr(t, "Reconcile", err, errDenied)
		settle()
		if !m.IsReady(well) || m.IsReady(sick) {
			t.Errorf("ready: %v and %v, want that only the metadata partition that cannot be asked holds up its own", m.IsReady(well), m.IsReady(sick))
		}
		_, _, err = m.Segment(t.Context(), sick, 0, 0)
		wantErr(t, "Segment", err, remotelog.ErrNotReady)
		wantErr(t, "Segment's cause", err, errDenied)
		clear(bad)
		began := time.Now()
		if err := m.WaitReady(within(t)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ready %v after the log could be asked again", took)
		}
	})
}

func TestManager_ListingsAreOneMomentAndEveryCallMayBeMadeInside(t *testing.T) {
	for name, all := range map[string]func(*rlmm.Manager, remotelog.TopicIDPartition) func(func(remotelog.SegmentMetadata, error) bool){
		"Segments": func(m *rlmm.Manager, tp remotelog.TopicIDPartition) func(func(remotelog.SegmentMetadata, error) bool) {
			return m.Segments(context.Background(), tp)
		},
		"SegmentsOfEpoch": func(m *rlmm.Manager, tp remotelog.TopicIDPartition) func(func(remotelog.SegmentMetadata, error) bool) {
			return m.SegmentsOfEpoch(context.Background(), tp, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, memlog.New(memlog.Options{Partitions: 5}), rlmm.Options{})
			tp := kafkaTopic(t, 0)
			follow(t, m, tp)
			var want []remotelog.SegmentMetadata
			for i := range 300 {
				want = append(want, seg(tp, i, int64(10*i), int64(10*i+9), 0, int64(10*i)))
				mustAdd(t, m, want[i], finished)
			}
			seq := all(m, tp) // the moment is the first step of each loop, not this call
			late := seg(tp, 300, 3000, 3009, 0, 3000)
			mustAdd(t, m, late, finished)
			want = append(want, late)
			var got []remotelog.SegmentMetadata
			for md, err := range seq {
				if err != nil {
					t.Fatal(err)
				}
				if md.State != finished {
					t.Fatalf("segment %d is in %v: the listing shows a later moment", len(got), md.State)
				}
				got = append(got, md)
				mustUpdate(t, m, md, delStarted) // delete-all inside the loop
				mustUpdate(t, m, md, delDone)
				mustAdd(t, m, seg(tp, 1000+len(got), md.StartOffset, md.EndOffset, 0, md.StartOffset))
				wantAt(t, m, tp, 0, md.StartOffset, nil)
			}
			wantIDs(t, "listing", got, want...)
			if n := len(list(t, m.Segments(t.Context(), tp))); n != len(want) {
				t.Errorf("%d segments afterwards, want the %d that were added inside the loop", n, len(want))
			}
			n := 0
			for range seq { // a second loop over the same value is a new moment; it may be left early
				if n++; n == 3 {
					break
				}
			}
			if err := m.OnStop([]remotelog.TopicIDPartition{tp}); err != nil {
				t.Error(err)
			}
			wantErr(t, "listing of a stopped partition", listErr(all(m, tp)), remotelog.ErrNotAssigned)
		})
	}
}

func TestManager_All(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		a, b, fresh := kafkaTopic(t, 0), kafkaTopic(t, 3), kafkaTopic(t, 4)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(a, 1, 0, 9, 0, 0)})
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(b, 2, 0, 9, 0, 0)})
		wait, release := hold()
		log.onNext(wait)
		m := newManager(t, log, rlmm.Options{All: true})
		settle()
		for name, err := range everyRead(t.Context(), m, kafkaTopic(t, 1)) { // of the metadata partition of a
			wantErr(t, "loading: "+name, err, remotelog.ErrNotReady)
		}
		wantErr(t, "loading: Partitions", listErr(m.Partitions(t.Context())), remotelog.ErrNotReady)
		wantErr(t, "loading: Add", m.Add(t.Context(), seg(a, 9, 0, 9, 0, 0)), remotelog.ErrNotReady)
		release()
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		if got := list(t, m.Partitions(t.Context())); !slices.Equal(got, []remotelog.TopicIDPartition{a, b}) {
			t.Errorf("Partitions = %v, want those that the log mentions", got)
		}
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), b)), seg(b, 2, 0, 9, 0, 0))
		for name, err := range everyRead(t.Context(), m, fresh) {
			wantErr(t, "not mentioned: "+name, err, remotelog.ErrNotAssigned)
		}
		mustAdd(t, m, seg(fresh, 3, 0, 9, 0, 0)) // a write mentions it
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(kafkaTopic(t, 1), 4, 0, 9, 0, 0)})
		settle()
		if err := m.OnStop([]remotelog.TopicIDPartition{a}); err != nil {
			t.Error(err)
		}
		named := kafkaTopic(t, 2) // never mentioned, but named
		if err := m.Reconcile(t.Context(), []remotelog.TopicIDPartition{named, a}); err != nil {
			t.Error(err)
		}
		if err := m.WaitReady(within(t), named, a); err != nil {
			t.Error(err)
		}
		want := []remotelog.TopicIDPartition{a, kafkaTopic(t, 1), named, b, fresh}
		if got := list(t, m.Partitions(t.Context())); !slices.Equal(got, want) {
			t.Errorf("Partitions = %v, want %v", got, want)
		}
	})
}

func TestManager_ReconcileReplacesTheSet(t *testing.T) {
	m := newManager(t, memlog.New(memlog.Options{Partitions: 5}), rlmm.Options{})
	ps := []remotelog.TopicIDPartition{kafkaTopic(t, 0), kafkaTopic(t, 1), kafkaTopic(t, 3)}
	follow(t, m, ps[0], ps[1])
	mustAdd(t, m, seg(ps[1], 1, 0, 9, 0, 0))
	if err := m.Reconcile(within(t), ps[1:]); err != nil {
		t.Fatal(err)
	}
	if got := list(t, m.Partitions(t.Context())); !slices.Equal(got, ps[1:]) {
		t.Errorf("Partitions = %v, want %v", got, ps[1:])
	}
	wantIDs(t, "the one that stayed", list(t, m.Segments(t.Context(), ps[1])), seg(ps[1], 1, 0, 9, 0, 0))
	_, _, err := m.Segment(t.Context(), ps[0], 0, 0)
	wantErr(t, "the one that is gone", err, remotelog.ErrNotAssigned)
	if err := m.Reconcile(within(t), nil); err != nil {
		t.Fatal(err)
	}
	if got := list(t, m.Partitions(t.Context())); len(got) != 0 {
		t.Errorf("Partitions = %v, want none", got)
	}
}

func TestManager_ReconcileHonoursItsContextAndClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		wait, _ := hold()
		log.onBounds(func(ctx context.Context, _ []int32, _ func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			return nil, wait(ctx)
		})
		m := newManager(t, log, rlmm.Options{})
		ps := []remotelog.TopicIDPartition{kafkaTopic(t, 0)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, "Reconcile", m.Reconcile(ctx, ps), context.DeadlineExceeded)
		errs := make(chan error, 2)
		go func() { errs <- m.Reconcile(context.Background(), append(ps, kafkaTopic(t, 1))) }()
		go func() { errs <- m.WaitReady(context.Background(), ps...) }()
		settle()
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			wantErr(t, "a waiter at Close", <-errs, remotelog.ErrClosed)
		}
	})
}

// Scenario 86: an error of the log that is not retriable by itself.
func TestScenario86_AuthorizationFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		m := newManager(t, log, rlmm.Options{})
		ready, loading := kafkaTopic(t, 0), kafkaTopic(t, 3)
		follow(t, m, ready)
		md := seg(ready, 1, 0, 9, 0, 0)
		mustAdd(t, m, md, finished)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(loading, 2, 0, 9, 0, 0)})
		log.onNext(func(context.Context) error { return errDenied })
		if err := m.Reconcile(t.Context(), []remotelog.TopicIDPartition{ready, loading}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		wantAt(t, m, ready, 0, 5, &md)
		if st := status(t, m, 2); !errors.Is(st.Stale, errDenied) {
			t.Errorf("status %+v, want it stale", st)
		}
		for name, err := range everyRead(t.Context(), m, loading) {
			wantErr(t, name, err, remotelog.ErrNotReady)
			wantErr(t, name+"'s cause", err, errDenied)
		}
		began, end := time.Now(), bounds(t, log, 2)
		err := m.Update(within(t), upd(md, delStarted))
		wantErr(t, "Update", err, remotelog.ErrNotReady)
		wantErr(t, "Update's cause", err, errDenied)
		if took := time.Since(began); took != 0 || bounds(t, log, 2) != end {
			t.Errorf("the write took %v and the log ends at %+v, want it refused at once", took, bounds(t, log, 2))
		}
		log.onNext(nil)
		began = time.Now()
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("healed after %v", took)
		}
		mustUpdate(t, m, md, delStarted)
		if st := status(t, m, 2); st.Stale != nil {
			t.Errorf("status %+v, want it not stale", st)
		}
	})
}

func TestManager_ClosedLogIsTheCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(1)
		m := newManager(t, log, rlmm.Options{})
		tp := kafkaTopic(t, 0)
		follow(t, m, tp)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		settle()
		wantErr(t, "Add", m.Add(t.Context(), seg(tp, 1, 0, 9, 0, 0)), remotelog.ErrClosed)
		wantErr(t, "Status", m.Status().Partitions[0].Stale, remotelog.ErrClosed)
	})
}
