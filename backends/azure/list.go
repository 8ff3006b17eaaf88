package azure

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tierkit/tierkit/backends"
)

// List implements backends.Driver: one List Blobs. The token is the service's marker behind the prefix, so that a token of another listing is seen.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := d.gate.Check(ctx); err != nil {
		return backends.Page{}, err
	}
	text, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	marker := strings.TrimPrefix(text, opts.Prefix)
	if opts.Token != "" && marker == "" {
		return backends.Page{}, backends.Errorf(backends.InvalidArgument, "the token is not one of this listing")
	}
	items, next, err := d.page(ctx, opts.Prefix, marker, opts.Limit, container.ListBlobsInclude{})
	if err != nil {
		return backends.Page{}, err
	}
	if next != "" && next == marker {
		return backends.Page{}, backends.Errorf(backends.Corrupt, "the listing does not go on")
	}
	page := backends.Page{Infos: make([]backends.Info, 0, len(items))}
	for _, item := range items {
		p := item.Properties
		if p == nil {
			continue
		}
		page.Infos = append(page.Infos, backends.Info{
			Key: value(item.Name), Size: value(p.ContentLength), ModTime: timeOf(p.LastModified), Version: versionOf(p.ETag),
		})
	}
	// The service sorts by bytes; emulators sort by UTF-16, which differs above U+FFFF.
	slices.SortFunc(page.Infos, func(a, b backends.Info) int { return strings.Compare(a.Key, b.Key) })
	if next != "" {
		page.Next = backends.AfterKey(opts.Prefix + next)
	}
	return page, nil
}

// page asks for one page.
func (d *Driver) page(ctx context.Context, prefix, marker string, limit int, include container.ListBlobsInclude) (items []*container.BlobItem, next string, err error) {
	o := &container.ListBlobsFlatOptions{Include: include, MaxResults: to.Ptr(int32(maxPage))}
	if limit > 0 && limit < maxPage {
		o.MaxResults = to.Ptr(int32(limit))
	}
	if prefix != "" {
		o.Prefix = &prefix
	}
	if marker != "" {
		o.Marker = &marker
	}
	out, _, err := call(ctx, d, stepList, func(ctx context.Context) (container.ListBlobsFlatResponse, error) {
		return d.client.NewListBlobsFlatPager(o).NextPage(ctx)
	})
	if err != nil {
		return nil, "", err
	}
	if out.Segment == nil {
		return nil, "", backends.Errorf(backends.Corrupt, "a listing without content")
	}
	return out.Segment.BlobItems, value(out.NextMarker), nil
}

// ListUploads implements backends.UploadLister: blobs that have blocks but were never committed. Blocks that wait beside a committed blob are not shown
// by the service.
func (d *Driver) ListUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	committed := make(map[string]bool)
	if err := d.all(ctx, prefix, container.ListBlobsInclude{}, func(item *container.BlobItem) error {
		committed[value(item.Name)] = true
		return nil
	}); err != nil {
		return nil, err
	}
	var out []backends.Upload
	err := d.all(ctx, prefix, container.ListBlobsInclude{UncommittedBlobs: true}, func(item *container.BlobItem) error {
		key := value(item.Name)
		if committed[key] {
			return nil
		}
		u := backends.Upload{Key: key, ID: uncommitted}
		if p := item.Properties; p != nil {
			u.Started = timeOf(p.CreationTime)
			if u.Started.IsZero() {
				u.Started = timeOf(p.LastModified)
			}
		}
		n, err := d.waiting(ctx, key)
		u.Bytes = n
		if n > 0 || err != nil { // committed meanwhile: nothing waits
			out = append(out, u)
		}
		return err
	})
	return out, err
}

// uncommitted is the ID of every upload: the service knows them by the name of the blob alone.
const uncommitted = "uncommitted blocks"

func (d *Driver) all(ctx context.Context, prefix string, include container.ListBlobsInclude, see func(*container.BlobItem) error) error {
	for marker := ""; ; {
		items, next, err := d.page(ctx, prefix, marker, 0, include)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := see(item); err != nil {
				return err
			}
		}
		if next == "" || next == marker {
			return nil
		}
		marker = next
	}
}

// waiting returns how many bytes of blocks of a blob are not committed.
func (d *Driver) waiting(ctx context.Context, key string) (n int64, err error) {
	out, _, err := call(ctx, d, stepBlocks, func(ctx context.Context) (blockblob.GetBlockListResponse, error) {
		return d.client.NewBlockBlobClient(key).GetBlockList(ctx, blockblob.BlockListTypeUncommitted, nil)
	})
	if backends.CodeOf(err) == backends.NotFound {
		return 0, nil
	}
	for _, b := range out.UncommittedBlocks {
		n += value(b.Size)
	}
	return n, err
}

// AbortUpload implements backends.UploadLister. The service has no way to remove uncommitted blocks but to commit something else in their place, which
// readers would see. It drops them after a week.
func (d *Driver) AbortUpload(ctx context.Context, u backends.Upload) error {
	if err := d.gate.Check(ctx); err != nil {
		return err
	}
	if u.Key == "" {
		return nil
	}
	if n, err := d.waiting(ctx, u.Key); n == 0 || err != nil {
		return err
	}
	return backends.Errorf(backends.Unsupported, "Azure cannot remove uncommitted blocks; it drops them a week after the last one came")
}
