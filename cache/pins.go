package cache

import (
	"sync/atomic"
	"time"
)

// Handle is a pinned value. Release it as soon as the value was copied or decoded from.
type Handle[K comparable, V any] struct {
	cache    *Cache[K, V]
	item     *item[K, V]
	released atomic.Bool
	again    bool        // pinned by Pin
	keeps    atomic.Bool // Keep was called
}

func newHandle[K comparable, V any](c *Cache[K, V], it *item[K, V]) *Handle[K, V] {
	return &Handle[K, V]{cache: c, item: it}
}

// Value returns the value. It is shared: nobody may change it, nor use it after Release.
func (h *Handle[K, V]) Value() V { return h.item.entry.Value }

// Weight returns the bytes that the value is charged.
func (h *Handle[K, V]) Weight() int64 { return h.item.weight }

// Release ends the pin, and what Keep began. It may be called several times.
func (h *Handle[K, V]) Release() {
	pinned := h.released.CompareAndSwap(false, true)
	if h.keeps.CompareAndSwap(true, false) {
		h.cache.letGo(h.item)
	}
	switch {
	case !pinned:
	case h.again:
		h.cache.unpinAgain(h.item)
	default:
		h.cache.unpin(h.item)
	}
}

// Keep ends the pin, but keeps the entry from eviction and from expiry after access until Release. Whoever waits for memory still takes it, as
// Delete does, and then Pin says so. It is for who comes back later and would rather not load again, but must not hold bytes
// meanwhile that nobody could take.
func (h *Handle[K, V]) Keep() {
	if h.released.Load() {
		return
	}
	if h.keeps.CompareAndSwap(false, true) {
		h.cache.mu.Lock()
		h.item.keeps++
		h.cache.mu.Unlock()
	}
	h.released.Store(true)
	h.cache.unpinAgain(h.item)
}

// Pin pins the value again after Release or Keep, if the entry has not left the cache meanwhile; else the value must not be used any more. It is what a reader
// does that comes back for the next piece of the same value: it costs no lookup. It is not a hit in the statistics. Whoever uses a handle again does so
// from one goroutine.
func (h *Handle[K, V]) Pin() bool {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	if h.item.gone || !h.released.Load() {
		return false
	}
	h.cache.hold(h.item)
	h.again = true
	h.released.Store(false)
	return true
}

// Lookup pins the value of key in h if it is there, and says so: what Get does for a hit, without an allocation. h is the zero Handle or a released one
// of this cache, used from one goroutine.
func (c *Cache[K, V]) Lookup(key K, h *Handle[K, V]) bool {
	if h.item != nil && (!h.released.Load() || h.keeps.Load()) {
		panic("cache: Lookup into a handle that is in use")
	}
	c.mu.Lock()
	it, left := c.pin(key)
	if it != nil {
		c.stats.Hits++
	}
	c.mu.Unlock()
	c.finish(left, Expired)
	if it == nil {
		return false
	}
	h.cache, h.item, h.again = c, it, false
	h.released.Store(false)
	call(c.opts.Hooks.Hit)
	return true
}

// Has says whether key is there. It is no use of the entry.
func (c *Cache[K, V]) Has(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.items[key]
	return it != nil && !c.expired(it, c.opts.Now())
}

// Spent says that key is not likely to be used again: it is dropped before all that was not spent, those spent first before the others. The next use
// takes that back.
func (c *Cache[K, V]) Spent(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.items[key]
	if it == nil || it.spent {
		return
	}
	it.spent = true
	if it.pins == 0 && it.keeps == 0 {
		c.idle.remove(it)
		c.spent.pushFront(it)
	}
}

// pin pins key if it is there, and drops it if it has expired. Called with mu held; the caller finishes what left.
func (c *Cache[K, V]) pin(key K) (it *item[K, V], left []departed[K, V]) {
	it = c.items[key]
	if it == nil {
		return nil, nil
	}
	if c.expired(it, c.opts.Now()) {
		return nil, c.drop(nil, it)
	}
	c.hold(it)
	return it, nil
}

// hold adds a pin. Called with mu held.
func (c *Cache[K, V]) hold(it *item[K, V]) {
	if it.pins == 0 {
		c.idle.remove(it)
		c.pinned += it.weight
	}
	it.pins++
	it.spent = false
}

// expired is called with mu held. An entry in use is as fresh as can be, as far as access goes.
func (c *Cache[K, V]) expired(it *item[K, V], now time.Time) bool {
	if d := c.opts.ExpireAfterLoad; d > 0 && now.Sub(it.loaded) >= d {
		return true
	}
	d := c.opts.ExpireAfterAccess
	return d > 0 && it.pins == 0 && it.keeps == 0 && now.Sub(it.used) >= d
}

// unpin ends one pin. With the last one the entry can be evicted, and the budget is told so.
func (c *Cache[K, V]) unpin(it *item[K, V]) {
	now := c.opts.Now() // once: on some machines the clock is a system call
	c.mu.Lock()
	it.used = now
	c.dropPin(it, c.stale(now))
}

// unpinAgain ends a pin of a handle that was pinned before. It does not look at the clock, which would be much of what such a pin costs: the time of
// use stays that of the handle's first pin.
func (c *Cache[K, V]) unpinAgain(it *item[K, V]) {
	c.mu.Lock()
	c.dropPin(it, nil)
}

// dropPin takes one pin off it. Called with mu held, which it gives up; old are entries that have expired.
func (c *Cache[K, V]) dropPin(it *item[K, V], old []departed[K, V]) {
	var left []departed[K, V]
	free := false
	it.pins--
	switch {
	case it.pins > 0:
	case it.gone:
		c.stats.LingeringBytes -= it.weight
		free = true
	default:
		c.pinned -= it.weight
		c.rest(it)
		left = c.overweight(nil)
	}
	idle := it.pins == 0 && !free
	c.mu.Unlock()
	if free {
		it.entry.free()
	}
	c.finish(left, Evicted)
	c.finish(old, Expired)
	if idle {
		c.opts.Budget.Idle()
	}
}

// rest puts an item without pins where it can be taken from. Called with mu held.
func (c *Cache[K, V]) rest(it *item[K, V]) {
	switch {
	case it.keeps > 0:
		c.kept.pushFront(it)
	case it.spent:
		c.spent.pushFront(it)
	default:
		c.idle.pushFront(it)
	}
}

// first returns the item that goes first of those that neither a pin nor a handle keeps, nil if there is none. Called with mu held.
func (c *Cache[K, V]) first() *item[K, V] {
	switch {
	case !c.spent.empty():
		return c.spent.last()
	case !c.idle.empty():
		return c.idle.last()
	}
	return nil
}

// letGo ends what Keep of one handle began.
func (c *Cache[K, V]) letGo(it *item[K, V]) {
	now := c.opts.Now()
	c.mu.Lock()
	var left []departed[K, V]
	if it.keeps--; it.keeps == 0 && it.pins == 0 && !it.gone {
		c.kept.remove(it)
		it.used = now
		c.rest(it)
		left = c.overweight(nil)
	}
	c.mu.Unlock()
	c.finish(left, Evicted)
}

// overweight drops entries until the rest is within the ceiling, pinned ones excepted. Called with mu held.
func (c *Cache[K, V]) overweight(left []departed[K, V]) []departed[K, V] {
	for c.weight > c.opts.MaxBytes || c.opts.MaxEntries > 0 && len(c.items) > c.opts.MaxEntries {
		it := c.first()
		if it == nil {
			break
		}
		left = c.drop(left, it)
	}
	return left
}

// stale drops entries that were not used for too long. They are the last of their list, which is in the order of use. Called with mu held.
func (c *Cache[K, V]) stale(now time.Time) (left []departed[K, V]) {
	if c.opts.ExpireAfterAccess <= 0 {
		return nil
	}
	for _, l := range []*list[K, V]{&c.spent, &c.idle} {
		for !l.empty() && c.expired(l.last(), now) {
			left = c.drop(left, l.last())
		}
	}
	return left
}

// drop takes an item out of the cache. Without pins it is added to left, for finish. Called with mu held.
func (c *Cache[K, V]) drop(left []departed[K, V], it *item[K, V]) []departed[K, V] {
	delete(c.items, it.key)
	it.gone = true
	c.weight -= it.weight
	if it.pins > 0 {
		c.pinned -= it.weight
		c.stats.LingeringBytes += it.weight
		return append(left, departed[K, V]{it, false})
	}
	c.idle.remove(it)
	return append(left, departed[K, V]{it, true})
}

// reclaim is the cache's reclaimer: it gives back at least want bytes of what no pin holds, unused for longest first, and what a handle keeps
// last.
func (c *Cache[K, V]) reclaim(want int64) (freed int64) {
	c.mu.Lock()
	if c.opts.Sparing && c.weight-c.pinned < want {
		c.mu.Unlock()
		return 0
	}
	var left []departed[K, V]
	for _, from := range []*list[K, V]{&c.spent, &c.idle, &c.kept} {
		for freed < want && !from.empty() {
			it := from.last()
			freed += it.weight
			left = c.drop(left, it)
		}
	}
	c.stats.ReclaimedBytes += freed
	c.mu.Unlock()
	c.finish(left, Reclaimed)
	return freed
}

// finish counts items that left the cache, and frees those that no pin holds. Called off locks, since the budget may call reclaimers.
func (c *Cache[K, V]) finish(left []departed[K, V], r Reason) {
	if len(left) == 0 {
		return
	}
	c.count(r, uint64(len(left)))
	for _, d := range left {
		if d.idle {
			d.entry.free()
		}
		if hook := c.opts.Hooks.Removed; hook != nil {
			hook(d.weight, r)
		}
	}
}

func (c *Cache[K, V]) count(r Reason, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r {
	case Evicted:
		c.stats.Evicted += n
	case Reclaimed:
		c.stats.Reclaimed += n
	case Expired:
		c.stats.Expired += n
	case Deleted:
		c.stats.Deleted += n
	}
}
