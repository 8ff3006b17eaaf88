package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/membudget"
)

const (
	// firstPause and longestPause bound how long writing is suspended after an error; it doubles with each that follows.
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
	// closeFor is how long Close goes on writing what is queued.
	closeFor = 5 * time.Second
	// closeMost is how long Close waits for the disk.
	closeMost = 3 * closeFor
)

// Write is an entry that is being put together. Commit or Discard it on every path.
type Write struct {
	c      *Cache
	key    Key
	memory *membudget.Reservation
	charge int64
	buf    []byte // header and bytes; nil once given back
	at     int    // of the next byte
	stale  bool   // deleted meanwhile; guarded by Cache.mu
}

var _ io.Writer = (*Write)(nil)

// Begin returns an entry of n bytes to be filled, which was not there when somebody asked for it: it counts as a miss. nil: it is not to
// be written, because it is there or on its way, or because nobody may wait for it: there is no room in the queue, no memory, or the
// disk is not to be written to at the moment.
func (c *Cache) Begin(key Key, n int) *Write {
	charge := Memory(n)
	w := &Write{c: c, key: key, charge: charge, at: headerSize}
	if !c.admit(w, n) {
		return nil
	}
	if w.memory = c.opts.Budget.TryReserve(membudget.Fetch, charge); w.memory == nil {
		c.mu.Lock()
		c.stats.Dropped++
		c.mu.Unlock()
		c.forget(w)
		return nil
	}
	w.buf = w.memory.Buffer(headerSize + n)
	return w
}

// admit decides whether an entry is to be written, and notes that it is.
func (c *Cache) admit(w *Write, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Misses++
	switch {
	case c.closed, c.writes[w.key] != nil, c.index.nodes[w.key] != nil, occupied(int64(n)) > c.opts.MaxBytes:
		return false
	case c.suspended(), c.hangs(c.opts.Now()):
		c.stats.Bypassed++
		return false
	case c.memory+w.charge > c.opts.QueueBytes:
		c.stats.Dropped++
		return false
	}
	c.writes[w.key] = w
	c.memory += w.charge
	return true
}

// suspended is called with mu held.
func (c *Cache) suspended() bool { return c.pause > 0 && c.opts.Now().Before(c.resume) }

// Write appends bytes; what is more than was announced is an error.
func (w *Write) Write(p []byte) (int, error) {
	n := copy(w.buf[w.at:], p)
	if w.at += n; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Discard gives the entry up. It may be called several times, and after Commit.
func (w *Write) Discard() {
	if w.buf != nil {
		w.c.forget(w)
	}
}

// Commit queues the entry to be written; one that is not complete is given up.
func (w *Write) Commit() {
	if w.buf == nil {
		return
	}
	if w.at < len(w.buf) {
		w.Discard()
		return
	}
	q := &Write{c: w.c, key: w.key, memory: w.memory, charge: w.charge, buf: w.buf}
	w.buf, w.memory = nil, nil // the queue's from here on
	c := w.c
	c.mu.Lock()
	q.stale = w.stale || c.closed
	if c.writes[w.key] == w {
		c.writes[w.key] = q
	}
	if !q.stale {
		c.queue = append(c.queue, q)
	}
	c.mu.Unlock()
	if q.stale {
		c.forget(q)
		return
	}
	c.poke()
	c.opts.Budget.Idle() // it can be reclaimed now
}

// forget gives back what w holds.
func (c *Cache) forget(w *Write) {
	c.mu.Lock()
	if c.writes[w.key] == w {
		delete(c.writes, w.key)
	}
	c.memory -= w.charge
	c.mu.Unlock()
	if w.memory == nil {
		return
	}
	w.memory.Return(w.buf)
	w.buf = nil
	w.memory.Release()
}

// reclaim is the cache's reclaimer: it gives back at least want bytes of the queue, what came last first.
func (c *Cache) reclaim(want int64) (freed int64) {
	var drop []*Write
	c.mu.Lock()
	for freed < want && len(c.queue) > 0 {
		last := len(c.queue) - 1
		w := c.queue[last]
		c.queue[last] = nil
		c.queue = c.queue[:last]
		drop = append(drop, w)
		freed += w.charge
		c.stats.Dropped++
	}
	c.mu.Unlock()
	for _, w := range drop {
		c.forget(w)
	}
	return freed
}

// run is the one goroutine that writes and removes files.
func (c *Cache) run() {
	c.scan()
	var end time.Time
	for {
		closed := c.step()
		switch {
		case closed == closing && end.IsZero():
			end = c.opts.Now().Add(closeFor)
		case closed == closing && !c.opts.Now().Before(end), closed == done:
			c.dropQueue()
			return
		case closed == idle:
			<-c.wake
		}
	}
}

// state is what step found.
type state uint8

const (
	busy    state = iota // something was done
	idle                 // there is nothing to do
	closing              // something was done, and the cache is closed
	done                 // there is nothing to do, and the cache is closed
)

// step removes what is to be removed, and writes one entry.
func (c *Cache) step() state {
	now := c.opts.Now()
	c.mu.Lock()
	for n := c.index.expired(now, c.opts.Retention); n != nil; n = c.index.expired(now, c.opts.Retention) {
		c.stats.Expired++
		c.throwAway(n)
	}
	closed, removing := c.closed, len(c.trash) > 0 && !c.suspended()
	// Nothing is written while there is something to remove: the file to be removed might be the one that was just written.
	if !removing && len(c.queue) > 0 {
		c.writing = c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
	}
	w := c.writing
	c.mu.Unlock()
	switch {
	case removing:
		c.empty()
	case w != nil:
		c.store(w)
	case closed:
		return done
	default:
		return idle
	}
	if closed {
		return closing
	}
	return busy
}

// empty removes the files in the trash. What cannot be removed stays there, counted.
func (c *Cache) empty() {
	c.mu.Lock()
	trash := c.trash
	c.trash = nil
	c.mu.Unlock()
	for i, t := range trash {
		err := c.files.remove(c.path(t.key))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !c.foreign(t.key) {
			c.mu.Lock()
			c.trash = append(trash[i:], c.trash...)
			c.mu.Unlock()
			c.failed("remove", err)
			return
		}
		c.mu.Lock()
		c.trashed -= t.space
		c.mu.Unlock()
	}
}

// foreign says that what has the name of an entry is no file: nothing of the cache's.
func (c *Cache) foreign(key Key) bool {
	info, err := c.files.stat(c.path(key))
	return err == nil && info.IsDir()
}

// store writes an entry, after room was made for it.
func (c *Cache) store(w *Write) {
	n := int64(len(w.buf) - headerSize)
	if c.makeRoom(w, n) {
		now := c.opts.Now()
		if err := c.put(w, now); err != nil {
			c.failed("write", err)
		} else {
			c.wrote(w, n, now)
		}
	}
	c.mu.Lock()
	c.writing, c.flight = nil, 0
	c.mu.Unlock()
	c.forget(w)
	c.opts.Budget.Idle()
}

// makeRoom evicts until w fits, and counts its space. false: it is not to be written.
func (c *Cache) makeRoom(w *Write, n int64) bool {
	need := occupied(n)
	c.mu.Lock()
	for !w.stale && !c.suspended() && (c.space()-c.trashed+need > c.opts.MaxBytes || len(c.index.nodes) >= c.opts.MaxEntries) {
		first := c.index.first()
		if first == nil {
			break
		}
		c.stats.Evicted++
		c.throwAway(first)
	}
	suspended := c.suspended()
	c.mu.Unlock()
	if !suspended {
		c.empty()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case w.stale:
		return false
	case c.suspended(), c.space()+need > c.opts.MaxBytes: // what was evicted could not be removed
		c.stats.Bypassed++
		return false
	}
	c.flight = need
	return true
}

// put writes the file of an entry.
func (c *Cache) put(w *Write, now time.Time) (err error) {
	putHeader(w.buf, w.key)
	c.tmps++
	tmp := filepath.Join(c.tmp(), strconv.Itoa(c.tmps)+tmpSuffix)
	f, err := c.files.create(tmp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.files.remove(tmp))
		}
	}()
	if _, err = f.Write(w.buf); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = c.files.touch(tmp, now); err != nil {
		return err
	}
	to := c.path(w.key)
	if err = c.files.rename(tmp, to); errors.Is(err, os.ErrNotExist) {
		if err = c.files.mkdir(filepath.Dir(to)); err == nil {
			err = c.files.rename(tmp, to)
		}
	}
	return err
}

const tmpSuffix = ".tmp"

// wrote puts an entry that was written into the index.
func (c *Cache) wrote(w *Write, n int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight = 0
	c.stats.Written++
	c.stats.WrittenBytes += n
	entry := &node{key: w.key, length: n, used: now, stamped: now}
	c.index.add(entry)
	if w.stale {
		c.throwAway(entry)
	}
	if c.pause > 0 {
		c.pause = 0
		c.log.Info("the disk cache is written to again", "directory", c.root)
	}
}

// failed suspends writing after an error.
func (c *Cache) failed(what string, err error) {
	c.mu.Lock()
	c.stats.WriteErrors++
	first := c.pause == 0
	c.pause = min(max(firstPause, 2*c.pause), longestPause)
	c.resume = c.opts.Now().Add(c.pause)
	pause := c.pause
	c.mu.Unlock()
	say := c.log.Debug
	if first {
		say = c.log.Warn
	}
	say("the disk cache is not written to for a while; reads go on", "directory", c.root, "what", what, "error", err, "pause", pause.String())
}

// dropQueue gives up what was not written before Close.
func (c *Cache) dropQueue() {
	for c.reclaim(1) > 0 {
		continue
	}
}

// Memory returns the memory that an entry of n bytes needs until it is written.
func Memory(n int) int64 { return membudget.Capacity(headerSize + n) }
