package gcs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"sync/atomic"

	"cloud.google.com/go/storage"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/membudget"
)

// contentType of every object. Without one the SDK guesses from the bytes.
const contentType = "application/octet-stream"

// maxIdle bounds reads in a row that bring nothing and say nothing.
const maxIdle = 100

// Put implements backends.Driver: one upload by the SDK's Writer.
//
// To close a Writer is to commit what was written so far. So there is one place that closes it, and it closes after the context of the Writer was
// cancelled unless the body came to its end as announced: a cancelled Writer sends nothing any more.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	if err := d.enter(ctx, key); err != nil {
		return backends.Info{}, err
	}
	if opts.IfAbsent { // refuse before the body is read
		switch _, err := d.Stat(ctx, key); {
		case err == nil:
			return backends.Info{}, backends.Exists
		case !errors.Is(err, backends.NotFound) && !errors.Is(err, backends.Denied):
			return backends.Info{}, err
		}
	}
	buf, giveBack, err := d.memory(opts)
	if err != nil {
		return backends.Info{}, err
	}
	defer giveBack()
	u := &upload{d: d, key: key, opts: opts, token: newToken(opts.Meta), buf: buf}
	info, err := u.run(ctx, body)
	return info, d.explainPut(ctx, err)
}

// explainPut tells a missing bucket, whose answer to a Put is a plain 404.
func (d *Driver) explainPut(ctx context.Context, err error) error {
	if err == nil || backends.CodeOf(err) != backends.NotFound {
		return err
	}
	return d.present(ctx, err)
}

// memory returns our buffer. The SDK's own, of one chunk, is charged.
func (d *Driver) memory(opts backends.PutOptions) (buf []byte, giveBack func(), err error) {
	if opts.Memory == nil {
		return make([]byte, copyBytes), func() {}, nil
	}
	chunk := d.chunkFor(opts.Size)
	share := opts.Memory.Split(chunk + membudget.Capacity(copyBytes))
	if share == nil {
		return nil, nil, backends.Errorf(backends.InvalidArgument, "the memory given to Put has no %d bytes left, see PutMemory", chunk)
	}
	share.Charge(chunk)
	return share.Buffer(copyBytes), share.Release, nil
}

// upload is one Put.
type upload struct {
	d     *Driver
	key   string
	opts  backends.PutOptions
	token string // "": metadata has no room for it
	buf   []byte

	n   int64 // bytes of the body
	sum uint32
}

// run writes the body and commits it.
func (u *upload) run(ctx context.Context, body io.Reader) (backends.Info, error) {
	c, err := u.d.gate.Begin(ctx)
	if err != nil {
		return backends.Info{}, err
	}
	defer c.End()
	w := u.writer(c.Context())
	closed := false
	defer func() { // only if body panics
		if !closed {
			c.End()
			_ = w.Close() // cancelled: it commits nothing
		}
	}()
	bodyErr, err := u.copy(c, w, body)
	if bodyErr != nil {
		closed = true
		c.End()
		_ = w.Close() // cancelled: it commits nothing
		return backends.Info{}, bodyErr
	}
	closed = true
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return u.resolve(ctx, u.d.classify(c, err, u.step()))
	}
	return u.verify(ctx, w.Attrs())
}

func (u *upload) step() step {
	if u.opts.IfAbsent {
		return stepPutIfAbsent
	}
	return stepPut
}

// writer sets everything that has no good default. Attempts are counted as long as nothing moves.
func (u *upload) writer(ctx context.Context) *storage.Writer {
	d := u.d
	var failed atomic.Int64
	obj := d.bucket.Object(u.key)
	if u.opts.IfAbsent {
		obj = obj.If(storage.Conditions{DoesNotExist: true})
	}
	obj = obj.Retryer(storage.WithErrorFunc(func(err error) bool {
		if err == nil { // asked after each piece that came through, too
			failed.Store(0)
			return false
		}
		return failed.Add(1) < int64(d.o.MaxAttempts) && retryable(err)
	}))
	w := obj.NewWriter(ctx)
	w.ChunkSize = int(d.chunkFor(u.opts.Size))
	w.ChunkRetryDeadline, w.ChunkTransferTimeout = d.o.RetryDeadline, d.o.ChunkTimeout
	w.ContentType, w.StorageClass = contentType, d.o.StorageClass
	w.Metadata = maps.Clone(u.opts.Meta)
	if u.token != "" {
		if w.Metadata == nil {
			w.Metadata = make(map[string]string, 1)
		}
		w.Metadata[metaToken] = u.token
	}
	if sum := u.opts.CRC32C; sum != nil {
		w.CRC32C, w.SendCRC32C = *sum, true
	}
	return w
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // a table that the standard library keeps

// copy gives the body to the Writer. bodyErr is what must not be committed: an error of the body, another size or checksum than announced, the end
// of the call. err is an error of the Writer.
func (u *upload) copy(c *httpstore.Call, w io.Writer, body io.Reader) (bodyErr, err error) {
	for idle := 0; ; {
		if why := c.Ended(); why != nil {
			return why, nil
		}
		n, rerr := body.Read(u.buf)
		u.n += int64(n)
		if idle++; n > 0 {
			idle = 0
		}
		switch {
		case u.opts.Size >= 0 && u.n > u.opts.Size:
			return backends.Errorf(backends.SizeMismatch, "the body has more than the %d bytes announced", u.opts.Size), nil
		case u.n > maxObject:
			return backends.Errorf(backends.InvalidArgument, "the body has more than the %d bytes that an object can have", int64(maxObject)), nil
		case rerr != nil && rerr != io.EOF:
			return rerr, nil
		case idle > maxIdle:
			return io.ErrNoProgress, nil
		}
		u.sum = crc32.Update(u.sum, castagnoli(), u.buf[:n])
		if n > 0 && err == nil {
			if _, err = w.Write(u.buf[:n]); err != nil {
				return nil, err
			}
		}
		if rerr == io.EOF {
			return u.check(), nil
		}
	}
}

// check is the last look before the commit.
func (u *upload) check() error {
	if u.opts.Size >= 0 && u.n != u.opts.Size {
		return backends.Errorf(backends.SizeMismatch, "the body has %d bytes, announced were %d", u.n, u.opts.Size)
	}
	if want := u.opts.CRC32C; want != nil && *want != u.sum {
		return backends.Errorf(backends.Corrupt, "the body has CRC-32C %08x, announced was %08x", u.sum, *want)
	}
	return nil
}

// verify compares what the store says that it has with what was sent. An object that differs is removed, if it is still this one.
func (u *upload) verify(ctx context.Context, a *storage.ObjectAttrs) (backends.Info, error) {
	if a.Size == u.n && a.CRC32C == u.sum {
		return u.info(a), nil
	}
	err := backends.Errorf(backends.Corrupt, "the store has %d bytes with CRC-32C %08x, sent were %d with %08x", a.Size, a.CRC32C, u.n, u.sum)
	return backends.Info{}, errors.Join(err, u.remove(ctx, a.Generation))
}

func (u *upload) info(a *storage.ObjectAttrs) backends.Info {
	info := infoOf(a)
	info.Key, info.Meta = u.key, u.opts.Meta
	return info
}

func (u *upload) remove(ctx context.Context, generation int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout/2)
	defer cancel()
	_, err := call(ctx, u.d, stepDelete, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, u.d.bucket.Object(u.key).If(storage.Conditions{GenerationMatch: generation}).Delete(ctx)
	})
	switch backends.CodeOf(err) { //nolint:exhaustive // the two that say that it is gone
	case backends.NotFound, backends.Precondition:
		return nil
	}
	if err != nil {
		return fmt.Errorf("the damaged object could not be removed: %w", err)
	}
	return nil
}

// resolve finds out what became of a commit whose answer is not known: a token in the object's metadata tells whether it is ours.
func (u *upload) resolve(ctx context.Context, err error) (backends.Info, error) {
	e, ok := errors.AsType[*backends.Error](err)
	if ok && !e.Ambiguous && ctx.Err() == nil {
		return backends.Info{}, err
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout/2)
	defer cancel()
	a, ferr := u.d.attrs(clean, u.key)
	switch {
	case ferr == nil && u.token != "" && a.Metadata[metaToken] == u.token:
		return u.verify(ctx, a)
	case ferr == nil && ok && e.Code == backends.Exists: // somebody else's object: ours was refused
		e.Ambiguous = false
		return backends.Info{}, err
	case backends.CodeOf(ferr) == backends.NotFound:
		ferr = nil
	}
	if ferr != nil {
		ferr = fmt.Errorf("it cannot be told whether the object was stored: %w", ferr)
	}
	return backends.Info{}, errors.Join(err, ferr)
}
