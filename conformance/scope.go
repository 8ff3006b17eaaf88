package conformance

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/tierkit/tierkit/backends"
)

// scoped is a driver below a prefix, for places that all namespaces share. It has every optional interface; those that the driver lacks
// are hidden again by scope.
type scoped struct {
	backends.Driver
	prefix string
}

func (s *scoped) Properties() backends.Properties {
	p := s.Driver.Properties()
	if p.MaxKeyBytes > 0 {
		p.MaxKeyBytes -= len(s.prefix)
	}
	return p
}

func (s *scoped) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	info, err := s.Driver.Put(ctx, s.prefix+key, body, opts)
	info.Key = s.cut(info.Key)
	return info, err
}

func (s *scoped) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	obj, err := s.Driver.Get(ctx, s.prefix+key, opts)
	if obj != nil {
		obj.Info.Key = s.cut(obj.Info.Key)
	}
	return obj, err
}

func (s *scoped) Stat(ctx context.Context, key string) (backends.Info, error) {
	info, err := s.Driver.Stat(ctx, s.prefix+key)
	info.Key = s.cut(info.Key)
	return info, err
}

func (s *scoped) Delete(ctx context.Context, key string) error {
	return s.Driver.Delete(ctx, s.prefix+key)
}

func (s *scoped) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	opts.Prefix = s.prefix + opts.Prefix
	page, err := s.Driver.List(ctx, opts)
	for i := range page.Infos {
		page.Infos[i].Key = s.cut(page.Infos[i].Key)
	}
	return page, err
}

// cut leaves a key that is not below the prefix as it is: the case will see that it is wrong.
func (s *scoped) cut(key string) string { return strings.TrimPrefix(key, s.prefix) }

func (s *scoped) deleteMany(ctx context.Context, keys []string) error {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = s.prefix + key
	}
	d, ok := s.Driver.(backends.BulkDeleter)
	if !ok {
		return backends.Unsupported
	}
	err := d.DeleteMany(ctx, full)
	if bulk, ok := errors.AsType[*backends.BulkDeleteError](err); ok {
		failed := make(map[string]error, len(bulk.Failed))
		for key, why := range bulk.Failed {
			failed[s.cut(key)] = why
		}
		return &backends.BulkDeleteError{Failed: failed}
	}
	return err
}

func (s *scoped) probe(ctx context.Context) error {
	if d, ok := s.Driver.(backends.Prober); ok {
		return d.Probe(ctx)
	}
	return backends.Unsupported
}

func (s *scoped) listUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	d, ok := s.Driver.(backends.UploadLister)
	if !ok {
		return nil, backends.Unsupported
	}
	ups, err := d.ListUploads(ctx, s.prefix+prefix)
	for i := range ups {
		ups[i].Key = s.cut(ups[i].Key)
	}
	return ups, err
}

func (s *scoped) abortUpload(ctx context.Context, u backends.Upload) error {
	d, ok := s.Driver.(backends.UploadLister)
	if !ok {
		return backends.Unsupported
	}
	if u.Key != "" {
		u.Key = s.prefix + u.Key
	}
	return d.AbortUpload(ctx, u)
}
