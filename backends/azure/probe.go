package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
)

// probePrefix is where Probe writes: no listing of a Store shows it.
const probePrefix = backends.Reserved + "/probe/"

const cleanupTimeout = 30 * time.Second

// Probe implements backends.Prober: the container is listed, one small object is written in blocks, read, and removed. Each error says which of
// these failed.
func (d *Driver) Probe(ctx context.Context) (err error) {
	if _, err := d.List(ctx, backends.ListOptions{Prefix: probePrefix, Limit: 1}); err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	u := d.newUpload("", backends.PutOptions{})
	u.key = probePrefix + u.token
	u.blob = d.client.NewBlockBlobClient(u.key)
	if err := u.Part(ctx, parts.Part{Number: 1, Bytes: []byte(u.token)}); err != nil {
		return fmt.Errorf("store a block: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if derr := d.Delete(clean, u.key); derr != nil {
			err = errors.Join(err, fmt.Errorf("remove an object: %w", derr))
		}
	}()
	if _, err := u.Commit(ctx, parts.Whole{Parts: 1, Size: int64(len(u.token))}); err != nil {
		return fmt.Errorf("commit a block: %w", err)
	}
	obj, err := d.Get(ctx, u.key, backends.GetOptions{Range: backends.Range{Offset: 1, Length: 2}})
	if err != nil {
		return fmt.Errorf("read a range of an object: %w", err)
	}
	_ = obj.Body.Close() // read side
	_, err = d.Put(ctx, u.key, strings.NewReader(u.token), backends.PutOptions{Size: int64(len(u.token)), IfAbsent: true})
	if !errors.Is(err, backends.Exists) {
		return fmt.Errorf("create an object only if it is absent: want %w, got %w", backends.Exists, err)
	}
	return nil
}
