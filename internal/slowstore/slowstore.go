package slowstore

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// Options of a Driver. Zero ones slow nothing down.
type Options struct {
	FirstByte      time.Duration // from the request to the first byte
	BytesPerSecond int64         // of each connection
	Now            func() time.Time
}

// Driver slows Get of another driver down. What else that can do, optional interfaces apart, it does at its own speed.
type Driver struct {
	backends.Driver
	o Options

	gets, bytes, running, peak atomic.Int64
}

var _ backends.Driver = (*Driver)(nil)

// New returns a Driver over inner.
func New(inner backends.Driver, o Options) *Driver { return &Driver{Driver: inner, o: o} }

// Stats is what was asked of a Driver.
type Stats struct {
	Gets  int64 // requests
	Bytes int64 // that were read of them
	Peak  int64 // the most that were open at a time
}

// Stats returns the present numbers.
func (d *Driver) Stats() Stats { return Stats{d.gets.Load(), d.bytes.Load(), d.peak.Load()} }

// Reset begins to count anew.
func (d *Driver) Reset() {
	d.gets.Store(0)
	d.bytes.Store(0)
	d.peak.Store(d.running.Load())
}

// Get implements backends.Driver.
func (d *Driver) Get(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
	d.gets.Add(1)
	began := d.o.Now()
	d.begin()
	if err := wait(ctx, d.o.FirstByte); err != nil {
		d.running.Add(-1)
		return nil, err
	}
	obj, err := d.Driver.Get(ctx, key, o)
	if err != nil {
		d.running.Add(-1)
		return nil, err
	}
	obj.Body = &body{ReadCloser: obj.Body, ctx: ctx, d: d, began: began.Add(d.o.FirstByte)}
	return obj, nil
}

func (d *Driver) begin() {
	n := d.running.Add(1)
	for peak := d.peak.Load(); n > peak && !d.peak.CompareAndSwap(peak, n); peak = d.peak.Load() {
	}
}

// body delivers no byte before a connection of that rate would have.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // an io.Reader has no other way to get it
	d      *Driver
	began  time.Time
	sent   int64
	closed atomic.Bool
}

// piece is the most that is delivered at a time.
const piece = 64 << 10

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), piece)])
	b.sent += int64(n)
	b.d.bytes.Add(int64(n))
	if rate := b.d.o.BytesPerSecond; rate > 0 && n > 0 {
		due := b.began.Add(time.Duration(float64(b.sent) / float64(rate) * float64(time.Second)))
		if werr := wait(b.ctx, due.Sub(b.d.o.Now())); werr != nil {
			return 0, werr
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.d.running.Add(-1)
	}
	return b.ReadCloser.Close()
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
