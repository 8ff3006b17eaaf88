package backends

import (
	"context"
	"io"
)

// Get opens a stream over opts.Range: see Driver.Get for what holds. A range of length 0 is answered without the store, with
// Info.Size SizeUnknown. ctx rules the stream until it is closed; the operation's slot is held until the stream is read to its end,
// fails or is closed.
//
// A stream that breaks with Unavailable, Timeout or io.ErrUnexpectedEOF is opened again where it broke, on the same version of the
// object: at most 3 times without a byte in between, and 20 times in all plus once for each 512 KiB delivered.
func (s *Store) Get(ctx context.Context, key string, opts GetOptions) (*Object, error) {
	var obj *Object
	q := request{op: OpGet, key: key, rng: opts.Range, check: func() error { return checkGet(s.props, opts) }}
	if opts.Range.Length != 0 {
		q.slots = &s.reads
	}
	err := s.call(ctx, q, func(inner context.Context, r *run) (err error) {
		if opts.Range.Length == 0 {
			obj = &Object{Body: io.NopCloser(eof{}), Info: Info{Key: key, Size: SizeUnknown}, Offset: opts.Range.Offset}
			return nil
		}
		obj, err = s.driver.Get(inner, r.full, opts)
		if err != nil {
			return err
		}
		if err := checkObject(obj, opts.Range); err != nil {
			_ = obj.Body.Close() // nothing was read
			return err
		}
		return s.wrapBody(ctx, inner, r, obj)
	})
	if err != nil {
		return nil, err
	}
	obj.Info.Key = key
	return obj, nil
}

// checkObject sees that a driver (or a server that overlooked the range) gives what was asked for.
func checkObject(o *Object, asked Range) error {
	off, length, err := asked.Resolve(o.Info.Size)
	if err != nil {
		return Errorf(Internal, "opened although the range is not in the object of %d bytes", o.Info.Size)
	}
	if o.Offset != off || o.Length != length {
		return Errorf(Internal, "asked for %d bytes at %d, was given %d at %d", length, off, o.Length, o.Offset)
	}
	return nil
}

// wrapBody hands the run over to the body. An empty body ends it at once.
func (s *Store) wrapBody(caller, ctx context.Context, r *run, obj *Object) error {
	b := &body{
		s: s, r: r, caller: caller, ctx: ctx, cur: obj.Body, info: obj.Info, off: obj.Offset, left: obj.Length,
		read: &run{s: s, op: OpRead, full: r.full, shown: r.shown, rng: r.rng, started: s.env.Now()},
	}
	r.handedOver = true
	obj.Body = b
	if !s.leftOpen(r, b.shut) {
		b.shut()
		return &Error{Code: Closed, Err: errStoreClosed}
	}
	if b.left == 0 {
		b.finish(nil)
	}
	return nil
}

// eof is an empty stream.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
