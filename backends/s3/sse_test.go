package s3

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
)

// TestPut_WhatTheObjectsAreLike: encryption by the store, tags and storage class are those of the settings, of small objects and of those in parts,
// as an independent client sees them.
func TestPut_WhatTheObjectsAreLike(t *testing.T) {
	srv := testbed.MinIO(t)
	client := srv.Client(t)
	for _, tt := range []struct{ sse, key, header string }{
		{"s3", "", "AES256"}, {"kms", testbed.MinIOKey, "aws:kms"}, {"kms", "", "aws:kms"}, {"none", "", ""},
	} {
		for _, n := range []int{1000, 2*minPart + 1} {
			t.Run(tt.sse+tt.key+"/"+strconv.Itoa(n), func(t *testing.T) {
				o := at(srv, srv.Bucket(t))
				o.SSE, o.KMSKey, o.StorageClass = tt.sse, tt.key, "REDUCED_REDUNDANCY"
				o.Tags = map[string]string{"team": "a b", "cost": "1+1"}
				d, data := mustOpen(t, o, backends.Env{}), random(n)
				put, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(n)})
				if err != nil {
					t.Fatal(err)
				}
				info, err := client.StatObject(t.Context(), o.Bucket, "k", minio.StatObjectOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := info.Metadata.Get("X-Amz-Server-Side-Encryption"); got != tt.header {
					t.Errorf("encryption %q, want %q", got, tt.header)
				}
				for listed := range client.ListObjects(t.Context(), o.Bucket, minio.ListObjectsOptions{}) {
					if listed.StorageClass != o.StorageClass {
						t.Errorf("storage class %q, want %q", listed.StorageClass, o.StorageClass)
					}
				}
				tags, err := client.GetObjectTagging(t.Context(), o.Bucket, "k", minio.GetObjectTaggingOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if !maps.Equal(tags.ToMap(), o.Tags) {
					t.Errorf("tags %v, want %v", tags.ToMap(), o.Tags)
				}
				obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: put.Version})
				if err != nil {
					t.Fatal(err)
				}
				defer obj.Body.Close()
				if got, err := io.ReadAll(obj.Body); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back, %v", len(got), err)
				}
			})
		}
	}
}

// TestPut_UnknownKMSKey: an error that names the setting, and nothing left.
func TestPut_UnknownKMSKey(t *testing.T) {
	srv := testbed.MinIO(t)
	o := at(srv, srv.Bucket(t))
	o.SSE, o.KMSKey = "kms", "no-such-key"
	d := mustOpen(t, o, backends.Env{})
	for _, n := range []int{10, minPart + 1} {
		_, err := d.Put(t.Context(), "k", bytes.NewReader(random(n)), backends.PutOptions{Size: int64(n)})
		if !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), keyKMSKey) {
			t.Errorf("got %v, want InvalidArgument that names %s", err, keyKMSKey)
		}
		if keys := srv.Objects(t, o.Bucket); len(keys) > 0 {
			t.Errorf("objects %v", keys)
		}
		if ids := srv.Uploads(t, o.Bucket, "k"); len(ids) > 0 {
			t.Errorf("unfinished uploads %v", ids)
		}
	}
}
