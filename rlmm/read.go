package rlmm

import (
	"context"
	"fmt"
	"iter"

	"github.com/tierkit/tierkit/remotelog"
)

// chainUnderLock is how many segments NextSegmentWithTxnIndex follows under the partition's lock before it takes a view.
const chainUnderLock = 64

func errNotAssigned(tp remotelog.TopicIDPartition) error {
	return fmt.Errorf("%w: metadata of %v (topic id %v)", remotelog.ErrNotAssigned, tp, tp.TopicID)
}

// open returns the partition with its lock held for reading, if it can answer.
func (m *Manager) open(ctx context.Context, tp remotelog.TopicIDPartition) (*partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.closed.Load() {
		return nil, errClosed()
	}
	u := m.user(tp)
	if u == nil {
		return nil, m.noUser(tp)
	}
	u.mu.RLock()
	if u.ready && !u.cache.deletes.finished() {
		return u, nil
	}
	ready := u.ready
	u.mu.RUnlock()
	if ready {
		return nil, fmt.Errorf("%w: partition %v was deleted from the tier", remotelog.ErrNotFound, tp)
	}
	u.meta.mu.Lock()
	defer u.meta.mu.Unlock()
	return nil, u.meta.notReady(tp, u.next(), u.target, m.causeFor(u))
}

// causeFor returns why reading does not go on for u, nil if it does; it needs mp.mu.
func (m *Manager) causeFor(u *partition) error {
	if u.loading {
		return m.loader.cause()
	}
	return m.live.cause()
}

// noUser says why a partition that is not known cannot be read.
func (m *Manager) noUser(tp remotelog.TopicIDPartition) error {
	mp := m.metaOf(tp)
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if mp.all && !mp.ready {
		return mp.notReady(tp, mp.live.next.Offset, mp.target, m.live.cause())
	}
	return errNotAssigned(tp)
}

// notReady names what a partition waits for; it needs mp.mu.
func (mp *metaPartition) notReady(tp remotelog.TopicIDPartition, next, target int64, cause error) error {
	if cause == nil {
		cause = mp.cause
	}
	err := fmt.Errorf("%w: metadata of %v, metadata partition %d: %s", remotelog.ErrNotReady, tp, mp.index, lag(next, target))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// lag says how far reading is behind.
func lag(next, target int64) string {
	switch {
	case target < 0:
		return "how far to read is not known yet"
	case next < 0:
		return fmt.Sprintf("reading up to %d has not begun", target)
	default:
		return fmt.Sprintf("read to %d of %d, %d behind", next, target, max(0, target-next))
	}
}

// Segment implements remotelog.MetadataReader.
func (m *Manager) Segment(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	u, err := m.open(ctx, tp)
	if err != nil {
		return remotelog.SegmentMetadata{}, false, err
	}
	s := u.cache.epoch(epoch).lookup(offset)
	u.mu.RUnlock()
	if s == nil {
		return remotelog.SegmentMetadata{}, false, nil
	}
	return s.metadata(u.tp), true, nil
}

// NextSegmentWithTxnIndex implements remotelog.MetadataReader.
func (m *Manager) NextSegmentWithTxnIndex(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	u, err := m.open(ctx, tp)
	if err != nil {
		return remotelog.SegmentMetadata{}, false, err
	}
	s, next, done := u.cache.epoch(epoch).nextWithTxnIndex(offset, chainUnderLock)
	var v epochView
	if !done {
		v = u.cache.keepEpoch(epoch)
	}
	u.mu.RUnlock()
	for !done {
		// A long chain: go on without the lock, in what the epoch is at this moment.
		if err := ctx.Err(); err != nil {
			return remotelog.SegmentMetadata{}, false, err
		}
		s, next, done = v.nextWithTxnIndex(next, chainUnderLock)
	}
	if s == nil {
		return remotelog.SegmentMetadata{}, false, nil
	}
	return s.metadata(u.tp), true, nil
}

// HighestOffset implements remotelog.MetadataReader.
func (m *Manager) HighestOffset(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, bool, error) {
	u, err := m.open(ctx, tp)
	if err != nil {
		return 0, false, err
	}
	defer u.mu.RUnlock()
	st := u.cache.epochs[epoch]
	if st == nil || !st.hasHighest {
		return 0, false, nil
	}
	return st.highest, true, nil
}

// RemoteLogSize returns the sum of the sizes of the segments that SegmentsOfEpoch lists, in whatever state they are; 0 for an
// unknown epoch.
func (m *Manager) RemoteLogSize(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, error) {
	u, err := m.open(ctx, tp)
	if err != nil {
		return 0, err
	}
	defer u.mu.RUnlock()
	if st := u.cache.epochs[epoch]; st != nil {
		return st.size, nil
	}
	return 0, nil
}

// Partitions implements remotelog.MetadataReader. With Options.All it is ErrNotReady until the whole log has been read to the
// end that it had when the manager was made.
func (m *Manager) Partitions(ctx context.Context) iter.Seq2[remotelog.TopicIDPartition, error] {
	return func(yield func(remotelog.TopicIDPartition, error) bool) {
		err := ctx.Err()
		if err == nil && m.closed.Load() {
			err = errClosed()
		}
		if err == nil && m.opts.All {
			err = m.logNotReady()
		}
		if err != nil {
			yield(remotelog.TopicIDPartition{}, err)
			return
		}
		for _, u := range m.assigned() {
			if !yield(u.tp, nil) {
				return
			}
		}
	}
}

// logNotReady names the first metadata partition that is not ready (Options.All), nil if all are.
func (m *Manager) logNotReady() error {
	for _, mp := range m.parts {
		mp.mu.Lock()
		ready, next, target, cause := mp.ready, mp.live.next.Offset, mp.target, mp.cause
		mp.mu.Unlock()
		if ready {
			continue
		}
		if c := m.live.cause(); c != nil {
			cause = c
		}
		err := fmt.Errorf("%w: metadata partition %d: %s", remotelog.ErrNotReady, mp.index, lag(next, target))
		if cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
	return nil
}

// Segments implements remotelog.MetadataReader.
func (m *Manager) Segments(ctx context.Context, tp remotelog.TopicIDPartition) iter.Seq2[remotelog.SegmentMetadata, error] {
	return m.listing(ctx, tp, func(c *cache) iter.Seq[*segment] {
		root := c.keepAll()
		return func(yield func(*segment) bool) { root.walk(func(it item) bool { return yield(it.seg) }) }
	})
}

// SegmentsOfEpoch implements remotelog.MetadataReader.
func (m *Manager) SegmentsOfEpoch(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) iter.Seq2[remotelog.SegmentMetadata, error] {
	return m.listing(ctx, tp, func(c *cache) iter.Seq[*segment] { return c.keepEpoch(epoch).segments() })
}

// listing yields a view that is taken at the first step. No lock is held while it yields.
func (m *Manager) listing(ctx context.Context, tp remotelog.TopicIDPartition, view func(*cache) iter.Seq[*segment]) iter.Seq2[remotelog.SegmentMetadata, error] {
	return func(yield func(remotelog.SegmentMetadata, error) bool) {
		u, err := m.open(ctx, tp)
		if err != nil {
			yield(remotelog.SegmentMetadata{}, err)
			return
		}
		list := view(u.cache)
		u.mu.RUnlock()
		for s := range list {
			if err := ctx.Err(); err != nil {
				yield(remotelog.SegmentMetadata{}, err)
				return
			}
			if !yield(s.metadata(u.tp), nil) {
				return
			}
		}
	}
}
