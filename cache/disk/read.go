package disk

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// hungAfter is how long a read may take before the disk is taken for one that hangs.
const hungAfter = 5 * time.Second

// hangs says that a read does not come back: until it does, nobody else is sent the same way. Called with mu held.
func (c *Cache) hangs(now time.Time) bool {
	for r := range c.reads {
		if now.Sub(r.began) >= hungAfter {
			return true
		}
	}
	return false
}

// Has says whether key is there, as far as can be told without reading it. It is no use of the entry. While the disk hangs nothing is there.
func (c *Cache) Has(key Key) bool {
	now := c.opts.Now()
	c.mu.Lock()
	if c.hangs(now) {
		c.mu.Unlock()
		return false
	}
	n := c.find(key, now)
	scanning := c.scanning && !c.closed
	c.mu.Unlock()
	return n != nil || scanning && c.adopt(key, now)
}

// Read reads the entry of key into buf, which is as long as the entry should be, and says whether that is done. What is not as it should
// be is deleted and counted; buf is then arbitrary. It reads from the disk on the caller's goroutine.
func (c *Cache) Read(key Key, buf []byte) bool {
	if !c.Has(key) {
		return false
	}
	now := c.opts.Now()
	r := &reading{began: now}
	c.mu.Lock()
	c.reads[r] = struct{}{}
	c.mu.Unlock()
	err := c.load(c.path(key), key, buf)
	c.mu.Lock()
	delete(c.reads, r)
	n := c.index.nodes[key]
	switch {
	case err == nil:
		c.stats.Hits++
	case n == nil: // it was evicted or deleted meanwhile
	case errors.Is(err, errDamaged), errors.Is(err, os.ErrNotExist):
		c.stats.Damaged++
		c.throwAway(n)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, os.ErrPermission):
		c.stats.ReadErrors++ // it is not the entry's fault
	default: // a sector that cannot be read, most likely
		c.stats.ReadErrors++
		c.throwAway(n)
	}
	stamp := false
	if err == nil && n != nil {
		c.index.use(n, now)
		if stamp = now.Sub(n.stamped) >= max(sameUse, c.opts.Retention/8); stamp {
			n.stamped = now
		}
	}
	c.mu.Unlock()
	if err != nil {
		c.log.Debug("entry of the disk cache not used", "file", c.path(key), "error", err)
		c.poke()
		return false
	}
	if stamp {
		_ = c.files.touch(c.path(key), now) // without it the entry looks a little older after a restart
	}
	return true
}

// load reads and checks a file.
func (c *Cache) load(name string, key Key, buf []byte) error {
	f, err := c.files.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != headerSize+int64(len(buf)) {
		return errDamaged
	}
	var head [headerSize]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return damagedIfShort(err)
	}
	h, err := parseHeader(head[:], key)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(f, buf); err != nil {
		return damagedIfShort(err)
	}
	return h.check(buf)
}

// damagedIfShort: a file that ends early is damaged, one that cannot be read is an error of the file system.
func damagedIfShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errDamaged
	}
	return err
}

// find returns the entry of key unless it is too old, which throws it away. Called with mu held.
func (c *Cache) find(key Key, now time.Time) *node {
	n := c.index.nodes[key]
	if n == nil || c.closed {
		return nil
	}
	if d := c.opts.Retention; d > 0 && now.Sub(n.used) >= d {
		c.stats.Expired++
		c.throwAway(n)
		return nil
	}
	return n
}

// adopt looks for a file that the scan has not come to yet, and puts it into the index.
func (c *Cache) adopt(key Key, now time.Time) bool {
	info, err := c.files.stat(c.path(key))
	if err != nil || !info.Mode().IsRegular() || info.Size() < headerSize {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[key] || c.forgot[key.Prefix()] {
		return false
	}
	if c.index.nodes[key] == nil && c.scanning {
		c.index.add(&node{key: key, length: info.Size() - headerSize, used: earlier(info.ModTime(), now), stamped: info.ModTime()})
	}
	return c.find(key, now) != nil
}

// earlier returns the time of a file, which a clock that was set back may have put into the future.
func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
