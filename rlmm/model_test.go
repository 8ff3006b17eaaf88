package rlmm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

// kafkaModel is the cache of Kafka by the rules of RemoteLogMetadataCache 4.4, done naively.
type kafkaModel struct {
	byID   map[remotelog.UUID]remotelog.SegmentMetadata
	epochs map[int32]*kafkaEpoch
}

type kafkaEpoch struct {
	byOffset map[int64]remotelog.UUID
	highest  int64
	has      bool
}

func newKafkaModel() *kafkaModel {
	return &kafkaModel{byID: map[remotelog.UUID]remotelog.SegmentMetadata{}, epochs: map[int32]*kafkaEpoch{}}
}

// endIn is the last offset of an epoch in a segment.
func endIn(md remotelog.SegmentMetadata, epoch int32) (first, last int64, ok bool) {
	for i, e := range md.LeaderEpochs {
		if e.Epoch == epoch {
			return e.StartOffset, md.EpochEnd(i), true
		}
	}
	return 0, 0, false
}

func (k *kafkaModel) add(md remotelog.SegmentMetadata) bool {
	if old, ok := k.byID[md.ID]; md.State != remotelog.CopySegmentStarted || ok && old.State != remotelog.CopySegmentStarted {
		return false
	}
	k.byID[md.ID] = md
	for _, e := range md.LeaderEpochs {
		if k.epochs[e.Epoch] == nil {
			k.epochs[e.Epoch] = &kafkaEpoch{byOffset: map[int64]remotelog.UUID{}}
		}
	}
	return true
}

func (k *kafkaModel) update(u remotelog.SegmentUpdate) bool {
	md, ok := k.byID[u.ID]
	if !ok || u.State == remotelog.CopySegmentStarted || !u.State.CanFollow(md.State) {
		return false
	}
	md.State, md.CustomMetadata, md.BrokerID, md.EventTimestampMs = u.State, u.CustomMetadata, u.BrokerID, u.EventTimestampMs
	k.byID[u.ID] = md
	for i, e := range md.LeaderEpochs {
		st, last := k.epochs[e.Epoch], md.EpochEnd(i)
		switch u.State {
		case remotelog.CopySegmentFinished:
			for len(st.byOffset) > 0 {
				key := slices.Max(slices.Collect(maps.Keys(st.byOffset)))
				if key < e.StartOffset || st.highest > last {
					break
				}
				delete(st.byOffset, key)
			}
			st.byOffset[e.StartOffset] = md.ID
			if !st.has || last > st.highest {
				st.highest, st.has = last, true
			}
		case remotelog.DeleteSegmentStarted:
			if st.byOffset[e.StartOffset] == md.ID {
				delete(st.byOffset, e.StartOffset)
			}
		default:
		}
	}
	if u.State == remotelog.DeleteSegmentFinished {
		delete(k.byID, u.ID)
	}
	return true
}

// lookup is Kafka's answer.
func (k *kafkaModel) lookup(epoch int32, offset int64) (remotelog.SegmentMetadata, bool) {
	st := k.epochs[epoch]
	if st == nil {
		return remotelog.SegmentMetadata{}, false
	}
	var best *int64
	for key := range st.byOffset {
		if key <= offset && (best == nil || key > *best) {
			best = &key
		}
	}
	if best == nil {
		return remotelog.SegmentMetadata{}, false
	}
	md := k.byID[st.byOffset[*best]]
	_, last, _ := endIn(md, epoch)
	return md, offset <= last
}

// covering is the answer where Kafka's is none.
func (k *kafkaModel) covering(epoch int32, offset int64) (best remotelog.SegmentMetadata, ok bool) {
	for _, md := range k.byID {
		first, last, in := endIn(md, epoch)
		if !in || md.State != remotelog.CopySegmentFinished || offset < max(first, md.StartOffset) || offset > min(last, md.EndOffset) {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(best.StartOffset, md.StartOffset), cmp.Compare(best.EndOffset, md.EndOffset), md.ID.Compare(best.ID)) < 0 {
			best, ok = md, true
		}
	}
	return best, ok
}

// listEpoch is the listing that remotelog.MetadataReader promises.
func (k *kafkaModel) listEpoch(epoch int32) (out []remotelog.UUID) {
	var mds []remotelog.SegmentMetadata
	for _, md := range k.byID {
		if _, _, ok := endIn(md, epoch); ok {
			mds = append(mds, md)
		}
	}
	// Of those with equal starts the one that lookup answers from: the one that Kafka refers to, else the longest finished one.
	answers := map[int64]remotelog.SegmentMetadata{}
	slices.SortFunc(mds, func(a, b remotelog.SegmentMetadata) int {
		return cmp.Or(cmp.Compare(a.StartOffset, b.StartOffset), cmp.Compare(b.EndOffset, a.EndOffset), a.ID.Compare(b.ID))
	})
	for _, kafka := range []bool{true, false} {
		for _, md := range mds {
			first, _, _ := endIn(md, epoch)
			id, ok := k.epochs[epoch].byOffset[first]
			if _, have := answers[md.StartOffset]; !have && (kafka && ok && id == md.ID || !kafka && md.State == remotelog.CopySegmentFinished) {
				answers[md.StartOffset] = md
			}
		}
	}
	other := func(md remotelog.SegmentMetadata) int {
		if a, ok := answers[md.StartOffset]; ok && a.ID == md.ID {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(mds, func(a, b remotelog.SegmentMetadata) int {
		return cmp.Or(cmp.Compare(a.StartOffset, b.StartOffset), other(a)-other(b))
	})
	for _, md := range mds {
		out = append(out, md.ID)
	}
	return out
}

// compare checks every public answer of the cache at the borders of all segments and beside them. strict: Kafka's answer alone.
func (k *kafkaModel) compare(c *cache, strict bool) error {
	offsets := map[int64]bool{-1: true, 0: true}
	for _, md := range k.byID {
		for i, e := range md.LeaderEpochs {
			for _, o := range []int64{e.StartOffset, md.EpochEnd(i), md.StartOffset, md.EndOffset} {
				offsets[o-1], offsets[o], offsets[o+1] = true, true, true
			}
		}
	}
	for epoch := int32(-1); epoch < 8; epoch++ {
		v := c.epoch(epoch)
		for o := range offsets {
			want, ok := k.lookup(epoch, o)
			if !ok && !strict {
				want, ok = k.covering(epoch, o)
			}
			got := v.lookup(o)
			if (got != nil) != ok || ok && (got.id != want.ID || got.eventTs != want.EventTimestampMs) {
				return fmt.Errorf("epoch %d, offset %d: got %+v, want %+v (%v)", epoch, o, got, want, ok)
			}
		}
		var got []remotelog.UUID
		for s := range v.segments() {
			got = append(got, s.id)
		}
		if want := k.listEpoch(epoch); !slices.Equal(got, want) {
			return fmt.Errorf("listing of epoch %d: got %v, want %v", epoch, got, want)
		}
		st, ref := c.epochs[epoch], k.epochs[epoch]
		if (st != nil && st.hasHighest) != (ref != nil && ref.has) || ref != nil && ref.has && st.highest != ref.highest {
			return fmt.Errorf("highest of epoch %d: got %+v, want %+v", epoch, st, ref)
		}
		var size int64
		for _, id := range k.listEpoch(epoch) {
			size += k.byID[id].SizeBytes
		}
		if st != nil && st.size != size {
			return fmt.Errorf("size of epoch %d: got %d, want %d", epoch, st.size, size)
		}
	}
	all := slices.SortedFunc(maps.Values(k.byID), func(a, b remotelog.SegmentMetadata) int { return a.Compare(&b) })
	var got []remotelog.SegmentMetadata
	c.all.root.walk(func(it item) bool { got = append(got, it.seg.metadata(c.tp)); return true })
	if !reflect.DeepEqual(all, got) {
		return fmt.Errorf("listing of all (-want +got):\n%s", gocmp.Diff(all, got))
	}
	return nil
}

// modelRun applies the same events to both.
type modelRun struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	c      *cache
	k      *kafkaModel
	n      uint64
	strict bool
	events int
}

func newModelRun(t *testing.T, seed uint64, strict bool) *modelRun {
	tp := testPartition("orders", 0)
	return &modelRun{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), c: newCache(tp), k: newKafkaModel(), strict: strict}
}

func (r *modelRun) add(md remotelog.SegmentMetadata) {
	got, want := r.c.add(&md), r.k.add(md)
	r.done(got == 0, want, fmt.Sprintf("add %+v", md))
}

func (r *modelRun) update(id remotelog.UUID, s remotelog.State) {
	r.n++
	u := remotelog.SegmentUpdate{SegmentID: remotelog.SegmentID{TopicIDPartition: r.c.tp, ID: id}, State: s, EventTimestampMs: int64(r.n), BrokerID: int32(r.n % 3)}
	if r.n%2 == 0 {
		u.CustomMetadata = remotelog.CustomMetadata{byte(r.n)}
	}
	got, want := r.c.update(&u), r.k.update(u)
	r.done(got == 0, want, fmt.Sprintf("update %+v", u))
}

func (r *modelRun) done(got, want bool, what string) {
	r.events++
	if got != want {
		r.t.Fatalf("seed %d: %s: applied %v, want %v", r.seed, what, got, want)
	}
	if r.rng.IntN(8) == 0 {
		r.check()
	}
}

func (r *modelRun) check() {
	if err := r.k.compare(r.c, r.strict); err != nil {
		r.t.Fatalf("seed %d after %d events: %v", r.seed, r.events, err)
	}
	for _, st := range r.c.epochs {
		st.list.check(r.t)
		st.refs.check(r.t)
	}
}

func (r *modelRun) segment(start, end int64, epochs []remotelog.LeaderEpoch) remotelog.SegmentMetadata {
	r.n++
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: r.c.tp}, StartOffset: start, EndOffset: end, LeaderEpochs: epochs,
		SizeBytes: r.rng.Int64N(1000), TxnIndexEmpty: r.rng.IntN(2) == 0,
	}
	binary.BigEndian.PutUint64(md.ID[:], r.rng.Uint64())
	binary.BigEndian.PutUint64(md.ID[8:], r.n)
	return md
}

// TestModel_WellFormedHistoriesHaveKafkasAnswers: contiguous segments; after a leader change some are copied again as a part of
// a longer one, and the shorter ones are deleted before the longer one is. Every answer is Kafka's.
func TestModel_WellFormedHistoriesHaveKafkasAnswers(t *testing.T) {
	for seed := range uint64(modelSeeds(1500)) {
		r := newModelRun(t, seed, true)
		var lineage []remotelog.LeaderEpoch // of the log
		within := func(start, end int64) (es []remotelog.LeaderEpoch) {
			for i, e := range lineage {
				last := end
				if i+1 < len(lineage) {
					last = min(last, lineage[i+1].StartOffset-1)
				}
				if first := max(start, e.StartOffset); first <= last {
					es = append(es, remotelog.LeaderEpoch{Epoch: e.Epoch, StartOffset: first})
				}
			}
			return es
		}
		var kept, hidden []remotelog.SegmentMetadata // finished: in the chain, and those that a longer one hides
		next, epoch := int64(0), int32(0)
		lineage = append(lineage, remotelog.LeaderEpoch{})
		for range 25 {
			switch x := r.rng.IntN(10); {
			case x < 2 && epoch < 6 && next > lineage[len(lineage)-1].StartOffset: // leader change
				epoch += 1 + int32(r.rng.IntN(2))
				lineage = append(lineage, remotelog.LeaderEpoch{Epoch: epoch, StartOffset: next})
			case x < 3: // a copy that failed
				end := next + r.rng.Int64N(20)
				md := r.segment(next, end, within(next, end))
				r.add(md)
				r.update(md.ID, remotelog.DeleteSegmentStarted)
				r.update(md.ID, remotelog.DeleteSegmentFinished)
			case x < 4 && len(kept) > 0: // the new leader copies the last segments again, as one that goes further
				from := len(kept) - 1 - r.rng.IntN(min(3, len(kept)))
				start := kept[from].StartOffset
				next += r.rng.Int64N(20)
				md := r.segment(start, next-1, nil)
				md.EndOffset = max(md.EndOffset, kept[len(kept)-1].EndOffset)
				next = md.EndOffset + 1
				md.LeaderEpochs = within(start, md.EndOffset)
				r.add(md)
				r.update(md.ID, remotelog.CopySegmentFinished)
				hidden = append(hidden, kept[from:]...)
				kept = append(kept[:from:from], md)
			case x < 6 && len(hidden)+len(kept) > 0: // retention
				var md remotelog.SegmentMetadata
				if len(hidden) > 0 {
					md, hidden = hidden[0], hidden[1:]
				} else {
					md, kept = kept[0], kept[1:]
				}
				r.update(md.ID, remotelog.DeleteSegmentStarted)
				r.update(md.ID, remotelog.DeleteSegmentFinished)
			case x < 7 && len(kept) > 0: // delivered twice
				r.update(kept[r.rng.IntN(len(kept))].ID, remotelog.CopySegmentFinished)
			default:
				end := next + r.rng.Int64N(20)
				md := r.segment(next, end, within(next, end))
				r.add(md)
				r.update(md.ID, remotelog.CopySegmentFinished)
				kept, next = append(kept, md), end+1
			}
		}
		r.check()
	}
}

// TestModel_AnyHistory: overlapping segments, epochs that contradict the segment, invalid events. Where Kafka finds nothing, the
// covering segment is found; listings have everything.
func TestModel_AnyHistory(t *testing.T) {
	differs := 0
	for seed := range uint64(modelSeeds(1000)) {
		r := newModelRun(t, seed, false)
		r.anyHistory()
		r.check()
		for epoch := range int32(4) {
			for o := range int64(60) {
				_, kafka := r.k.lookup(epoch, o)
				if _, ours := r.k.covering(epoch, o); ours && !kafka {
					differs++
				}
			}
		}
	}
	if differs < modelSeeds(1000) {
		t.Errorf("Kafka's answer was none where ours is not %d times: the histories show nothing", differs)
	}
}

// anyHistory applies events at random.
func (r *modelRun) anyHistory() {
	var known []remotelog.SegmentMetadata
	for range 40 {
		if len(known) > 0 && r.rng.IntN(3) > 0 {
			md := known[r.rng.IntN(len(known))]
			if r.rng.IntN(12) == 0 { // a second event of api key 0, with other offsets
				again := r.anySegment()
				again.SegmentID = md.SegmentID
				r.add(again)
				continue
			}
			s := remotelog.CopySegmentFinished
			if r.rng.IntN(3) == 0 {
				s = remotelog.State(r.rng.IntN(4))
			}
			r.update(md.ID, s)
			continue
		}
		md := r.anySegment()
		known = append(known, md)
		r.add(md)
	}
}

func (r *modelRun) anySegment() remotelog.SegmentMetadata {
	start := r.rng.Int64N(50)
	end := start + r.rng.Int64N(30)
	es := []remotelog.LeaderEpoch{{Epoch: int32(r.rng.IntN(3)), StartOffset: start}}
	for range r.rng.IntN(3) {
		e := es[len(es)-1]
		o := e.StartOffset + r.rng.Int64N(15)
		if r.rng.IntN(8) == 0 {
			o = r.rng.Int64N(90)
		}
		es = append(es, remotelog.LeaderEpoch{Epoch: e.Epoch + 1 + int32(r.rng.IntN(2)), StartOffset: o})
	}
	return r.segment(start, end, es)
}

func modelSeeds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return need.Times(n/4, n)
}
