package remotelog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
)

// File is a Source: the regular file at that path. Its size is that of the opened file.
type File string

var _ Source = File("")

// Open implements Source. Only regular files are accepted: a pipe or device would block or never end.
func (f File) Open(ctx context.Context) (io.ReadCloser, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	// Stat before open: opening a named pipe would block until somebody writes to it.
	fi, err := os.Stat(string(f))
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%w: %s is not a regular file", ErrInvalidArgument, string(f))
	}
	file, err := os.Open(string(f))
	if err != nil {
		return nil, 0, err
	}
	if fi, err = file.Stat(); err != nil {
		_ = file.Close() // read only; the first error counts
		return nil, 0, err
	}
	return file, fi.Size(), nil
}

// Bytes is a Source over bytes in memory. The copy does not modify them.
type Bytes []byte

var _ Source = Bytes(nil)

// Open implements Source.
func (b Bytes) Open(ctx context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), ctx.Err()
}
