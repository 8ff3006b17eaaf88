package rlmm

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/tierkit/tierkit/remotelog"
)

// cache is what the events of one partition add up to: Kafka's RemoteLogMetadataCache and RemoteLogLeaderEpochState (4.4) in
// their visible answers, and better ones where segments overlap: a finished segment that others
// hide from Kafka's look-up is still found, and every listing has it.
//
// Writes are exclusive, reads may run beside each other; the owner locks. A view taken by a read stays as it is.
type cache struct {
	tp     remotelog.TopicIDPartition
	byID   map[remotelog.UUID]*segment
	all    tree // every segment, in the order of Segments
	epochs map[int32]*epochState
	gen    atomic.Uint64 // of the trees; raised by a read that takes a view

	deletes deleteMark
}

// deleteMark is the delete state of a partition; the zero value is none.
type deleteMark struct {
	set   bool
	state remotelog.DeleteState
}

func (d deleteMark) finished() bool { return d.set && d.state == remotelog.DeletePartitionFinished }

// epochState is one leader epoch of a partition. It is never removed, and highest never decreases: both survive the segments.
type epochState struct {
	list       tree // every segment of the epoch, by start offset
	refs       tree // Kafka's offsetToId: the segments that its look-up sees, by their first offset in the epoch
	highest    int64
	hasHighest bool
	size       int64 // sum of the sizes of list
}

func newCache(tp remotelog.TopicIDPartition) *cache {
	return &cache{tp: tp, byID: map[remotelog.UUID]*segment{}, all: tree{tie: byEnd}, epochs: map[int32]*epochState{}}
}

func newEpochState(epoch int32) *epochState {
	return &epochState{
		list: tree{tie: byEndThenIDDown, weigh: func(s *segment) int64 {
			if s.state != remotelog.CopySegmentFinished {
				return math.MinInt64
			}
			return min(s.lastOf(epoch), s.end)
		}},
		refs: tree{tie: byKeyAlone},
	}
}

// add applies an event of api key 0. It returns 0 if it took effect, else why not.
func (c *cache) add(md *remotelog.SegmentMetadata) DropReason {
	if !md.State.CanBegin() {
		return DropInvalidState
	}
	old := c.byID[md.ID]
	if old != nil && !md.State.CanFollow(old.state) {
		return DropInvalidTransition
	}
	if c.deletes.finished() {
		c.deletes = deleteMark{} // the partition starts afresh
	}
	gen := c.gen.Load()
	if old != nil {
		// A second STARTED replaces the first one: it may have other offsets and epochs.
		c.unlist(gen, old)
	}
	s := newSegment(md)
	c.byID[s.id] = s
	c.all.put(gen, s.start, s)
	for _, e := range s.epochs {
		st := c.epochs[e.Epoch]
		if st == nil {
			st = newEpochState(e.Epoch)
			c.epochs[e.Epoch] = st
		}
		st.list.put(gen, s.start, s)
		st.size += int64(s.size)
	}
	return 0
}

// update applies an event of api key 1.
func (c *cache) update(u *remotelog.SegmentUpdate) DropReason {
	old := c.byID[u.ID]
	switch {
	case old == nil:
		return DropUnknownSegment
	case u.State == remotelog.CopySegmentStarted || !u.State.CanFollow(old.state):
		return DropInvalidTransition
	}
	gen := c.gen.Load()
	s := old.with(u)
	if s.state == remotelog.DeleteSegmentFinished {
		c.unlist(gen, old)
		delete(c.byID, s.id)
		return 0
	}
	c.byID[s.id] = s
	c.all.put(gen, s.start, s)
	for i, e := range s.epochs {
		st := c.epochs[e.Epoch]
		st.list.put(gen, s.start, s)
		if s.state == remotelog.CopySegmentFinished {
			st.finish(gen, s, e.StartOffset, s.epochEnd(i))
		} else {
			st.unreference(gen, s, e.StartOffset)
		}
	}
	return 0
}

// finish is RemoteLogLeaderEpochState.handleSegmentWithCopySegmentFinishedState: a segment that ends at or behind everything
// finished so far hides those that start at or behind its first offset.
func (st *epochState) finish(gen uint64, s *segment, first, last int64) {
	for it, ok := st.refs.root.last(); ok && it.key >= first && st.highest <= last; it, ok = st.refs.root.last() {
		st.refs.remove(gen, it.key, nil)
	}
	st.refs.put(gen, first, s)
	if !st.hasHighest || last > st.highest {
		st.highest, st.hasHighest = last, true
	}
}

func (st *epochState) unreference(gen uint64, s *segment, first int64) {
	if it, ok := st.refs.root.floor(first); ok && it.key == first && it.seg.id == s.id {
		st.refs.remove(gen, first, nil)
	}
}

// unlist takes a segment out of everything but byID.
func (c *cache) unlist(gen uint64, s *segment) {
	c.all.remove(gen, s.start, s)
	for _, e := range s.epochs {
		st := c.epochs[e.Epoch]
		st.list.remove(gen, s.start, s)
		st.size -= int64(s.size)
	}
}

// deletePartition applies an event of api key 2. FINISHED empties the partition, whatever came before (as brokers do); the other
// states are only remembered.
func (c *cache) deletePartition(d *remotelog.PartitionDelete) DropReason {
	if d.State == remotelog.DeletePartitionFinished {
		c.byID = map[remotelog.UUID]*segment{}
		c.all.root = nil
		c.epochs = map[int32]*epochState{}
		c.deletes = deleteMark{set: true, state: d.State}
		return 0
	}
	if c.deletes.set && !d.State.CanFollow(c.deletes.state) || !c.deletes.set && !d.State.CanBegin() {
		return DropInvalidTransition
	}
	c.deletes = deleteMark{set: true, state: d.State}
	return 0
}

// epochView is one epoch at one moment.
type epochView struct {
	epoch int32
	list  *node
	refs  *node
}

// epoch returns the epoch as it is now, for use under the owner's lock.
func (c *cache) epoch(epoch int32) epochView {
	st := c.epochs[epoch]
	if st == nil {
		return epochView{epoch: epoch}
	}
	return epochView{epoch: epoch, list: st.list.root, refs: st.refs.root}
}

// keepEpoch returns the epoch as it is now, for use after the owner's lock was given up.
func (c *cache) keepEpoch(epoch int32) epochView {
	c.gen.Add(1)
	return c.epoch(epoch)
}

// keepAll returns the segments as they are now, for use after the owner's lock was given up.
func (c *cache) keepAll() *node {
	c.gen.Add(1)
	return c.all.root
}

// lookup returns the finished segment that holds offset in the epoch: Kafka's answer; where that is none, the finished segment
// that contains the offset between its first and last offset in the epoch, with the greatest start offset. (A foreign record
// may give an epoch offsets that the segment does not have; those it does not contain.)
func (v epochView) lookup(offset int64) *segment {
	if it, ok := v.refs.floor(offset); ok {
		if offset <= it.seg.lastOf(v.epoch) {
			return it.seg
		}
	}
	return v.list.covering(offset, func(s *segment) bool {
		first, last, _ := s.within(v.epoch)
		return s.state == remotelog.CopySegmentFinished && first <= offset && offset <= min(last, s.end)
	})
}

// nextWithTxnIndex follows the chain of segments from offset on, at most steps of them, to the first one that may have a
// transaction index. done is false if it was not reached; then next is where to go on.
func (v epochView) nextWithTxnIndex(offset int64, steps int) (s *segment, next int64, done bool) {
	for range steps {
		s = v.lookup(offset)
		if s == nil || !s.txnEmpty {
			return s, 0, true
		}
		if s.end < offset || s.end == math.MaxInt64 {
			return nil, 0, true // the first: a foreign record whose epochs reach behind its end
		}
		offset = s.end + 1
	}
	return nil, offset, false
}

// segments yields the segments of the epoch in the order of MetadataReader.SegmentsOfEpoch.
func (v epochView) segments() iter.Seq[*segment] {
	return func(yield func(*segment) bool) {
		var run []*segment // those with equal starts; almost always one
		flush := func() bool {
			if len(run) > 1 {
				v.answersFirst(run)
			}
			for _, s := range run {
				if !yield(s) {
					return false
				}
			}
			run = run[:0]
			return true
		}
		more := v.list.walk(func(it item) bool {
			if len(run) > 0 && run[0].start != it.key && !flush() {
				return false
			}
			run = append(run, it.seg)
			return true
		})
		if more {
			flush()
		}
	}
}

// answersFirst sorts segments with equal starts: the one that lookup answers from, then the greater end offset, then the id.
func (v epochView) answersFirst(run []*segment) {
	referenced := func(s *segment) bool {
		first, _, _ := s.within(v.epoch)
		it, ok := v.refs.floor(first)
		return ok && it.key == first && it.seg.id == s.id
	}
	finished := func(s *segment) bool { return s.state == remotelog.CopySegmentFinished }
	slices.SortFunc(run, func(a, b *segment) int { return cmp.Or(cmp.Compare(b.end, a.end), a.id.Compare(b.id)) })
	first := slices.IndexFunc(run, referenced)
	if first < 0 {
		first = slices.IndexFunc(run, finished) // lookup falls back to the longest
	}
	if first > 0 {
		s := run[first]
		copy(run[1:first+1], run[:first])
		run[0] = s
	}
}
