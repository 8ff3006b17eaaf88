package rsm

import (
	"context"
	"errors"
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
	most    int64
	timeout time.Duration
}

type indexHandle = cache.Handle[indexKey, []byte]

func newIndexCache(m *Manager, now func() time.Time) *indexCache {
	c := m.config.Indexes
	most := c.Max.within(10<<20, m.budget.Stats().Limit/2)
	return &indexCache{m: m, most: most, timeout: c.Timeout, cache: cache.New[indexKey, []byte](cache.Options{
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

// load reads a part of the .indexes object.
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
	others := c.others(seg, t, res)
	defer func() {
		for _, o := range others { // those that were not read
			o.memory.Release()
		}
	}()
	obj, err := c.open(ctx, at, part, others)
	if errors.Is(err, errShort) && len(others) > 0 { // the part that is asked for may be there all the same
		obj, err = c.open(ctx, at, part, nil)
	}
	if err != nil {
		return none, err
	}
	defer func() { _ = obj.Body.Close() }() // read only
	e, err := c.read(obj.Body, seg, t, part, res)
	for err == nil && len(others) > 0 {
		o := others[0]
		more, bad := c.read(obj.Body, seg, o.t, o.part, o.memory)
		if bad != nil {
			break // who asks for it will find out
		}
		others = others[1:]
		if c.cache.Add(indexKey{seg.id, o.t}, more) != nil {
			break // closed
		}
	}
	return e, err
}

// other is an index that comes with the one that is asked for.
type other struct {
	t      remotelog.IndexType
	part   manifest.Part
	memory *membudget.Reservation
}

// others are the parts behind the offset index, if there is room for all of them: a broker that asks for it asks for the timestamp and the transaction index
// next, and a request for each takes longer than their bytes do. None for other indexes.
func (c *indexCache) others(seg *segment, t remotelog.IndexType, res *membudget.Reservation) (all []other) {
	if t != remotelog.OffsetIndex {
		return nil
	}
	sum := res.Size()
	for _, t := range manifest.StoredOrder() {
		if part, ok := seg.Indexes.Part(t); ok && part.Size > 0 && t != remotelog.OffsetIndex {
			all = append(all, other{t: t, part: part})
			sum += membudget.Capacity(int(part.Size))
		}
	}
	if sum > c.most || !res.TryGrow(sum-res.Size()) {
		return nil
	}
	for i := range all {
		all[i].memory = res.Split(membudget.Capacity(int(all[i].part.Size)))
		all[i].memory.Detach()
	}
	return all
}

// open asks for a part and the others, which lie behind it.
func (c *indexCache) open(ctx context.Context, at []stem, part manifest.Part, others []other) (*backends.Object, error) {
	end := part.Position + part.Size
	if n := len(others); n > 0 {
		end = others[n-1].part.Position + others[n-1].part.Size
	}
	return c.m.get(ctx, at, manifest.IndexesSuffix, backends.GetOptions{Range: backends.Range{Offset: part.Position, Length: end - part.Position}})
}

// read reads a part, checks and opens it.
func (c *indexCache) read(r io.Reader, seg *segment, t remotelog.IndexType, part manifest.Part, memory *membudget.Reservation) (e cache.Entry[[]byte], err error) {
	buf := memory.Buffer(int(part.Size))
	if _, err := io.ReadFull(r, buf); err != nil {
		return e, err
	}
	if seg.Checksums != nil {
		if want, ok := seg.Checksums.Part(t); ok && manifest.Checksum(buf) != want {
			return e, chunking.ErrChecksum
		}
	}
	plain := buf
	if seg.key != nil {
		if plain, err = seg.key.Open(buf[:0], buf); err != nil {
			return e, err
		}
	}
	return cache.Entry[[]byte]{Value: plain, Buffer: buf, Memory: memory}, nil
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
