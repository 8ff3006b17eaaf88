package rlmm

import (
	"sync"

	"github.com/tierkit/tierkit/remotelog"
)

// stream is one way of reading a metadata partition: the live one, or the load that brings a partition added later up to it.
type stream struct {
	on   bool
	gen  uint64 // raised at every start and stop, so that a reader notices one that stopped and started again
	next Position
}

func (s *stream) start(at Position) { s.on, s.next, s.gen = true, at, s.gen+1 }

func (s *stream) stop() {
	if s.on {
		s.on, s.gen = false, s.gen+1
	}
}

// metaPartition is what the manager knows of one partition of the log. Its mutex orders everything that moves the partitions
// on it: events, hand-over, assignment, and the begin and end of writes. It is held for a few events at a time and never for I/O.
// Lock order: Manager.assigning, metaPartition.mu, then Manager.mu or partition.mu.
type metaPartition struct {
	index int32
	all   bool // Options.All

	mu    sync.Mutex
	users map[remotelog.TopicIDPartition]*partition
	live  stream
	load  stream
	fresh bool // the live stream has not had an event since it started: partitions added now miss nothing
	ask   bool // the bounds are to be asked for

	restored *restored // from the snapshot, to begin with; nil: nothing
	began    bool      // the snapshot has been looked at
	resets   uint64    // how often a truncation made it forget everything

	// target is the end of the log when following began, -1 while it is not known; it counts for Options.All and for people.
	target  int64
	ready   bool // the live stream has reached target
	unready int  // partitions that are not ready
	cause   error

	writes map[remotelog.SegmentID]*write
	doubts int    // writes that are in doubt
	writeN uint64 // number of the last write that began

	applied     uint64
	dropped     [dropReasons]uint64
	lost        uint64
	lastEventMs int64
}

func newMetaPartition(index int32, all bool) *metaPartition {
	return &metaPartition{
		index: index, all: all, users: map[remotelog.TopicIDPartition]*partition{}, target: -1,
		writes: map[remotelog.SegmentID]*write{}, lastEventMs: -1, ask: all,
	}
}

// partition is one user partition that is followed. The fields of the first group belong to metaPartition.mu.
type partition struct {
	tp   remotelog.TopicIDPartition
	meta *metaPartition

	loading  bool  // the live stream passes it over: a load has to reach the live stream first
	inLoad   bool  // the load that runs is for it
	target   int64 // ready when read to here, -1 while not known
	asking   bool  // the answer to come tells its target
	explicit bool  // it was assigned, not only mentioned
	listed   bool  // Partitions lists it
	named    bool  // the log names it
	from     int64 // events below are in the cache already, by the snapshot

	asked  chan struct{} // closed when the target was asked for once
	askErr error         // valid after asked

	life life // ends when it is stopped or the manager closed

	mu    sync.RWMutex
	cache *cache
	ready bool
}

func newPartition(l life, tp remotelog.TopicIDPartition, mp *metaPartition) *partition {
	return &partition{tp: tp, meta: mp, target: -1, asked: make(chan struct{}), life: l, cache: newCache(tp)}
}

// next returns how far u has been read, -1 if reading has not begun.
func (u *partition) next() int64 {
	mp := u.meta
	switch {
	case u.loading && u.inLoad && mp.load.on:
		return mp.load.next.Offset
	case !u.loading && mp.live.on:
		return mp.live.next.Offset
	default:
		return -1
	}
}

// The methods below need mp.mu. They return whether somebody who waits for readiness should look again.

// add takes u in. Everything that the live stream has passed is loaded again for it.
func (mp *metaPartition) add(u *partition) {
	mp.users[u.tp] = u
	mp.unready++
	u.loading = mp.live.on && !mp.fresh && !mp.all
	mp.ask = true
}

// remove lets u go, and the streams with the last one that needs them.
func (mp *metaPartition) remove(u *partition) {
	delete(mp.users, u.tp)
	if !u.isReady() {
		mp.unready--
	}
	if u.inLoad {
		mp.endLoadIfUnused()
	}
	for _, w := range mp.writes {
		if w.id.TopicIDPartition == u.tp && w.doubt && w.end != 0 {
			mp.resolve(w, errStopped(u.tp)) // in the log; whoever follows the partition next reads it before it is ready
		}
	}
	if len(mp.users) == 0 && !mp.all {
		mp.live.stop()
		mp.load.stop()
		mp.target, mp.ready, mp.cause, mp.ask, mp.restored = -1, false, nil, false, nil
	}
}

func (u *partition) isReady() bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.ready
}

// begin takes the answer of the log and starts the streams that wait for one.
func (mp *metaPartition) begin(b Bounds) (changed bool) {
	mp.cause = nil
	if !mp.live.on && (mp.all || len(mp.users) > 0) {
		mp.live.start(Position{Offset: b.First, Epoch: -1})
		mp.fresh = true
		changed = true
	}
	switch {
	case mp.target < 0:
		mp.target = b.Next
	case !mp.ready:
		mp.target = min(mp.target, b.Next)
	}
	for _, u := range mp.users {
		switch {
		case u.asking:
			u.asking, u.target = false, b.Next
		case u.target >= 0 && !u.isReady():
			u.target = min(u.target, b.Next)
		}
	}
	return mp.beginLoad(b.First) || changed
}

// beginLoad starts a load from the first offset for the partitions that wait for one.
func (mp *metaPartition) beginLoad(first int64) (changed bool) {
	if mp.load.on || !mp.live.on {
		return false
	}
	for _, u := range mp.users {
		if u.loading {
			u.inLoad, changed = true, true
		}
	}
	if !changed {
		return false
	}
	mp.load.start(Position{Offset: first, Epoch: -1})
	mp.handOver(mp.load.next.Offset)
	return true
}

// handOver ends the load if it has reached the live stream: everything below at has been loaded, everything below live.next has
// been seen by the live stream, and the load never applies an event at or behind live.next. So at that moment both stand
// between the same two events, and the live stream can go on for the partitions that were loaded. Had the load been allowed to
// go ahead, a truncation that the live stream is not touched by would leave events behind in what was loaded.
func (mp *metaPartition) handOver(at int64) bool {
	if !mp.load.on || at < mp.live.next.Offset {
		return false
	}
	for _, u := range mp.users {
		if u.inLoad {
			u.loading, u.inLoad = false, false
		}
	}
	mp.endLoadIfUnused()
	return true
}

// endLoadIfUnused stops the load if it is for nobody, and asks for the next one if partitions were added meanwhile.
func (mp *metaPartition) endLoadIfUnused() {
	waiting := false
	for _, u := range mp.users {
		if u.inLoad {
			return
		}
		waiting = waiting || u.loading
	}
	mp.load.stop()
	mp.ask = mp.ask || waiting
}

// settle draws the conclusions from a stream that moved, or a target that became known.
func (mp *metaPartition) settle() (changed bool) {
	if !mp.ready && mp.live.on && mp.target >= 0 && mp.live.next.Offset >= mp.target {
		mp.ready, changed = true, true
	}
	if mp.unready > 0 {
		for _, u := range mp.users {
			if u.target >= 0 && u.next() >= u.target && u.setReady() {
				mp.unready--
				changed = true
			}
		}
	}
	if len(mp.writes) > 0 {
		mp.settleWrites()
	}
	return changed
}

func (u *partition) setReady() (changed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	changed = !u.ready
	u.ready = true
	return changed
}

// reset forgets everything that was read: what precedes the live position is not what the log holds now.
func (mp *metaPartition) reset(resume Position) {
	mp.live.next, mp.fresh = resume, true
	mp.load.stop()
	mp.resets++
	mp.target, mp.ready, mp.ask = -1, false, true
	for _, u := range mp.users {
		u.loading, u.inLoad, u.target, u.asking = false, false, -1, false
		u.listed, u.named, u.from = u.explicit, false, 0
		u.mu.Lock()
		if u.ready {
			mp.unready++
		}
		u.ready, u.cache = false, newCache(u.tp)
		u.mu.Unlock()
	}
	for _, w := range mp.writes {
		w.truncated()
		if w.end != 0 {
			mp.resolve(w, errTruncatedWrite(w))
		}
	}
}

// reload forgets what the load has read, which then starts again.
func (mp *metaPartition) reload(resume Position) {
	mp.load.next = resume
	for _, u := range mp.users {
		if u.inLoad {
			u.mu.Lock()
			u.cache = newCache(u.tp)
			u.mu.Unlock()
		}
	}
}
