package rsm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/internal/bounded"
	"github.com/tierkit/tierkit/membudget"
)

// chunkKey names a chunk of one stored form of a segment.
type chunkKey struct {
	id identity
	n  int
}

// errAgain: the chunk must be asked for anew. It never leaves chunkLoads.
var errAgain = errors.New("ask again")

// chunkLoads gets chunks out of the cache or the store. A load reads a run of neighbours with one request; whoever wants one of them
// meanwhile waits for that load.
//
// Order of locks: mu may be held while the cache's and the budget's locks are taken, never the other way round: no reclaimer takes it.
type chunkLoads struct {
	m       *Manager
	cache   *cache.Cache[chunkKey, []byte]
	most    int64 // bytes of decoded chunks that the cache keeps
	timeout time.Duration
	now     func() time.Time
	off     bool // fetch.chunk.cache.size=0: a chunk is kept only while a stream stands in it, or its reader may come back to it

	mu       sync.Mutex
	pending  map[chunkKey]*pending
	loads    map[*load]struct{}
	leases   map[*lease]struct{}
	standing map[chunkKey]int // streams that stand in a chunk, and scans whose last stream did, when off
	closed   bool
	running  sync.WaitGroup

	scans     []*scan   // the one used last at the end
	aheadMost int64     // bytes that are loaded ahead of all of them
	seekAgain time.Time // the store does not let us list before that
	unread    map[chunkKey]*scan
	sweepAt   int // chunks in unread
	stats     ReadAheadStats
}

type chunkHandle = cache.Handle[chunkKey, []byte]

// pending is a chunk that a load will bring. Its fields are guarded by chunkLoads.mu.
type pending struct {
	load   *load
	takers int // who wait for it; one of them puts it into the cache, or, if there is none, the load does
	done   chan struct{}
	entry  cache.Entry[[]byte] // for the first taker that comes for it
	err    error
}

func newChunkLoads(m *Manager, now func() time.Time) *chunkLoads {
	c := m.config.Chunks
	half := m.budget.Stats().Limit / 2
	most := c.Max.within(half, half)
	l := &chunkLoads{
		m: m, timeout: c.Timeout, now: now, off: c.Max == AtMost(0), unread: make(map[chunkKey]*scan), sweepAt: 2 * maxAheadChunks,
		pending: make(map[chunkKey]*pending), loads: make(map[*load]struct{}), standing: make(map[chunkKey]int),
		leases: make(map[*lease]struct{}),
	}
	if least := membudget.Capacity(m.config.ChunkBytes); l.off {
		most = half
	} else if most < least {
		most = min(least, half)
	}
	if c.Max.set && c.Max.n > 0 && c.Max.n != most {
		m.log.Info("chunk cache is not of the size that was set: the memory budget bounds it", "bytes", most, chunkKeys+"size", c.Max.n)
	}
	l.most = most
	if !l.off {
		l.aheadMost = m.config.ReadAhead.within(most/4*3, most/4*3)
	}
	l.cache = cache.New[chunkKey, []byte](cache.Options{Budget: m.budget, MaxBytes: most, ExpireAfterAccess: c.Retention, Now: now})
	return l
}

// get returns chunk n of seg, pinned, for s. If it has to be loaded, so may be what follows it.
func (c *chunkLoads) get(ctx context.Context, s *logStream, seg *segment, n int) (*chunkHandle, error) {
	if c.cache.Lookup(chunkKey{seg.id, n}, &s.hit) {
		return &s.hit, nil
	}
	return c.await(ctx, s, seg, n)
}

// await gets a chunk that was not there. The time that it takes is none in which the reader was slow.
func (c *chunkLoads) await(ctx context.Context, s *logStream, seg *segment, n int) (*chunkHandle, error) {
	key := chunkKey{seg.id, n}
	began := c.now()
	defer func() {
		c.mu.Lock()
		s.scan.pace.waited += c.now().Sub(began)
		c.mu.Unlock()
	}()
	for {
		h, err := c.cache.Get(ctx, key, func(ctx context.Context) (cache.Entry[[]byte], error) { return c.take(ctx, s, seg, n) })
		if err == nil {
			c.lend(s, key)
		}
		if !errors.Is(err, errAgain) {
			return h, err
		}
	}
}

// take waits for the load that brings a chunk, and begins one if there is none. The cache calls it once at a time for a key.
func (c *chunkLoads) take(ctx context.Context, s *logStream, seg *segment, n int) (cache.Entry[[]byte], error) {
	key := chunkKey{seg.id, n}
	c.mu.Lock()
	p := c.pending[key]
	if p == nil {
		// A load puts a chunk into the cache before it is no longer pending, so what was brought between the cache's own look
		// and this one is seen here.
		if c.cache.Has(key) {
			c.mu.Unlock()
			return cache.Entry[[]byte]{}, errAgain
		}
		if err := c.begin(ctx, s, seg, n); err != nil {
			c.mu.Unlock()
			return cache.Entry[[]byte]{}, err
		}
		p = c.pending[key]
	}
	p.takers++
	p.load.users++
	p.load.waiting++
	c.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.load.waiting--
	c.leave(p.load)
	select {
	case <-p.done: // at the same moment as ctx ended, perhaps: the chunk must be put into the cache all the same
		return p.claim()
	default:
		p.takers--
		return cache.Entry[[]byte]{}, ctx.Err()
	}
}

// begin starts a load for a Read of chunk n, and what should be on its way behind it. Called with mu held.
func (c *chunkLoads) begin(ctx context.Context, s *logStream, seg *segment, n int) error {
	l := c.start(ctx, s.origin(seg), n, s.reach(seg, n), nil)
	if l == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		return cache.ErrClosed
	}
	if n >= s.scan.at && s.scan.id == seg.id {
		s.scan.edge = max(s.scan.edge, l.last())
		c.advance(ctx, s, seg, s.scan, n, s.lastFor(seg), s.prefetch)
	}
	return nil
}

// claim returns the chunk to the first who calls. There is a second one only if the cache began to load the key anew while the first, whom nobody waited for
// any more, had not left yet. Called with chunkLoads.mu held.
func (p *pending) claim() (cache.Entry[[]byte], error) {
	e := p.entry
	if p.err == nil && e.Memory == nil {
		return e, errAgain
	}
	p.entry = cache.Entry[[]byte]{}
	return e, p.err
}

// leave takes one user off a load. A load that nobody wants any more is cancelled, and makes way for the next. Called with mu held.
func (c *chunkLoads) leave(l *load) {
	if l.users--; l.users > 0 || l.ended {
		return
	}
	c.abandon(l)
}

// abandon cancels a load and makes way for the next. Called with mu held.
func (c *chunkLoads) abandon(l *load) {
	l.cancel()
	for n, p := range l.chunks {
		if key := (chunkKey{l.seg.id, l.first + n}); c.pending[key] == p {
			delete(c.pending, key)
		}
	}
}

// wanted says that chunk n is neither in the cache nor on its way. Called with mu held.
func (c *chunkLoads) wanted(id identity, n int) bool {
	key := chunkKey{id, n}
	return c.pending[key] == nil && !c.cache.Has(key)
}

// stand and quit say in which chunk a stream is, when chunks are kept for streams only.
func (c *chunkLoads) stand(key chunkKey) {
	if !c.off {
		return
	}
	c.mu.Lock()
	c.standing[key]++
	c.mu.Unlock()
}

func (c *chunkLoads) quit(key chunkKey) {
	if !c.off {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.standOff(key)
}

// standOff is quit, called with mu held.
func (c *chunkLoads) standOff(key chunkKey) {
	if c.standing[key]--; c.standing[key] > 0 {
		return
	}
	delete(c.standing, key)
	c.cache.Delete(key)
}

// linger makes sc stand where a stream of it did. Called with mu held.
func (c *chunkLoads) linger(sc *scan, key chunkKey) {
	old, stayed := sc.lingers, sc.stays
	sc.lingers, sc.stays = key, true
	if stayed {
		c.standOff(old)
	}
}

// close cancels all loads and waits for them. An error: loads that do not end.
func (c *chunkLoads) close() error {
	c.mu.Lock()
	c.closed = true
	for l := range c.loads {
		l.cancel()
	}
	for _, sc := range c.scans {
		c.rest(sc)
		c.letGo(sc)
	}
	for l := range c.leases {
		c.endLease(l)
	}
	c.mu.Unlock()
	c.cache.Close()
	if bounded.Wait(closeLoads, c.running.Wait) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("rsm: %d loads of chunks did not end within %v of Close: the disk cache, or the client of the store, does not answer", len(c.loads), closeLoads)
}
