package backends

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Bounds of resuming a broken stream. The second one alone would end a long stream over a bad line that makes good progress, so
// each resumeEarn bytes delivered add one more.
const (
	resumeStalled = 3  // in a row without a byte
	resumeTotal   = 20 // in all
	resumeEarn    = 512 << 10
	resumePause   = 100 * time.Millisecond // before the second in a row, doubled for the third
)

// body is the stream that Get hands out: exactly Length bytes and then io.EOF, or an error, which stays.
type body struct {
	s      *Store
	r      *run            // the Get: slot, context, place in Store.runs
	read   *run            // what is reported and named in errors: OpRead
	caller context.Context //nolint:containedctx // rules the stream until Close
	ctx    context.Context //nolint:containedctx // ends also with Close

	info    Info
	stalled int   // resumes since the last byte; of the reading goroutine
	pending error // what came with the last bytes; of the reading goroutine

	mu       sync.Mutex // guards what follows and the counts in read; the reading goroutine alone changes off and left
	off      int64
	left     int64
	cur      io.ReadCloser
	closed   bool
	err      error // sticky
	finished bool
}

var _ io.ReadCloser = (*body)(nil)

// Read is called from one goroutine at a time; Close may come from another.
func (b *body) Read(p []byte) (int, error) {
	cur, err := b.state()
	if err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	p = p[:min(int64(len(p)), b.left)]
	for {
		n, rerr := b.readOnce(cur, p)
		if n > 0 {
			return b.delivered(n, rerr)
		}
		if rerr == nil {
			return 0, nil
		}
		if cur, err = b.resume(rerr); err != nil {
			return 0, b.fail(err)
		}
	}
}

// state returns the stream to read from, or the answer.
func (b *body) state() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, b.read.coded(&Error{Code: Closed, Err: errors.New("read after close")})
	case b.err != nil:
		return nil, b.err
	case b.left == 0:
		return nil, io.EOF
	}
	return b.cur, nil
}

// readOnce reads from the driver's stream; its EOF comes too early as long as bytes are left.
func (b *body) readOnce(cur io.Reader, p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.pending; err != nil {
		b.pending = nil
		return 0, err
	}
	n, err := cur.Read(p)
	if n < 0 || n > len(p) {
		return 0, Errorf(Internal, "the driver's stream says that it read %d bytes into %d", n, len(p))
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// delivered accounts for n bytes, keeps the rate, and keeps the error that came with them for the next Read.
func (b *body) delivered(n int, rerr error) (int, error) {
	b.stalled = 0
	b.mu.Lock()
	b.off += int64(n)
	b.left -= int64(n)
	b.read.bytes += int64(n)
	left := b.left
	b.mu.Unlock()
	if left == 0 {
		rerr = nil
	}
	b.pending = rerr
	if err := b.s.download.wait(b.ctx, b.s.env.Now, n); err != nil {
		return n, b.fail(err)
	}
	if left == 0 {
		b.finish(nil)
	}
	return n, nil
}

// resumable reports whether a stream that broke with err may be opened again.
func (b *body) resumable(err error) bool {
	if b.ctx.Err() != nil {
		return false
	}
	code := CodeOf(err)
	return code == Unavailable || code == Timeout || code == Unknown && errors.Is(err, io.ErrUnexpectedEOF)
}

// resume opens the rest of the stream. The error is broken itself, or what made it final.
func (b *body) resume(broken error) (io.ReadCloser, error) {
	for {
		if !b.resumable(broken) {
			return nil, broken
		}
		if b.stalled >= resumeStalled || int64(b.read.resumes) >= resumeTotal+b.read.bytes/resumeEarn {
			return nil, broken
		}
		b.stalled++
		b.mu.Lock()
		b.read.resumes++
		b.read.attempts = 1 + b.read.resumes
		b.mu.Unlock()
		b.s.env.Log.WarnContext(b.ctx, "store stream broke, opening it again", "key", b.read.shown, "offset", b.off, "left", b.left,
			"resumes", b.read.resumes, "error", broken)
		if b.stalled > 1 {
			if err := sleep(b.ctx, resumePause<<(b.stalled-2)); err != nil {
				return nil, err
			}
		}
		cur, err := b.reopen()
		if err == nil {
			return cur, nil
		}
		if !b.resumable(err) {
			return nil, errors.Join(err, broken)
		}
		broken = err
	}
}

// reopen replaces the driver's stream by one over what is left of the same version.
func (b *body) reopen() (io.ReadCloser, error) {
	b.mu.Lock()
	old := b.cur
	b.mu.Unlock()
	_ = old.Close() // broken
	opts := GetOptions{Range: Range{Offset: b.off, Length: b.left}}
	if b.s.props.Versions {
		opts.IfVersion = b.info.Version
	}
	obj, err := b.s.driver.Get(b.ctx, b.r.full, opts)
	if err != nil {
		return nil, err
	}
	same := obj.Info.Size == b.info.Size && obj.Info.Version == b.info.Version && obj.Info.ModTime.Equal(b.info.ModTime)
	if !same || obj.Offset != b.off || obj.Length != b.left {
		_ = obj.Body.Close() // nothing was read
		return nil, Errorf(Precondition, "the object was replaced while it was read")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = obj.Body.Close() // nothing was read
		return nil, Errorf(Closed, "closed while it was opened again")
	}
	b.cur = obj.Body
	return obj.Body, nil
}

// fail makes err the stream's end.
func (b *body) fail(err error) error {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		err = &Error{Code: Closed, Err: errors.New("closed while it was read")}
	}
	err = b.read.wrap(b.caller, b.ctx, err)
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	b.finish(err)
	return err
}

// finish gives back the driver's stream, the slot and the context, and reports. Only the first call counts.
func (b *body) finish(err error) {
	b.mu.Lock()
	if b.finished {
		b.mu.Unlock()
		return
	}
	b.finished = true
	cur, report := b.cur, *b.read
	b.mu.Unlock()
	_ = cur.Close() // read side
	b.r.end()
	report.observe(b.caller, OpRead, err)
}

// Close ends the stream; a Read that blocks fails with Closed. It is idempotent.
func (b *body) Close() error {
	b.shut()
	return nil
}

// shut is Close, and what Store.Close does to open streams.
func (b *body) shut() {
	b.mu.Lock()
	b.closed = true
	cur := b.cur
	b.mu.Unlock()
	b.r.cancel(errStoreClosed)
	_ = cur.Close() // read side; unblocks Read
	b.finish(nil)
}
