package backends

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/tierkit/tierkit/membudget"
)

// Put stores the bytes of body under key: see Driver.Put for what holds. A nil body is an empty one.
//
// A Put without opts.Memory reserves from the Store's budget, if it has one, before it waits for anything else. A body that is a
// Rewinder is sent once more when the store asks for it at the commit; nothing else is retried here.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts PutOptions) (Info, error) {
	var info Info
	q := request{
		op: OpPut, key: key, slots: &s.writes,
		check:   func() error { return checkPut(s.props, opts) },
		prepare: func(ctx context.Context) (func(), error) { return s.putMemory(ctx, &opts) },
	}
	err := s.call(ctx, q, func(ctx context.Context, r *run) (err error) {
		info, err = s.put(ctx, r, body, opts)
		info.Key = key
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// putMemory reserves for a Put that came without memory.
func (s *Store) putMemory(ctx context.Context, opts *PutOptions) (release func(), err error) {
	budget := s.budget.Load()
	if opts.Memory != nil || budget == nil {
		return func() {}, nil
	}
	least, want := s.PutMemory(opts.Size)
	if least == 0 {
		return func() {}, nil
	}
	res, err := budget.Reserve(ctx, membudget.Copy, least)
	if err != nil {
		if errors.Is(err, membudget.ErrTooLarge) {
			return nil, &Error{Code: InvalidArgument, Err: err}
		}
		return nil, err
	}
	if want > least {
		res.TryGrow(want - least) // parallel parts are welcome, not needed
	}
	opts.Memory = res
	return res.Release, nil
}

// PutMemory tells how much memory a Put of that size needs: see PutSizer. Both are 0 where the driver needs none of its own.
func (s *Store) PutMemory(size int64) (least, want int64) {
	if d, ok := s.driver.(PutSizer); ok {
		return d.PutMemory(size)
	}
	return 0, 0
}

func (s *Store) put(ctx context.Context, r *run, body io.Reader, opts PutOptions) (Info, error) {
	if body == nil {
		body = strings.NewReader("")
	}
	src := &source{s: s, ctx: ctx, r: body}
	defer func() { // also when body panics
		src.done.Store(true)
		r.bytes, r.bodyErr = src.n, src.err
	}()
	r.attempts = 1
	info, err := s.driver.Put(ctx, r.full, src, opts)
	rewinder, ok := body.(Rewinder)
	if !ok || !asksForRestart(err) || ctx.Err() != nil {
		return info, err
	}
	if rerr := rewinder.Rewind(); rerr != nil {
		return Info{}, errors.Join(err, rerr)
	}
	s.env.Log.WarnContext(ctx, "store lost an upload at its commit, sending it again", "key", r.shown, "error", err)
	r.attempts = 2
	return s.driver.Put(ctx, r.full, src, opts)
}

func asksForRestart(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Restart && e.Code == Unavailable && !e.Ambiguous
}

// source stands between the caller's body and the driver: it keeps the upload's rate, ends with the context, remembers the body's own
// error, and is dead once Put returned. It hides the body's type, so that no driver can guess from it.
type source struct {
	s    *Store
	ctx  context.Context //nolint:containedctx // an io.Reader has no other way to get it
	r    io.Reader
	n    int64
	err  error
	done atomic.Bool
}

var _ io.Reader = (*source)(nil)

func (b *source) Read(p []byte) (int, error) {
	if b.done.Load() {
		return 0, Errorf(Internal, "the driver read the body of a Put that has returned")
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.n += int64(max(0, n))
	if err != nil && err != io.EOF {
		b.err = err
		return n, err
	}
	if werr := b.s.upload.wait(b.ctx, b.s.env.Now, n); werr != nil {
		return n, werr
	}
	return n, err
}
