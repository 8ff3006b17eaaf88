package rlmm_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// Partitions that are added on a metadata partition that is already followed, and losses of the log.

func TestLoad_AnAddedPartitionDelaysNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		m := newManager(t, log, rlmm.Options{})
		there, added, third := kafkaTopic(t, 0), kafkaTopic(t, 1), kafkaTopic(t, 2)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(added, 1, 0, 9, 0, 0)})
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(third, 2, 0, 9, 0, 0)})
		follow(t, m, there)
		mustAdd(t, m, seg(there, 3, 0, 9, 0, 0))
		if n := log.followers(); n != 1 {
			t.Fatalf("%d followers, want 1", n)
		}
		wait, release := hold()
		log.onNextOf(2, wait) // the loader
		follow1 := func(tp remotelog.TopicIDPartition) {
			if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		follow1(added)
		if st := status(t, m, 2); st.Loading != 1 || st.Assigned != 2 || st.Ready != 1 || log.followers() != 2 {
			t.Errorf("status %+v with %d followers, want one loading by a second follower", st, log.followers())
		}
		follow1(third) // while a load runs: waits for the next one
		_, _, err := m.Segment(t.Context(), added, 0, 0)
		wantErr(t, "the added one", err, remotelog.ErrNotReady)
		md := seg(there, 4, 10, 19, 0, 10)
		mustAdd(t, m, md, finished)
		wantAt(t, m, there, 0, 15, &md)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(added, 5, 10, 19, 0, 10)})
		settle()
		release()
		began := time.Now()
		if err := m.WaitReady(within(t), added, third); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("ready after %v, want the second load at once after the first", took)
		}
		wantIDs(t, "added", list(t, m.Segments(t.Context(), added)), seg(added, 1, 0, 9, 0, 0), seg(added, 5, 10, 19, 0, 10))
		wantIDs(t, "third", list(t, m.Segments(t.Context(), third)), seg(third, 2, 0, 9, 0, 0))
		settle()
		if st := status(t, m, 2); st.Loading != 0 || st.Ready != 3 || st.Applied != 6 {
			t.Errorf("status %+v, want nothing loading and each event applied once", st)
		}
		mustAdd(t, m, seg(added, 6, 20, 29, 0, 20), finished)
	})
}

// The load is faster than the live stream: what it may not take from it, it leaves to it.
func TestLoad_NeverGoesAheadOfTheLiveStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		drops := 0
		m := newManager(t, log, rlmm.Options{Hooks: rlmm.Hooks{Dropped: func(int32, int64, rlmm.DropReason) { drops++ }}})
		there, added := kafkaTopic(t, 0), kafkaTopic(t, 1)
		follow(t, m, there)
		mustAdd(t, m, seg(there, 1, 0, 9, 0, 0))
		settle() // the live Next waits
		wait, release := hold()
		log.onNextOf(1, wait)
		mustAdd(t, m, seg(there, 2, 10, 19, 0, 10)) // the batch that a waiting Next still gets
		a, b := seg(added, 3, 0, 9, 0, 0), seg(added, 4, 10, 19, 0, 10)
		for _, md := range []remotelog.SegmentMetadata{a, b} { // the live stream does not see these yet
			raw(t, log, &rlmm.SegmentRecord{Metadata: md})
			for s := finished; s <= delDone && (md.ID == a.ID || s == finished); s++ {
				raw(t, log, &rlmm.UpdateRecord{Update: upd(md, s)})
			}
		}
		if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{added}, nil); err != nil {
			t.Fatal(err)
		}
		settle()
		if m.IsReady(added) {
			t.Error("ready before the live stream has read what was there when it was added")
		}
		release()
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), added)), b)
		if st := status(t, m, 0); st.Applied != 8 || drops != 0 {
			t.Errorf("%d applied, %d dropped, want each of 8 events once", st.Applied, drops)
		}
	})
}

// The load finds the truncation before the live stream does: nothing of what it read before may be left.
func TestLoss_TruncatedInTheMiddleOfALoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many, kept = 1500, 10 // more than a batch, so that the load stops on its way
		log := newScripted(1)
		m := newManager(t, log, rlmm.Options{})
		there, added := kafkaTopic(t, 0), kafkaTopic(t, 1)
		follow(t, m, there)
		for i := range many {
			raw(t, log, &rlmm.SegmentRecord{Metadata: seg(added, i, int64(i), int64(i), 0, int64(i))})
		}
		settle() // the live Next waits
		waitLive, releaseLive := hold()
		waitLoad, releaseLoad := hold()
		log.onNextOf(1, waitLive)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(there, many, 0, 0, 0, 0)}) // the batch that a waiting Next still gets
		first := true
		log.onNextOf(2, func(ctx context.Context) error {
			if first {
				first = false
				return nil
			}
			return waitLoad(ctx)
		})
		if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{added}, nil); err != nil {
			t.Fatal(err)
		}
		settle()
		if st := status(t, m, 0); st.Loading != 1 || st.Applied < 100 || st.Applied >= many {
			t.Fatalf("status %+v, want a load on its way", st)
		}
		if err := log.Truncate(0, kept); err != nil {
			t.Fatal(err)
		}
		releaseLoad()
		time.Sleep(time.Minute) // of the bubble's clock: the target is what is left
		if n := len(list(t, m.Segments(t.Context(), added))); n != kept {
			t.Errorf("%d segments while the live stream stands, want the %d that are left", n, kept)
		}
		releaseLive()
		time.Sleep(time.Minute) // of the bubble's clock
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		if n := len(list(t, m.Segments(t.Context(), added))); n != kept {
			t.Errorf("%d segments, want the %d that are left", n, kept)
		}
	})
}

// Until the live stream has had an event nothing can be missed, and a second round of assignments at the start needs no load.
func TestLoad_NotNeededAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(5)
		wait, release := hold()
		log.onNext(wait)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(kafkaTopic(t, 1), 1, 0, 9, 0, 0)})
		m := newManager(t, log, rlmm.Options{})
		for p := range int32(3) {
			if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{kafkaTopic(t, p)}, nil); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		release()
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), kafkaTopic(t, 1))), seg(kafkaTopic(t, 1), 1, 0, 9, 0, 0))
		if n := log.followers(); n != 1 {
			t.Errorf("%d followers, want the live one alone", n)
		}
	})
}

// Partitions come and go while others write: in the end every manager knows what a fresh one reads.
func TestLoad_AssignmentChangesWhileWritersWrite(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		log := memlog.New(memlog.Options{Partitions: 2})
		var ps []remotelog.TopicIDPartition
		for p := range int32(6) {
			ps = append(ps, kafkaTopic(t, p))
		}
		writer, m := mustNew(t, log), mustNew(t, log)
		follow(t, writer, ps...)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 150 {
				tp := ps[i%len(ps)]
				md := seg(tp, i, int64(i), int64(i), 0, int64(i))
				mustAdd(t, writer, md, []remotelog.State{finished, delStarted, delDone}[:i%4]...)
			}
		})
		for range 40 {
			some := []remotelog.TopicIDPartition{ps[rng.IntN(len(ps))], ps[rng.IntN(len(ps))]}
			var err error
			switch rng.IntN(4) {
			case 0:
				err = m.OnStop(some)
			case 1:
				err = m.Reconcile(within(t), some)
			default:
				err = m.OnLeadershipChange(some, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		if err := m.Reconcile(within(t), ps); err != nil {
			t.Fatal(err)
		}
		fresh := mustNew(t, log)
		follow(t, fresh, ps...)
		if err := m.WaitReady(within(t), ps...); err != nil {
			t.Fatal(err)
		}
		for _, tp := range ps {
			want := list(t, fresh.Segments(t.Context(), tp))
			for name, other := range map[string]*rlmm.Manager{"writer": writer, "other": m} {
				if d := cmp.Diff(want, list(t, other.Segments(t.Context(), tp))); d != "" {
					t.Errorf("seed %d: %s: %v (-fresh +it):\n%s", seed, name, tp, d)
				}
			}
		}
		for _, m := range []*rlmm.Manager{writer, m, fresh} {
			if err := m.Close(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestLoss_HeadGoneKeepsWhatIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		tp := kafkaTopic(t, 0)
		a, b, c := seg(tp, 1, 0, 9, 0, 0), seg(tp, 2, 10, 19, 0, 10), seg(tp, 3, 20, 29, 0, 20)
		var lost []rlmm.Loss
		m := newManager(t, log, rlmm.Options{Hooks: rlmm.Hooks{Lost: func(l rlmm.Loss) { lost = append(lost, l) }}})
		follow(t, m, tp)
		mustAdd(t, m, a, finished)
		wait, release := hold()
		settle() // the live Next waits
		log.onNext(wait)
		mustAdd2 := func(md remotelog.SegmentMetadata) { raw(t, log, &rlmm.SegmentRecord{Metadata: md}) }
		mustAdd2(seg(tp, 8, 90, 99, 0, 90)) // the batch that a waiting Next still gets
		settle()
		mustAdd2(b)
		mustAdd2(c)
		if err := log.TrimHead(0, 4); err != nil { // b is gone
			t.Fatal(err)
		}
		release()
		settle()
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), tp)), a, c, seg(tp, 8, 90, 99, 0, 90))
		wantAt(t, m, tp, 0, 5, &a)
		if st := status(t, m, 0); st.Lost != 1 || len(lost) != 1 || lost[0].Kind != rlmm.HeadGone || !m.IsReady(tp) {
			t.Errorf("status %+v, losses %+v, want one head gone and the partition ready", st, lost)
		}
	})
}

func TestLoss_TruncatedIsRebuiltFromTheFirstOffset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		tp, other := kafkaTopic(t, 0), kafkaTopic(t, 1)
		a, b, c := seg(tp, 1, 0, 9, 0, 0), seg(tp, 2, 10, 19, 0, 10), seg(tp, 3, 20, 29, 0, 20)
		m := newManager(t, log, rlmm.Options{})
		follow(t, m, tp)
		mustAdd(t, m, a, finished)
		mustAdd(t, m, b, finished)
		follow(t, m, other) // one that was loaded
		wait, release := hold()
		log.onBounds(func(ctx context.Context, _ []int32, ask func() (map[int32]rlmm.Bounds, error)) (map[int32]rlmm.Bounds, error) {
			if err := wait(ctx); err != nil {
				return nil, err
			}
			return ask()
		})
		if err := log.Truncate(0, 3); err != nil { // b is not finished any more
			t.Fatal(err)
		}
		raw(t, log, &rlmm.SegmentRecord{Metadata: c})
		settle()
		for _, p := range []remotelog.TopicIDPartition{tp, other} {
			for name, err := range everyRead(t.Context(), m, p) {
				wantErr(t, name, err, remotelog.ErrNotReady)
			}
		}
		release()
		if err := m.WaitReady(within(t), tp, other); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), tp)), a, b, c)
		wantAt(t, m, tp, 0, 15, nil)
		if st := status(t, m, 0); st.Lost != 1 || st.Ready != 2 || st.Loading != 0 {
			t.Errorf("status %+v, want one loss and both ready", st)
		}
		mustUpdate(t, m, b, finished)
	})
}

// Seeded: truncations, heads that go, added partitions, all at once; in the end the manager knows what a fresh one reads.
func TestLoss_AnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			log := memlogtest.New(1)
			m := newManager(t, log, rlmm.Options{})
			var ps []remotelog.TopicIDPartition
			for p := range int32(3) {
				ps = append(ps, kafkaTopic(t, p))
			}
			n, trimmed := 0, false
			for range 60 {
				b := bounds(t, log, 0)
				var err error
				switch rng.IntN(12) {
				case 0:
					err = log.Truncate(0, b.First+rng.Int64N(b.Next-b.First+1))
				case 1:
					if rng.IntN(10) == 0 {
						trimmed = true
						err = log.TrimHead(0, b.First+rng.Int64N(b.Next-b.First+1))
					}
				case 2:
					err = log.Skip(0, 1+rng.Int64N(3))
				case 3, 4:
					err = m.OnLeadershipChange([]remotelog.TopicIDPartition{ps[rng.IntN(3)]}, nil)
				case 5:
					err = m.OnStop([]remotelog.TopicIDPartition{ps[rng.IntN(3)]})
				case 6:
					settle()
				default:
					n++
					raw(t, log, &rlmm.SegmentRecord{Metadata: seg(ps[rng.IntN(3)], n, int64(n), int64(n), 0, int64(n))})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := m.OnLeadershipChange(ps, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second) // of the bubble's clock: targets are asked for again
			fresh := newManager(t, log, rlmm.Options{})
			follow(t, fresh, ps...)
			for _, tp := range ps {
				if !m.IsReady(tp) {
					t.Fatalf("seed %d: %v is not ready: %+v", seed, tp, m.Status())
				}
				want, got := ids(list(t, fresh.Segments(t.Context(), tp))), ids(list(t, m.Segments(t.Context(), tp)))
				if trimmed { // what has left the head may be known
					have := map[remotelog.UUID]bool{}
					for _, id := range got {
						have[id] = true
					}
					got = got[:0]
					for _, id := range want {
						if have[id] {
							got = append(got, id)
						}
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("seed %d: %v (-fresh +it):\n%s", seed, tp, d)
				}
			}
		})
	}
}

func TestLoss_TruncationEndsTheWaitOfAWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := newScripted(1)
		m := newManager(t, log, rlmm.Options{})
		tp := kafkaTopic(t, 0)
		follow(t, m, tp)
		md := seg(tp, 1, 0, 9, 0, 0)
		mustAdd(t, m, md)
		wait, release := hold()
		settle() // the live Next waits
		log.onNext(wait)
		mustAdd(t, m, seg(tp, 2, 10, 19, 0, 10)) // the batch that a waiting Next still gets
		updated := make(chan error, 1)
		go func() { updated <- m.Update(context.Background(), upd(md, finished)) }()
		settle()
		if err := log.Truncate(0, 2); err != nil { // the event was acknowledged, and nobody has read it
			t.Fatal(err)
		}
		raw(t, log, &rlmm.UpdateRecord{Update: upd(md, delStarted)})
		raw(t, log, &rlmm.UpdateRecord{Update: upd(md, delDone)})
		release()
		wantErr(t, "Update", <-updated, remotelog.ErrOutcomeUnknown)
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, "Segments", list(t, m.Segments(t.Context(), tp)), seg(tp, 2, 10, 19, 0, 10))
	})
}
