package rlmm

import (
	"github.com/tierkit/tierkit/remotelog"
)

// applyRun is how many events are applied before the lock of a metadata partition is given up for a moment: at about a
// microsecond each, a write or an assignment waits well below a millisecond.
const applyRun = 256

// report gathers what the hooks and the log are told after the locks are released.
type report struct {
	applied int
	drops   []drop
	changed bool // somebody may have become ready
	rebuilt bool // streams of either reader changed
	ask     bool
	losses  []Loss
}

type drop struct {
	offset int64
	reason DropReason
	say    bool // the first of its kind on this metadata partition
	tp     remotelog.TopicIDPartition
	detail error
}

// apply takes a batch in: losses first, then the events of each metadata partition in their order, then how far it was read.
func (r *reader) apply(b *Batch) {
	for _, l := range b.Lost {
		mp := r.m.parts[l.Partition]
		mp.mu.Lock()
		if r.current(mp) {
			r.lose(mp, l)
		}
		mp.mu.Unlock()
		r.flush(mp)
	}
	for i := 0; i < len(b.Events); {
		mp := r.m.parts[b.Events[i].Partition]
		mp.mu.Lock()
		for n := 0; i < len(b.Events) && b.Events[i].Partition == mp.index && n < applyRun; n++ {
			if r.current(mp) {
				r.event(mp, &b.Events[i])
			}
			i++
		}
		mp.mu.Unlock()
		r.flush(mp)
	}
	for p, at := range b.Next {
		mp := r.m.parts[p]
		mp.mu.Lock()
		if r.current(mp) {
			r.advance(mp, at)
		}
		mp.mu.Unlock()
		r.flush(mp)
	}
}

// current reports whether what the follower reads of mp is still wanted.
func (r *reader) current(mp *metaPartition) bool {
	s := r.stream(mp)
	gen, ok := r.have[mp.index]
	return ok && s.on && s.gen == gen
}

// advance moves the stream behind a batch. Offsets without events may have moved it further than the last event did.
func (r *reader) advance(mp *metaPartition, at Position) {
	if s := r.stream(mp); at.Offset >= s.next.Offset {
		s.next = at
	}
	if r.role == loadRole {
		r.handOver(mp, at.Offset)
	}
	if mp.settle() {
		r.report.changed = true
	}
}

// handOver ends the load if it stands where the live stream does.
func (r *reader) handOver(mp *metaPartition, at int64) bool {
	if !mp.handOver(at) {
		return false
	}
	r.report.rebuilt = true
	r.report.ask = r.report.ask || mp.ask
	r.report.changed = mp.settle() || r.report.changed
	return true
}

// event applies one event.
func (r *reader) event(mp *metaPartition, ev *Event) {
	s := r.stream(mp)
	if ev.Offset < s.next.Offset {
		return // delivered again, against the contract of Follower; applying it twice could undo what came after it
	}
	if r.role == loadRole && r.handOver(mp, ev.Offset) {
		return
	}
	s.next = Position{Offset: ev.Offset + 1, Epoch: ev.Epoch}
	if r.role == liveRole {
		mp.fresh = false
		mp.lastEventMs = ev.TimestampMs
	}
	api, err := r.decoder.decode(ev.Value)
	switch {
	case err != nil:
		r.dropped(mp, ev, drop{reason: err.Reason, detail: err}, nil)
	case api == apiSnapshot:
		r.dropped(mp, ev, drop{reason: DropSnapshotRecord}, nil)
	default:
		r.change(mp, ev, api)
	}
}

// change applies a decoded event to its partition.
func (r *reader) change(mp *metaPartition, ev *Event, api uint32) {
	d := &r.decoder
	id := remotelog.SegmentID{}
	switch api {
	case apiSegment:
		id = d.segment.SegmentID
	case apiUpdate:
		id = d.update.SegmentID
	default:
		id.TopicIDPartition = d.delete.TopicIDPartition
	}
	u := mp.users[id.TopicIDPartition]
	if u == nil && mp.all && r.role == liveRole {
		u = r.m.mentioned(mp, id.TopicIDPartition)
	}
	if u == nil || (r.role == liveRole && u.loading) || (r.role == loadRole && !u.inLoad) {
		return
	}
	u.listed, u.named = true, true
	if ev.Offset < u.from {
		return // the snapshot that u began with holds it
	}
	var reason DropReason
	u.mu.Lock()
	switch api {
	case apiSegment:
		reason = u.cache.add(&d.segment)
	case apiUpdate:
		reason = u.cache.update(&d.update)
	default:
		reason = u.cache.deletePartition(&d.delete)
	}
	u.mu.Unlock()
	if reason == 0 {
		mp.applied++
		r.report.applied++
	} else {
		r.dropped(mp, ev, drop{reason: reason, tp: id.TopicIDPartition}, u)
	}
	if len(mp.writes) > 0 {
		mp.cameBack(id, ev, func() error { return u.outcome(id, reason) })
	}
}

// dropped counts an event that changed nothing. What belongs to no partition is counted by the live reader alone.
func (r *reader) dropped(mp *metaPartition, ev *Event, d drop, u *partition) {
	if u == nil && r.role == loadRole {
		return
	}
	// While loading, updates for unknown segments are normal: the topic may have expired the record that added the segment.
	d.say = mp.dropped[d.reason] == 0 && (u == nil || u.isReady())
	d.offset = ev.Offset
	mp.dropped[d.reason]++
	r.report.drops = append(r.report.drops, d)
}

// lose handles a position that is not on the log any more.
func (r *reader) lose(mp *metaPartition, l Loss) {
	switch {
	case r.role == loadRole && l.Kind == HeadGone:
		mp.load.next = l.Resume // a load begins at the head, wherever that is by now
	case r.role == loadRole:
		mp.reload(l.Resume)
	case l.Kind == HeadGone:
		// What is known of the events that left still holds.
		mp.live.next = l.Resume
		mp.lost++
		r.report.losses = append(r.report.losses, l)
	default:
		mp.reset(l.Resume)
		mp.lost++
		r.report.losses = append(r.report.losses, l)
		r.report.rebuilt, r.report.changed, r.report.ask = true, true, true
	}
}

// flush tells the hooks, the log and the other goroutines what happened on mp. No lock is held.
func (r *reader) flush(mp *metaPartition) {
	m, rep := r.m, &r.report
	if rep.applied > 0 && m.opts.Hooks.Applied != nil {
		m.opts.Hooks.Applied(mp.index, rep.applied)
	}
	for _, d := range rep.drops {
		if m.opts.Hooks.Dropped != nil {
			m.opts.Hooks.Dropped(mp.index, d.offset, d.reason)
		}
		if d.say {
			m.opts.Logger.Warn("metadata record has no effect; it is skipped, and so are, without a line, later ones of the kind",
				"metadataPartition", mp.index, "offset", d.offset, "reason", d.reason, "partition", d.tp, "error", d.detail)
		}
	}
	for _, l := range rep.losses {
		m.opts.Logger.Warn("metadata log lost a position", "metadataPartition", mp.index, "kind", l.Kind,
			"from", l.From.Offset, "resume", l.Resume.Offset)
		if m.opts.Hooks.Lost != nil {
			m.opts.Hooks.Lost(l)
		}
	}
	if rep.rebuilt {
		m.live.wake()
		m.loader.wake()
	}
	if rep.ask {
		m.askBounds()
	}
	if rep.changed {
		m.changed.raise()
	}
	*rep = report{drops: rep.drops[:0], losses: rep.losses[:0]}
}
