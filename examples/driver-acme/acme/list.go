package acme

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// maxPage is the largest page of the service.
const maxPage = 1000

// List implements backends.Driver by "start after", whose tokens can be checked.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := d.gate.Check(ctx); err != nil {
		return backends.Page{}, err
	}
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	n := maxPage
	if opts.Limit > 0 {
		n = min(n, opts.Limit)
	}
	q := queryOf("prefix", opts.Prefix, "limit", strconv.Itoa(n))
	if after != "" {
		q.Set("after", after)
	}
	var out struct {
		Objects *[]info // nil: it is another answer
		More    bool
	}
	if err := d.call(ctx, request{step: stepList, method: http.MethodGet, path: d.path("list"), query: q, decode: &out}); err != nil {
		return backends.Page{}, err
	}
	if out.Objects == nil || out.More && len(*out.Objects) == 0 {
		return backends.Page{}, backends.Errorf(backends.Corrupt, "the answer is no page of a listing")
	}
	page := backends.Page{Infos: make([]backends.Info, 0, len(*out.Objects))}
	for i := range *out.Objects {
		page.Infos = append(page.Infos, (*out.Objects)[i].public())
	}
	if out.More {
		page.Next = backends.AfterKey(page.Infos[len(page.Infos)-1].Key)
	}
	return page, nil
}

// ListUploads implements backends.UploadLister.
func (d *Driver) ListUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	var out struct {
		Uploads []struct {
			Key, ID string
			Started time.Time
			Bytes   int64
		}
	}
	err := d.call(ctx, request{step: stepUploads, method: http.MethodGet, path: d.path("uploads"), query: queryOf("prefix", prefix), decode: &out})
	if err != nil {
		return nil, err
	}
	found := make([]backends.Upload, 0, len(out.Uploads))
	for _, u := range out.Uploads {
		found = append(found, backends.Upload{Key: u.Key, ID: u.ID, Started: u.Started, Bytes: u.Bytes})
	}
	return found, nil
}

// AbortUpload implements backends.UploadLister.
func (d *Driver) AbortUpload(ctx context.Context, u backends.Upload) error {
	err := d.call(ctx, request{step: stepAbort, method: http.MethodDelete, path: d.path("upload"), query: queryOf("id", u.ID)})
	if isAnswer(err, noSuchUpload) {
		return nil
	}
	return err
}
