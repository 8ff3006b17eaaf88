package acme_test

import (
	"context"
	"net/http/httptest"
	"os"
	"testing"

	"example.com/acme/driver-acme/acme"
	"example.com/acme/driver-acme/acmeserver"
	"example.com/acme/driver-acme/suite"

	"github.com/tierkit/tierkit/conformance"
)

// settings are those of a driver for a server on this machine.
func settings(url string) map[string]string {
	return map[string]string{
		"storage.acme.url": url, "storage.acme.bucket": "segments", "storage.acme.key.id": "key", "storage.acme.secret": "secret",
		"storage.acme.max.retry.delay": "5ms",
	}
}

// serve starts the store.
func serve(t *testing.T) (*acmeserver.Server, string) {
	store := acmeserver.New(acmeserver.Options{})
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	return store, server.URL
}

// TestConformance is all that a driver needs to know whether it keeps the contract.
func TestConformance(t *testing.T) {
	store, url := serve(t)
	store.Trust("conformance") // as the token server of the suite says
	factory := acme.Factory()
	h := conformance.Harness{
		Factory: &factory, Settings: settings(url), Raw: raw{store},
		Knobs: conformance.KnobsOf(factory), // by the names of the settings
	}
	suite.Access{Reader: "reader:reader-secret", Trusted: true}.Complete(&h)
	if os.Getenv("TIERKIT_CONFORMANCE_SCALE") == "full" {
		h.Scale, h.Limits.HeapBytes = conformance.Full, 512<<20 // this store keeps its objects in the memory of the test
	}
	conformance.Run(t, h)
}

func set(name, value string) map[string]string { return map[string]string{name: value} }

// raw looks under the driver: uploads that wait for a commit.
type raw struct{ store *acmeserver.Server }

func (r raw) Leftovers(_ context.Context, namespace string, _ []string) ([]string, error) {
	var left []string
	for _, u := range r.store.Uploads(namespace) {
		left = append(left, "an upload to "+u.Key)
	}
	return left, nil
}
