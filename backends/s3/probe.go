package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
)

// probePrefix is where Probe writes: no listing of a Store shows it.
const probePrefix = backends.Reserved + "/probe/"

// Probe implements backends.Prober: one small object is written, read, listed and removed, an upload begun and aborted, uploads listed. Each error says which of
// these failed. It also finds out whether the server takes "only if absent" at its word.
func (d *Driver) Probe(ctx context.Context) (err error) {
	// The first request is one whose answer has a body: a HEAD cannot say which of credentials, bucket and permission is wrong.
	if _, err := d.List(ctx, backends.ListOptions{Prefix: probePrefix, Limit: 1}); err != nil {
		return during("list objects", err)
	}
	u := &upload{d: d, began: d.env.Now(), opts: &backends.PutOptions{}}
	u.addToken()
	u.key = probePrefix + u.token
	if _, err := d.Put(ctx, u.key, strings.NewReader(u.token), backends.PutOptions{Size: int64(len(u.token))}); err != nil {
		return during("store an object", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if derr := d.Delete(clean, u.key); derr != nil {
			err = errors.Join(err, during("remove the object", derr))
		}
	}()
	if err := d.probeReads(ctx, u); err != nil {
		return err
	}
	return d.probeUploads(ctx, u)
}

func (d *Driver) probeReads(ctx context.Context, u *upload) error {
	obj, err := d.Get(ctx, u.key, backends.GetOptions{Range: backends.Range{Offset: 1, Length: 2}})
	if err != nil {
		return during("read a range of an object", err)
	}
	_ = obj.Body.Close() // read side
	if _, err := d.Stat(ctx, u.key); err != nil {
		return during("look at an object", err)
	}
	if !d.Properties().IfAbsent {
		return nil
	}
	again := &upload{d: d, key: u.key, opts: &backends.PutOptions{IfAbsent: true}}
	switch _, err := again.Single(ctx, parts.Part{Number: 1, Bytes: []byte(u.token)}); {
	case err == nil:
		d.log.WarnContext(ctx, "the server ignores If-None-Match: objects are overwritten where they should only be created", "setting", keyProvider)
	case !errors.Is(err, backends.Exists):
		return during("create an object only if it is absent", err)
	}
	return nil
}

func (d *Driver) probeUploads(ctx context.Context, u *upload) error {
	if err := u.Begin(ctx); err != nil {
		return during("begin an upload in parts", errors.Join(err, u.sweep(ctx)))
	}
	if err := d.abort(ctx, backends.Upload{Key: u.key, ID: u.id}); err != nil {
		return during("abort an upload in parts", err)
	}
	if _, err := d.ListUploads(ctx, u.key); err != nil {
		return during("list unfinished uploads", err)
	}
	return nil
}

// during says at which step of the probe an error came, below its code.
func during(what string, err error) error {
	e, ok := errors.AsType[*backends.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	out, cause := *e, e.Err
	if error(e) != err { //nolint:errorlint // whether more is joined to it
		cause = err
	}
	out.Err = errors.New(what)
	if cause != nil {
		out.Err = fmt.Errorf("%s: %w", what, cause)
	}
	return &out
}
