package membudget

import (
	"math/rand/v2"
	"slices"
)

// profile is what a seed decides: sizes, limit, load and weather.
type profile struct {
	limit     int64
	needs     Needs
	chunk     int             // bytes of a decoded chunk; stored it has 28 more
	part      int             // bytes of a part buffer of the driver
	parts     int             // its least
	cacheMax  int64           // the chunk cache's ceiling
	large     [Ahead + 1]bool // requests above the floors
	stall     Class           // whose store stalls; 0: nobody's
	stallMs   int64
	horizon   int64            // no more arrivals after it
	gapMs     [Ahead + 1]int64 // between arrivals: copies, readers, index loads
	quietMs   int64            // of each second: no arrivals
	rows      int              // the most chunks that a reader reads
	readAhead bool
	longRuns  bool // one request may cover very many chunks
	impatient bool // callers give up
	byLength  bool // buffers are charged by length
}

const (
	putMs = 20
	getMs = 10
	pinMs = 2
)

func newProfile(rnd *rand.Rand, r rules) profile {
	pick := func(of ...int) int { return of[rnd.IntN(len(of))] }
	p := profile{
		byLength: !r.chargeCapacity,
		chunk:    pick(4096, 3*4096+1, 5*4096, 40*4096), part: pick(4096, 2*4096, 7*4096+5), parts: pick(1, 2, 3), stallMs: 3000,
		readAhead: pick(0, 1, 1) == 1, longRuns: pick(0, 1) == 1, impatient: pick(0, 1, 1) == 1, horizon: 3000, rows: 8,
	}
	p.needs = Needs{Fixed: int64(pick(0, 4096, 12345)), Copy: 2*p.storedCap() + p.putMemory() + int64(pick(0, 0, 2))*4096, Fetch: p.storedCap() + p.chunkCap()}
	p.limit = p.needs.Fixed + (p.needs.Copy+p.needs.Fetch)*int64(pick(10, 10, 11, 15, 20, 40, 80))/10
	p.cacheMax = p.avail() / int64(pick(1, 1, 2, 4))
	p.large[Copy], p.large[Fetch] = pick(0, 1) == 1, pick(0, 1) == 1
	p.stall = []Class{0, Copy, Fetch}[rnd.IntN(3)]
	if p.stall != 0 {
		p.horizon = 8000
	}
	scale := func() int64 { return int64(pick(1, 2, 4, 16)) }
	p.gapMs = [...]int64{Copy: 40 * scale(), Fetch: 24 * scale(), Ahead: 60 * scale()}
	p.quietMs = int64(pick(0, 0, 700))
	switch pick(0, 0, 0, 0, 0, 0, 1, 1, 2) {
	case 1: // few, very long requests beside many impatient uploads of all sizes: caches are full and copies queue up
		p.limit = p.needs.Fixed + (p.needs.Copy+p.needs.Fetch)*int64(pick(2, 3, 4))
		p.cacheMax, p.large[Copy], p.large[Fetch], p.impatient, p.longRuns, p.rows, p.stall = p.avail(), true, false, true, true, 1, 0
		p.gapMs = [...]int64{Copy: 30, Fetch: 400, Ahead: 800}
	case 2: // bursts of very long requests and large uploads, and then nothing that waits: who grows meets only the uploads
		p.limit = p.needs.Fixed + (p.needs.Copy+p.needs.Fetch)*int64(pick(4, 8))
		p.large[Copy], p.impatient, p.longRuns, p.quietMs, p.rows, p.stall = true, false, true, 700, 1, 0
		p.gapMs = [...]int64{Copy: 60, Fetch: 15, Ahead: 500}
	}
	return p
}

func (p *profile) avail() int64     { return p.limit - p.needs.Fixed }
func (p *profile) chunkCap() int64  { return p.cost(p.chunk) }
func (p *profile) storedCap() int64 { return p.cost(p.chunk + 28) }
func (p *profile) putMemory() int64 { return int64(p.parts) * p.cost(p.part) }

// cost is what a buffer of n bytes is charged; by length in a variant.
func (p *profile) cost(n int) int64 {
	if p.byLength {
		return int64(n)
	}
	return Capacity(n)
}

// ceiling is written out once more, from the design.
func (p *profile) ceiling(c Class) int64 {
	a := p.avail()
	f := max(p.needs.Fetch, min(a/4, a-p.needs.Copy))
	if c == Copy {
		return a - f
	}
	return a - max(p.needs.Copy, min(a/4, a-f))
}

// copyMs and fetchMs are the longest that a copy, and a fetch with the pin after it, can hold bytes that nobody can reclaim once it may not grow.
func (p *profile) copyMs() int64 {
	d := int64(3*putMs + putMs)
	if p.stall == Copy {
		d += p.stallMs
	}
	return d
}

func (p *profile) fetchMs() int64 {
	d := int64(2*getMs + 8*pinMs)
	if p.stall == Fetch {
		d += p.stallMs
	}
	return d
}

// simCache is a cache of entries by number, unused for longest first.
type simCache struct {
	s                *sim
	max              int64
	entries          map[int]*simEntry
	order            []*simEntry // without pins
	unpinned, pinned int64
}

type simEntry struct {
	key  int
	mem  *simRes
	buf  []byte // nil: an ordinary value
	pins int
	gone bool
}

func (e *simEntry) free() {
	if e.buf != nil {
		e.mem.giveBuffer(e.buf)
	}
	e.mem.release(true)
}

func newSimCache(s *sim, max int64) *simCache {
	c := &simCache{s: s, max: max, entries: map[int]*simEntry{}}
	s.b.Reclaimer(c.reclaim)
	return c
}

// add puts in an entry with pins; one that nobody pins is at once open to reclaim.
func (c *simCache) add(key int, mem *simRes, buf []byte, pins int) *simEntry {
	if old := c.entries[key]; old != nil {
		c.drop(old)
	}
	mem.r.Detach()
	mem.parent = nil
	e := &simEntry{key: key, mem: mem, buf: buf, pins: pins + 1}
	c.entries[key] = e
	c.pinned += mem.size
	for c.unpinned+c.pinned > c.max && len(c.order) > 0 {
		c.drop(c.order[0])
	}
	c.unpin(e)
	return e
}

func (c *simCache) pin(e *simEntry) {
	if e.pins == 0 {
		c.order = slices.DeleteFunc(c.order, func(x *simEntry) bool { return x == e })
		c.unpinned -= e.mem.size
		c.pinned += e.mem.size
	}
	e.pins++
}

func (c *simCache) unpin(e *simEntry) {
	if e.pins--; e.pins > 0 {
		return
	}
	c.pinned -= e.mem.size
	if e.gone || c.unpinned+c.pinned+e.mem.size > c.max {
		delete(c.entries, e.key)
		e.free()
	} else {
		c.order = append(c.order, e)
		c.unpinned += e.mem.size
	}
	c.s.b.Idle()
	c.s.poll()
}

// drop takes an entry out; a pinned one lives until its pins end.
func (c *simCache) drop(e *simEntry) {
	if c.entries[e.key] == e {
		delete(c.entries, e.key)
	}
	if e.pins > 0 {
		e.gone = true
		return
	}
	c.order = slices.DeleteFunc(c.order, func(x *simEntry) bool { return x == e })
	c.unpinned -= e.mem.size
	e.free()
}

func (c *simCache) evictAll() {
	for len(c.order) > 0 {
		c.drop(c.order[0])
	}
}

// reclaim is the cache's reclaimer. It checks that somebody can use the bytes, and lets a running copy grow in the middle of it, as another goroutine may.
func (c *simCache) reclaim(want int64) (freed int64) {
	s := c.s
	s.reclaiming++
	defer func() { s.reclaiming-- }()
	if s.calling == Ahead {
		s.failf(wasted, "read-ahead takes %d bytes from a cache", want)
	}
	useful := s.calling == Fetch || s.calling == Copy && !s.full(Copy, s.callBytes)
	for _, sw := range s.queued() {
		useful = useful || sw.w.class == Fetch || !s.full(Copy, sw.w.min)
	}
	if !useful {
		s.failf(wasted, "a cache is asked for %d bytes, and all who want some are copies at their ceiling", want)
	}
	if len(s.copies) > 0 && s.calling == 0 && s.chance(20) {
		s.copies[s.rnd.IntN(len(s.copies))].tryGrow(4096)
	}
	for freed < want && len(c.order) > 0 {
		e := c.order[0]
		freed += e.mem.size
		s.stats.evicted++
		c.drop(e)
	}
	return freed
}

func (r *simRes) tryGrow(n int64) bool {
	ok := r.s.try(r.class, n, func() bool { return r.r.TryGrow(n) })
	if ok {
		r.size += n
	}
	return ok
}

func (r *simRes) shrink(n int64) {
	n = min(n, r.size-r.occupied)
	r.size -= n
	r.s.held[accountOf(r.class)] -= n
	r.r.Shrink(n)
	r.s.poll()
}

// split takes n bytes that are unused and must be given.
func (r *simRes) split(n int64) *simRes {
	child := r.r.Split(n)
	if child == nil {
		r.s.failf(nilBytes, "a %s of %d bytes, %d occupied, cannot split off %d", r.class, r.size, r.occupied, n)
	}
	r.size -= n
	return &simRes{s: r.s, r: child, class: r.class, size: n, parent: r, lent: n}
}

// buffer takes a buffer that was reserved and must be given.
func (r *simRes) buffer(n int) []byte {
	buf := r.r.Buffer(n)
	if buf == nil {
		r.s.failf(nilBytes, "a %s of %d bytes, %d occupied, gets no buffer of %d", r.class, r.size, r.occupied, n)
	}
	r.occupied += r.s.cost(len(buf))
	r.real += int64(cap(buf))
	r.s.real += int64(cap(buf))
	return buf
}

func (r *simRes) giveBuffer(buf []byte) {
	r.occupied -= r.s.cost(len(buf))
	r.real -= int64(cap(buf))
	r.s.real -= int64(cap(buf))
	r.r.Return(buf)
}

func (r *simRes) charge(n int64) {
	if !r.r.Charge(n) {
		r.s.failf(nilBytes, "a %s of %d bytes, %d occupied, cannot charge %d", r.class, r.size, r.occupied, n)
	}
	r.occupied += n
	r.real += n
	r.s.real += n
}

// release gives back; a buffer still out is forgotten.
func (r *simRes) release(quiet bool) {
	if r.closed {
		return
	}
	r.closed = true
	r.s.real -= r.real
	back := r.size
	if r.parent != nil && !r.parent.closed {
		lent := min(back, r.lent)
		r.parent.size += lent
		back -= lent
	}
	r.s.held[accountOf(r.class)] -= back
	r.r.Release()
	if !quiet {
		r.s.poll()
	}
}
