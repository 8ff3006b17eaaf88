package backends_test

import (
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/internal/testbed"
)

// objects is a place in a bucket of its own.
func objects() place {
	name := ""
	return func(t *testing.T) backends.Driver {
		t.Helper()
		srv := testbed.FakeGCS(t)
		if name == "" {
			name = srv.Bucket(t)
		}
		d, err := gcs.Open(t.Context(), gcs.Options{Bucket: name, Endpoint: srv.Endpoint, Anonymous: true, ChunkBytes: 256 << 10}, backends.Env{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
}
