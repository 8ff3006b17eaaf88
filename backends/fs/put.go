package fs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// Put implements backends.Driver: temp file, bytes, fsync, rename, fsync of directories.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (info backends.Info, err error) {
	done, err := d.use(ctx)
	if err != nil {
		return backends.Info{}, err
	}
	defer done()
	if err := d.checkKey(key); err != nil {
		return backends.Info{}, err
	}
	if err := d.checkAbsent(key, opts); err != nil {
		return backends.Info{}, err
	}
	t, err := d.newTemp(ctx, key)
	if err != nil {
		return backends.Info{}, err
	}
	defer func() { // also when body panics
		if cerr := t.discard(); cerr != nil {
			err = errors.Join(err, &backends.Error{Code: classify(cerr).Code, Ambiguous: t.published, Err: cerr})
		}
	}()
	if err := t.fill(ctx, body, opts); err != nil {
		return backends.Info{}, err
	}
	info, err = t.seal(key)
	if err != nil {
		return backends.Info{}, classify(err)
	}
	if err := d.live(ctx); err != nil {
		return backends.Info{}, err
	}
	if err := t.publish(key, opts); err != nil {
		d.prune(ctx, key)
		return backends.Info{}, err
	}
	if err := d.syncParents(key); err != nil {
		return backends.Info{}, &backends.Error{Code: classify(err).Code, Ambiguous: true, Err: err}
	}
	return info, nil
}

// checkAbsent refuses early, before the body is read.
func (d *Driver) checkAbsent(key string, opts backends.PutOptions) error {
	if !opts.IfAbsent {
		return nil
	}
	if st, err := d.root.Lstat(key); err == nil && !st.IsDir() {
		return backends.Exists
	}
	return nil
}

// fill writes the body into the temp file and checks it against what was announced.
func (t *temp) fill(ctx context.Context, body io.Reader, opts backends.PutOptions) error {
	if opts.Size > bufferBytes {
		if err := preallocate(t.f, opts.Size); err != nil {
			return classify(fmt.Errorf("reserve %d bytes: %w", opts.Size, err))
		}
	}
	buf, giveBack, err := buffer(opts)
	if err != nil {
		return err
	}
	defer giveBack()
	w := &checkedWriter{f: t.f, size: opts.Size, checked: opts.CRC32C != nil}
	for {
		if err := t.d.live(ctx); err != nil {
			return err
		}
		n, rerr := readFull(body, buf)
		if err := w.write(buf[:n]); err != nil {
			return err
		}
		if rerr == io.EOF { //nolint:errorlint // an error of the body that wraps io.EOF is not the end
			return w.verify(opts.CRC32C)
		}
		if rerr != nil {
			return rerr
		}
	}
}

// buffer returns the one buffer of a Put.
func buffer(opts backends.PutOptions) (buf []byte, giveBack func(), err error) {
	n := bufferFor(opts.Size)
	if opts.Memory == nil {
		return make([]byte, n), func() {}, nil
	}
	buf = opts.Memory.Buffer(n)
	if buf == nil {
		return nil, nil, backends.Errorf(backends.InvalidArgument, "the memory given to Put has no %d bytes left, see PutMemory", n)
	}
	return buf, func() { opts.Memory.Return(buf) }, nil
}

// readFull fills buf, so that a body that comes in crumbs does not cost a system call for each. Unlike io.ReadFull it returns io.EOF with
// the last bytes, and the body's own error unchanged.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; {
		var k int
		k, err = r.Read(buf[n:])
		n += k
		if k > 0 {
			idle = 0
		} else if idle++; idle > maxTries && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// checkedWriter counts and sums what it writes.
type checkedWriter struct {
	f       io.Writer
	size    int64 // announced, or SizeUnknown
	n       int64
	checked bool
	sum     uint32
}

func (w *checkedWriter) write(p []byte) error {
	if w.size >= 0 && w.n+int64(len(p)) > w.size {
		return backends.Errorf(backends.SizeMismatch, "the body has more than the %d bytes announced", w.size)
	}
	if w.checked {
		w.sum = crc32.Update(w.sum, castagnoli(), p)
	}
	n, err := w.f.Write(p)
	w.n += int64(n)
	if n < len(p) && err == nil {
		err = fmt.Errorf("%w: %w", io.ErrShortWrite, syscall.EIO)
	}
	if err != nil {
		return classify(err)
	}
	return nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // a table that the standard library keeps

func (w *checkedWriter) verify(want *uint32) error {
	if w.size >= 0 && w.n != w.size {
		return backends.Errorf(backends.SizeMismatch, "the body has %d bytes, announced were %d", w.n, w.size)
	}
	if want != nil && *want != w.sum {
		return backends.Errorf(backends.Corrupt, "the body has CRC-32C %08x, announced was %08x", w.sum, *want)
	}
	return nil
}

// seal gives the file its time and makes its bytes durable. The time is ours rather than the kernel's, whose clock stands still for
// milliseconds: two versions of an object must differ in it (see Info.Version in the package comment).
func (t *temp) seal(key string) (backends.Info, error) {
	if err := t.d.root.Chtimes(t.name, time.Time{}, t.d.nextTime()); err != nil {
		return backends.Info{}, err
	}
	if t.d.sync {
		if err := syncFile(t.f); err != nil {
			return backends.Info{}, err
		}
	}
	st, err := t.f.Stat()
	if err != nil {
		return backends.Info{}, err
	}
	return infoOf(key, st), nil
}

// nextTime is now, or just after the last time it returned.
func (d *Driver) nextTime() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if !now.After(d.lastTime) {
		now = d.lastTime.Add(time.Nanosecond)
	}
	d.lastTime = now
	return now
}

// publish gives the temp file its name. Deletes prune emptied directories, so a directory may go away between making it and moving the
// file there: then both are done again.
func (t *temp) publish(key string, opts backends.PutOptions) error {
	for range maxTries {
		err := t.move(key, opts)
		if err != nil {
			if err = t.unless(err, key); err == nil {
				t.gone = !opts.IfAbsent
			}
		}
		switch {
		case err == nil:
			t.published = true
			return nil
		case errors.Is(err, syscall.EINTR): // os.Root does not try again by itself
		case errors.Is(err, os.ErrNotExist):
			if err := t.makeParents(key); err != nil {
				return err
			}
		case isAny(err, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY):
			if err := t.d.clearWay(key); err != nil {
				return err
			}
		case isAny(err, syscall.ENOTDIR):
			return backends.Errorf(backends.InvalidArgument, "a part of the key is an object already, which a file system cannot hold: %w", err)
		case opts.IfAbsent && isAny(err, syscall.EPERM, syscall.EOPNOTSUPP, syscall.ENOSYS):
			return backends.Errorf(backends.Unsupported, "this file system has no hard links, which IfAbsent needs: %w", err)
		default:
			return classify(err)
		}
	}
	return backends.Errorf(backends.Unavailable, "directories were removed by others %d times in a row", maxTries)
}

// unless returns the error of a move, or nil if it was carried out all the same: the answer of a network file system may be lost, or be that to
// its own repetition (EEXIST, ENOENT). When that cannot be seen, the error says so.
func (t *temp) unless(err error, key string) error {
	mine, merr := t.f.Stat()
	named, nerr := t.d.root.Lstat(key)
	switch {
	case merr == nil && isAny(nerr, syscall.ENOENT, syscall.ENOTDIR):
		return err
	case merr != nil || nerr != nil:
		return &backends.Error{Code: classify(err).Code, Ambiguous: true, Err: errors.Join(err, merr, nerr)}
	case os.SameFile(mine, named):
		return nil
	}
	return err
}

func (t *temp) move(key string, opts backends.PutOptions) error {
	if opts.IfAbsent {
		return t.d.root.Link(t.name, key) // the temp name is removed by discard
	}
	err := t.d.root.Rename(t.name, key)
	t.gone = err == nil
	return err
}

// makeParents makes the directories of key. That one of them goes away meanwhile is no error: publish comes again.
func (t *temp) makeParents(key string) error {
	if _, err := t.d.root.Lstat(t.name); errors.Is(err, os.ErrNotExist) {
		if gone := t.d.present(); gone != nil {
			return gone
		}
		return backends.Errorf(backends.Unavailable, "the temp file %s was removed by somebody else", t.name)
	}
	for _, dir := range parents(key) {
		err := t.d.root.Mkdir(dir, 0o777)
		switch {
		case err == nil || errors.Is(err, os.ErrExist):
		case errors.Is(err, os.ErrNotExist):
			return nil
		case isAny(err, syscall.ENOTDIR):
			return backends.Errorf(backends.InvalidArgument, "a part of the key is an object already, which a file system cannot hold: %w", err)
		default:
			return t.d.refused(err)
		}
	}
	return nil
}

// clearWay removes an empty directory that lies where the object should be; a crash can leave one.
func (d *Driver) clearWay(key string) error {
	st, err := d.root.Lstat(key)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	if !st.IsDir() {
		return backends.Exists
	}
	err = d.removeDir(key)
	switch {
	case err == nil || errors.Is(err, os.ErrNotExist):
		return nil
	case isAny(err, syscall.ENOTEMPTY, syscall.EEXIST):
		return backends.Errorf(backends.InvalidArgument, "there are objects below the key, which a file system cannot hold beside it")
	}
	return classify(err)
}

// parents returns the directories of key, outermost first.
func parents(key string) []string {
	var out []string
	for i := range len(key) {
		if key[i] == '/' {
			out = append(out, key[:i])
		}
	}
	return out
}

// parent is the directory of key, "." for the root.
func parent(key string) string { return path.Dir(key) }
