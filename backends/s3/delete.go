package s3

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierkit/tierkit/backends"
)

// Delete implements backends.Driver.
func (d *Driver) Delete(ctx context.Context, key string) error {
	_, err := call(ctx, d, stepDelete, func(ctx context.Context) (*s3.DeleteObjectOutput, error) {
		return d.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.o.Bucket, Key: &key, RequestPayer: d.payer()})
	})
	if backends.CodeOf(err) == backends.NotFound {
		return nil
	}
	return err
}

// DeleteMany implements backends.BulkDeleter: one DeleteObjects, and a DeleteObject for each key that XML cannot carry.
func (d *Driver) DeleteMany(ctx context.Context, keys []string) error {
	failed := make(map[string]error)
	var ids []types.ObjectIdentifier
	for i := range keys {
		if inXML(keys[i]) {
			ids = append(ids, types.ObjectIdentifier{Key: &keys[i]})
			continue
		}
		if err := d.Delete(ctx, keys[i]); err != nil {
			failed[keys[i]] = err
		}
	}
	if len(ids) > 0 {
		if err := d.deleteObjects(ctx, ids, failed); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(failed) > 0 {
		return &backends.BulkDeleteError{Failed: failed}
	}
	return nil
}

func (d *Driver) deleteObjects(ctx context.Context, ids []types.ObjectIdentifier, failed map[string]error) error {
	out, err := call(ctx, d, stepDeleteMany, func(ctx context.Context) (*s3.DeleteObjectsOutput, error) {
		return d.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &d.o.Bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}, RequestPayer: d.payer(),
		}, func(o *s3.Options) {
			if d.sum() != checksumCRC32C { // servers of before 2025 want Content-MD5 here, whatever else is sent
				o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
			}
		})
	})
	if err != nil {
		return err
	}
	for i := range out.Errors {
		e := &out.Errors[i]
		code := aws.ToString(e.Code)
		c := codeOf(code, 0, stepDeleteMany)
		if c == backends.NotFound {
			continue
		}
		why := &backends.Error{Code: c, Err: fmt.Errorf("%s: %s", code, aws.ToString(e.Message))}
		if c == backends.Denied {
			why.Err = fmt.Errorf("the credentials lack %s: %w", stepDeleteMany.permission(), why.Err)
		}
		failed[aws.ToString(e.Key)] = why
	}
	return nil
}

// inXML reports whether a key comes through XML 1.0 as it is: no control characters, none of the two that are no characters.
func inXML(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0xfffe || r == 0xffff })
}
