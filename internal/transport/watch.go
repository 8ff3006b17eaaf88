package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// watch ends a request when its timer is not set again in time. Timers are stopped on every way out.
type watch struct {
	limit time.Duration
	timer *time.Timer

	mu   sync.Mutex
	over bool // the request was answered: sending does not set the timer any more
}

func newWatch(limit time.Duration, cancel context.CancelCauseFunc) *watch {
	w := &watch{limit: limit}
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

// sending is a request's body: each Read shows that the connection took what came before.
type sending struct {
	io.ReadCloser
	w    *watch
	tail time.Duration // after the last byte: what is buffered has to go out and the answer to come
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
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
	left   int64 // announced and not yet read; below 0 from the start: not known
}

func (r *receiving) Read(p []byte) (int, error) {
	r.w.timer.Reset(r.w.limit)
	n, err := r.ReadCloser.Read(p)
	r.w.timer.Stop()
	r.left -= int64(n)
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
