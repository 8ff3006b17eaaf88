package backends

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// bulkParallel is how many deletes run at a time where the store has no bulk delete.
const bulkParallel = 16

// DeleteMany removes keys, in few requests where the driver can. A missing key is success, a key named twice counts once. The error is
// nil, or one in whose chain a *BulkDeleteError names exactly the keys that are not known to be gone.
func (s *Store) DeleteMany(ctx context.Context, keys []string) error {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, key := range keys {
		if err := s.refuse(key); err != nil {
			return (&run{s: s, op: OpDeleteMany, shown: s.mask.text(s.prefix + key)}).coded(err)
		}
	}
	var failed map[string]error
	d, ok := s.driver.(BulkDeleter)
	if ok && s.props.MaxBulkDelete > 0 {
		failed = s.deleteBulks(ctx, d, keys)
	} else {
		failed = s.deleteEach(ctx, keys)
	}
	return s.bulkError(ctx, failed)
}

// deleteBulks goes on after a failed request: each key is tried once.
func (s *Store) deleteBulks(ctx context.Context, d BulkDeleter, keys []string) map[string]error {
	failed := make(map[string]error)
	for part := range slices.Chunk(keys, max(1, s.props.MaxBulkDelete)) {
		err := s.call(ctx, request{op: OpDeleteMany, free: true, slots: &s.writes}, func(ctx context.Context, r *run) error {
			full := make([]string, len(part))
			for i, key := range part {
				full[i] = s.prefix + key
			}
			r.bytes = int64(len(full))
			return d.DeleteMany(ctx, full)
		})
		if err == nil {
			continue
		}
		var bulk *BulkDeleteError
		exact := errors.As(err, &bulk) && ctx.Err() == nil
		for _, key := range part {
			why := err
			if exact {
				why = bulk.Failed[s.prefix+key]
			}
			if why != nil {
				failed[key] = s.deleteError(key, why)
			}
		}
	}
	return failed
}

// deleteError gives an error of one key the form of a Delete's.
func (s *Store) deleteError(key string, err error) error {
	if _, ok := errors.AsType[*callerError](err); ok {
		return err
	}
	return (&run{s: s, op: OpDelete, shown: s.mask.text(s.prefix + key)}).coded(err)
}

func (s *Store) deleteEach(ctx context.Context, keys []string) map[string]error {
	failed := make(map[string]error)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(bulkParallel)
	for _, key := range keys {
		g.Go(func() error {
			if err := s.Delete(ctx, key); err != nil {
				mu.Lock()
				failed[key] = err
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return none
	return failed
}

// bulkError joins what happened to the keys under the code that they share; where they differ, under one that is not temporary.
func (s *Store) bulkError(ctx context.Context, failed map[string]error) error {
	if len(failed) == 0 {
		return nil
	}
	bulk := &BulkDeleteError{Failed: failed}
	r := &run{s: s, op: OpDeleteMany}
	if ctx.Err() != nil {
		return r.callerError(contextErrors(ctx, errors.Join(ctx.Err(), bulk)))
	}
	var code Code
	var first error
	for i, key := range slices.Sorted(maps.Keys(failed)) {
		c := CodeOf(failed[key])
		if i == 0 || code.Temporary() && !c.Temporary() {
			code, first = c, failed[key]
		}
	}
	return r.coded(&Error{Code: code, Err: errors.Join(bulk, first)})
}
