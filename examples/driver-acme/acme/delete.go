package acme

import (
	"context"
	"errors"
	"net/http"

	"github.com/tierkit/tierkit/backends"
)

// Delete implements backends.Driver.
func (d *Driver) Delete(ctx context.Context, key string) error {
	err := d.call(ctx, request{step: stepDelete, method: http.MethodDelete, path: d.path("object"), query: queryOf("key", key)})
	if errors.Is(err, backends.NotFound) {
		return nil
	}
	return err
}

// DeleteMany implements backends.BulkDeleter. The Store sees to it that there are no more keys than Properties.MaxBulkDelete.
func (d *Driver) DeleteMany(ctx context.Context, keys []string) error {
	if err := d.gate.Check(ctx); err != nil || len(keys) == 0 {
		return err
	}
	var out struct {
		Failed *[]struct{ Key, Code, Message string } // nil: it is another answer
	}
	err := d.call(ctx, request{step: stepDeleteMany, method: http.MethodPost, path: d.path("delete"), json: map[string]any{"keys": keys}, decode: &out})
	if err != nil {
		return err
	}
	if out.Failed == nil {
		return backends.Errorf(backends.Corrupt, "the answer does not say which keys were deleted")
	}
	failed := map[string]error{}
	for _, f := range *out.Failed {
		code, known := codes()[f.Code]
		switch {
		case code == backends.NotFound:
			continue
		case !known:
			code = backends.Unknown
		}
		failed[f.Key] = &backends.Error{Code: code, Err: &answer{f.Code, f.Message}}
	}
	if len(failed) > 0 {
		return &backends.BulkDeleteError{Failed: failed}
	}
	return nil
}
