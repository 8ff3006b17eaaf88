package memlogtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/internal/memcore"
)

// AppendFunc stands between a caller and the log. land appends the event and may be called now, later from another goroutine,
// or never, but not twice; what AppendFunc returns is what the caller of Append gets. The test keeps the contract of
// rlmm.Log.Append, or breaks it on purpose.
type AppendFunc func(ctx context.Context, p int32, event []byte, land func() (rlmm.Position, error)) (rlmm.Position, error)

// Log is a memory log with faults. All faults take effect at once for every follower.
type Log struct {
	*core

	mu     sync.Mutex
	append AppendFunc
}

// core hides the name of the embedded log.
type core = memcore.Log

var _ rlmm.Log = (*Log)(nil)

// New makes an empty log with a random identity and the system's clock.
func New(partitions int32) *Log { return &Log{core: memcore.New(partitions, time.Now)} } //nolint:forbidigo // a test helper

// OnAppend puts f before every later Append; nil removes it.
func (l *Log) OnAppend(f AppendFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append = f
}

// Append implements rlmm.Log.
func (l *Log) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	l.mu.Lock()
	f := l.append
	l.mu.Unlock()
	if f == nil {
		return l.core.Append(ctx, p, event)
	}
	event = append([]byte(nil), event...) // land may run after Append returned
	return f(ctx, p, event, func() (rlmm.Position, error) { return l.core.Append(context.WithoutCancel(ctx), p, event) })
}

// Unknown is an AppendFunc whose event lands and whose caller is not told so.
func Unknown(_ context.Context, p int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
	if _, err := land(); err != nil {
		return rlmm.Position{}, err
	}
	return rlmm.Position{}, unknown(p)
}

// UnknownNever is an AppendFunc whose event never lands and whose caller is told that it may.
func UnknownNever(_ context.Context, p int32, _ []byte, _ func() (rlmm.Position, error)) (rlmm.Position, error) {
	return rlmm.Position{}, unknown(p)
}

// UnknownUntil returns an AppendFunc whose caller is told at once that the outcome is unknown, and a function that lands
// everything held back so far, in order.
func UnknownUntil() (f AppendFunc, landAll func()) {
	var mu sync.Mutex
	var held []func() (rlmm.Position, error)
	f = func(_ context.Context, p int32, _ []byte, land func() (rlmm.Position, error)) (rlmm.Position, error) {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, land)
		return rlmm.Position{}, unknown(p)
	}
	return f, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, land := range held {
			_, _ = land() // ErrClosed at the end of a test is as good as never
		}
		held = nil
	}
}

func unknown(p int32) error {
	return fmt.Errorf("append to metadata partition %d: injected: %w", p, remotelog.ErrOutcomeUnknown)
}
