package s3

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tierkit/tierkit/backends"
)

// ListUploads implements backends.UploadLister. MinIO knows a prefix only if it is the whole key, and without one only the uploads since its start.
func (d *Driver) ListUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	var found []backends.Upload
	in := &s3.ListMultipartUploadsInput{Bucket: &d.o.Bucket, EncodingType: types.EncodingTypeUrl, RequestPayer: d.payer()}
	if prefix != "" {
		in.Prefix = &prefix
	}
	for {
		out, err := call(ctx, d, stepUploads, func(ctx context.Context) (*s3.ListMultipartUploadsOutput, error) {
			return d.client.ListMultipartUploads(ctx, in)
		})
		if err != nil {
			return found, err
		}
		for i := range out.Uploads {
			up := &out.Uploads[i]
			key, err := decodeKey(aws.ToString(up.Key), out.EncodingType)
			if err != nil {
				return found, err
			}
			if strings.HasPrefix(key, prefix) {
				found = append(found, backends.Upload{Key: key, ID: aws.ToString(up.UploadId), Started: aws.ToTime(up.Initiated)})
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return found, nil
		}
		marker, err := decodeKey(aws.ToString(out.NextKeyMarker), out.EncodingType)
		if err != nil {
			return found, err
		}
		id := aws.ToString(out.NextUploadIdMarker)
		if marker == aws.ToString(in.KeyMarker) && id == aws.ToString(in.UploadIdMarker) {
			return found, backends.Errorf(backends.Corrupt, "the listing of uploads does not go on")
		}
		in.KeyMarker, in.UploadIdMarker = &marker, &id
	}
}

// AbortUpload implements backends.UploadLister.
func (d *Driver) AbortUpload(ctx context.Context, u backends.Upload) error {
	if u.Key == "" || u.ID == "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.closed() {
			return errClosed()
		}
		return backends.Errorf(backends.InvalidArgument, "an upload has a key and an id, this one %q and %q", u.Key, u.ID)
	}
	return d.abort(ctx, u)
}

// abort takes an upload that is gone for success.
func (d *Driver) abort(ctx context.Context, u backends.Upload) error {
	_, err := call(ctx, d, stepAbort, func(ctx context.Context) (*s3.AbortMultipartUploadOutput, error) {
		return d.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &d.o.Bucket, Key: &u.Key, UploadId: &u.ID, RequestPayer: d.payer()})
	})
	if err != nil && isCode(err, "NoSuchUpload") {
		return nil
	}
	return err
}

// uploadThere reports whether an upload is known to the store.
func (d *Driver) uploadThere(ctx context.Context, u backends.Upload) (bool, error) {
	_, err := call(ctx, d, stepParts, func(ctx context.Context) (*s3.ListPartsOutput, error) {
		return d.client.ListParts(ctx, &s3.ListPartsInput{Bucket: &d.o.Bucket, Key: &u.Key, UploadId: &u.ID, MaxParts: aws.Int32(1), RequestPayer: d.payer()})
	})
	if err != nil && isCode(err, "NoSuchUpload") {
		return false, nil
	}
	return err == nil, err
}

// decodeKey undoes EncodingType=url, which the SDK leaves to its callers. A server that overlooks the wish sends keys as they are.
func decodeKey(key string, encoding types.EncodingType) (string, error) {
	if encoding != types.EncodingTypeUrl {
		return key, nil
	}
	out, err := url.QueryUnescape(key)
	if err != nil {
		return "", &backends.Error{Code: backends.Corrupt, Err: errors.Join(errors.New("a listing holds a key that cannot be decoded"), err)}
	}
	return out, nil
}
