package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"slices"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// api is what a driver and a Store have in common.
type api interface {
	Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error)
	Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error)
	Stat(ctx context.Context, key string) (backends.Info, error)
	Delete(ctx context.Context, key string) error
	Close() error
}

// Client is a driver, or a Store over one, as the case's level wants it. The methods of a driver return what it returns; the others
// fail the case when they do not succeed.
type Client struct {
	api
	b      *Bench
	t      *caseT
	driver *scoped         // nil at the level of the Store
	store  *backends.Store // nil at the level of the driver
}

// Driver is the bare driver below the namespace, nil at the level of the Store.
func (c *Client) Driver() backends.Driver {
	if c.driver == nil {
		return nil
	}
	return c.driver
}

// Store is the Store, nil at the level of the driver.
func (c *Client) Store() *backends.Store { return c.store }

// Raw is the driver as Harness.Open returned it: keys are full ones. It shows which optional interfaces there are.
func (c *Client) Raw() backends.Driver {
	if c.store != nil {
		return c.store.Driver()
	}
	return c.driver.Driver
}

// Put notes the key, so that the suite can tell the case's objects from others.
func (c *Client) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	c.b.begun(key)
	info, err := c.api.Put(ctx, key, body, opts)
	c.b.ended(key, err)
	return info, err
}

// Delete notes the key as gone.
func (c *Client) Delete(ctx context.Context, key string) error {
	err := c.api.Delete(ctx, key)
	if err == nil {
		c.b.gone(key)
	}
	return err
}

// DeleteMany deletes in bulk. At the level of the driver it must be one that can.
func (c *Client) DeleteMany(ctx context.Context, keys []string) error {
	if c.store != nil {
		return c.store.DeleteMany(ctx, keys)
	}
	return c.driver.deleteMany(ctx, keys)
}

// Probe checks the store.
func (c *Client) Probe(ctx context.Context) error {
	if c.store != nil {
		return c.store.Probe(ctx)
	}
	return c.driver.probe(ctx)
}

// Uploads lists unfinished uploads that are the case's. Where others share the place, those without a key are left out: nobody can say whose they are.
func (c *Client) Uploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	ups, err := c.allUploads(ctx, prefix)
	if c.b.r.h.Shared {
		ups = slices.DeleteFunc(ups, func(u backends.Upload) bool { return u.Key == "" })
	}
	return ups, err
}

// allUploads lists unfinished uploads, those of others with them where the store does not record keys.
func (c *Client) allUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	if c.store != nil {
		return c.store.Uploads(ctx, prefix)
	}
	return c.driver.listUploads(ctx, prefix)
}

// AbortUpload removes one.
func (c *Client) AbortUpload(ctx context.Context, u backends.Upload) error {
	if c.store != nil {
		return c.store.AbortUpload(ctx, u)
	}
	return c.driver.abortUpload(ctx, u)
}

// Lists calls f for what has the prefix, page after page or by the Store's iterator.
func (c *Client) Lists(ctx context.Context, prefix string, f func(backends.Info)) error {
	if c.store != nil {
		for info, err := range c.store.List(ctx, prefix) {
			if err != nil {
				return err
			}
			f(info)
		}
		return nil
	}
	for token := ""; ; {
		page, err := c.driver.List(ctx, backends.ListOptions{Prefix: prefix, Token: token})
		if err != nil {
			return err
		}
		for _, info := range page.Infos {
			f(info)
		}
		if page.Next == "" {
			return nil
		}
		if page.Next == token {
			return errors.New("the listing does not go on: the same token twice")
		}
		token = page.Next
	}
}

// Write stores data under key.
func (c *Client) Write(key string, data []byte) backends.Info {
	c.t.Helper()
	info, err := c.Put(c.t.ctx, key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
	if err != nil {
		c.t.Fatalf("put %q of %d bytes: got %v, want success", key, len(data), err)
	}
	return info
}

// Open opens a range.
func (c *Client) Open(key string, r backends.Range) *backends.Object {
	c.t.Helper()
	obj, err := c.Get(c.t.ctx, key, backends.GetOptions{Range: r})
	if err != nil {
		c.t.Fatalf("get %q %+v: got %v, want success", key, r, err)
	}
	return obj
}

// readWhole is io.ReadAll into memory that is taken at once, by the length that was told: growing it copies a large body several times, which is
// most of what a case costs under the race detector.
func readWhole(obj *backends.Object) ([]byte, error) {
	told := min(max(obj.Length, 0), 64<<20) // it may be a lie
	buf := bytes.NewBuffer(make([]byte, 0, told+bytes.MinRead))
	_, err := buf.ReadFrom(obj.Body)
	return buf.Bytes(), err
}

// Range reads a range and checks that it has the length that was told.
func (c *Client) Range(key string, r backends.Range) []byte {
	c.t.Helper()
	obj := c.Open(key, r)
	data, err := readWhole(obj)
	if err != nil {
		c.t.Fatalf("read %q %+v: got %v after %d bytes, want success", key, r, err, len(data))
	}
	if int64(len(data)) != obj.Length {
		c.t.Fatalf("read %q %+v: got %d bytes, want the %d of Object.Length", key, r, len(data), obj.Length)
	}
	if err := obj.Body.Close(); err != nil {
		c.t.Errorf("close the body of %q: got %v, want success", key, err)
	}
	return data
}

// Read reads everything.
func (c *Client) Read(key string) []byte {
	c.t.Helper()
	return c.Range(key, backends.All())
}

// Info stats key.
func (c *Client) Info(key string) backends.Info {
	c.t.Helper()
	info, err := c.Stat(c.t.ctx, key)
	if err != nil {
		c.t.Fatalf("stat %q: got %v, want success", key, err)
	}
	return info
}

// Remove deletes key.
func (c *Client) Remove(key string) {
	c.t.Helper()
	if err := c.Delete(c.t.ctx, key); err != nil {
		c.t.Fatalf("delete %q: got %v, want success", key, err)
	}
}

// Infos lists what has the prefix.
func (c *Client) Infos(prefix string) []backends.Info {
	c.t.Helper()
	infos := []backends.Info{}
	if err := c.Lists(c.t.ctx, prefix, func(i backends.Info) { infos = append(infos, i) }); err != nil {
		c.t.Fatalf("list %q: got %v, want success", prefix, err)
	}
	return infos
}

// Keys lists the keys that have the prefix.
func (c *Client) Keys(prefix string) []string {
	c.t.Helper()
	keys := []string{}
	for _, i := range c.Infos(prefix) {
		keys = append(keys, i.Key)
	}
	return keys
}

// Holds checks that key has exactly these bytes.
func (c *Client) Holds(key string, want []byte) {
	c.t.Helper()
	if got := c.Read(key); !bytes.Equal(got, want) {
		c.t.Errorf("%q: %s", key, difference(got, want))
	}
}

// Lacks checks that there is no such key, by every way to ask.
func (c *Client) Lacks(key string) {
	c.t.Helper()
	obj, err := c.Get(c.t.ctx, key, backends.GetOptions{Range: backends.All()})
	if err == nil {
		_ = obj.Body.Close() // not the point
	}
	c.Missing("get "+key, err)
	_, err = c.Stat(c.t.ctx, key)
	c.Missing("stat "+key, err)
	for _, k := range c.Keys(key) {
		if k == key {
			c.t.Errorf("the listing: got %q in it, want it absent", key)
		}
	}
}

// sameTime compares two times of one object: dates in HTTP headers have seconds.
func sameTime(a, b time.Time) bool { return a.Sub(b).Abs() < time.Second }

// Missing checks that err is NotFound in every form.
func (c *Client) Missing(what string, err error) {
	c.t.Helper()
	if !errors.Is(err, backends.NotFound) || !errors.Is(err, iofs.ErrNotExist) || backends.CodeOf(err) != backends.NotFound {
		c.t.Errorf("%s: got %s, want NotFound", what, shown(err))
	}
}

// Coded checks that err has a code.
func (c *Client) Coded(what string, err error, want backends.Code) {
	c.t.Helper()
	if !errors.Is(err, want) || backends.CodeOf(err) != want {
		c.t.Errorf("%s: got %s, want %s", what, shown(err), want.Label())
	}
}
