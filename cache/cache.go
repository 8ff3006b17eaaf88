package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/flight"
	"github.com/tierkit/tierkit/membudget"
)

// The errors of this package; those of a load are returned as they are.
var (
	// ErrClosed is the answer after Close.
	ErrClosed = errors.New("the cache is closed")
	// ErrNoMemory is a load that returned a value without a reservation: a mistake of the program, and memory that nobody would count.
	ErrNoMemory = errors.New("a loaded value came without the memory it occupies")
)

// Options of a cache. Budget is required.
type Options struct {
	// Budget is what entries are charged to. The cache registers itself as a reclaimer.
	Budget *membudget.Budget
	// MaxBytes is the most that entries may weigh together. Pinned entries count but are never evicted, so as long as pins last it may be exceeded.
	// 0 keeps an entry only while it is pinned.
	MaxBytes int64
	// MaxEntries is the most entries, with the same exception for pinned ones; 0: as many as fit MaxBytes.
	MaxEntries int
	// ExpireAfterAccess drops an entry that was not used for so long, ExpireAfterLoad one that was loaded so long ago, however much it is used;
	// 0: never. They are looked at when the cache is used: no goroutine wakes up for them. Either needs Now.
	ExpireAfterAccess, ExpireAfterLoad time.Duration
	// Sparing makes the cache give nothing to who waits for more bytes than all its entries without pins have: they would be lost and nobody served.
	// When others have given the rest, it is asked again. It is for small entries that cost much to load again, in the cache that the budget asks last.
	Sparing bool
	// Now is the clock.
	Now func() time.Time
	// Hooks may be nil, each by itself.
	Hooks Hooks
}

// Hooks are told what happens. They are called off locks, on the goroutine that caused it, and must not block.
type Hooks struct {
	Hit     func()
	Miss    func() // also for each caller that joins a running load
	Loaded  func(bytes int64, err error)
	Removed func(bytes int64, r Reason)
}

// Reason is why an entry left the cache.
type Reason uint8

// The reasons.
const (
	Evicted   Reason = iota + 1 // to keep within MaxBytes
	Reclaimed                   // somebody waited for the bytes
	Expired
	Deleted // by Delete, DeleteFunc or Close
)

// String returns the reason as metrics show it.
func (r Reason) String() string {
	switch r {
	case Evicted:
		return "evicted"
	case Reclaimed:
		return "reclaimed"
	case Expired:
		return "expired"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Entry is a loaded value with the memory it occupies.
type Entry[V any] struct {
	Value V
	// Memory is the value's alone, and passes to the cache: released when the entry has left the cache and no pin holds it. For a buffer it is a
	// Split of the load's reservation with exactly the buffer in it; for other values one of the estimated size, taken with Charge.
	Memory *membudget.Reservation
	// Buffer is the pooled buffer that Value lies in, if it is one, got from Memory: returned to it before the release.
	Buffer []byte
}

func (e *Entry[V]) free() {
	if e.Memory == nil {
		return
	}
	if e.Buffer != nil {
		e.Memory.Return(e.Buffer)
	}
	e.Memory.Release()
	*e = Entry[V]{} // a handle that somebody still has must not keep in memory what is no longer charged
}

// Cache is a cache of V by K. It is safe for concurrent use. Make it with New and close it.
type Cache[K comparable, V any] struct {
	opts       Options
	flight     *flight.Group[K, *item[K, V]]
	unregister func()

	mu     sync.Mutex
	items  map[K]*item[K, V]
	idle   list[K, V] // items that neither a pin nor a handle keeps, the one used last first
	spent  list[K, V] // of idle items those that Spent was called for, in the same order: they go first
	kept   list[K, V] // items without pins that a handle keeps, in the same order
	loads  map[*loading[K]]struct{}
	weight int64 // of items
	pinned int64 // of that: with pins
	stats  Stats
	closed bool
}

// item is an entry in the cache, or one that has left it while pins hold it. All fields but entry, key and weight are guarded by Cache.mu.
type item[K comparable, V any] struct {
	key        K
	entry      Entry[V]
	weight     int64
	pins       int
	keeps      int  // handles that keep it
	gone       bool // no longer in items: freed with the last pin
	spent      bool // of no more use, as far as is known
	loaded     time.Time
	used       time.Time   // when the last pin ended
	prev, next *item[K, V] // in idle, spent or kept, when it has no pin
}

// loading is a load that runs. Guarded by Cache.mu.
type loading[K comparable] struct {
	key   K
	stale bool // the key was deleted meanwhile: who waits gets the value, the cache does not keep it
}

// departed is an item that has left the cache. Whoever takes the last of item and pins away frees it: idle says that no pin was left.
type departed[K comparable, V any] struct {
	*item[K, V]
	idle bool
}

// Stats is a moment of a cache.
type Stats struct {
	Entries            int
	Bytes, PinnedBytes int64 // weight of all entries, and of those with pins
	MaxBytes           int64
	Hits, Misses       uint64
	Loads, FailedLoads uint64
	Evicted, Reclaimed uint64 // entries
	Expired, Deleted   uint64
	ReclaimedBytes     int64
	LingeringBytes     int64 // deleted or expired entries that pins still hold
}

// New returns an empty cache. It panics without a budget, or with an expiry and no clock: mistakes of the program.
func New[K comparable, V any](opts Options) *Cache[K, V] {
	if opts.Budget == nil {
		panic("cache: Options.Budget is required")
	}
	if opts.Now == nil {
		if opts.ExpireAfterAccess > 0 || opts.ExpireAfterLoad > 0 {
			panic("cache: an expiry needs Options.Now")
		}
		opts.Now = func() time.Time { return time.Time{} }
	}
	c := &Cache[K, V]{opts: opts, items: make(map[K]*item[K, V]), loads: make(map[*loading[K]]struct{})}
	c.idle.init()
	c.spent.init()
	c.kept.init()
	c.flight = flight.New[K](flight.Options[*item[K, V]]{Share: c.share})
	c.unregister = opts.Budget.Reclaimer(c.reclaim)
	return c
}

// Get returns the value of key, pinned; the caller releases the handle on every path. What is not there is loaded, once for all callers that wait for it, under a
// context that ends when all of them have left. load reserves the memory before it reads anything, and sets its own deadline only when it has it; it
// must not hold the reservation that it hands over in any other way. Errors go to those who wait and are not kept.
func (c *Cache[K, V]) Get(ctx context.Context, key K, load func(ctx context.Context) (Entry[V], error)) (*Handle[K, V], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	it, err := c.lookup(key)
	if err != nil {
		return nil, err
	}
	if it != nil {
		call(c.opts.Hooks.Hit)
		return newHandle(c, it), nil
	}
	call(c.opts.Hooks.Miss)
	it, err = c.flight.Do(ctx, key, func(ctx context.Context) (*item[K, V], error) { return c.load(ctx, key, load) })
	if errors.Is(err, flight.ErrClosed) {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return newHandle(c, it), nil
}

// Peek returns the value of key, pinned, if it is there, and nil if it is not. It loads nothing and waits for no load.
func (c *Cache[K, V]) Peek(key K) *Handle[K, V] {
	c.mu.Lock()
	it, left := c.pin(key)
	c.mu.Unlock()
	c.finish(left, Expired)
	if it == nil {
		return nil
	}
	return newHandle(c, it)
}

// Add puts a value in that was loaded on the way, such as a neighbour in a coalesced read. If key is there already, the value given is freed. The
// entry is the cache's from here on in any case.
func (c *Cache[K, V]) Add(key K, e Entry[V]) error {
	it, err := c.insert(key, e, nil)
	if err != nil {
		return err
	}
	c.unpin(it)
	return nil
}

// Delete drops key. Readers that hold it keep it. A load that began before is not kept, and a Get that begins after Delete returned does not join it: it
// sees what is behind the key now.
func (c *Cache[K, V]) Delete(key K) {
	c.mu.Lock()
	var left []departed[K, V]
	if it := c.items[key]; it != nil {
		left = c.drop(left, it)
	}
	for l := range c.loads {
		l.stale = l.stale || l.key == key
	}
	c.mu.Unlock()
	c.finish(left, Deleted)
	c.flight.Forget(func(k K) bool { return k == key })
}

// DeleteFunc does as Delete for every key that match says yes to. match must be quick: it is called under locks.
func (c *Cache[K, V]) DeleteFunc(match func(K) bool) {
	c.mu.Lock()
	var left []departed[K, V]
	for key, it := range c.items {
		if match(key) {
			left = c.drop(left, it)
		}
	}
	for l := range c.loads {
		l.stale = l.stale || match(l.key)
	}
	c.mu.Unlock()
	c.finish(left, Deleted)
	c.flight.Forget(match)
}

// Stats returns the present numbers.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Bytes, s.PinnedBytes, s.MaxBytes = len(c.items), c.weight, c.pinned, c.opts.MaxBytes
	return s
}

// Close cancels loads and waits for them, and drops all entries. Readers that hold one keep it until they release it. It may be called several times.
func (c *Cache[K, V]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.flight.Close()
	c.unregister()
	c.DeleteFunc(func(K) bool { return true })
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}
