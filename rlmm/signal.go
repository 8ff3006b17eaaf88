package rlmm

import "sync"

// signal wakes everybody who waits for something to change; who wakes looks again.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that closes at the next raise. Take it before looking.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
