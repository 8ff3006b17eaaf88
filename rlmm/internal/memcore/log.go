package memcore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"sort"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// epochStart says that events from Offset on were written in Epoch, up to the next entry.
type epochStart struct {
	epoch  int32
	offset int64
}

// partition is one sequence of events. Its slices are only ever appended to or replaced, never changed in place, so that a
// reader may use what it took under the lock.
type partition struct {
	first  int64
	next   int64
	epoch  int32 // of the next event
	epochs []epochStart
	events []rlmm.Event
}

// Log is an event log in memory.
type Log struct {
	id  rlmm.LogID
	now func() time.Time

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed and replaced at every change
	parts   []partition
}

var _ rlmm.Log = (*Log)(nil)

// New makes an empty log. It panics if partitions is below 1.
func New(partitions int32, now func() time.Time) *Log {
	if partitions < 1 {
		panic(fmt.Sprintf("memlog: %d partitions, want at least 1", partitions))
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand, Go 1.24)
	return &Log{
		id:      rlmm.LogID("memory:" + hex.EncodeToString(id[:])),
		now:     now,
		changed: make(chan struct{}),
		parts:   make([]partition, partitions),
	}
}

// Identity implements rlmm.Log.
func (l *Log) Identity() rlmm.LogID { return l.id }

// Partitions implements rlmm.Log.
func (l *Log) Partitions() int32 { return int32(len(l.parts)) }

// Append implements rlmm.Log. It never has an unknown outcome.
func (l *Log) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	if err := l.valid(p); err != nil {
		return rlmm.Position{}, err
	}
	if len(event) == 0 || len(event) > rlmm.MaxEventBytes {
		return rlmm.Position{}, fmt.Errorf("%w: event of %d bytes for metadata partition %d, want 1 to %d",
			remotelog.ErrInvalidArgument, len(event), p, rlmm.MaxEventBytes)
	}
	if err := ctx.Err(); err != nil {
		return rlmm.Position{}, err
	}
	return l.Put(p, nil, append([]byte(nil), event...))
}

// Bounds implements rlmm.Log.
func (l *Log) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed()
	}
	out := make(map[int32]rlmm.Bounds, len(ps))
	for _, p := range ps {
		if err := l.valid(p); err != nil {
			return nil, err
		}
		out[p] = rlmm.Bounds{First: l.parts[p].first, Next: l.parts[p].next}
	}
	return out, nil
}

// Check implements rlmm.Log.
func (l *Log) Check(ctx context.Context, at map[int32]rlmm.Position) ([]rlmm.Loss, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed()
	}
	var lost []rlmm.Loss
	for p, pos := range at {
		if err := l.valid(p); err != nil {
			return nil, err
		}
		if loss, ok := l.parts[p].lost(p, pos); ok {
			lost = append(lost, loss)
		}
	}
	return lost, nil
}

// Follow implements rlmm.Log.
func (l *Log) Follow(from map[int32]rlmm.Position) rlmm.Follower {
	return &follower{log: l, at: maps.Clone(from), wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Close implements rlmm.Log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.changed)
	}
	return nil
}

func (l *Log) valid(p int32) error {
	if p < 0 || int(p) >= len(l.parts) {
		return fmt.Errorf("%w: metadata partition %d, the log has %d", remotelog.ErrInvalidArgument, p, len(l.parts))
	}
	return nil
}

// change runs f on a partition and wakes every reader.
func (l *Log) change(p int32, f func(*partition)) error {
	if err := l.valid(p); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed()
	}
	f(&l.parts[p])
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// lost says whether a reader at pos has lost its place.
func (pt *partition) lost(p int32, pos rlmm.Position) (rlmm.Loss, bool) {
	loss := rlmm.Loss{Partition: p, From: pos, Resume: rlmm.Position{Offset: pt.first, Epoch: -1}}
	epoch := pt.epochOf(pos.Offset - 1)
	switch {
	case pos.Offset > pt.next, pos.Epoch >= 0 && epoch >= 0 && pos.Epoch != epoch:
		loss.Kind = rlmm.Truncated
	case pos.Offset < pt.first:
		loss.Kind = rlmm.HeadGone
	default:
		return rlmm.Loss{}, false
	}
	return loss, true
}

// epochOf returns the epoch in which an offset was written, -1 if that is not known.
func (pt *partition) epochOf(offset int64) int32 {
	i := sort.Search(len(pt.epochs), func(i int) bool { return pt.epochs[i].offset > offset })
	if i == 0 {
		return -1
	}
	return pt.epochs[i-1].epoch
}

func errClosed() error { return fmt.Errorf("metadata log in memory: %w", remotelog.ErrClosed) }
