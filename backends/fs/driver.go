package fs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

const (
	maxKeyBytes     = 1024    // that of S3, so that what is stored here can move there
	maxSegmentBytes = 255     // NAME_MAX of every file system in use
	maxObject       = 1 << 62 // the file system's own bound comes first
	bufferBytes     = 256 << 10
	smallestBuffer  = 4 << 10
)

// Options of a driver. Root is needed.
type Options struct {
	Root   string
	NoSync bool             // no fsync: fast, not durable across a crash of the machine
	Log    *slog.Logger     // nil: none
	Now    func() time.Time // nil: time.Now

	between func(rootFS) rootFS // nil: nothing; tests
}

// Driver stores objects as files below one root.
type Driver struct {
	root rootFS
	path string // of root, absolute: for messages and to see that it is still the same
	sync bool
	log  *slog.Logger
	now  func() time.Time
	dirs dirCache

	mu       sync.Mutex
	users    int // calls in flight, and 1 for the driver not being closed
	closed   bool
	lastTime time.Time         // of the newest object made here
	writing  map[string]string // temp name -> key
}

var (
	_ backends.Driver       = (*Driver)(nil)
	_ backends.UploadLister = (*Driver)(nil)
	_ backends.Prober       = (*Driver)(nil)
	_ backends.PutSizer     = (*Driver)(nil)
)

// Open opens the store below an existing directory and removes temp files that no process holds.
func Open(ctx context.Context, o Options) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := checkRoot(o.Root)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, classify(err)
	}
	d := &Driver{
		root: osRoot{root}, path: path, sync: !o.NoSync, log: o.Log, now: o.Now, users: 1, writing: make(map[string]string),
	}
	if o.between != nil {
		d.root = o.between(d.root)
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	if err := d.sweep(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// checkRoot says clearly what is wrong with a root that cannot be one.
func checkRoot(root string) (string, error) {
	if root == "" {
		return "", backends.Errorf(backends.InvalidArgument, "%s is empty", keyRoot)
	}
	path, err := filepath.Abs(root)
	if err != nil {
		return "", backends.Errorf(backends.InvalidArgument, "%s %s: %w", keyRoot, root, err)
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", backends.Errorf(backends.InvalidArgument, "%s %s does not exist, create the directory first", keyRoot, path)
	case err != nil:
		e := classify(err)
		return "", &backends.Error{Code: e.Code, Err: err}
	case !st.IsDir():
		return "", backends.Errorf(backends.InvalidArgument, "%s %s is not a directory", keyRoot, path)
	}
	return path, nil
}

// Properties implements backends.Driver.
func (d *Driver) Properties() backends.Properties {
	return backends.Properties{
		Name: "fs", MaxKeyBytes: maxKeyBytes, MaxSegmentBytes: maxSegmentBytes, MaxObjectBytes: maxObject, IfAbsent: true, Versions: true,
	}
}

// PutMemory implements backends.PutSizer: one buffer.
func (d *Driver) PutMemory(size int64) (least, want int64) {
	n := membudget.Capacity(bufferFor(size))
	return n, n
}

func bufferFor(size int64) int {
	if size < 0 || size > bufferBytes {
		return bufferBytes
	}
	return int(max(size, smallestBuffer))
}

// use is the first step of every method; done is the last one.
func (d *Driver) use(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed()
	}
	d.users++
	return d.release, nil
}

// release closes the root when the last user leaves.
func (d *Driver) release() {
	d.mu.Lock()
	d.users--
	last := d.users == 0
	d.mu.Unlock()
	if last {
		if err := d.root.Close(); err != nil {
			d.log.Error("closing the root of the store", "root", d.path, "error", err)
		}
	}
}

// live is asked between the steps of long calls.
func (d *Driver) live(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed()
	}
	return nil
}

// Close implements backends.Driver. Calls in flight fail with Closed at their next step; open bodies can be read to their end.
func (d *Driver) Close() error {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	d.mu.Unlock()
	if !was {
		d.release()
	}
	return nil
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	done, err := d.use(ctx)
	if err != nil {
		return backends.Info{}, err
	}
	defer done()
	if err := d.checkKey(key); err != nil {
		return backends.Info{}, err
	}
	st, err := d.root.Stat(key)
	if err != nil {
		return backends.Info{}, d.absent(err)
	}
	if !st.Mode().IsRegular() {
		return backends.Info{}, backends.Errorf(backends.NotFound, "it is not a regular file")
	}
	return infoOf(key, st), nil
}

// checkKey holds for callers that do not come through a Store.
func (d *Driver) checkKey(key string) error {
	return backends.CheckKey(d.Properties(), key)
}

// Probe implements backends.Prober: the root is there, can be read and written.
func (d *Driver) Probe(ctx context.Context) (err error) {
	done, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.present(); err != nil {
		return err
	}
	t, err := d.newTemp(ctx, "")
	if err != nil {
		return err
	}
	if err := t.discard(); err != nil {
		return classify(err)
	}
	return nil
}
