package rlmm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// Writes whose outcome the log does not know.

type doubtful struct {
	log *memlogtest.Log
	m   *rlmm.Manager
	tp  remotelog.TopicIDPartition
	md  remotelog.SegmentMetadata // STARTED
}

func newDoubtful(t *testing.T) *doubtful {
	t.Helper()
	d := &doubtful{log: memlogtest.New(1), tp: kafkaTopic(t, 0)}
	d.m = newManager(t, d.log, rlmm.Options{PartitionDelete: true})
	follow(t, d.m, d.tp)
	d.md = seg(d.tp, 1, 0, 9, 0, 0)
	mustAdd(t, d.m, d.md)
	return d
}

func (d *doubtful) finish(t *testing.T) error {
	t.Helper()
	return d.m.Update(within(t), upd(d.md, finished))
}

func TestDoubt_EventThatIsReadBeforeAppendReturnsIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		d.log.OnAppend(func(ctx context.Context, p int32, ev []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
			pos, err := memlogtest.Unknown(ctx, p, ev, land)
			settle()
			return pos, err
		})
		if err := d.finish(t); err != nil {
			t.Errorf("Update: %v, want nil: its event was read", err)
		}
	})
}

func TestDoubt_EventThatLandsLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		hold, land := memlogtest.UnknownUntil()
		d.log.OnAppend(hold)
		wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
		d.log.OnAppend(nil)
		if n := d.m.Status().Partitions[0].InDoubt; n != 1 {
			t.Errorf("%d in doubt, want 1", n)
		}
		end := bounds(t, d.log, 0)
		wantErr(t, "another write for the segment", d.m.Update(t.Context(), upd(d.md, delStarted)), remotelog.ErrOutcomeUnknown)
		wantErr(t, "a write for the partition", d.m.PutPartitionDelete(t.Context(), remotelog.PartitionDelete{TopicIDPartition: d.tp}), remotelog.ErrOutcomeUnknown)
		if got := bounds(t, d.log, 0); got != end {
			t.Errorf("the log ends at %+v, want %+v", got, end)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := d.m.Update(ctx, upd(d.md, finished)) // the same again waits for the first
		wantErr(t, "the same again", err, remotelog.ErrOutcomeUnknown)
		wantErr(t, "the same again", err, context.DeadlineExceeded)
		again := make(chan error, 1)
		go func() { again <- d.finish(t) }()
		settle()
		land()
		if err := <-again; err != nil {
			t.Errorf("the same again: %v, want nil: the first has landed", err)
		}
		if got := bounds(t, d.log, 0).Next; got != end.Next+1 {
			t.Errorf("the log ends at %d, want %d: the event is there once", got, end.Next+1)
		}
		if n := d.m.Status().Partitions[0].InDoubt; n != 0 {
			t.Errorf("%d in doubt, want none", n)
		}
		mustUpdate(t, d.m, d.md, delStarted)
	})
}

func TestDoubt_LaterWriteProvesThatItNeverLanded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		d.log.OnAppend(memlogtest.UnknownNever)
		wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
		again := make(chan error, 1)
		go func() { again <- d.finish(t) }()
		settle()
		d.log.OnAppend(nil)
		mustAdd(t, d.m, seg(d.tp, 2, 10, 19, 0, 10)) // is in the log, and read, without the first
		if err := <-again; err != nil {
			t.Errorf("the same again: %v, want nil: it is published afresh", err)
		}
		wantAt(t, d.m, d.tp, 0, 5, &d.md)
		mustUpdate(t, d.m, d.md, delStarted)
	})
}

// The later write may be read before its Append has returned. Nothing else is read then that could end the wait for the first one.
func TestDoubt_LaterWriteIsReadBeforeAppendReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		d.log.OnAppend(memlogtest.UnknownNever)
		wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
		d.log.OnAppend(func(_ context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
			pos, err := land()
			settle()
			return pos, err
		})
		mustAdd(t, d.m, seg(d.tp, 2, 10, 19, 0, 10))
		d.log.OnAppend(nil)
		if n := d.m.Status().Partitions[0].InDoubt; n != 0 {
			t.Errorf("%d in doubt, want none: the log was read on without it", n)
		}
		mustUpdate(t, d.m, d.md, finished)
	})
}

// On a partition that nobody else writes to, only the repetition itself can find out.
func TestDoubt_RepetitionOnAQuietLog(t *testing.T) {
	for name, landed := range map[string]bool{"never landed": false, "landed late": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoubtful(t)
				hold, land := memlogtest.UnknownUntil()
				d.log.OnAppend(hold)
				wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
				before, began := bounds(t, d.log, 0).Next, time.Now()
				d.log.OnAppend(func(_ context.Context, _ int32, _ []byte, append func() (rlmm.Position, error)) (rlmm.Position, error) {
					if waited := time.Since(began); waited != 2*time.Second { // of the bubble's time
						t.Errorf("sent again after %v, want a wait of 2 s first", waited)
					}
					if landed {
						land()
					}
					return append()
				})
				if err := d.finish(t); err != nil {
					t.Errorf("the same again: %v, want nil", err)
				}
				settle()
				want := before + 1
				if landed {
					want++ // twice, which is as good as once
				}
				if got := bounds(t, d.log, 0).Next; got != want {
					t.Errorf("the log ends at %d, want %d", got, want)
				}
				if st := d.m.Status().Partitions[0]; st.InDoubt != 0 {
					t.Errorf("status %+v, want nothing in doubt", st)
				}
				wantAt(t, d.m, d.tp, 0, 5, &d.md)
				mustUpdate(t, d.m, d.md, delStarted)
			})
		})
	}
}

// The event was sent once more, and that is in doubt, too: what began before the second doubt proves nothing.
func TestDoubt_RepetitionInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		d.log.OnAppend(memlogtest.UnknownNever)
		wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
		second, land := memlogtest.UnknownUntil()
		waitAdd, landAdd := hold()
		slow := seg(d.tp, 3, 20, 29, 0, 20)
		sent, added := 0, make(chan error, 1)
		d.log.OnAppend(func(ctx context.Context, p int32, ev []byte, append func() (rlmm.Position, error)) (rlmm.Position, error) {
			r, err := rlmm.Decode(ev)
			switch {
			case err == nil && isUpdate(r):
				sent++
				go func() { added <- d.m.Add(context.Background(), slow) }()
				settle()
				mustAdd(t, d.m, seg(d.tp, 2, 10, 19, 0, 10)) // is in the log and read while the second is on its way
				return second(ctx, p, ev, append)
			case err == nil && r.(*rlmm.SegmentRecord).Metadata.SegmentID == slow.SegmentID:
				if err := waitAdd(ctx); err != nil {
					return rlmm.Position{}, err
				}
			}
			return append()
		})
		wantErr(t, "the same again", d.finish(t), remotelog.ErrOutcomeUnknown)
		if sent != 1 {
			t.Fatalf("sent %d times, want once", sent)
		}
		d.log.OnAppend(nil)
		landAdd() // is in the log and read afterwards
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		settle()
		wantErr(t, "another write", d.m.Update(t.Context(), upd(d.md, delStarted)), remotelog.ErrOutcomeUnknown)
		land()
		settle()
		wantAt(t, d.m, d.tp, 0, 5, &d.md)
		mustUpdate(t, d.m, d.md, delStarted)
	})
}

// Only a write that began when the outcome of the other was already unknown says something about it.
func TestDoubt_WriteOnItsWayAtTheSameTimeProvesNothing(t *testing.T) {
	for name, addFirst := range map[string]bool{"began before": true, "began after": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoubtful(t)
				waitAdd, landAdd := hold()
				waitUpdate, leaveUpdate := hold()
				d.log.OnAppend(func(ctx context.Context, p int32, ev []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
					if r, err := rlmm.Decode(ev); err == nil && isUpdate(r) {
						return rlmm.Position{}, errors.Join(waitUpdate(ctx), remotelog.ErrOutcomeUnknown)
					}
					if err := waitAdd(ctx); err != nil {
						return rlmm.Position{}, err
					}
					return land()
				})
				added, updated := make(chan error, 1), make(chan error, 1)
				add := func() { added <- d.m.Add(t.Context(), seg(d.tp, 2, 10, 19, 0, 10)) }
				update := func() { updated <- d.m.Update(t.Context(), upd(d.md, finished)) }
				if !addFirst {
					add, update = update, add
				}
				go add()
				settle()
				go update()
				settle()
				leaveUpdate()
				wantErr(t, "Update", <-updated, remotelog.ErrOutcomeUnknown)
				landAdd()
				wantErr(t, "Add", <-added, nil)
				d.log.OnAppend(nil) // it would land now
				wantErr(t, "another write", d.m.Update(t.Context(), upd(d.md, delStarted)), remotelog.ErrOutcomeUnknown)
				mustAdd(t, d.m, seg(d.tp, 3, 20, 29, 0, 20)) // this one began later
				mustUpdate(t, d.m, d.md, delStarted)
			})
		})
	}
}

func isUpdate(r rlmm.Record) bool { _, ok := r.(*rlmm.UpdateRecord); return ok }

func TestDoubt_ContextEndsWhileTheEventIsNotReadYet(t *testing.T) {
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
		// A Next that waits already gets one more batch: this one.
		mustAdd(t, m, seg(tp, 2, 10, 19, 0, 10))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.Update(ctx, upd(md, finished))
		wantErr(t, "Update", err, remotelog.ErrOutcomeUnknown)
		wantErr(t, "Update", err, context.DeadlineExceeded)
		wantErr(t, "another write", m.Update(t.Context(), upd(md, delStarted)), remotelog.ErrOutcomeUnknown)
		again := make(chan error, 1)
		go func() { again <- m.Update(t.Context(), upd(md, finished)) }()
		settle()
		release()
		if err := <-again; err != nil {
			t.Errorf("the same again: %v, want nil", err)
		}
		mustUpdate(t, m, md, delStarted)
	})
}

func TestDoubt_OnStopAndCloseWakeEveryWaiter(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, d *doubtful){
		"OnStop": func(t *testing.T, d *doubtful) {
			if err := d.m.OnStop([]remotelog.TopicIDPartition{d.tp}); err != nil {
				t.Error(err)
			}
		},
		"Close": func(t *testing.T, d *doubtful) {
			if err := d.m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDoubtful(t)
				other := seg(d.tp, 2, 10, 19, 0, 10)
				mustAdd(t, d.m, other)
				d.log.OnAppend(memlogtest.UnknownNever)
				wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
				d.log.OnAppend(func(ctx context.Context, _ int32, _ []byte, _ func() (rlmm.Position, error)) (rlmm.Position, error) {
					<-ctx.Done() // on its way
					return rlmm.Position{}, errors.Join(remotelog.ErrOutcomeUnknown, ctx.Err())
				})
				kinds := map[string]error{}
				results := make(chan struct {
					name string
					err  error
				}, 3)
				ctx := context.Background() // no wait depends on the context alone
				start := func(name string, kind error, f func() error) {
					kinds[name] = kind
					go func() {
						results <- struct {
							name string
							err  error
						}{name, f()}
					}()
					settle()
				}
				closed := remotelog.ErrClosed
				if name == "OnStop" {
					closed = remotelog.ErrNotAssigned
				}
				start("joins one in doubt", remotelog.ErrOutcomeUnknown, func() error { return d.m.Update(ctx, upd(d.md, finished)) })
				start("on its way", remotelog.ErrOutcomeUnknown, func() error { return d.m.Update(ctx, upd(other, finished)) })
				start("waits behind", closed, func() error { return d.m.Update(ctx, upd(other, delStarted)) })
				end(t, d)
				for range kinds {
					r := <-results
					wantErr(t, r.name, r.err, kinds[r.name])
				}
			})
		})
	}
}

func TestDoubt_WriteBehindOneThatEndsInDoubtIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		wait, leave := hold()
		d.log.OnAppend(func(ctx context.Context, _ int32, _ []byte, _ func() (rlmm.Position, error)) (rlmm.Position, error) {
			return rlmm.Position{}, errors.Join(wait(ctx), remotelog.ErrOutcomeUnknown)
		})
		results := make(chan error, 2)
		go func() { results <- d.finish(t) }()
		settle()
		go func() { results <- d.m.Update(context.Background(), upd(d.md, delStarted)) }()
		settle()
		leave()
		for range 2 {
			wantErr(t, "Update", <-results, remotelog.ErrOutcomeUnknown)
		}
		if got := bounds(t, d.log, 0).Next; got != 1 {
			t.Errorf("the log ends at %d, want 1", got)
		}
	})
}

// What was in doubt when the partition was stopped is still in doubt when it is followed again.
func TestDoubt_OutlivesOnStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		hold, land := memlogtest.UnknownUntil()
		d.log.OnAppend(hold)
		wantErr(t, "Update", d.finish(t), remotelog.ErrOutcomeUnknown)
		d.log.OnAppend(nil)
		if err := d.m.OnStop([]remotelog.TopicIDPartition{d.tp}); err != nil {
			t.Fatal(err)
		}
		follow(t, d.m, d.tp)
		wantErr(t, "another write", d.m.Update(t.Context(), upd(d.md, delStarted)), remotelog.ErrOutcomeUnknown)
		land()
		settle()
		mustUpdate(t, d.m, d.md, delStarted)
		wantAt(t, d.m, d.tp, 0, 5, nil)
	})
}

func TestWrite_ErrorThatIsNotInDoubtLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDoubtful(t)
		d.log.OnAppend(func(context.Context, int32, []byte, func() (rlmm.Position, error)) (rlmm.Position, error) {
			return rlmm.Position{}, errDenied
		})
		err := d.finish(t)
		wantErr(t, "Update", err, errDenied)
		if errors.Is(err, remotelog.ErrOutcomeUnknown) {
			t.Errorf("%v is in doubt", err)
		}
		d.log.OnAppend(nil)
		mustUpdate(t, d.m, d.md, delStarted)
	})
}
