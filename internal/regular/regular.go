package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNot is the error for what is there and is no regular file.
var ErrNot = errors.New("not a regular file")

// Open opens a file for reading.
func Open(path string) (*os.File, fs.FileInfo, error) { return OpenFile(path, os.O_RDONLY) }

// OpenFile opens a file that exists. A symbolic link is followed.
func OpenFile(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0) // of no meaning for a regular file
	if errors.Is(err, syscall.ENXIO) {
		return nil, nil, fmt.Errorf("%s is %w", path, ErrNot) // a pipe that nobody reads, opened for writing; a socket
	}
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w", path, ErrNot)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, fi, nil
}
