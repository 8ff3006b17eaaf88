package rlmm_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// Scenarios 213 to 226: records that end a real broker's metadata consumer, or surprise it. All are survived and counted.

type odd struct {
	log   *memlogtest.Log
	m     *rlmm.Manager
	tp    remotelog.TopicIDPartition
	drops []rlmm.DropReason
}

func newOdd(t *testing.T) *odd {
	t.Helper()
	o := &odd{log: memlogtest.New(1), tp: kafkaTopic(t, 0)}
	o.m = newManager(t, o.log, rlmm.Options{Hooks: rlmm.Hooks{Dropped: func(_ int32, _ int64, r rlmm.DropReason) { o.drops = append(o.drops, r) }}})
	follow(t, o.m, o.tp)
	return o
}

// put adds records as they are, and returns why each was dropped since the last put.
func (o *odd) put(t *testing.T, values ...[]byte) []rlmm.DropReason {
	t.Helper()
	for _, v := range values {
		if _, err := o.log.Put(0, nil, v); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	drops := o.drops
	o.drops = nil
	return drops
}

func (o *odd) states(t *testing.T) (out []remotelog.State) {
	t.Helper()
	for _, md := range list(t, o.m.Segments(t.Context(), o.tp)) {
		out = append(out, md.State)
	}
	return out
}

func (o *odd) want(t *testing.T, what string, drops, want []rlmm.DropReason, states ...remotelog.State) {
	t.Helper()
	if !slices.Equal(drops, want) {
		t.Errorf("%s: dropped as %v, want %v", what, drops, want)
	}
	if got := o.states(t); !slices.Equal(got, states) {
		t.Errorf("%s: states %v, want %v", what, got, states)
	}
}

func values(t *testing.T, md remotelog.SegmentMetadata) (s, f, ds, df []byte) {
	t.Helper()
	u := func(s remotelog.State) []byte { return mustEncode(t, &rlmm.UpdateRecord{Update: upd(md, s)}) }
	return mustEncode(t, &rlmm.SegmentRecord{Metadata: md}), u(finished), u(delStarted), u(delDone)
}

func deleteRecord(t *testing.T, tp remotelog.TopicIDPartition, s remotelog.DeleteState) []byte {
	t.Helper()
	return mustEncode(t, &rlmm.PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: tp, State: s}})
}

func TestScenario213To219_OddRecordsAreSkipped(t *testing.T) {
	type reasons = []rlmm.DropReason
	bubble(t, func(t *testing.T) {
		o := newOdd(t)
		md := seg(o.tp, 1, 0, 9, 0, 0)
		s, f, _, df := values(t, md)
		state := func(v []byte, at byte) []byte { c := bytes.Clone(v); c[len(c)-2] = at; return c }

		o.want(t, "213", o.put(t, nil, []byte{}, []byte{0xc3, 0x1f, 0x99}), reasons{rlmm.DropTombstone, rlmm.DropUndecodable, rlmm.DropUndecodable})
		o.want(t, "214", o.put(t, state(s, 1), state(s, 9)), reasons{rlmm.DropInvalidState, rlmm.DropInvalidState})
		o.want(t, "217", o.put(t, f), reasons{rlmm.DropUnknownSegment})
		o.want(t, "215", o.put(t, s, state(f, 0)), reasons{rlmm.DropInvalidTransition}, started)
		o.want(t, "218", o.put(t, df), reasons{rlmm.DropInvalidTransition}, started)
		o.want(t, "216", o.put(t, f, state(f, 0)), reasons{rlmm.DropInvalidTransition}, finished)
		bad := deleteRecord(t, o.tp, remotelog.DeletePartitionMarked)
		bad[len(bad)-2] = 7
		o.want(t, "219", o.put(t, bad), reasons{rlmm.DropInvalidState}, finished)
		st := status(t, o.m, 0)
		want := map[rlmm.DropReason]uint64{
			rlmm.DropTombstone: 1, rlmm.DropUndecodable: 2, rlmm.DropInvalidState: 3, rlmm.DropUnknownSegment: 1, rlmm.DropInvalidTransition: 3,
		}
		if d := cmp.Diff(want, st.Dropped); d != "" || st.Applied != 2 {
			t.Errorf("status: %d applied, dropped (-want +got):\n%s", st.Applied, d)
		}
	})
}

func TestScenario220_RecordsAfterThePartitionWasDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, replay := range map[string]bool{"live": false, "after replay": true} {
			o := newOdd(t)
			s, f, _, _ := values(t, seg(o.tp, 1, 0, 9, 0, 0))
			o.put(t, s, f, deleteRecord(t, o.tp, remotelog.DeletePartitionFinished))
			if replay {
				if err := o.m.OnStop([]remotelog.TopicIDPartition{o.tp}); err != nil {
					t.Fatal(err)
				}
				follow(t, o.m, o.tp)
			}
			if !o.m.IsReady(o.tp) {
				t.Errorf("%s: not ready", name)
			}
			for read, err := range everyRead(t.Context(), o.m, o.tp) {
				wantErr(t, name+": "+read, err, remotelog.ErrNotFound)
				if errors.Is(err, remotelog.ErrNotAssigned) {
					t.Errorf("%s: %s: %v, the partition is still assigned", name, read, err)
				}
			}
			if got := list(t, o.m.Partitions(t.Context())); len(got) != 1 {
				t.Errorf("%s: Partitions = %v, want it still there", name, got)
			}
			wantErr(t, name+": Add", o.m.Add(t.Context(), seg(o.tp, 2, 0, 9, 0, 0)), remotelog.ErrInvalidArgument)
			if got := o.put(t, f); !slices.Equal(got, []rlmm.DropReason{rlmm.DropUnknownSegment}) {
				t.Errorf("%s: F afterwards was dropped as %v", name, got)
			}
			if got := o.put(t, s); len(got) != 0 { // a foreign S starts it afresh
				t.Errorf("%s: S afterwards was dropped as %v", name, got)
			}
			wantIDs(t, name, list(t, o.m.Segments(t.Context(), o.tp)), seg(o.tp, 1, 0, 9, 0, 0))
			wantHighest(t, o.m, o.tp, 0, -1) // FINISHED emptied that, too
			mustAdd(t, o.m, seg(o.tp, 3, 10, 19, 0, 10), finished)
		}
	})
}

func TestScenario221_PartitionDeleteAsTheLastRecordOfTheReplay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, tp := memlogtest.New(1), kafkaTopic(t, 0)
		raw(t, log, &rlmm.SegmentRecord{Metadata: seg(tp, 1, 0, 9, 0, 0)})
		if _, err := log.Put(0, nil, deleteRecord(t, tp, remotelog.DeletePartitionFinished)); err != nil {
			t.Fatal(err)
		}
		m := newManager(t, log, rlmm.Options{})
		follow(t, m, tp)
		wantErr(t, "Segments", listErr(m.Segments(t.Context(), tp)), remotelog.ErrNotFound)
	})
}

func TestScenario222To226_OddRecordsAreSkipped(t *testing.T) {
	type reasons = []rlmm.DropReason
	bubble(t, func(t *testing.T) {
		o := newOdd(t)
		md := seg(o.tp, 1, 0, 9, 0, 0)
		s, f, _, _ := values(t, md)
		snap := md
		snap.TopicIDPartition = remotelog.TopicIDPartition{}
		o.want(t, "222", o.put(t, mustEncode(t, &rlmm.SnapshotRecord{Metadata: snap})), reasons{rlmm.DropSnapshotRecord})
		with := func(change func(*remotelog.SegmentMetadata)) []byte {
			bad := seg(o.tp, 2, 5, 9, 0, 5)
			change(&bad)
			return mustEncode(t, &rlmm.SegmentRecord{Metadata: bad})
		}
		o.want(t, "223", o.put(t, with(func(md *remotelog.SegmentMetadata) { md.EndOffset = 4 }), with(func(md *remotelog.SegmentMetadata) { md.StartOffset = -1 }),
			with(func(md *remotelog.SegmentMetadata) { md.LeaderEpochs = nil })), reasons{rlmm.DropInvalidSegment, rlmm.DropInvalidSegment, rlmm.DropInvalidSegment})
		other := md
		other.Topic = "renamed"
		bad := mustEncode(t, &rlmm.SegmentRecord{Metadata: other})
		good := bytes.Clone(bad)
		bad[len(bad)-2] = 9
		o.want(t, "224", o.put(t, good, bad), reasons{rlmm.DropInvalidState}) // the valid one is of another partition: ignored
		o.want(t, "225", o.put(t, s, f, s), reasons{rlmm.DropInvalidTransition}, finished)
		if _, err := o.log.Put(0, make([]byte, 37), mustEncode(t, &rlmm.SegmentRecord{Metadata: seg(o.tp, 3, 10, 19, 0, 10)})); err != nil {
			t.Fatal(err)
		}
		o.want(t, "226", o.put(t), nil, finished, started)
	})
}

// Foreign records of each kind are skipped and counted, every one, and each kind has one line in the log, however many come.
func TestOdd_EachKindHasOneLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o, said := &odd{log: memlogtest.New(1), tp: kafkaTopic(t, 0)}, &logLines{}
		o.m = newManager(t, o.log, rlmm.Options{Logger: said.logger()})
		follow(t, o.m, o.tp)
		md := seg(o.tp, 1, 0, 9, 0, 0)
		s, f, _, df := values(t, md)
		at := func(v []byte, i int, b byte) []byte { c := bytes.Clone(v); c[i] = b; return c }
		snap := md
		snap.TopicIDPartition = remotelog.TopicIDPartition{}
		upside := md
		upside.EndOffset = -1
		kinds := map[rlmm.DropReason][][]byte{ // what each is dropped for
			rlmm.DropTombstone:         {nil},
			rlmm.DropUndecodable:       {{}, at(s, 0, 2), at(s, 2, 1), s[:20], []byte("garbage")},
			rlmm.DropUnknownMessage:    {at(s, 1, 4)},
			rlmm.DropInvalidState:      {at(s, len(s)-2, 9)},
			rlmm.DropInvalidSegment:    {mustEncode(t, &rlmm.SegmentRecord{Metadata: upside})},
			rlmm.DropSnapshotRecord:    {mustEncode(t, &rlmm.SnapshotRecord{Metadata: snap})},
			rlmm.DropUnknownSegment:    {mustEncode(t, &rlmm.UpdateRecord{Update: upd(seg(o.tp, 9, 0, 9, 0, 0), finished)})},
			rlmm.DropInvalidTransition: {df},
		}
		o.put(t, s)
		const rounds = 3
		want := map[rlmm.DropReason]uint64{}
		for range rounds {
			for reason, vs := range kinds {
				o.put(t, vs...)
				want[reason] += uint64(len(vs))
			}
		}
		// A key as of KIP-1266 and tags that nobody knows are no reason to skip a record.
		tagged := &rlmm.SegmentRecord{Metadata: seg(o.tp, 2, 10, 19, 0, 10), Unknown: &rlmm.UnknownTags{Message: []rlmm.Tag{{ID: 9, Data: []byte("x")}}}}
		if _, err := o.log.Put(0, make([]byte, 37), mustEncode(t, tagged)); err != nil {
			t.Fatal(err)
		}
		o.put(t, f)
		if got := o.states(t); !slices.Equal(got, []remotelog.State{finished, started}) {
			t.Errorf("states %v, want those of the good records", got)
		}
		if d := cmp.Diff(want, status(t, o.m, 0).Dropped); d != "" {
			t.Errorf("dropped (-want +got):\n%s", d)
		}
		for reason := range kinds {
			if n, all := said.about("reason=" + reason.String() + " "); n != 1 {
				t.Errorf("%v: %d lines, want one:\n%s", reason, n, all)
			}
		}
	})
}

// Garbage between records of two managers: nothing is lost, and nothing crashes.
func TestOdd_GarbageBetweenRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOdd(t)
		rng := rand.New(rand.NewPCG(1, 1))
		var want []remotelog.SegmentMetadata
		for i := range 300 {
			md := seg(o.tp, i, int64(10*i), int64(10*i+9), 0, int64(10*i))
			want = append(want, md)
			s, f, _, _ := values(t, md)
			broken := bytes.Clone(s)
			for range 1 + rng.IntN(3) {
				broken[3+rng.IntN(len(broken)-3)] ^= byte(1 << rng.IntN(8)) // may be a valid record, but then of another segment or partition
			}
			if r, err := rlmm.Decode(broken); err == nil {
				if sr, ok := r.(*rlmm.SegmentRecord); ok && sr.Metadata.TopicIDPartition == o.tp {
					broken = broken[:len(broken)/2]
				}
			}
			o.put(t, broken, s, broken[:rng.IntN(len(broken))], f)
		}
		wantIDs(t, "Segments", list(t, o.m.Segments(t.Context(), o.tp)), want...)
	})
}

func TestScenario66_PartitionDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOdd(t)
		md := seg(o.tp, 1, 0, 100, 0, 0, 1, 20, 2, 50, 3, 80)
		mustAdd(t, o.m, md, finished)
		for _, s := range []remotelog.DeleteState{remotelog.DeletePartitionMarked, remotelog.DeletePartitionStarted} {
			if err := o.m.PutPartitionDelete(t.Context(), remotelog.PartitionDelete{TopicIDPartition: o.tp, State: s}); err != nil {
				t.Fatal(err)
			}
			wantAt(t, o.m, o.tp, 1, 30, &md)
		}
		o.put(t, deleteRecord(t, o.tp, remotelog.DeletePartitionFinished)) // our writer refuses it while there are segments
		_, _, err := o.m.Segment(t.Context(), o.tp, 1, 30)
		wantErr(t, "Segment", err, remotelog.ErrNotFound)
	})
}

func TestPutPartitionDelete_KeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, tp := memlogtest.New(1), kafkaTopic(t, 0)
		strict, m := newManager(t, log, rlmm.Options{}), newManager(t, log, rlmm.Options{PartitionDelete: true})
		for _, x := range []*rlmm.Manager{strict, m} {
			follow(t, x, tp)
		}
		md := seg(tp, 1, 0, 9, 0, 0)
		mustAdd(t, m, md, finished)
		put := func(m *rlmm.Manager, s remotelog.DeleteState) error {
			settle()
			return m.PutPartitionDelete(t.Context(), remotelog.PartitionDelete{TopicIDPartition: tp, State: s})
		}
		wantErr(t, "STARTED first", put(m, remotelog.DeletePartitionStarted), remotelog.ErrInvalidArgument)
		wantErr(t, "MARKED", put(m, remotelog.DeletePartitionMarked), nil)
		wantErr(t, "MARKED again", put(m, remotelog.DeletePartitionMarked), nil)
		wantErr(t, "FINISHED too early", put(m, remotelog.DeletePartitionFinished), remotelog.ErrInvalidArgument)
		wantErr(t, "STARTED", put(m, remotelog.DeletePartitionStarted), nil)
		wantErr(t, "MARKED after STARTED", put(m, remotelog.DeletePartitionMarked), remotelog.ErrInvalidArgument)
		wantErr(t, "FINISHED with segments", put(m, remotelog.DeletePartitionFinished), remotelog.ErrInvalidArgument)
		mustUpdate(t, m, md, delStarted)
		mustUpdate(t, m, md, delDone)
		wantErr(t, "FINISHED without the option", put(strict, remotelog.DeletePartitionFinished), remotelog.ErrInvalidArgument)
		wantErr(t, "FINISHED", put(m, remotelog.DeletePartitionFinished), nil)
		settle()
		for name, x := range map[string]*rlmm.Manager{"writer": m, "reader": strict} {
			wantErr(t, name+": Add", x.Add(t.Context(), seg(tp, 2, 0, 9, 0, 0)), remotelog.ErrInvalidArgument)
			wantErr(t, name+": Update", x.Update(t.Context(), upd(md, finished)), remotelog.ErrInvalidArgument)
			wantErr(t, name+": Segments", listErr(x.Segments(t.Context(), tp)), remotelog.ErrNotFound)
		}
	})
}

// A record behind DELETE_PARTITION_FINISHED would end a broker's consumer: nothing is published while FINISHED is on its way.
func TestPutPartitionDelete_ExcludesEveryOtherWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, tp := memlogtest.New(1), kafkaTopic(t, 0)
		m := newManager(t, log, rlmm.Options{PartitionDelete: true})
		follow(t, m, tp)
		put := func(s remotelog.DeleteState) error {
			return m.PutPartitionDelete(t.Context(), remotelog.PartitionDelete{TopicIDPartition: tp, State: s})
		}
		for _, s := range []remotelog.DeleteState{remotelog.DeletePartitionMarked, remotelog.DeletePartitionStarted} {
			wantErr(t, s.String(), put(s), nil)
		}
		wait, release := hold()
		log.OnAppend(func(ctx context.Context, _ int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
			if err := wait(ctx); err != nil {
				return rlmm.Position{}, err
			}
			return land()
		})
		deleted, added := make(chan error, 1), make(chan error, 1)
		go func() { deleted <- put(remotelog.DeletePartitionFinished) }()
		settle()
		go func() { added <- m.Add(t.Context(), seg(tp, 1, 0, 9, 0, 0)) }()
		settle()
		release()
		wantErr(t, "FINISHED", <-deleted, nil)
		wantErr(t, "Add", <-added, remotelog.ErrInvalidArgument)
		if got := bounds(t, log, 0).Next; got != 3 {
			t.Errorf("the log ends at %d, want 3: nothing behind FINISHED", got)
		}
	})
}

// The golden topics, as real brokers wrote them, replayed to their end: no record is dropped.
func TestGolden_TopicsReplayWithoutADrop(t *testing.T) {
	for _, version := range []string{"3.9.2", "4.4.0"} {
		log := memlogtest.New(5)
		n := 0
		for _, r := range goldenValues(t, version) {
			if _, err := log.Put(r.partition, nil, r.value); err != nil {
				t.Fatal(err)
			}
			n++
		}
		m := newManager(t, log, rlmm.Options{All: true})
		if err := m.WaitReady(within(t)); err != nil {
			t.Fatal(err)
		}
		var applied uint64
		for _, st := range m.Status().Partitions {
			applied += st.Applied
			if len(st.Dropped) > 0 {
				t.Errorf("%s: metadata partition %d dropped %v", version, st.Partition, st.Dropped)
			}
		}
		if applied != uint64(n) {
			t.Errorf("%s: %d of %d records applied", version, applied, n)
		}
		if len(list(t, m.Partitions(t.Context()))) < 2 {
			t.Errorf("%s: partitions %v", version, list(t, m.Partitions(t.Context())))
		}
	}
}
