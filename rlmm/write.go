package rlmm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// write is an Add, Update or PutPartitionDelete from the moment when its event may reach the log until what became of it is
// known. Of one segment there is at most one. Its fields belong to metaPartition.mu.
type write struct {
	id    remotelog.SegmentID // ID is zero: the partition itself, which excludes writes for all its segments
	event []byte
	n     uint64 // writes that begin later have a greater number

	left chan struct{} // closed when the call that began it has returned
	done chan struct{} // closed when the outcome is known

	end    int64  // offset behind the event once the log said so, else 0
	doubt  bool   // the call has left without knowing the outcome
	upTo   uint64 // with doubt: the last write that began before
	passed int64  // if not 0: once read to here without the event, it is not and will never be part of the log
	resent bool   // with doubt: the event is being appended once more, until when nothing proves that it is not in the log
	seen   []cameBack

	result error
	never  bool // with done: the event is not part of the log
}

// cameBack is an event with the same bytes that was read while the log had not told the offset yet.
type cameBack struct {
	offset int64
	result error
}

// truncated forgets offsets: they may be those of other events now.
func (w *write) truncated() { w.passed, w.seen = 0, nil }

func errTruncatedWrite(w *write) error {
	return fmt.Errorf("%w: the metadata log was truncated while the write for %s was not read back yet", remotelog.ErrOutcomeUnknown, w.name())
}

func (w *write) name() string {
	if w.id.ID.IsZero() {
		return w.id.TopicIDPartition.String()
	}
	return w.id.String()
}

// beginWrite registers a write. The next methods, too, need mp.mu.
func (mp *metaPartition) beginWrite(id remotelog.SegmentID, event []byte) *write {
	mp.writeN++
	w := &write{id: id, event: event, n: mp.writeN, left: make(chan struct{}), done: make(chan struct{})}
	mp.writes[id] = w
	return w
}

// blocks returns a write that must end before one for id may begin.
func (mp *metaPartition) blocks(id remotelog.SegmentID) *write {
	if w := mp.writes[id]; w != nil {
		return w
	}
	if !id.ID.IsZero() {
		return mp.writes[remotelog.SegmentID{TopicIDPartition: id.TopicIDPartition}]
	}
	for other, w := range mp.writes {
		if other.TopicIDPartition == id.TopicIDPartition {
			return w
		}
	}
	return nil
}

// cameBack takes note of an event that was read and applied; outcome tells what that did.
func (mp *metaPartition) cameBack(id remotelog.SegmentID, ev *Event, outcome func() error) {
	const most = 8 // events with the same bytes that others wrote; only ours counts, and it is the last so far
	w := mp.writes[id]
	switch {
	case w == nil || !bytes.Equal(w.event, ev.Value):
	case w.end == 0 && !w.doubt:
		if len(w.seen) == most {
			w.seen = append(w.seen[:0], w.seen[1:]...)
		}
		w.seen = append(w.seen, cameBack{ev.Offset, outcome()})
	case w.end == 0 || ev.Offset == w.end-1:
		mp.resolve(w, outcome())
	}
}

// resolve ends a write whose outcome is known, or will not become known.
func (mp *metaPartition) resolve(w *write, result error) {
	if mp.writes[w.id] != w {
		return
	}
	delete(mp.writes, w.id)
	if w.doubt {
		mp.doubts--
	}
	w.result = result
	close(w.done)
}

// appended takes the log's answer to a write that is not in doubt.
func (mp *metaPartition) appended(w *write, end int64, err error) {
	if mp.writes[w.id] != w {
		return // resolved by a truncation
	}
	switch {
	case err == nil:
		w.end = end
		for _, s := range w.seen {
			if s.offset == end-1 {
				mp.resolve(w, s.result)
			}
		}
		mp.proves(w.n, end)
		mp.settleWrites() // the reader may be behind it already, and come no further
	case errors.Is(err, remotelog.ErrOutcomeUnknown):
		if n := len(w.seen); n > 0 {
			mp.resolve(w, w.seen[n-1].result)
		} else {
			mp.leaveInDoubt(w)
		}
	default:
		w.never = true
		mp.resolve(w, err)
	}
}

// proves takes note of an event that was appended up to end: a write that was in doubt already when the n-th one began is in the log
// before it, or never. See Log.Append.
func (mp *metaPartition) proves(n uint64, end int64) {
	for _, other := range mp.writes {
		if other.doubt && !other.resent && other.passed == 0 && n > other.upTo {
			other.passed = end
		}
	}
}

func (mp *metaPartition) leaveInDoubt(w *write) {
	w.doubt, w.upTo, w.passed = true, mp.writeN, w.end
	mp.doubts++
}

// settleWrites ends the writes that reading has shown not to be in the log: it went past the place where the event would be. Of
// those in doubt that is news; one that was acknowledged has been truncated away by a log that had promised to keep it.
func (mp *metaPartition) settleWrites() {
	for _, w := range mp.writes {
		at := w.passed
		if !w.doubt {
			at = w.end
		}
		if u := mp.users[w.id.TopicIDPartition]; at != 0 && u != nil && u.next() >= at {
			w.never = w.doubt
			mp.resolve(w, fmt.Errorf("%w: the metadata log was read on without the write for %s", remotelog.ErrOutcomeUnknown, w.name()))
		}
	}
}

// Add implements remotelog.MetadataManager. The id must be unknown; see the errors of Update.
func (m *Manager) Add(ctx context.Context, md remotelog.SegmentMetadata) error {
	if md.State != remotelog.CopySegmentStarted {
		return fmt.Errorf("%w: segment %v is added in state %v, want %v", remotelog.ErrInvalidArgument, md.SegmentID, md.State, remotelog.CopySegmentStarted)
	}
	if err := md.Validate(); err != nil {
		return err
	}
	return m.timed(func() error {
		return m.write(ctx, md.SegmentID, func(u *partition) (Record, error) { return u.checkAdd(&md) })
	})
}

// Update implements remotelog.MetadataManager. A DELETE_* update without custom metadata repeats the segment's current bytes:
// Kafka's caches replace them by what the update has.
//
// The errors of the writes: ErrInvalidArgument, ErrNotFound (the segment is unknown), ErrNotAssigned and ErrNotReady come before
// anything is published. ErrConflict: the event is in the log, after another one that made it void; the error names the state
// found. ErrOutcomeUnknown: the event may be or become part of the log; until that is known, every write for the segment but a
// repetition of this one is refused with it. A repetition joins the wait for the first one; when that has not come after two
// seconds, it sends the event again. On a partition to which nobody else writes nothing would
// ever show that the first one did not land, and a repetition that only waited would end with its context, every time. The same
// event twice does what it does once. Note that ErrNotAssigned also matches ErrNotFound.
func (m *Manager) Update(ctx context.Context, up remotelog.SegmentUpdate) error {
	if !up.State.Valid() || up.State == remotelog.CopySegmentStarted {
		return fmt.Errorf("%w: segment %v is updated to state %v; a segment enters %v by Add only", remotelog.ErrInvalidArgument,
			up.SegmentID, up.State, remotelog.CopySegmentStarted)
	}
	return m.timed(func() error {
		return m.write(ctx, up.SegmentID, func(u *partition) (Record, error) { return u.checkUpdate(up) })
	})
}

// PutPartitionDelete implements remotelog.MetadataManager. The states come in their order, each may be repeated.
// DELETE_PARTITION_FINISHED needs Options.PartitionDelete and a partition without segments; afterwards nothing can be added to the
// partition or updated in it. See Update for the errors.
func (m *Manager) PutPartitionDelete(ctx context.Context, d remotelog.PartitionDelete) error {
	if !d.State.Valid() {
		return fmt.Errorf("%w: partition delete state %v of %v", remotelog.ErrInvalidArgument, d.State, d.TopicIDPartition)
	}
	if d.State == remotelog.DeletePartitionFinished && !m.opts.PartitionDelete {
		return fmt.Errorf("%w: %v of %v is not published, since it can end the metadata consumer of a broker; set Options.PartitionDelete "+
			"(metadata.partition.delete.enabled) where no broker has the partition", remotelog.ErrInvalidArgument, d.State, d.TopicIDPartition)
	}
	return m.timed(func() error {
		id := remotelog.SegmentID{TopicIDPartition: d.TopicIDPartition}
		return m.write(ctx, id, func(u *partition) (Record, error) { return u.checkDelete(d) })
	})
}

func (m *Manager) timed(f func() error) error {
	if m.opts.Hooks.Wrote == nil {
		return f()
	}
	began := m.opts.Now()
	err := f()
	m.opts.Hooks.Wrote(m.opts.Now().Sub(began), err)
	return err
}

// write publishes what build makes of the state at that moment, and waits until it has come back.
func (m *Manager) write(ctx context.Context, id remotelog.SegmentID, build func(*partition) (Record, error)) error {
	mp := m.metaOf(id.TopicIDPartition)
	for {
		u, w, way, err := m.enter(ctx, mp, id, build)
		switch {
		case err != nil:
			return err
		case way == wayOwn:
			return m.publish(ctx, mp, u, w)
		case way == wayJoin:
			if again, err := m.join(ctx, mp, u, w); !again {
				return err
			}
		default:
			if err := waitFor(ctx, u, w); err != nil {
				return err
			}
		}
	}
}

// way is what a write has to do first.
type way uint8

const (
	wayOwn  way = iota // publish the write that was registered
	wayJoin            // wait for one in doubt that has the same event
	wayWait            // wait for one that stands in the way
)

// enter registers a write, or returns the one that comes before it.
func (m *Manager) enter(ctx context.Context, mp *metaPartition, id remotelog.SegmentID, build func(*partition) (Record, error)) (*partition, *write, way, error) {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, nil, 0, err
	}
	u, err := m.writable(mp, id.TopicIDPartition)
	if err != nil {
		return nil, nil, 0, err
	}
	other := mp.blocks(id)
	if other != nil && !other.doubt {
		return u, other, wayWait, nil
	}
	event, err := eventOf(u, build)
	switch {
	case other != nil && err == nil && bytes.Equal(other.event, event):
		return u, other, wayJoin, nil
	case other != nil:
		return nil, nil, 0, fmt.Errorf("%w: an earlier write for %s may still become part of the metadata log", remotelog.ErrOutcomeUnknown, other.name())
	case err != nil:
		return nil, nil, 0, err
	}
	return u, mp.beginWrite(id, event), wayOwn, nil
}

func eventOf(u *partition, build func(*partition) (Record, error)) ([]byte, error) {
	r, err := build(u)
	if err != nil {
		return nil, err
	}
	event, err := Encode(r)
	if err == nil && len(event) > MaxEventBytes {
		err = fmt.Errorf("%w: metadata record of %d bytes, at most %d can be published", remotelog.ErrInvalidArgument, len(event), MaxEventBytes)
	}
	return event, err
}

// waitFor waits until the call that began w has returned.
func waitFor(ctx context.Context, u *partition, w *write) error {
	select {
	case <-w.left:
		return nil
	case <-u.life.done():
		return u.life.cause()
	case <-ctx.Done():
		return fmt.Errorf("another write for %s is not through yet: %w", w.name(), ctx.Err())
	}
}

// writable returns the partition if it can be written; it needs mp.mu.
func (m *Manager) writable(mp *metaPartition, tp remotelog.TopicIDPartition) (*partition, error) {
	u := mp.users[tp]
	if u == nil && mp.all && mp.ready && !m.closed.Load() {
		u = m.mentioned(mp, tp)
		mp.settle()
	}
	switch {
	case m.closed.Load():
		return nil, errClosed()
	case u == nil && mp.all:
		return nil, mp.notReady(tp, mp.live.next.Offset, mp.target, m.live.cause())
	case u == nil:
		return nil, errNotAssigned(tp)
	case !u.isReady():
		return nil, mp.notReady(tp, u.next(), u.target, m.causeFor(u))
	}
	if err := m.live.cause(); err != nil {
		// The write could land, but would not come back.
		return nil, mp.notReady(tp, u.next(), u.target, err)
	}
	return u, nil
}

// publish appends the event and waits until it has come back.
func (m *Manager) publish(ctx context.Context, mp *metaPartition, u *partition, w *write) error {
	defer close(w.left)
	actx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer u.life.ends(cancel)() // OnStop and Close end the Append, too
	end, err := m.log.Append(actx, mp.index, w.event)
	if err != nil {
		err = fmt.Errorf("write for %s: %w", w.name(), err)
		if u.life.cause() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", u.life.cause(), err)
		}
	}
	mp.mu.Lock()
	mp.appended(w, end.Offset, err)
	mp.mu.Unlock()
	if err != nil {
		select {
		case <-w.done:
			return w.result
		default:
			return err // in doubt
		}
	}
	select {
	case <-w.done:
		return w.result
	case <-ctx.Done():
		err = ctx.Err()
	case <-u.life.done():
		err = u.life.cause()
	}
	mp.mu.Lock()
	defer mp.mu.Unlock()
	select {
	case <-w.done:
		return w.result
	default:
	}
	err = fmt.Errorf("%w: the write for %s is in the metadata log, what it did is not known: %w", remotelog.ErrOutcomeUnknown, w.name(), err)
	if u.life.cause() != nil {
		mp.resolve(w, err) // whoever follows the partition next reads it before it is ready
	} else {
		mp.leaveInDoubt(w)
	}
	return err
}

// joinPatience is how long a repeated write only waits to see the first one, before it sends the event once more: long enough for an event
// that the log has taken to come back, short against what callers wait.
const joinPatience = 2 * time.Second

// join waits for a write in doubt with the same event. again: it never landed, so it may be published.
func (m *Manager) join(ctx context.Context, mp *metaPartition, u *partition, w *write) (again bool, err error) {
	tick := time.NewTicker(joinPatience)
	defer tick.Stop()
	for err == nil {
		select {
		case <-w.done:
			return w.never, w.result
		case <-u.life.done():
			err = u.life.cause()
		case <-ctx.Done():
			err = ctx.Err()
		case <-tick.C:
			err = m.resend(ctx, mp, u, w)
		}
	}
	return false, fmt.Errorf("%w: the same write for %s was in doubt before, and still is: %w", remotelog.ErrOutcomeUnknown, w.name(), err)
}

// resend appends the event of a write in doubt once more, unless something else will tell what became of it. On a partition that
// nobody else writes to nothing ever would. An event that is in the log twice does what it does once: the second finds the state
// that the first has made, or is dropped, by us and by brokers.
func (m *Manager) resend(ctx context.Context, mp *metaPartition, u *partition, w *write) error {
	mp.mu.Lock()
	if mp.writes[w.id] != w || !w.doubt || w.resent || w.end != 0 || w.passed != 0 {
		mp.mu.Unlock()
		return nil
	}
	w.resent = true
	mp.writeN++
	n := mp.writeN
	mp.mu.Unlock()

	actx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer u.life.ends(cancel)()
	end, err := m.log.Append(actx, mp.index, w.event)

	mp.mu.Lock()
	defer mp.mu.Unlock()
	w.resent = false
	switch {
	case mp.writes[w.id] != w:
		return nil // it was read back meanwhile, and done is closed
	case err == nil:
		mp.proves(n, end.Offset)
		mp.settleWrites()
	case errors.Is(err, remotelog.ErrOutcomeUnknown):
		w.upTo = mp.writeN
	}
	return err
}
