package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/membudget"
)

// DirName is the directory that the cache makes in the one it is given.
const DirName = "tierkit-chunks"

// ErrInUse: another process, or another Cache of this one, uses the directory.
var ErrInUse = errors.New("cache directory is in use")

// Options of a cache. Dir, MaxBytes, Budget, QueueBytes and Now are required.
type Options struct {
	Dir      string // must be there
	MaxBytes int64  // of all files
	// MaxEntries bounds the index; 0: a million.
	MaxEntries int
	// Retention is how long an entry is kept that nobody uses; 0: until its space is needed.
	Retention time.Duration
	// Budget is what the queue of entries to be written is charged to, and QueueBytes the most that it may hold.
	Budget     *membudget.Budget
	QueueBytes int64
	Now        func() time.Time
	Logger     *slog.Logger // nil: nothing is logged
}

// Cache is a cache in a directory. It is safe for concurrent use. Make it with Open and close it.
type Cache struct {
	opts       Options
	root       string
	files      files
	log        *slog.Logger
	lock       *os.File
	unregister func()
	ended      chan struct{} // closed when the one goroutine that writes and removes has ended
	closeErr   error         // set before
	wake       chan struct{} // of capacity 1

	mu       sync.Mutex
	index    index
	scanning bool
	forgot   map[Prefix]bool // of DeletePrefix while scanning: what was not seen yet goes too
	gone     map[Key]bool    // thrown away while scanning, and perhaps listed before
	writes   map[Key]*Write  // being filled, queued, being written
	queue    []*Write        // in order
	writing  *Write          // taken from queue
	flight   int64           // space of writing
	trash    []trashed       // no longer in the index, still on disk
	trashed  int64           // space of trash
	memory   int64           // of writes
	tmps     int             // files made in tmp; the goroutine's
	pause    time.Duration   // the last one after a failed write; 0: the last write went well
	resume   time.Time       // writing is suspended until then
	closed   bool
	reads    map[*reading]struct{} // in progress
	stats    Stats
}

// reading is a Read in progress.
type reading struct{ began time.Time }

// trashed is a file to be removed.
type trashed struct {
	key   Key
	space int64
}

// Stats is a moment of a cache. Numbers are since Open.
type Stats struct {
	Entries      int
	Bytes        int64 // on disk: entries, the one being written, and those not yet removed
	MaxBytes     int64
	QueueBytes   int64 // memory of entries to be written
	Hits, Misses uint64
	Written      uint64
	WrittenBytes int64
	Evicted      uint64 // to keep within MaxBytes or MaxEntries
	Expired      uint64
	Deleted      uint64
	Damaged      uint64 // entries that were not what they should be
	Dropped      uint64 // not written: no room in the queue, or no memory
	Bypassed     uint64 // not written: writing was suspended after an error
	ReadErrors   uint64 // of the file system
	WriteErrors  uint64
	Suspended    bool // nothing is written after an error, or a read hangs and nothing is used
	Scanning     bool // what was there at Open is not all known yet
}

// Open opens the cache in o.Dir, or makes it. What is there is looked through in the background; entries not seen yet are found all the
// same, and nothing is written before. A cache that another process uses is ErrInUse.
func Open(o Options) (*Cache, error) { return open(o, osFiles()) }

func open(o Options, f files) (*Cache, error) {
	if o.Budget == nil || o.Now == nil {
		panic("disk: Options.Budget and Now are required")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 1_000_000
	}
	c := &Cache{opts: o, files: f, log: o.Logger, wake: make(chan struct{}, 1), ended: make(chan struct{}), writes: map[Key]*Write{}, scanning: true, reads: map[*reading]struct{}{}, gone: map[Key]bool{}, forgot: map[Prefix]bool{}}
	var err error
	if c.root, err = filepath.Abs(filepath.Join(o.Dir, DirName)); err != nil {
		return nil, err
	}
	c.index.init(o.MaxBytes)
	for _, dir := range []string{c.root, c.tmp()} {
		if err := c.files.mkdir(dir); err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, 0o700); err != nil { // chunks may lie there as the broker had them
			return nil, err
		}
	}
	c.lock, err = durable.Lock(c.root)
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return nil, err
	}
	c.unregister = o.Budget.Reclaimer(c.reclaim)
	go c.work()
	return c, nil
}

func (c *Cache) tmp() string { return filepath.Join(c.root, "tmp") }

// Stats returns the present numbers.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries, s.Bytes, s.MaxBytes, s.QueueBytes = len(c.index.nodes), c.space(), c.opts.MaxBytes, c.memory
	s.Suspended, s.Scanning = c.suspended() || c.hangs(c.opts.Now()), c.scanning
	return s
}

// space is what the files of the cache take. Called with mu held.
func (c *Cache) space() int64 { return c.index.bytes() + c.flight + c.trashed }

// Delete drops the entry of key, also if it is not yet written. Its file is removed a little later.
func (c *Cache) Delete(key Key) {
	c.mu.Lock()
	c.drop(key)
	c.mu.Unlock()
	c.poke()
}

// DeletePrefix does as Delete for all keys that begin so. It costs next to nothing if there is none.
func (c *Cache) DeletePrefix(p Prefix) {
	c.mu.Lock()
	if c.index.prefixes[p] > 0 {
		for key := range c.index.nodes {
			if key.Prefix() == p {
				c.drop(key)
			}
		}
	}
	for key := range c.writes {
		if key.Prefix() == p {
			c.drop(key)
		}
	}
	if c.scanning {
		c.forgot[p] = true
	}
	c.mu.Unlock()
	c.poke()
}

// drop is Delete, called with mu held.
func (c *Cache) drop(key Key) {
	if n := c.index.nodes[key]; n != nil {
		c.stats.Deleted++
		c.throwAway(n)
	}
	if w := c.writes[key]; w != nil {
		w.stale = true
		delete(c.writes, key)
	}
	if c.scanning {
		c.gone[key] = true
	}
}

// throwAway takes an entry out of the index and leaves its file to be removed. Called with mu held.
func (c *Cache) throwAway(n *node) {
	space := occupied(n.length)
	c.index.remove(n)
	if c.scanning {
		c.gone[n.key] = true
	}
	c.trash = append(c.trash, trashed{n.key, space})
	c.trashed += space
}

// poke wakes the goroutine that writes and removes.
func (c *Cache) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close writes what is queued, for a few seconds at most, and gives the directory up. Entries that are being filled are not written. It
// may be called several times. A disk that hangs is waited for until closeMost is over: the error says so, and the directory stays locked
// until the disk answers or the process ends, since what was begun may still be written.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.poke()
	t := time.NewTimer(closeMost)
	defer t.Stop()
	select {
	case <-c.ended:
		return c.closeErr
	case <-t.C:
		return fmt.Errorf("the disk of the cache in %s does not answer: a write, removal or listing did not end within %v of Close; the directory stays locked until it does", c.root, closeMost)
	}
}

// work is the goroutine that writes and removes.
func (c *Cache) work() {
	defer close(c.ended)
	c.run()
	c.unregister()
	c.closeErr = c.lock.Close()
}
