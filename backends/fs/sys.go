package fs

import (
	"io"
	"os"
	"syscall"
	"time"
)

// rootFS is what the driver asks of the operating system below its root. Tests put failures in between, see seam_test.go.
type rootFS interface {
	OpenFile(name string, flag int, perm os.FileMode) (file, error)
	Stat(name string) (os.FileInfo, error)
	Lstat(name string) (os.FileInfo, error)
	Mkdir(name string, perm os.FileMode) error
	MkdirAll(name string, perm os.FileMode) error
	Rename(from, to string) error
	Link(from, to string) error
	Remove(name string) error
	Chtimes(name string, atime, mtime time.Time) error
	Close() error
}

// file is an open file or directory. What package os has no call for (locks, reserving space, removing a directory only) goes
// through SyscallConn.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	syscall.Conn
	Stat() (os.FileInfo, error)
	Sync() error
	ReadDir(n int) ([]os.DirEntry, error)
	Readdirnames(n int) ([]string, error)
}

// osRoot is the operating system itself.
type osRoot struct{ *os.Root }

var _ rootFS = osRoot{}

func (r osRoot) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not f, which would be an interface that is not nil
	}
	return f, nil
}
