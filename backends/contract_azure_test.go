package backends_test

import (
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/internal/testbed"
)

// blobs is a place in a container of its own.
func blobs() place {
	name := ""
	return func(t *testing.T) backends.Driver {
		t.Helper()
		srv := testbed.Azurite(t)
		if name == "" {
			name = srv.Container(t)
		}
		d, err := azure.Open(t.Context(), azure.Options{
			Container: name, ConnectionString: backends.NewSecret(srv.ConnectionString()), BlockBytes: 256 << 10, // several blocks where others have one
		}, backends.Env{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
}
