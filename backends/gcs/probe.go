package gcs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/storage"

	"github.com/tierkit/tierkit/backends"
)

// probePrefix is where Probe writes: no listing of a Store shows it.
const probePrefix = backends.Reserved + "/probe/"

// Probe implements backends.Prober: the bucket is listed, one small object is written, read, refused a second time, and removed. Each error says
// which of these failed.
func (d *Driver) Probe(ctx context.Context) (err error) {
	if _, err := d.list(ctx, &storage.Query{Prefix: probePrefix}, 1); err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	text := newToken(nil)
	key := probePrefix + text
	opts := backends.PutOptions{Size: int64(len(text))}
	if _, err := d.Put(ctx, key, strings.NewReader(text), opts); err != nil {
		return fmt.Errorf("store an object: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if derr := d.Delete(clean, key); derr != nil {
			err = errors.Join(err, fmt.Errorf("remove an object: %w", derr))
		}
	}()
	obj, err := d.Get(ctx, key, backends.GetOptions{Range: backends.Range{Offset: 1, Length: 2}})
	if err != nil {
		return fmt.Errorf("read a range of an object: %w", err)
	}
	_ = obj.Body.Close() // read side
	opts.IfAbsent = true
	if _, err = d.Put(ctx, key, strings.NewReader(text), opts); !errors.Is(err, backends.Exists) {
		return fmt.Errorf("create an object only if it is absent: want %w, got %w", backends.Exists, err)
	}
	return nil
}
