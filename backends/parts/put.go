package parts

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/tierkit/tierkit/backends"
)

// Put uploads body to t. See backends.Driver.Put for what holds, and the package comment for how.
func Put(ctx context.Context, t Target, body io.Reader, o Options) (backends.Info, error) {
	if err := ctx.Err(); err != nil {
		return backends.Info{}, err
	}
	if err := o.check(); err != nil {
		return backends.Info{}, err
	}
	u := &upload{t: t, o: &o, src: &source{body: body, o: &o}, slabs: newSlabs(&o)}
	first, err := u.slabs.take(ctx, u.slabs.base)
	if err != nil {
		return backends.Info{}, err
	}
	u.first = first
	defer u.giveFirst() // also when body panics
	n, err := u.src.fill(ctx, first)
	if err != nil {
		return backends.Info{}, err
	}
	end := false
	if o.Size < 0 || u.src.n >= o.Size {
		if end, err = u.src.atEnd(ctx); err != nil {
			return backends.Info{}, err
		}
	}
	if end {
		return u.single(ctx, first[:n])
	}
	return u.multi(ctx)
}

func (o *Options) check() error {
	switch most := o.Limits.MaxObjectBytes; {
	case o.PartBytes <= 0:
		return backends.Errorf(backends.Internal, "the part size is not set")
	case most > 0 && o.Size > most:
		return backends.Errorf(backends.InvalidArgument, "size %d is above the %d bytes that an object can have", o.Size, most)
	case o.Limits.MaxParts > 0 && o.Size > int64(o.Limits.MaxParts)*o.partBytes(1):
		return backends.Errorf(backends.InvalidArgument, "size %d does not fit %d parts of %d bytes", o.Size, o.Limits.MaxParts, o.partBytes(1))
	}
	return nil
}

// upload is one Put on its way.
type upload struct {
	t     Target
	o     *Options
	src   *source
	slabs *slabs
	first []byte // the first buffer while no part has it

	wg   sync.WaitGroup
	sent int

	mu     sync.Mutex
	pieces []piece // of the parts sent, by number
}

func (u *upload) giveFirst() {
	if u.first != nil {
		u.slabs.give(u.first)
		u.first = nil
	}
}

func (u *upload) single(ctx context.Context, b []byte) (backends.Info, error) {
	sum := crc32.Checksum(b, castagnoli())
	if err := u.src.verify(sum); err != nil {
		return backends.Info{}, err
	}
	info, err := u.t.Single(ctx, Part{Number: 1, Bytes: b, CRC32C: sum})
	if err == nil || !inDoubt(ctx, err) {
		return info, err
	}
	found, mine, ferr := u.find(ctx)
	switch {
	case mine:
		return found, nil
	case ferr == nil && backends.CodeOf(err) == backends.Exists:
		return backends.Info{}, settle(err, nil) // somebody else's object: ours was refused
	}
	// Absent or old for now; a request whose connection broke may still be carried out.
	return backends.Info{}, errors.Join(err, ferr)
}

// multi sends the first buffer, which is full, and everything behind it.
func (u *upload) multi(ctx context.Context) (info backends.Info, err error) {
	inner, cancel := context.WithCancelCause(ctx)
	finished := false
	defer func() {
		if !finished { // an error, or body panics
			cancel(context.Canceled)
			u.wg.Wait()
			err = errors.Join(err, u.abort(ctx))
		}
		cancel(nil)
	}()
	if err := u.t.Begin(ctx); err != nil {
		return backends.Info{}, err
	}
	if err := u.send(inner, cancel); err != nil {
		cancel(err)
	}
	u.wg.Wait()
	if why := context.Cause(inner); why != nil {
		if ctx.Err() != nil && errors.Is(why, context.Cause(ctx)) {
			why = ctx.Err()
		}
		return backends.Info{}, why
	}
	sum := checksum(u.pieces)
	if err := u.src.verify(sum); err != nil {
		return backends.Info{}, err
	}
	info, err = u.t.Commit(ctx, Whole{Parts: u.sent, Size: u.src.n, CRC32C: sum})
	switch {
	case err == nil:
		finished = true
		return info, nil
	case !inDoubt(ctx, err):
		return backends.Info{}, err
	}
	finished = true
	return u.resolve(ctx, err)
}

// send reads the body and sends its parts. It returns when the body has ended; parts may still be on their way.
func (u *upload) send(ctx context.Context, cancel context.CancelCauseFunc) error {
	buf, n := u.first, len(u.first)
	for {
		if n > 0 && u.o.Limits.MaxParts > 0 && u.sent >= u.o.Limits.MaxParts {
			u.drop(buf)
			return backends.Errorf(backends.InvalidArgument, "the body does not fit %d parts of %d bytes: set larger parts, or give it more memory", u.o.Limits.MaxParts, u.o.PartBytes)
		}
		if n > 0 {
			u.start(ctx, cancel, buf, n)
		} else {
			u.drop(buf)
		}
		if u.o.Size >= 0 && u.src.n >= u.o.Size {
			_, err := u.src.atEnd(ctx)
			return err
		}
		if u.src.ended && u.src.kept == 0 {
			return nil
		}
		var err error
		if buf, n, err = u.next(ctx); err != nil {
			return err
		}
	}
}

// next reads the next part.
func (u *upload) next(ctx context.Context) (buf []byte, n int, err error) {
	size := u.o.partBytes(u.sent + 1)
	if u.o.Size >= 0 {
		size = min(size, u.o.Size-u.src.n)
	}
	if buf, err = u.slabs.take(ctx, int(size)); err != nil {
		return nil, 0, err
	}
	u.first = buf // so that it is given back if body panics or fails
	n, err = u.src.fill(ctx, buf)
	return buf, n, err
}

func (u *upload) drop(buf []byte) {
	u.first = nil
	u.slabs.give(buf)
}

// start sends one part from a goroutine of its own.
func (u *upload) start(ctx context.Context, cancel context.CancelCauseFunc, buf []byte, n int) {
	u.first = nil
	u.sent++
	number := u.sent
	u.mu.Lock()
	u.pieces = append(u.pieces, piece{n: int64(n)})
	u.mu.Unlock()
	u.wg.Go(func() {
		defer u.slabs.give(buf)
		if ctx.Err() != nil {
			return
		}
		p := Part{Number: number, Bytes: buf[:n], CRC32C: crc32.Checksum(buf[:n], castagnoli())}
		u.mu.Lock()
		u.pieces[number-1].sum = p.CRC32C
		u.mu.Unlock()
		if err := u.t.Part(ctx, p); err != nil {
			cancel(err)
		}
	})
}

// resolve finds out what became of a Commit whose answer is not known.
func (u *upload) resolve(ctx context.Context, err error) (backends.Info, error) {
	if found, mine, _ := u.find(ctx); mine {
		return found, nil
	}
	aerr := u.abort(ctx) // after it the commit cannot happen any more, but it may have happened before it
	found, mine, ferr := u.find(ctx)
	if mine {
		return found, nil
	}
	if ferr == nil && aerr == nil {
		return backends.Info{}, settle(err, nil)
	}
	return backends.Info{}, settle(err, errors.Join(ferr, aerr))
}

// inDoubt reports whether the store may have carried out what failed with err.
func inDoubt(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*backends.Error](err)
	return ok && e.Ambiguous || ctx.Err() != nil
}

// settle says what is known in the end: nothing of it is left, or doubt.
func settle(err, doubt error) error {
	e, ok := errors.AsType[*backends.Error](err)
	if !ok {
		return errors.Join(err, doubt)
	}
	out := *e
	out.Ambiguous = doubt != nil
	if doubt == nil {
		return &out
	}
	out.Restart = false
	return errors.Join(&out, doubt)
}

// find is Target.Find after an error: detached from a context that may have ended. That there is no object is an answer.
func (u *upload) find(ctx context.Context) (info backends.Info, mine bool, err error) {
	err = u.detached(ctx, func(ctx context.Context) (err error) {
		info, mine, err = u.t.Find(ctx)
		return err
	})
	if backends.CodeOf(err) == backends.NotFound {
		return backends.Info{}, false, nil
	}
	if err != nil {
		return backends.Info{}, false, &aside{"it cannot be told whether the object was stored", err}
	}
	return info, mine && info.Size == u.src.n, nil
}

// abort is tried twice, each time on a fresh context.
func (u *upload) abort(ctx context.Context) error {
	err := u.detached(ctx, u.t.Abort)
	if err != nil {
		err = u.detached(ctx, u.t.Abort)
	}
	if err != nil {
		return &aside{"the unfinished upload could not be removed", err}
	}
	return nil
}

// aside is an error of the clean-up, joined to the first one. errors.Is finds what it is about, but no Code in it: the first error's is the one that counts.
type aside struct {
	what string
	err  error
}

func (a *aside) Error() string { return fmt.Sprintf("%s: %v", a.what, a.err) }

// Is implements what errors.Is asks for.
func (a *aside) Is(target error) bool {
	if _, ok := target.(backends.Code); ok {
		return false
	}
	return errors.Is(a.err, target)
}

// detached runs one step of a clean-up with half of the time that there is for it.
func (u *upload) detached(ctx context.Context, step func(context.Context) error) error {
	limit := u.o.CleanupTimeout
	if limit <= 0 {
		limit = cleanupTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit/2)
	defer cancel()
	return step(ctx)
}
