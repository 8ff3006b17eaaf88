package rlmm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tierkit/tierkit/remotelog"
)

// Implementation is what a broker needs of a metadata manager, and what a Swappable stands for: a *Manager, a NotReady, or one of
// another kind. The contracts are those of *Manager.
type Implementation interface {
	remotelog.MetadataManager

	OnLeadershipChange(leaders, followers []remotelog.TopicIDPartition) error
	OnStop(ps []remotelog.TopicIDPartition) error
	Reconcile(ctx context.Context, ps []remotelog.TopicIDPartition) error
	IsReady(tp remotelog.TopicIDPartition) bool
	WaitReady(ctx context.Context, ps ...remotelog.TopicIDPartition) error
	RemoteLogSize(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, error)
	Close(ctx context.Context) error
}

var (
	_ Implementation = (*Manager)(nil)
	_ Implementation = NotReady{}
	_ Implementation = (*Swappable)(nil)
)

// Swappable is a metadata manager whose implementation can be replaced while calls are running: a NotReady until the log can be
// opened, then a Manager; a new Manager after the topic was made anew.
//
// It keeps the set of assigned partitions itself, so that assignments succeed whatever stands behind it, and gives the whole set
// to a new implementation before any call reaches that one. A call, and an iteration once it has begun, runs to its end on the
// implementation it began with. All methods may be called by any goroutine at any time.
type Swappable struct {
	current atomic.Pointer[Implementation]

	mu     sync.Mutex // serialises assignments, Swap and Close; nothing that waits is called under it
	set    map[remotelog.TopicIDPartition]bool
	closed bool
}

// asker is what Reconcile finds by assertion: waiting until the log was asked how far to read.
type asker interface {
	asked(ctx context.Context, ps []remotelog.TopicIDPartition) error
}

// NewSwappable returns a Swappable that begins with first and an empty set.
func NewSwappable(first Implementation) *Swappable {
	s := &Swappable{set: map[remotelog.TopicIDPartition]bool{}}
	s.current.Store(&first)
	return s
}

func (s *Swappable) get() Implementation { return *s.current.Load() }

// Swap puts next in the place of what stands there. Before a call can reach next, it is told of the whole assigned set; it need
// not be ready. The old one is returned at once, while calls may still run on it: the caller closes it, which ends them. After an
// error (next did not take the set, or the Swappable is closed) nothing has changed and next is still the caller's.
func (s *Swappable) Swap(next Implementation) (old Implementation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	if len(s.set) > 0 {
		if err := next.OnLeadershipChange(s.assigned(), nil); err != nil {
			return nil, fmt.Errorf("swap metadata manager: the new one does not take the assigned partitions: %w", err)
		}
	}
	return *s.current.Swap(&next), nil
}

// assigned needs s.mu.
func (s *Swappable) assigned() []remotelog.TopicIDPartition {
	ps := make([]remotelog.TopicIDPartition, 0, len(s.set))
	for tp := range s.set {
		ps = append(ps, tp)
	}
	slices.SortFunc(ps, remotelog.TopicIDPartition.Compare)
	return ps
}

// Close closes the implementation that stands there, and refuses assignments and swaps from then on.
func (s *Swappable) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.get().Close(ctx)
}

// change changes the set and tells the implementation. One that was closed already, because it is about to be replaced, does
// not matter: the next one gets the set.
func (s *Swappable) change(add, remove []remotelog.TopicIDPartition) (Implementation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	return s.changeLocked(add, remove)
}

func (s *Swappable) changeLocked(add, remove []remotelog.TopicIDPartition) (Implementation, error) {
	for _, tp := range remove {
		delete(s.set, tp)
	}
	for _, tp := range add {
		s.set[tp] = true
	}
	cur := s.get()
	var err error
	if len(remove) > 0 {
		err = cur.OnStop(remove)
	}
	if err == nil && len(add) > 0 {
		err = cur.OnLeadershipChange(add, nil)
	}
	if errors.Is(err, remotelog.ErrClosed) {
		err = nil
	}
	return cur, err
}

// OnLeadershipChange is that of Manager.
func (s *Swappable) OnLeadershipChange(leaders, followers []remotelog.TopicIDPartition) error {
	_, err := s.change(slices.Concat(leaders, followers), nil)
	return err
}

// OnStop is that of Manager.
func (s *Swappable) OnStop(ps []remotelog.TopicIDPartition) error {
	_, err := s.change(nil, ps)
	return err
}

// Reconcile is that of Manager. The set is kept at once; the wait, if there is one, is for the implementation that stood there.
func (s *Swappable) Reconcile(ctx context.Context, ps []remotelog.TopicIDPartition) error {
	cur, err := s.replace(ps)
	if err != nil {
		return err
	}
	if a, ok := cur.(asker); ok {
		err = a.asked(ctx, ps)
	}
	if errors.Is(err, remotelog.ErrClosed) {
		return nil // it was replaced meanwhile, and the next one has the set
	}
	return err
}

func (s *Swappable) replace(ps []remotelog.TopicIDPartition) (Implementation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	keep := map[remotelog.TopicIDPartition]bool{}
	for _, tp := range ps {
		keep[tp] = true
	}
	var gone []remotelog.TopicIDPartition
	for _, tp := range s.assigned() {
		if !keep[tp] {
			gone = append(gone, tp)
		}
	}
	return s.changeLocked(ps, gone)
}

// asked lets a Swappable stand behind another one.
func (s *Swappable) asked(ctx context.Context, ps []remotelog.TopicIDPartition) error {
	if a, ok := s.get().(asker); ok {
		return a.asked(ctx, ps)
	}
	return nil
}

// IsReady is that of Manager.
func (s *Swappable) IsReady(tp remotelog.TopicIDPartition) bool { return s.get().IsReady(tp) }

// WaitReady is that of Manager, of the one that stands there now: after ErrNotReady or ErrClosed there may be another one.
func (s *Swappable) WaitReady(ctx context.Context, ps ...remotelog.TopicIDPartition) error {
	return s.get().WaitReady(ctx, ps...)
}

// RemoteLogSize is that of Manager.
func (s *Swappable) RemoteLogSize(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, error) {
	return s.get().RemoteLogSize(ctx, tp, epoch)
}

// Segment implements remotelog.MetadataReader.
func (s *Swappable) Segment(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	return s.get().Segment(ctx, tp, epoch, offset)
}

// NextSegmentWithTxnIndex implements remotelog.MetadataReader.
func (s *Swappable) NextSegmentWithTxnIndex(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	return s.get().NextSegmentWithTxnIndex(ctx, tp, epoch, offset)
}

// HighestOffset implements remotelog.MetadataReader.
func (s *Swappable) HighestOffset(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, bool, error) {
	return s.get().HighestOffset(ctx, tp, epoch)
}

// Partitions implements remotelog.MetadataReader.
func (s *Swappable) Partitions(ctx context.Context) iter.Seq2[remotelog.TopicIDPartition, error] {
	return late(s, func(m Implementation) iter.Seq2[remotelog.TopicIDPartition, error] { return m.Partitions(ctx) })
}

// Segments implements remotelog.MetadataReader.
func (s *Swappable) Segments(ctx context.Context, tp remotelog.TopicIDPartition) iter.Seq2[remotelog.SegmentMetadata, error] {
	return late(s, func(m Implementation) iter.Seq2[remotelog.SegmentMetadata, error] { return m.Segments(ctx, tp) })
}

// SegmentsOfEpoch implements remotelog.MetadataReader.
func (s *Swappable) SegmentsOfEpoch(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) iter.Seq2[remotelog.SegmentMetadata, error] {
	return late(s, func(m Implementation) iter.Seq2[remotelog.SegmentMetadata, error] {
		return m.SegmentsOfEpoch(ctx, tp, epoch)
	})
}

// late chooses the implementation at the first step: a listing shows that moment.
func late[T any](s *Swappable, list func(Implementation) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { list(s.get())(yield) }
}

// Add implements remotelog.MetadataManager.
func (s *Swappable) Add(ctx context.Context, md remotelog.SegmentMetadata) error {
	return s.get().Add(ctx, md)
}

// Update implements remotelog.MetadataManager.
func (s *Swappable) Update(ctx context.Context, up remotelog.SegmentUpdate) error {
	return s.get().Update(ctx, up)
}

// PutPartitionDelete implements remotelog.MetadataManager.
func (s *Swappable) PutPartitionDelete(ctx context.Context, d remotelog.PartitionDelete) error {
	return s.get().PutPartitionDelete(ctx, d)
}
