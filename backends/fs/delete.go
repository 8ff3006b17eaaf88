package fs

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
)

// Delete implements backends.Driver. Directories that it leaves empty go too.
func (d *Driver) Delete(ctx context.Context, key string) error {
	done, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.checkKey(key); err != nil {
		return err
	}
	if err := d.unlink(key); err != nil {
		return err
	}
	if d.sync { // also when nothing was there: who removed it may not have come so far
		if err := d.syncDir(parent(key)); err != nil {
			return classify(err)
		}
	}
	d.prune(ctx, key)
	return nil
}

// unlink removes the file of key. A directory of that name is not the object.
func (d *Driver) unlink(key string) error {
	st, err := d.root.Lstat(key)
	if err == nil {
		if st.IsDir() {
			return nil
		}
		err = d.root.Remove(key)
	}
	if isAny(err, syscall.ENOENT, syscall.ENOTDIR) {
		return d.present()
	}
	if err != nil {
		return d.refused(err)
	}
	return nil
}

// prune removes the directories of key from the inside out, up to the first that is not empty. It also does so for a key that was not
// there: a crash may have come between removing and pruning. It goes on when ctx ends, since nothing else looks for them. A directory that
// stays by mistake does no harm.
func (d *Driver) prune(ctx context.Context, key string) {
	for _, dir := range slices.Backward(parents(key)) {
		err := d.removeDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			if !isAny(err, syscall.ENOTEMPTY, syscall.EEXIST, syscall.ENOTDIR) {
				d.log.DebugContext(ctx, "an empty directory stays", "dir", dir, "error", err)
			}
			return
		}
	}
}
