package memlog

import (
	"context"
	"time"

	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/internal/memcore"
)

// Options configure a Log. The zero value is one partition.
type Options struct {
	// Partitions is the number of metadata partitions; 0 means 1.
	Partitions int32
	// Now is the clock of Event.TimestampMs; nil means the system's.
	Now func() time.Time
}

// Log is an event log in memory. It holds no goroutine.
type Log struct {
	core *memcore.Log
}

var _ rlmm.Log = (*Log)(nil)

// New makes an empty log with a random identity. It panics if Partitions is negative.
func New(o Options) *Log {
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of an injectable clock
	}
	return &Log{core: memcore.New(o.Partitions, o.Now)}
}

// Identity implements rlmm.Log.
func (l *Log) Identity() rlmm.LogID { return l.core.Identity() }

// Partitions implements rlmm.Log.
func (l *Log) Partitions() int32 { return l.core.Partitions() }

// Append implements rlmm.Log. Its outcome is always known.
func (l *Log) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	return l.core.Append(ctx, p, event)
}

// Bounds implements rlmm.Log.
func (l *Log) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	return l.core.Bounds(ctx, ps)
}

// Check implements rlmm.Log.
func (l *Log) Check(ctx context.Context, at map[int32]rlmm.Position) ([]rlmm.Loss, error) {
	return l.core.Check(ctx, at)
}

// Follow implements rlmm.Log.
func (l *Log) Follow(from map[int32]rlmm.Position) rlmm.Follower { return l.core.Follow(from) }

// Close implements rlmm.Log.
func (l *Log) Close() error { return l.core.Close() }
