package cache

import "context"

// lookup pins key if it is there.
func (c *Cache[K, V]) lookup(key K) (*item[K, V], error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	it, left := c.pin(key)
	if it != nil {
		c.stats.Hits++
	} else {
		c.stats.Misses++
	}
	c.mu.Unlock()
	c.finish(left, Expired)
	return it, nil
}

// load is the one load of key that runs. It returns the item with one pin, which share turns into one for each caller.
//
// It looks into the cache once more: a caller may miss, be delayed while another load of the key runs from beginning to end, and come here only then.
// Since a load puts its value in before it is forgotten, either the value is seen here or the running load is joined, and no key is loaded twice.
func (c *Cache[K, V]) load(ctx context.Context, key K, load func(context.Context) (Entry[V], error)) (*item[K, V], error) {
	l := &loading[K]{key: key}
	c.mu.Lock()
	it, left := c.pin(key)
	if it == nil {
		c.loads[l] = struct{}{}
	}
	c.mu.Unlock()
	c.finish(left, Expired)
	if it != nil {
		return it, nil
	}
	defer c.loadEnded(l) // whatever load does: it may panic
	e, err := load(ctx)
	weight := int64(0)
	if err == nil {
		it, err = c.insert(key, e, l)
	} else {
		e.free()
	}
	if err == nil {
		weight = it.weight
	}
	c.countLoad(weight, err)
	return it, err
}

func (c *Cache[K, V]) loadEnded(l *loading[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, l)
}

func (c *Cache[K, V]) countLoad(weight int64, err error) {
	c.mu.Lock()
	c.stats.Loads++
	if err != nil {
		c.stats.FailedLoads++
	}
	c.mu.Unlock()
	if hook := c.opts.Hooks.Loaded; hook != nil {
		hook(weight, err)
	}
}

// insert puts e in and pins it once. If key is there, that item is pinned and e freed. l is the load that e comes from, nil for none.
func (c *Cache[K, V]) insert(key K, e Entry[V], l *loading[K]) (*item[K, V], error) {
	if e.Memory == nil {
		return nil, ErrNoMemory
	}
	e.Memory.Detach()
	now := c.opts.Now()
	it := &item[K, V]{key: key, entry: e, weight: e.Memory.Size(), pins: 1, loaded: now, used: now}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		e.free()
		return nil, ErrClosed
	}
	if l != nil && l.stale {
		it.gone = true
		c.stats.LingeringBytes += it.weight
		c.mu.Unlock()
		return it, nil
	}
	there, old := c.pin(key)
	if there != nil {
		c.mu.Unlock()
		e.free()
		return there, nil
	}
	c.items[key] = it
	c.weight += it.weight
	c.pinned += it.weight
	left := c.overweight(nil)
	c.mu.Unlock()
	c.finish(old, Expired)
	c.finish(left, Evicted)
	return it, nil
}

// share gives an item that load pinned once to the callers that wait for it.
func (c *Cache[K, V]) share(it *item[K, V], callers int) {
	if callers == 0 {
		c.unpin(it)
		return
	}
	c.mu.Lock()
	it.pins += callers - 1
	c.mu.Unlock()
}
