package testbed

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// FakeGCSVersion is that of fake-gcs-server; scripts/tools.sh has the same.
const FakeGCSVersion = "v1.56.1"

// GCS is an emulator of Google Cloud Storage.
type GCS struct {
	Endpoint string // with the scheme

	buckets atomic.Int64
}

// FakeGCS returns a running fake-gcs-server. It keeps everything in memory, and appends a chunk of an upload that is sent again: nothing that breaks an upload
// of several chunks can be tried on it.
func FakeGCS(t testing.TB) *GCS {
	t.Helper()
	path := program(t, "fakegcs", FakeGCSVersion, "fake-gcs-server")
	return get(t, &all, "fakegcs", func(dir string) (*GCS, *process, error) {
		port, err := freePorts(1)
		if err != nil {
			return nil, nil, err
		}
		at := "127.0.0.1:" + strconv.Itoa(port[0])
		p, err := start(dir, nil, path, "-scheme", "http", "-host", "127.0.0.1", "-port", strconv.Itoa(port[0]), "-public-host", at,
			"-external-url", "http://"+at, "-backend", "memory", "-log-level", "warn")
		if err != nil {
			return nil, nil, err
		}
		return &GCS{Endpoint: "http://" + at}, p, p.ready(t.Context(), "http://"+at+"/_internal/healthcheck")
	})
}

// Bucket makes an empty bucket.
func (g *GCS) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("g%d-%d", os.Getpid(), g.buckets.Add(1))
	if status, body := g.do(t, http.MethodPost, "/storage/v1/b?project=test", `{"name":"`+name+`"}`); status != http.StatusOK {
		t.Fatalf("make bucket %s: %d %s", name, status, body)
	}
	return name
}

// Objects returns the listing of a bucket as the service writes it: a look from outside.
func (g *GCS) Objects(t testing.TB, bucket string) string {
	t.Helper()
	status, body := g.do(t, http.MethodGet, "/storage/v1/b/"+bucket+"/o", "")
	if status != http.StatusOK {
		t.Fatalf("list bucket %s: %d %s", bucket, status, body)
	}
	return body
}

func (g *GCS) do(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.Endpoint+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
