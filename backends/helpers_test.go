package backends_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
)

// What drivers must do is package conformance, which test/drivers runs on each of ours.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit)) }

func mustPut(t *testing.T, d backends.Driver, key string, data []byte) backends.Info {
	t.Helper()
	info, err := d.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info
}

func mustGet(t *testing.T, d backends.Driver, key string, r backends.Range) []byte {
	t.Helper()
	obj, err := d.Get(t.Context(), key, backends.GetOptions{Range: r})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	data, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	if int64(len(data)) != obj.Length {
		t.Fatalf("read %q: %d bytes, Length says %d", key, len(data), obj.Length)
	}
	if err := obj.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func keysOf(t *testing.T, d backends.Driver, prefix string) []string {
	t.Helper()
	keys := []string{}
	for token := ""; ; {
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: prefix, Token: token})
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		for _, i := range page.Infos {
			keys = append(keys, i.Key)
		}
		if token = page.Next; token == "" {
			return keys
		}
	}
}

var errSource = errors.New("the source broke")

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
