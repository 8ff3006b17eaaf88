package fs

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

// readStep is how much is read between two looks at the context.
const readStep = 256 << 10

// Get implements backends.Driver. Size, time and version are those of the file that was opened, so that a replacement at the same
// moment cannot tear them from the bytes.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (obj *backends.Object, err error) {
	done, err := d.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.checkKey(key); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: a pipe that lies about must not hold us
	if err != nil {
		return nil, d.absent(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was read
		}
	}()
	st, err := f.Stat()
	if err != nil {
		return nil, classify(err)
	}
	if !st.Mode().IsRegular() {
		return nil, backends.Errorf(backends.NotFound, "it is not a regular file")
	}
	info := infoOf(key, st)
	if opts.IfVersion != "" && opts.IfVersion != info.Version {
		return nil, backends.Errorf(backends.Precondition, "the object has version %s, wanted is %s", info.Version, opts.IfVersion)
	}
	off, length, err := opts.Range.Resolve(info.Size)
	if err != nil {
		return nil, err
	}
	b := &body{ctx: ctx, f: f, r: io.NewSectionReader(f, off, length), left: length}
	return &backends.Object{Body: b, Info: info, Offset: off, Length: length}, nil
}

// infoOf describes a file.
func infoOf(key string, st os.FileInfo) backends.Info {
	version := ""
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		version = fmt.Sprintf("%x-%x-%x", sys.Ino, st.ModTime().UnixNano(), st.Size())
	}
	return backends.Info{Key: key, Size: st.Size(), ModTime: st.ModTime(), Version: version}
}

// body reads one open file.
type body struct {
	ctx  context.Context //nolint:containedctx // rules the stream until Close
	f    file
	r    *io.SectionReader
	left int64

	mu     sync.Mutex
	closed bool
}

var _ io.ReadCloser = (*body)(nil)

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return 0, backends.Errorf(backends.Closed, "read after close")
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(len(p), readStep)])
	b.left -= int64(n)
	switch {
	case n > 0 && (err == nil || err == io.EOF):
		return n, nil
	case err == io.EOF:
		return n, fmt.Errorf("the file became shorter while it was read: %w", io.ErrUnexpectedEOF)
	case err != nil:
		return n, classify(err)
	}
	return n, nil
}

// Close implements io.Closer. A read that runs in another goroutine ends by itself: files do not block.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if err := b.f.Close(); err != nil {
		return classify(err)
	}
	return nil
}
