package mem

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
)

const (
	maxKeyBytes   = 1024 // S3: "object key name, up to 1024 bytes"
	maxBulkDelete = 1000 // S3: DeleteObjects
	maxObject     = 1 << 40
	pageSize      = 1000
)

// Options of a client. The zero value is usable.
type Options struct {
	MaxBytes int64            // what this client may fill the Space up to; 0: no bound
	Now      func() time.Time // nil: time.Now
}

// Driver is one client of a Space.
type Driver struct {
	space    *Space
	maxBytes int64
	now      func() time.Time
	closed   atomic.Bool
}

var (
	_ backends.Driver      = (*Driver)(nil)
	_ backends.BulkDeleter = (*Driver)(nil)
	_ backends.Prober      = (*Driver)(nil)
)

// Client returns a driver over the Space.
func (s *Space) Client(o Options) *Driver {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	return &Driver{space: s, maxBytes: o.MaxBytes, now: o.Now}
}

// Properties are those of a rich object store.
func (d *Driver) Properties() backends.Properties {
	return backends.Properties{
		Name: "mem", MaxKeyBytes: maxKeyBytes, MaxObjectBytes: maxObject, MaxBulkDelete: maxBulkDelete,
		IfAbsent: true, FlatKeys: true, Versions: true, UserMeta: true,
	}
}

// ready is the first step of every method.
func (d *Driver) ready(ctx context.Context) error {
	if d.closed.Load() {
		return backends.Errorf(backends.Closed, "the driver was closed")
	}
	return ctx.Err()
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	if err := d.ready(ctx); err != nil {
		return backends.Info{}, err
	}
	o, ok := d.space.get(key)
	if !ok {
		return backends.Info{}, missing(key)
	}
	return o.publicInfo(), nil
}

// Delete implements backends.Driver.
func (d *Driver) Delete(ctx context.Context, key string) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	d.space.remove(key)
	return nil
}

// DeleteMany implements backends.BulkDeleter.
func (d *Driver) DeleteMany(ctx context.Context, keys []string) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	if len(keys) > maxBulkDelete {
		return backends.Errorf(backends.InvalidArgument, "%d keys in one call, at most %d are possible", len(keys), maxBulkDelete)
	}
	for _, key := range keys {
		d.space.remove(key)
	}
	return nil
}

// List implements backends.Driver.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := d.ready(ctx); err != nil {
		return backends.Page{}, err
	}
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	n := pageSize
	if opts.Limit > 0 {
		n = min(n, opts.Limit)
	}
	infos, more := d.space.page(opts.Prefix, after, n)
	page := backends.Page{Infos: infos}
	if more {
		page.Next = backends.AfterKey(infos[len(infos)-1].Key)
	}
	return page, nil
}

// Probe implements backends.Prober: there is nothing that could be wrong.
func (d *Driver) Probe(ctx context.Context) error { return d.ready(ctx) }

// Close implements backends.Driver. Calls in flight and open bodies fail with Closed at their next step; the Space stays.
func (d *Driver) Close() error {
	d.closed.Store(true)
	return nil
}

func missing(key string) error {
	return backends.Errorf(backends.NotFound, "there is no object %q", key)
}

func version(n uint64) string { return strconv.FormatUint(n, 10) }
