package acme_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"example.com/acme/driver-acme/acme"
	"example.com/acme/driver-acme/acmeserver"

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
	factory := acme.Factory()
	knobs := conformance.KnobsOf(factory) // by the names of the settings
	knobs.WrongCredentials = set("storage.acme.secret", "another")
	conformance.Run(t, conformance.Harness{
		Factory: &factory, Settings: settings(url), Knobs: knobs, Dialect: dialect{}, Raw: raw{store},
	})
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
