package localtiered

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// subdirectory is where LocalTieredStorage puts everything below the directory that it is given (LocalTieredStorage.ROOT_STORAGES_DIR_NAME).
const subdirectory = "kafka-tiered-storage"

const pageSize = 1000

// Driver reads one directory.
type Driver struct {
	root   string
	closed atomic.Bool

	mu         sync.Mutex
	partitions map[remotelog.TopicIDPartition]partition
	contents   map[string]content // by path of the segment
}

var (
	_ backends.Driver = (*Driver)(nil)
	_ backends.Prober = (*Driver)(nil)
)

// Open opens a directory of LocalTieredStorage.
func Open(ctx context.Context, dir string) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, root := range []string{filepath.Join(dir, subdirectory), dir} {
		info, err := os.Stat(root)
		switch {
		case err == nil && info.IsDir():
			return &Driver{root: root, partitions: map[remotelog.TopicIDPartition]partition{}, contents: map[string]content{}}, nil
		case err == nil:
			return nil, backends.Errorf(backends.InvalidArgument, "%s %s is not a directory", keyRoot, root)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, failure(err)
		}
	}
	return nil, backends.Errorf(backends.InvalidArgument, "%s %s does not exist", keyRoot, dir)
}

// Properties implements backends.Driver.
func (d *Driver) Properties() backends.Properties {
	return backends.Properties{Name: "localtiered", MaxKeyBytes: 1024, MaxObjectBytes: 1 << 40, FlatKeys: true}
}

func (d *Driver) ready(ctx context.Context) error {
	if d.closed.Load() {
		return backends.Errorf(backends.Closed, "the driver was closed")
	}
	return ctx.Err()
}

func (d *Driver) readOnly(ctx context.Context) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	return backends.Errorf(backends.Unsupported, "a directory of Kafka's LocalTieredStorage is read only")
}

// failure classifies an error of the file system.
func failure(err error) error {
	code := backends.Unavailable
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = backends.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = backends.Denied
	}
	return backends.Errorf(code, "%w", err)
}

// Put implements backends.Driver: it refuses.
func (d *Driver) Put(ctx context.Context, _ string, _ io.Reader, _ backends.PutOptions) (backends.Info, error) {
	return backends.Info{}, d.readOnly(ctx)
}

// Delete implements backends.Driver: it refuses.
func (d *Driver) Delete(ctx context.Context, _ string) error { return d.readOnly(ctx) }

// Probe implements backends.Prober: what wants to write is told at once.
func (d *Driver) Probe(ctx context.Context) error { return d.readOnly(ctx) }

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	if err := d.ready(ctx); err != nil {
		return backends.Info{}, err
	}
	o, err := d.object(ctx, key)
	if err != nil {
		return backends.Info{}, err
	}
	return o.info, nil
}

// object finds the files behind a key.
func (d *Driver) object(ctx context.Context, key string) (*object, error) {
	k, err := manifest.ParseKey("", key)
	if err != nil || k.Digits != manifest.ASCIIDigits {
		return nil, backends.Errorf(backends.NotFound, "no segment of LocalTieredStorage has the key %s", key)
	}
	s := segment{id: k.SegmentID, start: k.StartOffset, path: d.pathOf(k.SegmentID, k.StartOffset)}
	return d.load(ctx, s, k.Suffix)
}

// Get implements backends.Driver.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	o, err := d.object(ctx, key)
	if err != nil {
		return nil, err
	}
	off, length, err := opts.Range.Resolve(o.info.Size)
	if err != nil {
		return nil, err
	}
	body, err := d.open(ctx, o, off, length)
	if err != nil {
		return nil, err
	}
	return &backends.Object{Body: body, Info: o.info, Offset: off, Length: length}, nil
}

// List implements backends.Driver.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := d.ready(ctx); err != nil {
		return backends.Page{}, err
	}
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	segments, err := d.segments(ctx)
	if err != nil {
		return backends.Page{}, err
	}
	type named struct {
		key    string
		s      segment
		suffix manifest.Suffix
	}
	var all []named
	for _, s := range segments {
		for _, suffix := range []manifest.Suffix{manifest.LogSuffix, manifest.IndexesSuffix, manifest.ManifestSuffix} {
			if key := s.key(suffix); strings.HasPrefix(key, opts.Prefix) && key > after {
				all = append(all, named{key, s, suffix})
			}
		}
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.key, b.key) })
	limit := pageSize
	if opts.Limit > 0 {
		limit = min(limit, opts.Limit)
	}
	var page backends.Page
	for i, n := range all {
		if i == limit {
			page.Next = backends.AfterKey(all[i-1].key)
			break
		}
		o, err := d.load(ctx, n.s, n.suffix)
		if errors.Is(err, backends.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return backends.Page{}, err
		}
		page.Infos = append(page.Infos, o.info)
	}
	return page, nil
}

// Close implements backends.Driver.
func (d *Driver) Close() error {
	d.closed.Store(true)
	return nil
}
