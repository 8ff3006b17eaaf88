package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tierkit/tierkit/backends"
)

// List implements backends.Driver by "start after" rather than by the store's tokens: those end with a restart of some servers, and a token can be
// checked.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	if err := ctx.Err(); err != nil {
		return backends.Page{}, err
	}
	if d.closed() {
		return backends.Page{}, errClosed()
	}
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	n := int32(pageSize)
	if opts.Limit > 0 && opts.Limit < pageSize {
		n = int32(opts.Limit)
	}
	in := &s3.ListObjectsV2Input{Bucket: &d.o.Bucket, MaxKeys: &n, EncodingType: types.EncodingTypeUrl, RequestPayer: d.payer()}
	if opts.Prefix != "" {
		in.Prefix = &opts.Prefix
	}
	if after != "" {
		in.StartAfter = &after
	}
	for {
		page, next, err := d.listOnce(ctx, in)
		if err != nil || len(page.Infos) > 0 || next == nil {
			return page, err
		}
		if aws.ToString(next) == aws.ToString(in.ContinuationToken) {
			return backends.Page{}, backends.Errorf(backends.Corrupt, "the listing does not go on")
		}
		in.ContinuationToken = next // an empty page with more behind it
	}
}

// listOnce returns a page, and how the store goes on if it is not the last.
func (d *Driver) listOnce(ctx context.Context, in *s3.ListObjectsV2Input) (backends.Page, *string, error) {
	out, err := call(ctx, d, stepList, func(ctx context.Context) (*s3.ListObjectsV2Output, error) {
		return d.client.ListObjectsV2(ctx, in)
	})
	if err != nil && (isCode(err, "XMinioInvalidObjectName") || isCode(err, "XMinioInvalidResourceName")) {
		return backends.Page{}, nil, nil // a prefix that no key of MinIO begins with ("a/../")
	}
	if err != nil {
		return backends.Page{}, nil, err
	}
	page := backends.Page{Infos: make([]backends.Info, 0, len(out.Contents))}
	for i := range out.Contents {
		o := &out.Contents[i]
		key, err := decodeKey(aws.ToString(o.Key), out.EncodingType)
		if err != nil {
			return backends.Page{}, nil, err
		}
		page.Infos = append(page.Infos, backends.Info{
			Key: key, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified).Truncate(time.Second), Version: aws.ToString(o.ETag),
		})
	}
	if !aws.ToBool(out.IsTruncated) {
		return page, nil, nil
	}
	if n := len(page.Infos); n > 0 {
		page.Next = backends.AfterKey(page.Infos[n-1].Key)
	}
	return page, aws.String(aws.ToString(out.NextContinuationToken)), nil
}
