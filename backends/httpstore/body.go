package httpstore

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tierkit/tierkit/backends"
)

// Body is an open stream of a Get: exactly the announced number of bytes, or an error.
type Body struct {
	call     *Call
	r        io.ReadCloser
	left     int64
	classify func(error) error

	mu     sync.Mutex
	closed bool
}

var _ io.ReadCloser = (*Body)(nil)

// NewBody returns a Body that delivers length bytes of r and gives errors of the stream, as *TransportError, to classify; an *Error it passes on. The Body owns the call from then on.
func NewBody(c *Call, r io.ReadCloser, length int64, classify func(error) error) *Body {
	return &Body{call: c, r: r, left: length, classify: classify}
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.isClosed() {
		return 0, backends.Errorf(backends.Closed, "read after close")
	}
	if err := b.call.Ended(); err != nil {
		return 0, err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if e, ok := errors.AsType[*backends.Error](err); ok { // the driver has looked at it: another checksum
		return n, e
	}
	if err == nil || b.left == 0 {
		return n, nil
	}
	if b.isClosed() {
		return n, backends.Errorf(backends.Closed, "closed while it was read")
	}
	if why := b.call.Ended(); why != nil {
		return n, why
	}
	if err == io.EOF {
		return n, fmt.Errorf("the store sent %d bytes too few: %w", b.left, io.ErrUnexpectedEOF)
	}
	return n, b.classify(&TransportError{err})
}

func (b *Body) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Close implements io.Closer: it ends the request, which unblocks a Read. Nothing is drained.
func (b *Body) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	b.call.End()
	_ = b.r.Close() // read side
	return nil
}
