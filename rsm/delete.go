package rsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// Delete implements remotelog.StorageManager. Whatever the state of the segment, what is there of it goes: the manifest first, under
// every key that it may have, so that the segment is absent before any of its data is.
func (m *Manager) Delete(ctx context.Context, md remotelog.SegmentMetadata) (err error) {
	inner, done, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer func() {
		if err = m.ended(ctx, err); err != nil {
			err = fmt.Errorf("delete segment %s: %w", md.SegmentID, err)
		}
	}()
	unlock, err := m.locks.lock(inner, md.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := m.segmentStems(inner, &md)
	if err != nil {
		m.log.WarnContext(inner, "only the configured keys of the segment are deleted", "segment", md.String(), "error", err)
	}
	return m.remove(inner, s, s.custom)
}

// remove deletes the objects of a segment at the configured stem and at extra, and, unless its .log shows that it was written with ASCII
// digits, at the stems of other locales: in a bucket with versions each DELETE of a key that is not there leaves a marker.
func (m *Manager) remove(ctx context.Context, s stems, extra stem) error {
	at := distinct(s.configured, extra)
	if _, err := m.store.Stat(ctx, s.configured.key(manifest.LogSuffix)); err != nil {
		if ctx.Err() != nil {
			return err
		}
		at = distinct(append(at, s.digits...)...)
	}
	defer m.forget(distinct(append(s.ofManifest(), extra)...))
	if err := m.removeKeys(ctx, at, manifest.ManifestSuffix); err != nil {
		return err // the segment still exists: its data stay
	}
	return m.removeKeys(ctx, at, manifest.LogSuffix, manifest.IndexesSuffix)
}

func (m *Manager) removeKeys(ctx context.Context, at []stem, suffixes ...manifest.Suffix) error {
	var keys []string
	for _, s := range at {
		for _, suffix := range suffixes {
			// Where the store can hold no object none is left: the copy of a topic whose name is too long must be removable.
			if key := s.key(suffix); m.store.CheckKey(key) == nil {
				keys = append(keys, key)
			}
		}
	}
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return m.store.Delete(ctx, keys[0])
	}
	err := m.store.DeleteMany(ctx, keys)
	if bulk, ok := errors.AsType[*backends.BulkDeleteError](err); ok {
		for _, key := range keys { // the first says enough: they are objects of one segment in one store
			if err := bulk.Failed[key]; err != nil {
				return fmt.Errorf("%d of %d objects were not deleted: %w", len(bulk.Failed), len(keys), err)
			}
		}
	}
	return err
}
