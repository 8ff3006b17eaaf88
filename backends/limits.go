package backends

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// slots bounds how many operations run at a time; the bound can change meanwhile. The zero value bounds nothing. First come, first
// served.
type slots struct {
	mu      sync.Mutex
	limit   int // 0: none
	used    int
	waiting []chan struct{}
}

func (s *slots) setLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
	s.grant()
}

// grant lets in who may come in. Under the lock.
func (s *slots) grant() {
	for len(s.waiting) > 0 && (s.limit == 0 || s.used < s.limit) {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.used++
	}
}

// acquire takes a slot, or returns the error of ctx without one.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if len(s.waiting) == 0 && (s.limit == 0 || s.used < s.limit) {
		s.used++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	s.used-- // granted at the same moment
	s.grant()
	return ctx.Err()
}

func (s *slots) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.grant()
}

// rateLimit bounds bytes per second; the bound can change meanwhile. The zero value bounds nothing.
type rateLimit struct {
	mu  sync.Mutex
	lim *rate.Limiter // nil: none
}

// minBurst is the smallest number of bytes that may pass at once: below it a slow limit would chop reads into crumbs.
const minBurst = 64 << 10

func (l *rateLimit) set(bytesPerSecond int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	burst := int(max(minBurst, bytesPerSecond/10))
	switch {
	case bytesPerSecond == 0:
		l.lim = nil
	case l.lim == nil:
		l.lim = rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	default:
		l.lim.SetLimit(rate.Limit(bytesPerSecond))
		l.lim.SetBurst(burst)
	}
}

// wait lets n bytes pass. It does not use rate.Limiter.WaitN, which fails at once when n is above the burst, and with an error that is
// no context error when the deadline is too near.
func (l *rateLimit) wait(ctx context.Context, now func() time.Time, n int) error {
	l.mu.Lock()
	lim := l.lim
	l.mu.Unlock()
	for lim != nil && n > 0 {
		part := min(n, lim.Burst())
		at := now()
		res := lim.ReserveN(at, part)
		if !res.OK() {
			continue // the burst shrank meanwhile
		}
		if d := res.DelayFrom(at); d > 0 {
			if err := sleep(ctx, d); err != nil {
				res.CancelAt(now())
				return err
			}
		}
		n -= part
	}
	return nil
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
