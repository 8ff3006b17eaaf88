package rsm

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// StoreIndex answers what is tiered from the manifests in the store alone: for a store whose metadata are elsewhere, or lost. It is a
// remotelog.MetadataReader without assignment and without gaps in its knowledge: what it does not find is not there.
//
// A segment is in the store if its manifest is. A manifest that is damaged, that says nothing about its segment, or that contradicts
// its key is passed over with a notice.
//
// Partitions, Segments and Stored show everything, and look at the store each time. Segment, NextSegmentWithTxnIndex, HighestOffset and
// SegmentsOfEpoch answer from what can be read in one piece:
//
//   - The lineage of leader epochs is the leader epoch index of the segment with the highest (epoch, end offset); if that cannot be
//     read, of the next one, and behind it what the manifests say of those that cannot be read. Segments outside the lineage were
//     written by a leader that lost, and are passed over.
//   - Of copies that overlap, the one with the greatest end offset in the epoch asked for answers, then the latest event, then the
//     segment id.
//   - What is tiered is the unbroken chain that ends at the highest offset. What lies before a hole is listed only.
//
// Each of these gives a notice. Lookups use what was read of a partition up to MaxAge ago.
type StoreIndex struct {
	m *Manager
	o StoreIndexOptions

	loading chan struct{} // held by the one lookup that reads a partition
	mu      sync.Mutex
	views   map[remotelog.TopicIDPartition]*storeView
}

var _ remotelog.MetadataReader = (*StoreIndex)(nil)

// StoreIndexOptions configure a StoreIndex. The zero value is usable.
type StoreIndexOptions struct {
	OnNotice func(StoreNotice) // what is passed over, and why; called from several goroutines. nil: the manager's logger is told
	MaxAge   time.Duration     // 0: a minute; < 0: nothing is kept
	Now      func() time.Time  // nil: time.Now
}

// StoreNoticeKind says what a StoreNotice is about.
type StoreNoticeKind uint8

// The kinds of notices.
const (
	NoticeManifest StoreNoticeKind = iota // a manifest that cannot be used
	NoticeLineage                         // a segment outside the lineage, or whose lineage cannot be read
	NoticeHole                            // segments before a hole
)

// StoreNotice is something that a StoreIndex passes over.
type StoreNotice struct {
	Kind StoreNoticeKind
	Key  string // of the manifest; of several, the last one's
	Text string // one line
}

// StoredSegment is a segment as its manifest describes it.
type StoredSegment struct {
	remotelog.SegmentMetadata        // COPY_SEGMENT_FINISHED, without custom metadata
	Key                       string // of its objects, without suffix
	StoredBytes               int64  // of its three objects
}

// keptViews is how many partitions a StoreIndex remembers for lookups.
const keptViews = 16

// StoreIndex returns an index of what is in the manager's store. It does no I/O.
func (m *Manager) StoreIndex(o StoreIndexOptions) *StoreIndex {
	if o.MaxAge == 0 {
		o.MaxAge = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	if o.OnNotice == nil {
		o.OnNotice = func(n StoreNotice) {
			m.log.Warn("something in the store is passed over", "key", n.Key, "reason", n.Text)
		}
	}
	return &StoreIndex{m: m, o: o, loading: make(chan struct{}, 1), views: map[remotelog.TopicIDPartition]*storeView{}}
}

// Segment implements remotelog.MetadataReader.
func (x *StoreIndex) Segment(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	v, err := x.view(ctx, tp)
	if err != nil {
		return remotelog.SegmentMetadata{}, false, err
	}
	md, ok := v.lookup(epoch, offset)
	return md, ok, nil
}

// NextSegmentWithTxnIndex implements remotelog.MetadataReader. Manifests tell whether a segment has a transaction index that is not
// empty, so that nothing is unknown here.
func (x *StoreIndex) NextSegmentWithTxnIndex(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (remotelog.SegmentMetadata, bool, error) {
	v, err := x.view(ctx, tp)
	if err != nil {
		return remotelog.SegmentMetadata{}, false, err
	}
	for {
		md, ok := v.lookup(epoch, offset)
		if !ok || !md.TxnIndexEmpty {
			return md, ok, nil
		}
		offset = md.EndOffset + 1
	}
}

// HighestOffset implements remotelog.MetadataReader.
func (x *StoreIndex) HighestOffset(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) (int64, bool, error) {
	v, err := x.view(ctx, tp)
	if err != nil {
		return 0, false, err
	}
	r := v.epochs[epoch]
	if len(r) == 0 {
		return 0, false, nil
	}
	return r[len(r)-1].highest, true, nil
}

// SegmentsOfEpoch implements remotelog.MetadataReader.
func (x *StoreIndex) SegmentsOfEpoch(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32) iter.Seq2[remotelog.SegmentMetadata, error] {
	return func(yield func(remotelog.SegmentMetadata, error) bool) {
		v, err := x.view(ctx, tp)
		if err != nil {
			yield(remotelog.SegmentMetadata{}, err)
			return
		}
		for _, r := range v.epochs[epoch] {
			if !yield(*r.md, nil) {
				return
			}
		}
	}
}

// Segments implements remotelog.MetadataReader: every segment with a usable manifest, readable in one piece with the others or not.
func (x *StoreIndex) Segments(ctx context.Context, tp remotelog.TopicIDPartition) iter.Seq2[remotelog.SegmentMetadata, error] {
	return func(yield func(remotelog.SegmentMetadata, error) bool) {
		for s, err := range x.Stored(ctx, tp) {
			if !yield(s.SegmentMetadata, err) {
				return
			}
		}
	}
}

// Stored is Segments with what the store knows besides.
func (x *StoreIndex) Stored(ctx context.Context, tp remotelog.TopicIDPartition) iter.Seq2[StoredSegment, error] {
	return func(yield func(StoredSegment, error) bool) {
		all, err := x.scan(ctx, tp)
		if err != nil {
			yield(StoredSegment{}, err)
			return
		}
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Partitions implements remotelog.MetadataReader: those that have a manifest, usable or not.
func (x *StoreIndex) Partitions(ctx context.Context) iter.Seq2[remotelog.TopicIDPartition, error] {
	return func(yield func(remotelog.TopicIDPartition, error) bool) {
		all, err := x.scanPartitions(ctx)
		if err != nil {
			yield(remotelog.TopicIDPartition{}, err)
			return
		}
		for _, tp := range all {
			if !yield(tp, nil) {
				return
			}
		}
	}
}

// view returns what lookups in a partition are answered from.
func (x *StoreIndex) view(ctx context.Context, tp remotelog.TopicIDPartition) (*storeView, error) {
	if v := x.kept(tp); v != nil {
		return v, ctx.Err()
	}
	select {
	case x.loading <- struct{}{}:
		defer func() { <-x.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if v := x.kept(tp); v != nil { // read while we waited
		return v, nil
	}
	all, err := x.scan(ctx, tp)
	if err != nil {
		return nil, err
	}
	v, err := x.newView(ctx, tp, all)
	if err != nil {
		return nil, err
	}
	x.keep(tp, v)
	return v, nil
}

func (x *StoreIndex) kept(tp remotelog.TopicIDPartition) *storeView {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.views[tp]
	if v == nil || x.o.Now().Sub(v.read) > x.o.MaxAge {
		return nil
	}
	return v
}

// keep remembers a view, in the place of the oldest one if there are many.
func (x *StoreIndex) keep(tp remotelog.TopicIDPartition, v *storeView) {
	if x.o.MaxAge < 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	v.read = x.o.Now()
	x.views[tp] = v
	if len(x.views) <= keptViews {
		return
	}
	oldest := tp
	for other, o := range x.views {
		if o.read.Before(x.views[oldest].read) {
			oldest = other
		}
	}
	delete(x.views, oldest)
}
