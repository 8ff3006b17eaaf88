package azure

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// Get implements backends.Driver: one Get Blob, whose body is the SDK's raw one. A body that breaks is the Store's to resume.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	if err := d.enter(ctx, key); err != nil {
		return nil, err
	}
	if opts.Range.Offset >= maxObject { // a number that not every server reads
		info, err := d.Stat(ctx, key)
		if err != nil {
			return nil, err
		}
		_, _, err = opts.Range.Resolve(info.Size)
		return nil, err
	}
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return nil, err
	}
	out, err := d.client.NewBlobClient(key).DownloadStream(c.Context(), &blob.DownloadStreamOptions{
		Range: rangeOf(opts.Range), AccessConditions: ifVersion(opts.IfVersion),
	})
	if err != nil {
		err = d.classify(c, err, stepGet)
		c.End()
		return nil, err
	}
	size, offset, err := httpstore.Resolve(opts.Range, value(out.ContentRange), value(out.ContentLength))
	if err == nil && out.ETag == nil {
		err = foreign()
	}
	if err != nil {
		c.End()
		_ = out.Body.Close() // nothing was read
		return nil, err
	}
	meta, _ := decodeMeta(out.Metadata)
	length := value(out.ContentLength)
	body := httpstore.NewBody(c, out.Body, length, func(err error) error { return d.classify(c, err, stepGet) })
	return &backends.Object{
		Body: body, Offset: offset, Length: length,
		Info: backends.Info{Key: key, Size: size, ModTime: timeOf(out.LastModified), Version: versionOf(out.ETag), Meta: meta},
	}, nil
}

// foreign is an answer that says success and cannot be the service's: a proxy's page.
func foreign() error {
	return backends.Errorf(backends.Corrupt, "the answer says success, but has no ETag")
}

// rangeOf is the SDK's form, in which a count of 0 means "to the end": a Range of length 0 never comes here.
func rangeOf(r backends.Range) blob.HTTPRange {
	if httpstore.Whole(r) {
		return blob.HTTPRange{}
	}
	if r.Length < 0 {
		return blob.HTTPRange{Offset: r.Offset}
	}
	return blob.HTTPRange{Offset: r.Offset, Count: min(r.Length, maxObject-r.Offset)}
}

func ifVersion(v string) *blob.AccessConditions {
	if v == "" {
		return nil
	}
	etag := azcore.ETag(v)
	if !strings.ContainsRune(v, '"') {
		etag = azcore.ETag(`"` + v + `"`)
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(etag)}}
}

// properties are what a HEAD tells.
type properties struct {
	info  backends.Info
	token string
}

func (d *Driver) properties(ctx context.Context, key string) (properties, error) {
	out, _, err := call(ctx, d, stepStat, func(ctx context.Context) (blob.GetPropertiesResponse, error) {
		return d.client.NewBlobClient(key).GetProperties(ctx, nil)
	})
	if err != nil {
		return properties{}, err
	}
	if out.ETag == nil {
		return properties{}, foreign()
	}
	meta, token := decodeMeta(out.Metadata)
	info := backends.Info{Key: key, Size: value(out.ContentLength), ModTime: timeOf(out.LastModified), Version: versionOf(out.ETag), Meta: meta}
	return properties{info: info, token: token}, nil
}

func withSnapshots() *blob.DeleteOptions {
	return &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}
}

// versionOf drops the quotes: headers have them, listings do not.
func versionOf(etag *azcore.ETag) string { return strings.Trim(string(value(etag)), `"`) }

func timeOf(t *time.Time) time.Time { return value(t).UTC() }

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
