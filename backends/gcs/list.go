package gcs

import (
	"context"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"github.com/tierkit/tierkit/backends"
)

// List implements backends.Driver by "start at" rather than by the service's tokens, which cannot be checked. The start is inclusive, so one more is asked
// for, and the last page's last key is dropped.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := d.gate.Check(ctx); err != nil {
		return backends.Page{}, err
	}
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	n := maxPage - 2
	if opts.Limit > 0 {
		n = min(n, opts.Limit)
	}
	found, err := d.list(ctx, &storage.Query{Prefix: opts.Prefix, StartOffset: after}, n+2)
	if err != nil {
		return backends.Page{}, err
	}
	page := backends.Page{Infos: make([]backends.Info, 0, len(found))}
	for _, attrs := range found {
		switch {
		case after != "" && attrs.Name <= after:
		case len(page.Infos) == n:
			page.Next = backends.AfterKey(page.Infos[n-1].Key)
			return page, nil
		default:
			info := infoOf(attrs)
			info.Meta = nil // not asked for, but there are servers that send it
			page.Infos = append(page.Infos, info)
		}
	}
	return page, nil
}

// list returns the first n objects, or fewer if there are no more.
func (d *Driver) list(ctx context.Context, q *storage.Query, n int) ([]*storage.ObjectAttrs, error) {
	q.Projection = storage.ProjectionNoACL
	if err := q.SetAttrSelection([]string{"Name", "Size", "Updated", "Generation"}); err != nil {
		return nil, &backends.Error{Code: backends.Internal, Err: err}
	}
	return call(ctx, d, stepList, func(ctx context.Context) ([]*storage.ObjectAttrs, error) {
		var out []*storage.ObjectAttrs
		_, err := iterator.NewPager(d.bucket.Objects(ctx, q), n, "").NextPage(&out)
		return out, err
	})
}
