package disk

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// files is what the cache does with the file system. A test replaces single calls, to have errors when it wants them.
type files struct {
	open   func(name string) (file, error)
	create func(name string) (file, error) // fails if it is there
	rename func(from, to string) error
	remove func(name string) error
	mkdir  func(name string) error // no error if it is there
	list   func(dir string) ([]os.DirEntry, error)
	stat   func(name string) (os.FileInfo, error)
	touch  func(name string, t time.Time) error
}

// file is an open file.
type file interface {
	io.ReadWriteCloser
	Stat() (os.FileInfo, error)
}

func osFiles() files {
	return files{
		// A link or a pipe is nothing of the cache's, and opening a pipe could wait for ever.
		open: func(name string) (file, error) {
			return os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		},
		create: func(name string) (file, error) {
			return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		},
		rename: os.Rename,
		remove: os.Remove,
		mkdir: func(name string) error {
			err := os.Mkdir(name, 0o700)
			if os.IsExist(err) {
				return nil
			}
			return err
		},
		list:  os.ReadDir,
		stat:  os.Lstat,
		touch: func(name string, t time.Time) error { return os.Chtimes(name, t, t) },
	}
}

// path is where the entry of key lies.
func (c *Cache) path(key Key) string {
	dir, name := key.name()
	return filepath.Join(c.root, dir, name)
}
