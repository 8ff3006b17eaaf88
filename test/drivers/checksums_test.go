package drivers

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/internal/testbed"
)

// flipper changes a bit of what is on its way to or from a server, and notes the headers of uploads and answers.
type flipper struct {
	next       http.RoundTripper
	send, give bool
	sent       http.Header
}

func (f *flipper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		f.sent = r.Header.Clone()
		if f.send {
			r = r.Clone(r.Context())
			r.Body = flipped(r.Body)
		}
	}
	resp, err := f.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && f.give {
		resp.Body = flipped(resp.Body)
	}
	return resp, err
}

// flipped is a body whose first byte is another one.
func flipped(b io.ReadCloser) io.ReadCloser {
	first := make([]byte, 1)
	if _, err := io.ReadFull(b, first); err != nil {
		return b
	}
	first[0] ^= 1
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), b), b}
}

// TestS3_ChecksumsOfServers: with settings that say nothing about the kind of server or its checksums. What a server can do is compared from the
// writer to the reader; of one that can do less it is known that it cannot.
func TestS3_ChecksumsOfServers(t *testing.T) {
	for _, tc := range []struct {
		server *testbed.S3
		crc    bool // sends CRC32C, and notices bytes that changed on their way to the reader
	}{{testbed.MinIO(t), true}, {testbed.VersityGW(t), true}, {testbed.SeaweedFS(t), false}} {
		t.Run(tc.server.Name, func(t *testing.T) { checkChecksums(t, tc.server, tc.crc) })
	}
}

func checkChecksums(t *testing.T, srv *testbed.S3, crc bool) {
	f := new(flipper)
	s := openFlipped(t, f, map[string]string{
		"storage.backend": "s3", "storage.s3.bucket.name": srv.Bucket(t), "storage.s3.endpoint.url": srv.Endpoint, "storage.s3.max.attempts": "1",
		"storage.aws.access.key.id": srv.AccessKey, "storage.aws.secret.access.key": srv.SecretKey,
	})
	data := bytes.Repeat([]byte("tierkit "), 1000)
	put := func(key string) error {
		_, err := s.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
		return err
	}
	get := func() error {
		obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			return err
		}
		defer obj.Body.Close()
		_, err = io.ReadAll(obj.Body)
		return err
	}
	if err := s.Probe(t.Context()); err != nil { // the server shows what it is
		t.Fatal(err)
	}
	if err := errors.Join(put("k"), get()); err != nil {
		t.Fatal(err)
	}
	header := map[bool]string{true: "X-Amz-Checksum-Crc32c", false: "Content-Md5"}[crc]
	if f.sent.Get(header) == "" {
		t.Errorf("an upload has no %s: %v", header, f.sent)
	}
	f.send = true
	if err := put("other"); err == nil {
		t.Error("an upload that changed on its way was taken")
	} else {
		t.Logf("an upload that changed on its way: %v", err)
	}
	f.send, f.give = false, true
	if err := get(); errors.Is(err, backends.Corrupt) != crc || (err != nil) != crc {
		t.Errorf("bytes that changed on their way to the reader: %v, want that they are noticed: %v", err, crc)
	}
}

func openFlipped(t *testing.T, f *flipper, settings map[string]string) *backends.Store {
	t.Helper()
	var reg backends.Registry
	if err := reg.Register(s3.Factory()); err != nil {
		t.Fatal(err)
	}
	s, err := reg.Open(t.Context(), settings, backends.Options{Env: backends.Env{WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		f.next = next
		return f
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	})
	return s
}
