package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// leastRate is how many bytes a second have to move on average: far below what any link to a store is good for, and so much that
	// the largest request has an end. Otherwise a server that takes a byte before each stall would hold a call for ever.
	leastRate = 1024
	// rateWindow is over how many times the stall timeout the average is taken.
	rateWindow = 4
)

// watch ends a request when its timer is not set again in time, or too little moves. Timers are stopped on every way out.
type watch struct {
	limit  time.Duration
	timer  *time.Timer
	now    func() time.Time
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	over bool // the request was answered: sending does not set the timer any more
}

func newWatch(limit time.Duration, now func() time.Time, cancel context.CancelCauseFunc) *watch {
	w := &watch{limit: limit, now: now, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(&TimeoutError{"no byte moved", limit}) })
	w.timer.Stop()
	return w
}

// sends sets the timer while the request is sent.
func (w *watch) sends(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.timer.Reset(d)
	}
}

// stop ends the watch over sending. net/http may read the request's body even after the answer.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}

// explain replaces the error of a request that a timer has ended by that timer's.
func (w *watch) explain(ctx context.Context, err error) error {
	if why, ok := errors.AsType[*TimeoutError](context.Cause(ctx)); ok {
		return why
	}
	return err
}

// pace is how fast one direction of a request is. It belongs to the goroutine that sends or receives.
type pace struct {
	busy  time.Duration // that the network took since the average was taken last
	bytes int64         // that moved in it
}

// moved says what the network did, and in which time. An error: too little, and the request is ended.
func (p *pace) moved(w *watch, n int, took time.Duration) error {
	p.busy += took
	p.bytes += int64(n)
	if p.busy < rateWindow*w.limit {
		return nil
	}
	was := *p
	*p = pace{}
	if float64(was.bytes) >= leastRate*was.busy.Seconds() {
		return nil
	}
	err := &TimeoutError{fmt.Sprintf("fewer than %d bytes a second moved", leastRate), was.busy}
	w.cancel(err)
	return err
}

// sending is a request's body: each Read shows that the connection took what came before.
type sending struct {
	io.ReadCloser
	w    *watch
	tail time.Duration // after the last byte: what is buffered has to go out and the answer to come
	pace pace
	last int       // bytes that the Read before returned
	at   time.Time // when it did
}

func (s *sending) Read(p []byte) (int, error) {
	if s.last > 0 {
		if err := s.pace.moved(s.w, s.last, s.w.now().Sub(s.at)); err != nil {
			return 0, err
		}
	}
	n, err := s.ReadCloser.Read(p)
	s.last, s.at = n, s.w.now()
	if err != nil {
		s.w.sends(s.tail)
	} else {
		s.w.sends(s.w.limit)
	}
	return n, err
}

// receiving is an answer's body. Only a Read that blocks is watched: a reader that takes its time is no stall of the store. An end before as many bytes came
// as were announced is no end, whoever below says so.
type receiving struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // of the request whose body this is
	w      *watch
	cancel context.CancelCauseFunc
	pace   pace
	left   int64 // announced and not yet read; below 0 from the start: not known
}

func (r *receiving) Read(p []byte) (int, error) {
	r.w.timer.Reset(r.w.limit)
	began := r.w.now()
	n, err := r.ReadCloser.Read(p)
	r.w.timer.Stop()
	r.left -= int64(n)
	if slow := r.pace.moved(r.w, n, r.w.now().Sub(began)); slow != nil && err == nil {
		return n, slow
	}
	if err == io.EOF && r.left > 0 {
		return n, io.ErrUnexpectedEOF
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, r.w.explain(r.ctx, err)
}

// Close ends the request if it is not over; a Read under way fails.
func (r *receiving) Close() error {
	r.cancel(nil)
	return r.ReadCloser.Close()
}
