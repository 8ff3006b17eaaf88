package backends

import (
	"context"
	"fmt"
	"time"
)

// closeWait bounds how long Close waits for calls in flight: their clean-up has 30 s of its own.
const closeWait = 35 * time.Second

// enter counts a call in, or refuses it.
func (s *Store) enter(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return &Error{Code: Closed, Err: errStoreClosed}
	}
	s.runs[r] = struct{}{}
	return nil
}

// armed tells Close how to end the call.
func (s *Store) armed(r *run, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.cancel = cancel
	if s.closing { // between enter and here
		cancel(errStoreClosed)
	}
}

// leftOpen makes Close call f for a run that goes on after its call. It reports false when the Store is closing already.
func (s *Store) leftOpen(r *run, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.onClose = f
	return !s.closing
}

func (s *Store) leave(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r)
	if s.closing && len(s.runs) == 0 {
		close(s.idle)
	}
}

// Close ends the calls in flight with Closed, closes open bodies, waits until all of them returned, and closes the driver. It is
// idempotent; a second call waits for the first. A call that does not return (a body of the caller's that blocks in Read)
// holds it for at most 35 s.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.closed
		return s.closeErr
	}
	s.closing = true
	var open []func()
	for r := range s.runs {
		if r.onClose != nil {
			open = append(open, r.onClose)
		}
		if r.cancel != nil {
			r.cancel(errStoreClosed)
		}
	}
	if len(s.runs) == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	defer close(s.closed)
	for _, f := range open {
		f()
	}
	s.closeErr = s.closeDriver()
	return s.closeErr
}

func (s *Store) closeDriver() error {
	stuck := 0
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-s.idle:
	case <-t.C:
		s.mu.Lock()
		stuck = len(s.runs)
		s.mu.Unlock()
	}
	r := &run{s: s, op: OpClose}
	err := s.driver.Close()
	if err == nil && stuck > 0 {
		err = &Error{Code: Timeout, Err: fmt.Errorf("%d calls did not end within %s", stuck, closeWait)}
	}
	if err == nil {
		return nil
	}
	return r.coded(err)
}
