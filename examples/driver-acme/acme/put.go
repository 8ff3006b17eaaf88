package acme

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/backends/parts"
)

// Put implements backends.Driver. Package parts does the work: reading, buffers, parallel parts, cleaning up, answers that were lost. What is left for
// a driver are the six requests below.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	if err := d.gate.Check(ctx); err != nil {
		return backends.Info{}, err
	}
	if opts.IfAbsent { // refuse before the body is read
		switch _, err := d.Stat(ctx, key); {
		case err == nil:
			return backends.Info{}, backends.Exists
		case !errors.Is(err, backends.NotFound) && !errors.Is(err, backends.Denied):
			return backends.Info{}, err
		}
	}
	o := d.partOptions(opts.Size)
	o.CRC32C, o.Memory = opts.CRC32C, opts.Memory
	return parts.Put(ctx, d.newUpload(key, opts), body, o)
}

// upload is one Put.
type upload struct {
	d    *Driver
	key  string
	opts backends.PutOptions
	id   string // of this Put alone: what it left in the store can be told from everything else
}

var _ parts.Target = (*upload)(nil)

func (d *Driver) newUpload(key string, opts backends.PutOptions) *upload {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return &upload{d: d, key: key, opts: opts, id: hex.EncodeToString(b[:])}
}

// info is an object as the store describes it.
type info struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	Revision int64     `json:"revision"`
	Modified time.Time `json:"modified"`
	CRC32C   string    `json:"crc32c"`
}

func (i *info) public() backends.Info {
	return backends.Info{Key: i.Key, Size: i.Size, ModTime: i.Modified, Version: strconv.FormatInt(i.Revision, 10)}
}

func (u *upload) path(name string) string { return u.d.path(name) }

func (u *upload) query(more ...string) url.Values { return queryOf(append(more, "id", u.id)...) }

// header is that of the two requests that begin an object.
func (u *upload) header() http.Header {
	h := http.Header{"Acme-Upload": {u.id}}
	if len(u.opts.Meta) > 0 {
		h.Set("Acme-Meta", encodeMeta(u.opts.Meta))
	}
	return h
}

// ifAbsent is for the two requests that make the object visible.
func (u *upload) ifAbsent(h http.Header) http.Header {
	if u.opts.IfAbsent {
		h.Set("If-None-Match", "*")
	}
	return h
}

func checksum(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// Single implements parts.Target.
func (u *upload) Single(ctx context.Context, p parts.Part) (backends.Info, error) {
	h := u.ifAbsent(u.header())
	h.Set("Acme-Crc32c", checksum(p.CRC32C))
	var out info
	err := u.d.call(ctx, request{
		step: stepPut, method: http.MethodPut, path: u.path("object"), query: queryOf("key", u.key), header: h, body: p.Bytes, decode: &out,
	})
	if err != nil {
		return backends.Info{}, u.refused(err)
	}
	return u.created(&out, int64(len(p.Bytes)), p.CRC32C)
}

// created holds what the store says that it has against what was sent.
func (u *upload) created(out *info, size int64, sum uint32) (backends.Info, error) {
	if out.Size != size || out.CRC32C != checksum(sum) {
		return backends.Info{}, backends.Errorf(backends.Corrupt, "the store has %d bytes with CRC-32C %s, sent were %d with %s", out.Size, out.CRC32C, size, checksum(sum))
	}
	i := out.public()
	i.Key, i.Meta = u.key, u.opts.Meta
	return i, nil
}

// refused tells that a condition which does not hold is the one of IfAbsent.
func (u *upload) refused(err error) error {
	if e, ok := errors.AsType[*backends.Error](err); ok && e.Code == backends.Precondition && u.opts.IfAbsent {
		e.Code = backends.Exists
	}
	return err
}

// Begin implements parts.Target. The id is ours, so that an answer that was lost leaves no second upload behind.
func (u *upload) Begin(ctx context.Context) error {
	return u.d.call(ctx, request{step: stepBegin, method: http.MethodPut, path: u.path("upload"), query: u.query("key", u.key), header: u.header()})
}

// Part implements parts.Target.
func (u *upload) Part(ctx context.Context, p parts.Part) error {
	return u.d.call(ctx, request{
		step: stepPart, method: http.MethodPut, path: u.path("upload/part"), query: u.query("n", strconv.Itoa(p.Number)), body: p.Bytes,
		header: http.Header{"Acme-Crc32c": {checksum(p.CRC32C)}},
	})
}

// Commit implements parts.Target.
func (u *upload) Commit(ctx context.Context, w parts.Whole) (backends.Info, error) {
	var out info
	err := u.d.call(ctx, request{
		step: stepCommit, method: http.MethodPost, path: u.path("upload/commit"), query: u.query(), header: u.ifAbsent(http.Header{}),
		json: map[string]any{"parts": w.Parts, "size": w.Size, "crc32c": checksum(w.CRC32C)}, decode: &out,
	})
	if e, ok := errors.AsType[*backends.Error](err); ok && isAnswer(e, noSuchUpload) {
		e.Restart = true // somebody has removed it: sending everything again may do
	}
	if err != nil {
		return backends.Info{}, u.refused(err)
	}
	return u.created(&out, w.Size, w.CRC32C)
}

// Abort implements parts.Target. It works when the driver was closed meanwhile, too: nothing may stay in the store.
func (u *upload) Abort(ctx context.Context) error {
	err := u.d.AbortUpload(httpstore.Cleanup(ctx), backends.Upload{Key: u.key, ID: u.id})
	if errors.Is(u.d.gate.Check(ctx), backends.Closed) {
		u.d.pool.CloseIdleConnections() // the one that was opened for this
	}
	return err
}

// Find implements parts.Target.
func (u *upload) Find(ctx context.Context) (i backends.Info, mine bool, err error) {
	h, err := u.d.stat(ctx, u.key)
	if err != nil {
		return backends.Info{}, false, err
	}
	i, err = infoOf(u.key, h)
	i.Meta = u.opts.Meta
	return i, h.Get("Acme-Upload") == u.id, err
}
