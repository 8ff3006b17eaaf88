package mem

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/tierkit/tierkit/backends"
)

// Get implements backends.Driver.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	o, ok := d.space.get(key)
	if !ok {
		return nil, missing(key)
	}
	if opts.IfVersion != "" && opts.IfVersion != o.info.Version {
		return nil, backends.Errorf(backends.Precondition, "the object has version %s, wanted is %s", o.info.Version, opts.IfVersion)
	}
	off, length, err := opts.Range.Resolve(o.info.Size)
	if err != nil {
		return nil, err
	}
	return &backends.Object{
		Body: &body{d: d, ctx: ctx, rest: o.data[off : off+length]}, Info: o.publicInfo(), Offset: off, Length: length,
	}, nil
}

// body reads from one version's bytes, which never change.
type body struct {
	d      *Driver
	ctx    context.Context //nolint:containedctx // rules the stream until Close
	rest   []byte
	closed atomic.Bool
}

var _ io.ReadCloser = (*body)(nil)

func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, backends.Errorf(backends.Closed, "read after close")
	}
	if err := b.d.ready(b.ctx); err != nil {
		return 0, err
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}
