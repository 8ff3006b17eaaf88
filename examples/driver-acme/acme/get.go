package acme

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// path is that of something in the bucket.
func (d *Driver) path(name string) string { return "/v1/b/" + d.o.Bucket + "/" + name }

// queryOf makes a query of names and values.
func queryOf(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// Get implements backends.Driver: one request, whose body goes through httpstore. A body that breaks is the Store's to resume.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return nil, err
	}
	obj, err := d.open(c, key, opts) //nolint:contextcheck // it is the call's, which ends with ctx
	if err != nil {
		c.End()
		return nil, err
	}
	return obj, nil
}

func (d *Driver) open(c *httpstore.Call, key string, opts backends.GetOptions) (*backends.Object, error) {
	resp, err := d.send(c, request{
		step: stepGet, method: http.MethodGet, path: d.path("object"), query: queryOf("key", key), header: getHeader(opts),
	})
	if err != nil {
		return nil, err
	}
	whole, err := infoOf(key, resp.Header)
	size, offset, rerr := httpstore.Resolve(opts.Range, resp.Header.Get("Content-Range"), resp.ContentLength)
	if err = errors.Join(err, rerr); err != nil {
		_ = resp.Body.Close() // nothing was read
		return nil, err
	}
	whole.Size = size
	body := resp.Body
	if resp.StatusCode == http.StatusOK {
		body = &verified{ReadCloser: body, left: size, want: resp.Header.Get("Acme-Crc32c")}
	}
	return &backends.Object{
		Body: httpstore.NewBody(c, body, resp.ContentLength, func(err error) error { return networkError(err) }),
		Info: whole, Offset: offset, Length: resp.ContentLength,
	}, nil
}

func getHeader(opts backends.GetOptions) http.Header {
	h := http.Header{}
	switch r := opts.Range; {
	case httpstore.Whole(r): // of an empty object even "bytes=0-" is outside
	case r.Length < 0 || r.Offset > maxObject:
		h.Set("Range", fmt.Sprintf("bytes=%d-", r.Offset))
	default:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+min(r.Length, maxObject)-1))
	}
	if opts.IfVersion != "" {
		h.Set("If-Match", opts.IfVersion)
	}
	return h
}

// verified is the body of a whole object. Its last byte goes out only if all of them have the checksum that the store knows.
type verified struct {
	io.ReadCloser
	left int64
	sum  uint32
	want string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum = crc32.Update(v.sum, crc32.MakeTable(crc32.Castagnoli), p[:n])
	v.left -= int64(n)
	if v.left == 0 && n > 0 && checksum(v.sum) != v.want {
		return 0, backends.Errorf(backends.Corrupt, "the object was read with CRC-32C %s, the store has %s", checksum(v.sum), v.want)
	}
	return n, err
}

// infoOf reads the header that GET and HEAD have alike.
func infoOf(key string, h http.Header) (backends.Info, error) {
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	modified, terr := time.Parse(time.RFC3339Nano, h.Get("Acme-Modified"))
	meta, merr := decodeMeta(h.Get("Acme-Meta"))
	if err := errors.Join(err, terr, merr); err != nil {
		return backends.Info{}, backends.Errorf(backends.Corrupt, "the answer does not describe an object: %w", err)
	}
	return backends.Info{Key: key, Size: size, ModTime: modified, Version: h.Get("Etag"), Meta: meta}, nil
}

func encodeMeta(meta map[string]string) string {
	q := url.Values{}
	for k, v := range meta {
		q.Set(k, v)
	}
	return q.Encode()
}

func decodeMeta(text string) (map[string]string, error) {
	q, err := url.ParseQuery(text)
	if err != nil || len(q) == 0 {
		return nil, err
	}
	out := make(map[string]string, len(q))
	for k := range q {
		out[k] = q.Get(k)
	}
	return out, nil
}

// stat asks for the header of an object.
func (d *Driver) stat(ctx context.Context, key string) (http.Header, error) {
	return d.head(ctx, request{step: stepStat, method: http.MethodHead, path: d.path("object"), query: queryOf("key", key)})
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	h, err := d.stat(ctx, key)
	if err != nil {
		return backends.Info{}, err
	}
	return infoOf(key, h)
}
