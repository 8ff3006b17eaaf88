package rsm

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// indexKey names an index part of one stored form of a segment.
type indexKey struct {
	id identity
	t  remotelog.IndexType
}

type indexCache struct {
	m       *Manager
	cache   *cache.Cache[indexKey, []byte]
	timeout time.Duration
}

type indexHandle = cache.Handle[indexKey, []byte]

func newIndexCache(m *Manager, now func() time.Time) *indexCache {
	c := m.config.Indexes
	most := c.Max.within(10<<20, m.budget.Stats().Limit/2)
	return &indexCache{m: m, timeout: c.Timeout, cache: cache.New[indexKey, []byte](cache.Options{
		Budget: m.budget, MaxBytes: most, ExpireAfterAccess: c.Retention, Now: now,
	})}
}

func (c *indexCache) close() { c.cache.Close() }

// FetchIndex implements remotelog.StorageManager.
func (m *Manager) FetchIndex(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (_ io.ReadCloser, err error) {
	if !t.Valid() {
		return nil, fmt.Errorf("%w: %v", remotelog.ErrInvalidArgument, t)
	}
	inner, done, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() { err = m.ended(ctx, err) }()
	r, err := m.open(inner, &md)
	if err != nil {
		return nil, err
	}
	if t == remotelog.OffsetIndex {
		m.chunks.expect(inner, r)
	}
	// The first load is done here, so that what is missing or damaged is an error of the call.
	h, err := m.indexes.get(inner, r, t)
	if err != nil {
		r.release()
		return nil, err
	}
	if h == nil {
		r.release()
		return emptyIndex{}, nil
	}
	s := &indexStream{r: r, t: t, caller: ctx, h: h, id: r.id, size: int64(len(h.Value()))}
	h.Keep()
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, nil
}

// get returns an index, pinned; nil for one that is empty.
func (c *indexCache) get(ctx context.Context, r *reader, t remotelog.IndexType) (*indexHandle, error) {
	for tried := false; ; tried = true {
		seg, _, err := r.segment(ctx)
		if err != nil {
			return nil, err
		}
		part, ok := seg.Indexes.Part(t)
		if !ok {
			return nil, fmt.Errorf("%w: %s of segment %s", remotelog.ErrNoIndex, t, r.md.SegmentID)
		}
		if part.Size == 0 {
			return nil, nil
		}
		h, err := c.cache.Get(ctx, indexKey{seg.id, t}, func(ctx context.Context) (cache.Entry[[]byte], error) {
			return c.load(ctx, seg, r.stems.ofData(seg.stem), t, part)
		})
		if err == nil {
			return h, nil
		}
		err = fmt.Errorf("%s index: %w", t, err)
		if tried {
			return nil, err
		}
		fresh, err := r.recheck(ctx, err)
		if !fresh {
			return nil, err
		}
	}
}

// load reads one part of the .indexes object, checks and opens it.
func (c *indexCache) load(ctx context.Context, seg *segment, at []stem, t remotelog.IndexType, part manifest.Part) (_ cache.Entry[[]byte], err error) {
	var none cache.Entry[[]byte]
	res, err := c.m.reserve(ctx, membudget.Capacity(int(part.Size)))
	if err != nil {
		return none, err
	}
	defer func() {
		if err != nil {
			res.Release()
		}
	}()
	ctx, stop := withTimeout(ctx, c.timeout, "loading an index")
	defer stop(&err)
	obj, err := c.m.get(ctx, at, manifest.IndexesSuffix, backends.GetOptions{Range: backends.Range{Offset: part.Position, Length: part.Size}})
	if err != nil {
		return none, err
	}
	defer func() { _ = obj.Body.Close() }() // read only
	buf := res.Buffer(int(part.Size))
	if _, err := io.ReadFull(obj.Body, buf); err != nil {
		return none, err
	}
	if seg.Checksums != nil {
		if want, ok := seg.Checksums.Part(t); ok && manifest.Checksum(buf) != want {
			return none, chunking.ErrChecksum
		}
	}
	plain := buf
	if seg.key != nil {
		if plain, err = seg.key.Open(buf[:0], buf); err != nil {
			return none, err
		}
	}
	return cache.Entry[[]byte]{Value: plain, Buffer: buf, Memory: res}, nil
}

// indexStream reads an index out of the cache, pinned for one Read at a time. Should it have left the cache, it is loaded again. It stays with the
// copy of the segment that it began with: its size may have been told to somebody.
type indexStream struct {
	gate
	r      *reader
	t      remotelog.IndexType
	caller context.Context //nolint:containedctx // an io.Reader has no other way to get it
	ctx    context.Context //nolint:containedctx // the same, ended by Close
	cancel context.CancelFunc
	h      *indexHandle // kept between Reads: it is not loaded again but for who waits for memory
	id     identity     // of the segment that size belongs to
	pos    int
	size   int64
}

// Size is how many bytes the index has: who sends it on has to say so first.
func (s *indexStream) Size() int64 { return s.size }

// Read implements io.Reader.
func (s *indexStream) Read(p []byte) (int, error) {
	if err := s.lock(); err != nil {
		return 0, err
	}
	defer s.unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if int64(s.pos) == s.size {
		return 0, io.EOF
	}
	if err := s.pin(); err != nil {
		return 0, s.failed(s.r.m.ended(s.caller, err))
	}
	defer s.h.Keep()
	n := copy(p, s.h.Value()[s.pos:])
	s.pos += n
	return n, nil
}

// pin pins the index, and loads it again if its memory was taken meanwhile.
func (s *indexStream) pin() error {
	if s.h.Pin() {
		return nil
	}
	h, err := s.r.m.indexes.get(s.ctx, s.r, s.t)
	if err != nil {
		return err
	}
	if h == nil || s.r.id != s.id {
		if h != nil {
			h.Release()
		}
		return fmt.Errorf("%s index of segment %s was replaced while it was read; fetch it again", s.t, s.r.md.SegmentID)
	}
	s.h.Release()
	s.h = h
	return nil
}

// Close implements io.Closer. It is idempotent and may come while a Read waits.
func (s *indexStream) Close() error {
	s.cancel()
	s.shut(func() {
		s.h.Release()
		s.r.release()
	})
	return nil
}

// emptyIndex is an index of no bytes.
type emptyIndex struct{}

func (emptyIndex) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyIndex) Close() error             { return nil }
func (emptyIndex) Size() int64              { return 0 }
