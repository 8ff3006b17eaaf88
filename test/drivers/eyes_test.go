package drivers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tierkit/tierkit/internal/testbed"
)

// s3Eye looks at a bucket with a client that is not the driver's.
type s3Eye struct {
	client *minio.Client
	bucket string
}

// Leftovers asks for the uploads of each key: MinIO lists those of a key that is named, and no others.
func (e *s3Eye) Leftovers(ctx context.Context, ns string, keys []string) ([]string, error) {
	var out []string
	for o := range e.client.ListObjects(ctx, e.bucket, minio.ListObjectsOptions{Prefix: ns + "/", Recursive: true}) {
		if o.Err != nil {
			return out, o.Err
		}
		out = append(out, "object "+o.Key)
	}
	for _, prefix := range append([]string{ns + "/"}, keys...) {
		for up := range e.client.ListIncompleteUploads(ctx, e.bucket, prefix, true) {
			if up.Err != nil {
				return out, up.Err
			}
			out = append(out, "upload "+up.UploadID+" of "+up.Key)
		}
	}
	return out, nil
}

// azureEye looks at a container. Uncommitted blocks are not asked for: the service drops them by itself.
type azureEye func(ctx context.Context, prefix string) ([]string, error)

func (e azureEye) Leftovers(ctx context.Context, ns string, _ []string) ([]string, error) {
	return e(ctx, ns+"/")
}

// gcsEye looks at a bucket.
type gcsEye struct {
	srv    *testbed.GCS
	t      *testing.T
	bucket string
}

func (e *gcsEye) Leftovers(_ context.Context, ns string, _ []string) ([]string, error) {
	var list struct{ Items []struct{ Name string } }
	if err := json.Unmarshal([]byte(e.srv.Objects(e.t, e.bucket)), &list); err != nil {
		return nil, err
	}
	var out []string
	for _, o := range list.Items {
		if strings.HasPrefix(o.Name, ns+"/") {
			out = append(out, "object "+o.Name)
		}
	}
	return out, nil
}
