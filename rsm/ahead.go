package rsm

import (
	"context"

	"github.com/tierkit/tierkit/membudget"
)

const (
	// defaultRequestBytes is the plain bytes of one request: with data that compresses to a fifth, 6 MB on the wire, which takes
	// longer than the first byte of it does.
	defaultRequestBytes = 32 << 20
	// maxAheadChunks bounds what is ahead in segments with very small chunks: each costs some memory beside the budget.
	maxAheadChunks = 1024
	// trust is how often over that what was read in order is loaded ahead at most. It doubles quickly enough to be at full depth after
	// five chunks, and a reader that leaves wastes no more than that.
	trust = 4
)

// ReadAheadStats is what read-ahead has done. Bytes are plain ones.
type ReadAheadStats struct {
	Readers     int    // that read in order now
	DepthBytes  int64  // there or on its way ahead of them
	Requests    uint64 // made for it
	LoadedBytes int64  // chunks that came before anybody waited for them
	UsedBytes   int64  // of these: come to by a reader
	WastedBytes int64  // of these: dropped before
}

// ReadAhead returns what read-ahead has done since New.
func (m *Manager) ReadAhead() ReadAheadStats {
	c := m.chunks
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepUnread()
	s := c.stats
	for _, sc := range c.scans {
		if !sc.inOrder || sc.asleep {
			continue
		}
		if s.DepthBytes += int64(max(0, sc.edge-sc.at)) * sc.chunk; sc.before == nil {
			s.Readers++
		}
	}
	return s
}

// request is the most chunks that one request is made for: they must fit into the cache together with what other streams read.
func (c *chunkLoads) request(seg *segment) int {
	if c.off {
		return 1
	}
	size := seg.Chunks.ChunkSize()
	room := min(c.most, c.m.budget.Ceiling(membudget.Fetch)-loadNeed(c.options(seg, 0, 0))) / 2
	return int(max(1, min(room/size, c.m.config.RequestBytes/size, maxAheadChunks)))
}

// depth is how many chunks of seg should be there or on their way ahead of a stream of sc: one request, and what the reader reads
// while one and a half are answered, but no more than what its order so far has earned, and than its share.
func (c *chunkLoads) depth(sc *scan, prefetch int64) int {
	share, size := c.share(sc), sc.chunk
	if share < size {
		return 0
	}
	earned := prefetch
	if sc.inOrder {
		earned = max(earned, trust*sc.read)
	}
	want := min(earned, int64(sc.request)*size+max(size, sc.pace.during(sc.took+sc.took/2, share)))
	return int(min((want+size-1)/size, share/size, maxAheadChunks))
}

// share is the most bytes that are loaded ahead of sc: the scans that were read from lately share what there is. So many readers that the
// cache just holds the chunks they stand in have nothing ahead, which would only drive out what others stand in.
func (c *chunkLoads) share(sc *scan) int64 {
	if c.aheadMost <= 0 {
		return 0
	}
	scans := int64(1)
	lately := c.now().Add(-scanIdle)
	for i := len(c.scans) - 1; i >= 0; i-- { // the one used last is the last
		other := c.scans[i]
		if other != sc && other.inOrder && other.pace.seen.After(lately) {
			scans++
		}
	}
	most := c.aheadMost / scans
	if sc.ceiling > 0 {
		most = min(most, sc.ceiling)
	}
	return most
}

// atOnce is how many requests may be open for sc: as many whole ones as fit its share. Without the bound the small ones with which a scan
// begins would be more.
func (c *chunkLoads) atOnce(sc *scan) int {
	return max(2, int(c.share(sc)/(int64(sc.request)*sc.chunk)))
}

// lastFor is the last chunk that may be loaded ahead of s: none behind the end that it names, unless its reader has gone on behind such
// ends before.
func (s *logStream) lastFor(seg *segment) int {
	last := seg.Chunks.Chunks() - 1
	if s.scan.followed {
		return last
	}
	if n, ok := seg.Chunks.Find(s.end); ok {
		last = n
	}
	return last
}

// reach is the last chunk of the request that is made for chunk n because a Read waits for it.
func (s *logStream) reach(seg *segment, n int) int {
	most := s.scan.request - 1
	last := min(s.lastFor(seg), n+min(most, s.r.m.chunks.depth(s.scan, s.prefetch)))
	if end, ok := seg.Chunks.Find(s.end); s.bounded && ok { // a reader that says where it ends wants all of it
		last = max(last, min(end, n+most))
	}
	return max(n, last)
}

// advance sees that what lies ahead of chunk n is on its way, in the next segment too. from is asked only if something has to be loaded.
func (c *chunkLoads) advance(ctx context.Context, from source, seg *segment, sc *scan, n, last int, prefetch int64) {
	depth := c.depth(sc, prefetch)
	if depth == 0 {
		return
	}
	sc.edge = max(sc.edge, n)
	c.fill(ctx, from, seg, sc, stretch{upto: n + depth, last: last, depth: depth})
	if last == sc.last {
		c.spill(ctx, sc, depth)
	}
}

// stretch is what should be ahead of a reader in one segment.
type stretch struct {
	upto  int // the chunk that is the furthest
	last  int // that may be asked for
	depth int // chunks ahead, in all segments
}

// fill loads the chunks behind the edge of sc. Requests for single chunks would be many: one is made when there is room for a whole one, or for half of what
// is ahead while that is less, or for all that there is.
func (c *chunkLoads) fill(ctx context.Context, from source, seg *segment, sc *scan, s stretch) {
	last := min(s.last, s.upto)
	for sc.edge < last && !c.wanted(sc.id, sc.edge+1) {
		sc.edge++
	}
	least := sc.request
	switch {
	case s.last <= s.upto:
		least = 1
	case s.depth <= sc.request:
		least = (s.depth + 1) / 2
	}
	for missing := last - sc.edge; missing >= least && missing > 0 && sc.running < c.atOnce(sc); missing = last - sc.edge {
		l := c.ahead(ctx, from.origin(seg), sc.edge+1, min(last, sc.edge+sc.request))
		if l == nil {
			return
		}
		sc.edge = l.last()
	}
}

// settleUnread notes that a chunk which was loaded ahead was come to, or lost.
func (c *chunkLoads) settleUnread(key chunkKey, owner *scan, size int64, lost bool) {
	delete(c.unread, key)
	owner.unread--
	if lost {
		c.stats.WastedBytes += size
	} else {
		c.stats.UsedBytes += size
	}
}

// markUnread notes that chunk n of l came before anybody waited for it.
func (c *chunkLoads) markUnread(l *load, n int) {
	key := chunkKey{l.seg.id, n}
	if c.unread[key] != nil {
		return
	}
	c.stats.LoadedBytes += l.seg.Chunks.Chunk(n).Size
	c.unread[key] = l.scan
	l.scan.unread++
	if len(c.unread) >= c.sweepAt {
		c.sweepUnread()
		c.sweepAt = max(2*maxAheadChunks, 2*len(c.unread))
	}
}

// sweepUnread notes what was dropped unread. The cache does not tell: it would have to be asked at each chunk that leaves it.
func (c *chunkLoads) sweepUnread() {
	for key, owner := range c.unread {
		if !c.cache.Has(key) {
			size := owner.chunk
			c.settleUnread(key, owner, size, true)
		}
	}
}

// reserve takes n bytes for something that somebody waits for. Where there are none, guesses make way.
func (m *Manager) reserve(ctx context.Context, n int64) (*membudget.Reservation, error) {
	if res := m.budget.TryReserve(membudget.Fetch, n); res != nil {
		return res, nil
	}
	m.chunks.yield()
	return m.budget.Reserve(ctx, membudget.Fetch, n)
}

// yield gives up what is loaded ahead and nobody waits for.
func (c *chunkLoads) yield() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.loads {
		if l.guess && l.waiting == 0 {
			c.abandon(l)
			l.scan.ceiling = 1 // nothing, for the next chunks
		}
	}
}
