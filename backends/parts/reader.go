package parts

import (
	"errors"
	"io"
	"sync"
)

var errReaderClosed = errors.New("the request is over, its body is not readable any more")

// Reader reads a part for a transport. Close waits for a Read under way, and no later Read touches the bytes: after it the buffer can be
// used for something else, although net/http may still hold the request's body. It has no WriteTo: a write to a connection would hold
// the bytes for as long as it blocks.
type Reader struct {
	mu     sync.Mutex
	b      []byte
	off    int64
	closed bool
}

var _ io.ReadSeekCloser = (*Reader)(nil)

// NewReader returns a Reader of b from its start.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, errReaderClosed
	}
	if r.off >= int64(len(r.b)) {
		return 0, io.EOF
	}
	n := copy(p, r.b[r.off:])
	r.off += int64(n)
	return n, nil
}

// Seek implements io.Seeker: a request that is sent again begins at its start.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += int64(len(r.b))
	default:
		return 0, errors.New("seek: unknown whence")
	}
	switch {
	case r.closed:
		return 0, errReaderClosed
	case offset < 0:
		return 0, errors.New("seek before the start")
	}
	r.off = offset
	return offset, nil
}

// Len returns the number of bytes not yet read.
func (r *Reader) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(max(0, int64(len(r.b))-r.off))
}

// Close implements io.Closer. It may be called several times.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.b = true, nil
	return nil
}
