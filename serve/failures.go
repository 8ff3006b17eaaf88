package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

const (
	// firstFailure is how long what failed is not tried again; each further failure doubles it, up to lastFailure. A broker asks for what
	// failed a thousand times a second and more (measured: 1 400 to 4 100).
	firstFailure = 100 * time.Millisecond
	lastFailure  = 5 * time.Second
	// forgetFailure is the time after which a failure says nothing about the next try.
	forgetFailure = 2 * lastFailure
	// heldFor is how long an answer from an entry is held, and maxHeld how many at a time: it slows the asking down without holding many
	// of the broker's ten readers.
	heldFor = 200 * time.Millisecond
	maxHeld = 2
	// maxFailures bounds the entries.
	maxFailures = 4096
)

// failures remember what failed just now.
type failures struct {
	now    func() time.Time
	counts *counts
	hold   chan struct{} // capacity maxHeld

	mu sync.Mutex
	at map[place]*failure
}

// failure is one entry.
type failure struct {
	err    error
	until  time.Time
	delay  time.Duration
	trying bool // a call asks the store now
}

func newFailures(now func() time.Time, c *counts) *failures {
	return &failures{now: now, counts: c, hold: make(chan struct{}, maxHeld), at: map[place]*failure{}}
}

// known is an error that has an entry: for a while the answer stays the same.
type known struct {
	err   error
	lasts time.Duration
}

func (k *known) Error() string { return k.err.Error() }
func (k *known) Unwrap() error { return k.err }

// try begins a try at a place. Either it returns the error of an entry, or the caller goes on and calls ended with what became of it, nil for
// success; it gets that error back, with what is known of it from now on.
func (f *failures) try(at place) (ended func(error) error, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.at[at]
	if e == nil {
		return func(err error) error { return f.first(at, err) }, nil
	}
	left := e.until.Sub(f.now())
	if e.trying {
		left = firstFailure // of the call that tries now
	}
	if left > 0 {
		f.counts.answered.Add(1)
		return nil, &known{e.err, left}
	}
	e.trying = true
	return func(err error) error { return f.next(at, e, err) }, nil
}

// holdBack holds an answer from an entry, if not too many are held.
func (f *failures) holdBack(ctx context.Context) {
	select {
	case f.hold <- struct{}{}:
	default:
		return
	}
	defer func() { <-f.hold }()
	f.counts.held.Add(1)
	t := time.NewTimer(heldFor)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// first makes an entry of a failure where there was none.
func (f *failures) first(at place, err error) error {
	if !lasting(err) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at[at] != nil || !f.room() {
		return err
	}
	f.at[at] = &failure{err: err, delay: firstFailure, until: f.now().Add(firstFailure)}
	return &known{err, firstFailure}
}

// next says what became of a try where there was an entry.
func (f *failures) next(at place, e *failure, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.trying = false
	switch {
	case f.at[at] != e: // the segment was copied or deleted meanwhile
	case err == nil:
		delete(f.at, at)
	case lasting(err):
		if e.delay = min(2*e.delay, lastFailure); f.now().Sub(e.until) > forgetFailure {
			e.delay = firstFailure
		}
		e.err, e.until = err, f.now().Add(e.delay)
		return &known{err, e.delay}
	}
	return err
}

// lasting tells the failures that say something about the next try from those of the call itself.
func lasting(err error) bool {
	switch {
	case err == nil, isContext(err), errors.Is(err, errLate), errors.Is(err, errStopping):
		return false
	case errors.Is(err, remotelog.ErrNoIndex), errors.Is(err, remotelog.ErrClosed):
		return false
	}
	return true
}

// room says whether there is room for one more entry, after those that say nothing any more were dropped. Called with mu held.
func (f *failures) room() bool {
	if len(f.at) < maxFailures {
		return true
	}
	now := f.now()
	for at, e := range f.at {
		if !e.trying && now.After(e.until) {
			delete(f.at, at)
		}
	}
	return len(f.at) < maxFailures
}

// forget drops the entries of a segment.
func (f *failures) forget(id remotelog.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := range f.at {
		if at.segment.ID == id {
			delete(f.at, at)
		}
	}
}

func (f *failures) entries() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.at))
}
