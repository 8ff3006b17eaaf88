package acme_test

import (
	"context"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"example.com/acme/driver-acme/acme"
	"example.com/acme/driver-acme/acmeserver"

	"github.com/tierkit/tierkit/conformance"
)

const partBytes = 64 << 10

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
	conformance.Run(t, conformance.Harness{
		Factory:  &factory,
		Settings: settings(url),
		Raw:      raw{store},
		Knobs: conformance.Knobs{
			SmallParts: set("storage.acme.part.size", strconv.Itoa(partBytes)), PartBytes: partBytes,
			Endpoint:         func(url string) map[string]string { return set("storage.acme.url", url) },
			WrongCredentials: set("storage.acme.secret", "another"),
			MissingBucket:    set("storage.acme.bucket", "nobodys"),
			CAFile:           func(path string) map[string]string { return set("storage.acme.ca.file", path) },
			Timeouts: func(d time.Duration) map[string]string {
				return map[string]string{
					"storage.acme.connect.timeout": d.String(), "storage.acme.response.timeout": d.String(), "storage.acme.stall.timeout": d.String(),
				}
			},
			MaxConns: func(n int) map[string]string { return set("storage.acme.max.connections", strconv.Itoa(n)) },
			Attempts: func(n int) map[string]string { return set("storage.acme.max.attempts", strconv.Itoa(n)) },
		},
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
