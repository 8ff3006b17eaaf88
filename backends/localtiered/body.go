package localtiered

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/regular"
)

// body is a stream over a range of an object.
type body struct {
	d     *Driver
	ctx   context.Context //nolint:containedctx // rules the stream until Close
	r     io.Reader
	files []*os.File

	mu     sync.Mutex // held by Read: a file is not closed below it
	closed bool
}

var _ io.ReadCloser = (*body)(nil)

// open opens the files of an object that the range touches.
func (d *Driver) open(ctx context.Context, o *object, off, length int64) (*body, error) {
	b := &body{d: d, ctx: ctx}
	if o.files == nil {
		b.r = bytes.NewReader(o.bytes[off : off+length])
		return b, nil
	}
	var parts []io.Reader
	for _, f := range o.files {
		n := min(f.size-off, length)
		if n <= 0 {
			off = max(off-f.size, 0)
			continue
		}
		opened, _, err := regular.Open(f.path)
		if err != nil {
			return nil, errors.Join(failure(err), b.Close())
		}
		b.files = append(b.files, opened)
		parts = append(parts, &exact{io.NewSectionReader(opened, off, n), n})
		off, length = 0, length-n
	}
	b.r = io.MultiReader(parts...)
	return b, nil
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, backends.Errorf(backends.Closed, "read after close")
	}
	if err := b.d.ready(b.ctx); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = failure(err)
	}
	return n, err
}

// exact is a range of a file, all of it or an error: a file that is shorter now must not make the next one's bytes move up.
type exact struct {
	r    io.Reader
	left int64
}

func (x *exact) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	x.left -= int64(n)
	if errors.Is(err, io.EOF) && x.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. A Read of a local file returns by itself.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	var errs []error
	for _, f := range b.files {
		errs = append(errs, f.Close())
	}
	b.files = nil
	return errors.Join(errs...)
}
