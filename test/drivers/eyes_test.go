package drivers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
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
type azureEye struct {
	client *container.Client
}

func (e *azureEye) Leftovers(ctx context.Context, ns string, _ []string) ([]string, error) {
	prefix := ns + "/"
	var out []string
	pages := e.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return out, err
		}
		for _, blob := range page.Segment.BlobItems {
			out = append(out, "blob "+*blob.Name)
		}
	}
	return out, nil
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
