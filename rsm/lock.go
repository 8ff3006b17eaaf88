package rsm

import (
	"context"
	"sync"

	"github.com/tierkit/tierkit/remotelog"
)

// segmentLocks lets one copy or delete run at a time for each segment id.
type segmentLocks struct {
	mu sync.Mutex
	m  map[remotelog.UUID]*segmentLock
}

type segmentLock struct {
	token chan struct{} // capacity 1: full while somebody holds the lock
	users int           // who hold it or wait for it
}

// lock waits for the lock of id, or for the end of ctx.
func (l *segmentLocks) lock(ctx context.Context, id remotelog.UUID) (unlock func(), err error) {
	l.mu.Lock()
	if l.m == nil {
		l.m = make(map[remotelog.UUID]*segmentLock)
	}
	s := l.m[id]
	if s == nil {
		s = &segmentLock{token: make(chan struct{}, 1)}
		l.m[id] = s
	}
	s.users++
	l.mu.Unlock()
	select {
	case s.token <- struct{}{}:
		return func() { <-s.token; l.leave(id, s) }, nil
	case <-ctx.Done():
		l.leave(id, s)
		return nil, ctx.Err()
	}
}

func (l *segmentLocks) leave(id remotelog.UUID, s *segmentLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(l.m, id)
	}
}
