package rlmm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// Scenario 71 and the rules of rlmm-extras: what is refused is never published.
func TestScenario71_WriteRefusedBeforePublishing(t *testing.T) {
	log := memlog.New(memlog.Options{})
	m := newManager(t, log, rlmm.Options{PartitionDelete: true})
	tp := kafkaTopic(t, 0)
	follow(t, m, tp)
	inState := map[remotelog.State]remotelog.SegmentMetadata{}
	for i, states := range [][]remotelog.State{{}, {finished}, {delStarted}, {delStarted, delDone}} {
		md := seg(tp, i, 0, 9, 0, 0)
		mustAdd(t, m, md, states...)
		inState[remotelog.State(i)] = md
	}
	unknown := seg(tp, 99, 0, 9, 0, 0)
	with := func(f func(*remotelog.SegmentMetadata)) remotelog.SegmentMetadata {
		md := seg(tp, 98, 0, 9, 0, 0)
		f(&md)
		return md
	}
	add := func(md remotelog.SegmentMetadata) func() error {
		return func() error { return m.Add(within(t), md) }
	}
	update := func(md remotelog.SegmentMetadata, s remotelog.State) func() error {
		return func() error { return m.Update(within(t), upd(md, s)) }
	}
	put := func(s remotelog.DeleteState) func() error {
		return func() error {
			return m.PutPartitionDelete(within(t), remotelog.PartitionDelete{TopicIDPartition: tp, State: s})
		}
	}
	many := with(func(md *remotelog.SegmentMetadata) {
		md.EndOffset, md.LeaderEpochs = math.MaxInt32, nil
		for e := range int32(80_000) { // 13 bytes each: more than an event holds
			md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: e, StartOffset: int64(e)})
		}
	})
	end := bounds(t, log, 0)
	for name, c := range map[string]struct {
		do   func() error
		kind error
	}{
		"Add in state F":              {add(with(func(md *remotelog.SegmentMetadata) { md.State = finished })), remotelog.ErrInvalidArgument},
		"Add of a known id, S":        {add(inState[started]), remotelog.ErrInvalidArgument},
		"Add of a known id, F":        {add(inState[finished]), remotelog.ErrInvalidArgument},
		"Add without epochs":          {add(with(func(md *remotelog.SegmentMetadata) { md.LeaderEpochs = nil })), remotelog.ErrInvalidArgument},
		"Add with an epoch elsewhere": {add(with(func(md *remotelog.SegmentMetadata) { md.StartOffset = 1 })), remotelog.ErrInvalidArgument},
		"Add of 2 GiB":                {add(with(func(md *remotelog.SegmentMetadata) { md.SizeBytes = math.MaxInt32 + 1 })), remotelog.ErrInvalidArgument},
		"Add of a negative start": {add(with(func(md *remotelog.SegmentMetadata) {
			md.StartOffset, md.LeaderEpochs = -1, []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: -1}}
		})), remotelog.ErrInvalidArgument},
		"Add of a big event": {add(many), remotelog.ErrInvalidArgument},
		"Update to S":        {update(inState[finished], started), remotelog.ErrInvalidArgument},
		"Update to 9":        {update(inState[finished], 9), remotelog.ErrInvalidArgument},
		"Update unknown, F":  {update(unknown, finished), remotelog.ErrNotFound}, // 22
		"Update unknown, DS": {update(unknown, delStarted), remotelog.ErrNotFound},
		"Update unknown, DF": {update(unknown, delDone), remotelog.ErrNotFound},
		"Update of DF":       {update(inState[delDone], delDone), remotelog.ErrNotFound},
		"S to DF":            {update(inState[started], delDone), remotelog.ErrInvalidArgument},
		"F to DF":            {update(inState[finished], delDone), remotelog.ErrInvalidArgument},
		"DS to F":            {update(inState[delStarted], finished), remotelog.ErrInvalidArgument},
		"partition STARTED":  {put(remotelog.DeletePartitionStarted), remotelog.ErrInvalidArgument},
		"partition FINISHED": {put(remotelog.DeletePartitionFinished), remotelog.ErrInvalidArgument},
		"partition state 7":  {put(7), remotelog.ErrInvalidArgument},
	} {
		wantErr(t, name, c.do(), c.kind)
	}
	if got := bounds(t, log, 0); got != end {
		t.Errorf("the log ends at %+v, want %+v: something was published", got, end)
	}
	for _, md := range []remotelog.SegmentMetadata{inState[finished], inState[delStarted]} { // self transitions are
		s := finished
		if md.ID == inState[delStarted].ID {
			s = delStarted
		}
		mustUpdate(t, m, md, s)
	}
}

func TestScenario19And21_ZeroValuesAreInvalidArgument(t *testing.T) {
	m := newManager(t, memlog.New(memlog.Options{}), rlmm.Options{})
	wantErr(t, "Add", m.Add(t.Context(), remotelog.SegmentMetadata{}), remotelog.ErrInvalidArgument)
	wantErr(t, "Update", m.Update(t.Context(), remotelog.SegmentUpdate{}), remotelog.ErrInvalidArgument)
}

func TestUpdate_DeleteRepeatsTheCustomMetadata(t *testing.T) {
	log := memlog.New(memlog.Options{})
	m := newManager(t, log, rlmm.Options{})
	tp := kafkaTopic(t, 0)
	follow(t, m, tp)
	for name, custom := range map[string]remotelog.CustomMetadata{"bytes": {1, 2}, "empty": {}, "none": nil} {
		md := seg(tp, len(name), 0, 9, 0, 0)
		mustAdd(t, m, md)
		u := upd(md, finished)
		u.CustomMetadata = custom
		if err := m.Update(within(t), u); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, m, md, delStarted)
		got := list(t, m.Segments(t.Context(), tp))[0].CustomMetadata
		if string(got) != string(custom) || (got == nil) != (custom == nil) {
			t.Errorf("%s: after DELETE_SEGMENT_STARTED %v, want %v", name, got, custom)
		}
		mustUpdate(t, m, md, delDone)
		last := lastRecord(t, log).(*rlmm.UpdateRecord).Update.CustomMetadata
		if string(last) != string(custom) || (last == nil) != (custom == nil) {
			t.Errorf("%s: DELETE_SEGMENT_FINISHED was published with %v, want %v", name, last, custom)
		}
	}
}

func lastRecord(t testing.TB, log rlmm.Log) rlmm.Record {
	t.Helper()
	f := log.Follow(map[int32]rlmm.Position{0: {Offset: bounds(t, log, 0).Next - 1, Epoch: -1}})
	defer f.Close()
	b, err := f.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := rlmm.Decode(b.Events[len(b.Events)-1].Value)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Two managers on one log, FINISHED by one against DELETE_SEGMENT_STARTED by the other: whoever was told nil has its state in
// the history of what both see in the end, and who was told ErrConflict has not.
func TestUpdate_TwoManagersOnOneLog(t *testing.T) {
	var conflicts, both int
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		log := memlogtest.New(1)
		log.OnAppend(func(ctx context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
			return land()
		})
		tp := kafkaTopic(t, 0)
		ms := []*rlmm.Manager{mustNew(t, log), mustNew(t, log)}
		for _, m := range ms {
			follow(t, m, tp)
		}
		md := seg(tp, 1, 0, 9, 0, 0)
		mustAdd(t, ms[rng.IntN(2)], md)
		for _, m := range ms {
			seen(t, m, tp, 1)
		}
		want := []remotelog.State{finished, delStarted}
		if rng.IntN(2) == 0 {
			want[0], want[1] = want[1], want[0]
		}
		errs := [2]error{}
		var wg sync.WaitGroup
		for i, m := range ms {
			spin := rng.IntN(2000)
			wg.Go(func() {
				for range spin { // shifts which one is first
					_ = m.IsReady(tp)
				}
				errs[i] = m.Update(within(t), upd(md, want[i]))
			})
		}
		wg.Wait()
		history := appliedStates(t, log, md)
		for i, err := range errs {
			switch has := history[want[i]]; {
			case err == nil && !has, errors.Is(err, remotelog.ErrConflict) && has:
				t.Fatalf("seed %d: %v was told %v, the history has %v", seed, want[i], err, history)
			case err != nil && !errors.Is(err, remotelog.ErrConflict) && !errors.Is(err, remotelog.ErrInvalidArgument):
				t.Fatalf("seed %d: %v: %v", seed, want[i], err)
			case errors.Is(err, remotelog.ErrConflict):
				conflicts++
				if !strings.Contains(err.Error(), delStarted.String()) {
					t.Fatalf("seed %d: %q does not name the state found", seed, err)
				}
			}
		}
		if errs[0] == nil && errs[1] == nil {
			both++
		}
		for _, m := range ms {
			if err := m.Close(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d conflicts, both applied %d times", conflicts, both)
	if both == 0 {
		t.Error("F never came before DS")
	}
}

func mustNew(t testing.TB, log rlmm.Log) *rlmm.Manager {
	t.Helper()
	m, err := rlmm.New(log, rlmm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// seen waits until m lists n segments.
func seen(t testing.TB, m *rlmm.Manager, tp remotelog.TopicIDPartition, n int) {
	t.Helper()
	for ctx := within(t); len(list(t, m.Segments(ctx, tp))) < n; {
		runtime.Gosched()
	}
}

// appliedStates replays the log by the state machine alone.
func appliedStates(t testing.TB, log rlmm.Log, md remotelog.SegmentMetadata) map[remotelog.State]bool {
	t.Helper()
	f := log.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer f.Close()
	history, now := map[remotelog.State]bool{}, remotelog.State(-1)
	for next, end := int64(0), bounds(t, log, 0).Next; next < end; {
		b, err := f.Next(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range b.Events {
			r, err := rlmm.Decode(ev.Value)
			if err != nil {
				t.Fatal(err)
			}
			to := remotelog.CopySegmentStarted
			if u, ok := r.(*rlmm.UpdateRecord); ok {
				to = u.Update.State
			}
			if now < 0 && to.CanBegin() || to.CanFollow(now) {
				now, history[to] = to, true
			}
			next = ev.Offset + 1
		}
	}
	return history
}

// The conflict of the test above, made certain: the other manager's event is in the log, and not read yet, when ours is appended.
func TestUpdate_ConflictNamesTheStateFound(t *testing.T) {
	for name, c := range map[string]struct {
		ours  remotelog.State
		other []remotelog.State
		found string
	}{
		"F against DS":         {finished, []remotelog.State{delStarted}, delStarted.String()},
		"F against DS and DF":  {finished, []remotelog.State{delStarted, delDone}, "unknown"},
		"DS against DS and DF": {delStarted, []remotelog.State{delStarted, delDone}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			log := memlogtest.New(1)
			m := newManager(t, log, rlmm.Options{})
			tp := kafkaTopic(t, 0)
			follow(t, m, tp)
			md := seg(tp, 1, 0, 9, 0, 0)
			mustAdd(t, m, md)
			log.OnAppend(func(_ context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
				for _, s := range c.other {
					if _, err := log.Put(0, nil, mustEncode(t, &rlmm.UpdateRecord{Update: upd(md, s)})); err != nil {
						return rlmm.Position{}, err
					}
				}
				return land()
			})
			u := upd(md, c.ours)
			u.BrokerID = 9 // not the bytes of the other one
			err := m.Update(within(t), u)
			wantErr(t, "Update", err, remotelog.ErrConflict)
			if err != nil && !strings.Contains(err.Error(), c.found) {
				t.Errorf("%q does not name %q", err, c.found)
			}
		})
	}
}

// An event with the same bytes that another manager wrote is not ours.
func TestUpdate_TheSameBytesByAnotherWriterAreNotTaken(t *testing.T) {
	for _, others := range []int{1, 20} {
		bubble(t, func(t *testing.T) {
			log := memlogtest.New(1)
			m := newManager(t, log, rlmm.Options{})
			tp := kafkaTopic(t, 0)
			follow(t, m, tp)
			md := seg(tp, 1, 0, 9, 0, 0)
			mustAdd(t, m, md, delStarted)
			log.OnAppend(func(_ context.Context, _ int32, ev []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
				for range others {
					if _, err := log.Put(0, nil, ev); err != nil {
						return rlmm.Position{}, err
					}
				}
				settle() // they have been read
				pos, err := land()
				settle()
				return pos, err
			})
			// The first of them deletes the segment; ours finds it gone.
			wantErr(t, "Update", m.Update(within(t), upd(md, delDone)), remotelog.ErrConflict)
		})
	}
}

func TestWrite_OneAtATimePerSegment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log := memlogtest.New(1)
		m := newManager(t, log, rlmm.Options{PartitionDelete: true})
		tp := kafkaTopic(t, 0)
		follow(t, m, tp)
		a, b := seg(tp, 1, 0, 9, 0, 0), seg(tp, 2, 10, 19, 0, 10)
		mustAdd(t, m, a)
		mustAdd(t, m, b)
		wait, release := hold()
		var appends atomic.Int32
		held := true
		log.OnAppend(func(ctx context.Context, _ int32, ev []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
			appends.Add(1)
			if r, err := rlmm.Decode(ev); err == nil && held && strings.Contains(r.String(), a.ID.String()) {
				if err := wait(ctx); err != nil {
					return rlmm.Position{}, err
				}
			}
			return land()
		})
		results := make(chan error, 3)
		go func() { results <- m.Update(t.Context(), upd(a, finished)) }()
		settle()
		go func() { results <- m.Update(t.Context(), upd(a, delStarted)) }()
		go func() {
			results <- m.PutPartitionDelete(t.Context(), remotelog.PartitionDelete{TopicIDPartition: tp, State: remotelog.DeletePartitionMarked})
		}()
		settle()
		if n := appends.Load(); n != 1 {
			t.Errorf("%d events on their way, want the first alone", n)
		}
		mustUpdate(t, m, b, finished) // another segment is not held up
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, "one that waits", m.Update(ctx, upd(a, finished)), context.DeadlineExceeded)
		release()
		for range 3 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if got := list(t, m.Segments(t.Context(), tp))[0].State; got != delStarted {
			t.Errorf("state %v, want %v", got, delStarted)
		}
	})
}

func TestHooks_AreCalledOffLocks(t *testing.T) {
	log := memlog.New(memlog.Options{})
	tp := kafkaTopic(t, 0)
	var m *rlmm.Manager
	var applied, dropped, wrote atomic.Int32
	inside := func() {
		if m != nil {
			_ = m.Status()
			_, _, _ = m.Segment(context.Background(), tp, 0, 0)
			_ = m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil)
		}
	}
	m, err := rlmm.New(log, rlmm.Options{Hooks: rlmm.Hooks{
		Applied: func(_ int32, n int) { applied.Add(int32(n)); inside() },
		Dropped: func(_ int32, _ int64, _ rlmm.DropReason) { dropped.Add(1); inside() },
		Wrote:   func(time.Duration, error) { wrote.Add(1); inside() },
	}})
	if err != nil {
		t.Fatal(err)
	}
	follow(t, m, tp)
	md := seg(tp, 1, 0, 9, 0, 0)
	mustAdd(t, m, md)
	raw(t, log, &rlmm.UpdateRecord{Update: upd(seg(tp, 2, 0, 9, 0, 0), finished)})
	mustUpdate(t, m, md, finished)
	wantErr(t, "Update", m.Update(within(t), upd(md, delDone)), remotelog.ErrInvalidArgument)
	if err := m.Close(within(t)); err != nil { // a write may return before the hooks have run
		t.Error(err)
	}
	if a, d, w := applied.Load(), dropped.Load(), wrote.Load(); a != 2 || d != 1 || w != 3 {
		t.Errorf("%d applied, %d dropped, %d wrote, want 2, 1, 3", a, d, w)
	}
}

// Many writers on one manager and one reader behind: everything told nil is there.
func TestWrite_ManyWriters(t *testing.T) {
	log := memlog.New(memlog.Options{Partitions: 5})
	m := newManager(t, log, rlmm.Options{})
	var ps []remotelog.TopicIDPartition
	for p := range int32(8) {
		ps = append(ps, kafkaTopic(t, p))
	}
	follow(t, m, ps...)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				tp := ps[(w+i)%len(ps)]
				md := seg(tp, 1000*w+i, int64(10*i), int64(10*i+9), 0, int64(10*i))
				err := m.Add(within(t), md)
				for s := finished; err == nil && s <= delDone && (i%2 == 0 || s == finished); s++ {
					err = m.Update(within(t), upd(md, s))
				}
				if err != nil {
					errs <- fmt.Errorf("writer %d, segment %d: %w", w, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	fresh := newManager(t, log, rlmm.Options{})
	follow(t, fresh, ps...)
	total := 0
	for _, tp := range ps {
		got := list(t, fresh.Segments(t.Context(), tp))
		total += len(got)
		wantIDs(t, tp.String(), list(t, m.Segments(t.Context(), tp)), got...)
	}
	if total != 400 {
		t.Errorf("%d segments, want 400", total)
	}
}
