package backends_test

import (
	"bytes"
	"io"
	"net/url"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/internal/testbed"
)

// behind opens a driver whose requests go through a proxy.
type behind func(t *testing.T, proxy *url.URL) (backends.Driver, error)

func behindProxies() map[string]behind {
	bucket := func(server func(testing.TB) *testbed.S3) behind {
		return func(t *testing.T, proxy *url.URL) (backends.Driver, error) {
			srv := server(t)
			return s3.Open(t.Context(), s3.Options{
				Bucket: srv.Bucket(t), Endpoint: srv.Endpoint, CAFile: srv.CAFile, PartBytes: 5 << 20, Proxy: proxy, MaxAttempts: 1,
				Credentials: s3.Credentials{AccessKey: backends.NewSecret(srv.AccessKey), SecretKey: backends.NewSecret(srv.SecretKey)},
			}, backends.Env{})
		}
	}
	return map[string]behind{
		"s3":     bucket(testbed.MinIO),
		"s3-tls": bucket(testbed.MinIOTLS),
		"gcs": func(t *testing.T, proxy *url.URL) (backends.Driver, error) {
			srv := testbed.FakeGCS(t)
			return gcs.Open(t.Context(), gcs.Options{
				Bucket: srv.Bucket(t), Endpoint: srv.Endpoint, Anonymous: true, ChunkBytes: 256 << 10, Proxy: proxy, MaxAttempts: 1,
			}, backends.Env{})
		},
		"azure": func(t *testing.T, proxy *url.URL) (backends.Driver, error) {
			srv := testbed.Azurite(t)
			return azure.Open(t.Context(), azure.Options{
				Container: srv.Container(t), ConnectionString: backends.NewSecret(srv.ConnectionString()), BlockBytes: 256 << 10, Proxy: proxy, MaxAttempts: 1,
			}, backends.Env{})
		},
	}
}

// TestProxies_CarryEverything: with each kind of proxy a round trip in parts works, and no request goes past it; with the wrong password
// nothing works.
func TestProxies_CarryEverything(t *testing.T) {
	proxies := map[string]func(testing.TB) *testbed.Proxy{"http": testbed.HTTPProxy, "socks5": testbed.SOCKS5Proxy}
	for name, open := range behindProxies() {
		for kind, start := range proxies {
			t.Run(name+"/"+kind, func(t *testing.T) {
				proxy := start(t)
				roundTrip(t, mustOpenBehind(t, open, proxy.URL))
				if proxy.Connections() == 0 || proxy.Refused() > 0 {
					t.Errorf("the proxy made %d connections and refused %d clients", proxy.Connections(), proxy.Refused())
				}
				made, wrong := proxy.Connections(), *proxy.URL
				wrong.User = url.UserPassword("proxy user", "guess")
				if _, err := mustOpenBehind(t, open, &wrong).Stat(t.Context(), "k"); err == nil || backends.CodeOf(err) == backends.NotFound {
					t.Errorf("with the wrong password: %v", err)
				}
				if proxy.Connections() != made || proxy.Refused() == 0 {
					t.Errorf("with the wrong password: %d connections, %d clients refused", proxy.Connections()-made, proxy.Refused())
				}
			})
		}
	}
}

func mustOpenBehind(t *testing.T, open behind, proxy *url.URL) backends.Driver {
	t.Helper()
	d, err := open(t, proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func roundTrip(t *testing.T, d backends.Driver) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), 6<<16) // in parts
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	if got, err := io.ReadAll(obj.Body); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if err := d.Delete(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}
