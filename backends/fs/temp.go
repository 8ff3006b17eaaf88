package fs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

// tempDir holds temp files. It is made by the first Put, so that a store that is only read stays as it is.
const tempDir = backends.Reserved + "/tmp"

// maxTries bounds loops that start again because another process was in between.
const maxTries = 100

// temp is a temp file that is written, held by flock.
type temp struct {
	d    *Driver
	name string // below the root
	f    file

	gone      bool // the name is that of the object now
	published bool // the object is there
}

// newTemp makes a temp file for key and holds it. The walk-through with a process that opens the store at the same moment:
//
//  1. we create the file, nobody holds it yet;
//  2. the other one finds it, takes the lock, removes it, gives the lock back;
//  3. we take the lock of a file without a name: its bytes would be lost at the rename.
//
// So after locking we look whether the name still means our file, and start again under a new name if not. From then on the other one
// cannot get the lock.
func (d *Driver) newTemp(ctx context.Context, key string) (*temp, error) {
	for range maxTries {
		if err := d.live(ctx); err != nil {
			return nil, err
		}
		name := path.Join(tempDir, newUUID())
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrNotExist) {
			if err := d.makeTempDir(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, d.refused(err)
		}
		held, err := d.hold(f, name)
		if err != nil {
			return nil, errors.Join(classify(err), f.Close(), d.root.Remove(name))
		}
		if !held {
			_ = f.Close() // it has no name any more
			continue
		}
		d.mu.Lock()
		d.writing[name] = key
		d.mu.Unlock()
		return &temp{d: d, name: name, f: f}, nil
	}
	return nil, backends.Errorf(backends.Unavailable, "temp files were removed by another process %d times in a row", maxTries)
}

func (d *Driver) makeTempDir() error {
	if err := d.root.MkdirAll(tempDir, 0o777); err != nil {
		if gone := d.present(); gone != nil {
			return gone
		}
		return d.refused(err)
	}
	return nil
}

// hold locks f and reports whether name still means it. Where the file system knows no locks, nothing is ever swept.
func (d *Driver) hold(f file, name string) (bool, error) {
	err := tryLock(f)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil && !noLocks(err):
		return false, err
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := d.root.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

func noLocks(err error) bool {
	return isAny(err, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOLCK, syscall.EINVAL)
}

// discard removes the temp file unless it became the object, and gives the lock back. It may be called more than once.
func (t *temp) discard() error {
	if t.f == nil {
		return nil
	}
	var rerr error
	if !t.gone {
		rerr = t.d.root.Remove(t.name)
		if errors.Is(rerr, os.ErrNotExist) {
			rerr = nil
		}
	}
	err := errors.Join(rerr, t.f.Close())
	t.f = nil
	t.d.mu.Lock()
	delete(t.d.writing, t.name)
	t.d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("clean up temp file %s: %w", t.name, err)
	}
	return nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// temps calls f for each temp file, with an error for one that cannot be looked at.
func (d *Driver) temps(ctx context.Context, f func(name string, st os.FileInfo, err error) error) error {
	dir, err := d.root.OpenFile(tempDir, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	defer func() { _ = dir.Close() }() // read only
	for {
		if err := d.live(ctx); err != nil {
			return err
		}
		names, err := dir.Readdirnames(dirStep)
		for _, name := range names {
			name = path.Join(tempDir, name)
			st, serr := d.root.Lstat(name)
			if errors.Is(serr, os.ErrNotExist) || serr == nil && !st.Mode().IsRegular() {
				continue // gone meanwhile, or none of ours
			}
			if ferr := f(name, st, serr); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return classify(err)
		}
	}
}

// sweep removes the temp files that no process holds. That some cannot be removed does not keep the store from opening.
func (d *Driver) sweep(ctx context.Context) error {
	err := d.temps(ctx, func(name string, st os.FileInfo, err error) error {
		removed := false
		if err == nil {
			removed, err = d.removeUnheld(name)
		}
		switch {
		case err != nil:
			d.log.WarnContext(ctx, "a temp file that a crash left cannot be removed", "file", path.Join(d.path, name), "error", err)
		case removed:
			d.log.InfoContext(ctx, "removed a temp file that a crash left", "file", path.Join(d.path, name), "bytes", st.Size())
		}
		return nil
	})
	if backends.CodeOf(err) == backends.Denied {
		d.log.WarnContext(ctx, "temp files that a crash may have left cannot be looked for", "root", d.path, "error", err)
		return nil
	}
	return err
}

// removeUnheld removes a temp file unless somebody holds it.
func (d *Driver) removeUnheld(name string) (removed bool, err error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0) // writable: NFS gives no exclusive lock otherwise
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only the lock
	if err := tryLock(f); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) || noLocks(err) {
			return false, nil
		}
		return false, err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// ListUploads implements backends.UploadLister. Keys are known of the uploads of this driver only.
func (d *Driver) ListUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	done, err := d.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var out []backends.Upload
	err = d.temps(ctx, func(name string, st os.FileInfo, err error) error {
		if err != nil {
			return classify(err)
		}
		d.mu.Lock()
		key := d.writing[name]
		d.mu.Unlock()
		if key == "" || strings.HasPrefix(key, prefix) {
			out = append(out, backends.Upload{Key: key, ID: path.Base(name), Started: st.ModTime(), Bytes: st.Size()})
		}
		return nil
	})
	return out, err
}

// AbortUpload implements backends.UploadLister. An upload that a process is still writing is Unavailable.
func (d *Driver) AbortUpload(ctx context.Context, u backends.Upload) error {
	done, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	if u.ID == "" || u.ID != path.Base(u.ID) || u.ID == "." || u.ID == ".." {
		return backends.Errorf(backends.InvalidArgument, "%q is not the id of an upload", u.ID)
	}
	removed, err := d.removeUnheld(path.Join(tempDir, u.ID))
	if err != nil {
		return classify(err)
	}
	if !removed {
		return backends.Errorf(backends.Unavailable, "upload %s is still being written", u.ID)
	}
	return nil
}
