package fs

import (
	"errors"
	"os"
	"path"
	"sync"
	"syscall"
)

// dirCache remembers directories whose entry in their parent is on disk, by path and inode. Without it each Put would have to sync every
// directory up to the root: one that exists already may have been made a moment ago by a Put that has not synced it yet.
type dirCache struct {
	mu     sync.Mutex
	inodes map[string]uint64
}

// maxCachedDirs bounds the cache; a full one is forgotten as a whole.
const maxCachedDirs = 8192

func (c *dirCache) has(dir string, inode uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.inodes[dir]
	return ok && known == inode
}

func (c *dirCache) add(dir string, inode uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inodes == nil || len(c.inodes) >= maxCachedDirs {
		c.inodes = make(map[string]uint64)
	}
	c.inodes[dir] = inode
}

func (c *dirCache) forget(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inodes, dir)
}

// syncParents makes the name of key durable, and the names of the directories that lead to it.
func (d *Driver) syncParents(key string) error {
	if !d.sync {
		return nil
	}
	for _, dir := range parents(key) {
		st, err := d.root.Lstat(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil // somebody deleted the object already
		}
		if err != nil {
			return err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if ok && d.dirs.has(dir, sys.Ino) {
			continue
		}
		if err := d.syncDir(parent(dir)); err != nil {
			return err
		}
		if ok {
			d.dirs.add(dir, sys.Ino)
		}
	}
	return d.syncDir(parent(key))
}

// syncDir makes the entries of a directory durable. One that is gone needs it no more, but that it is gone does.
func (d *Driver) syncDir(dir string) error {
	f, err := d.root.OpenFile(dir, os.O_RDONLY, 0)
	if isAny(err, syscall.ENOENT, syscall.ENOTDIR) && dir != "." {
		return d.syncDir(parent(dir))
	}
	if err != nil {
		return err
	}
	return errors.Join(syncFile(f), f.Close())
}

// syncFile is fsync; file systems that cannot do it (for directories: several network ones) are trusted.
func syncFile(f file) error {
	err := f.Sync()
	if isAny(err, syscall.EOPNOTSUPP, syscall.EINVAL, syscall.ENOSYS) {
		return nil
	}
	return err
}

// removeDir removes an empty directory, and nothing but a directory: os.Root.Remove would take a file that another Put has just put in its
// place.
func (d *Driver) removeDir(dir string) error {
	up, err := d.root.OpenFile(parent(dir), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }() // only for its descriptor
	d.dirs.forget(dir)
	return rmdirAt(up, path.Base(dir))
}
