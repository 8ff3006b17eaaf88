package disk

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// found is a file that may be an entry.
type found struct {
	key  Key
	size int64
	used time.Time
}

// scan puts what is on disk into the index, and removes what a crash left. What is in the files is looked at when they are read.
func (c *Cache) scan() {
	began := c.opts.Now()
	c.sweepTmp()
	var all []found
	foreign := 0
	dirs, err := c.files.list(c.root)
	for _, d := range dirs {
		if c.isClosed() {
			break
		}
		if d.IsDir() && len(d.Name()) == 2 {
			all = c.scanDir(d.Name(), all, &foreign)
		}
	}
	// By last use, the latest first.
	slices.SortFunc(all, func(a, b found) int { return b.used.Compare(a.used) })
	c.scanned(all, began)
	if err != nil {
		c.failed("look through "+c.root, err)
	}
	if foreign > 0 {
		c.log.Warn("the disk cache's directory has files that are not its own; they are left alone and not counted", "directory", c.root, "files", foreign)
	}
	s := c.Stats()
	c.log.Info("disk cache", "directory", c.root, "entries", s.Entries, "bytes", s.Bytes, "max_bytes", s.MaxBytes)
}

func (c *Cache) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// sweepTmp removes what was being written when the last process ended.
func (c *Cache) sweepTmp() {
	entries, _ := c.files.list(c.tmp()) // what cannot be listed cannot be written to either: the next write says so
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			_ = c.files.remove(filepath.Join(c.tmp(), e.Name())) // the same
		}
	}
}

// scanDir lists one directory of entries.
func (c *Cache) scanDir(dir string, all []found, foreign *int) []found {
	entries, err := c.files.list(filepath.Join(c.root, dir))
	if err != nil {
		c.log.Warn("a directory of the disk cache cannot be read; its entries are not used", "directory", dir, "error", err)
	}
	for _, e := range entries {
		key, ok := parseName(dir, e.Name())
		if !ok {
			*foreign++
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if !info.Mode().IsRegular() {
			*foreign++
			continue
		}
		all = append(all, found{key, info.Size(), info.ModTime()})
	}
	return all
}

// scanned puts what was found into the index: behind what was used meanwhile.
func (c *Cache) scanned(all []found, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scanning = false
	for _, f := range all {
		if c.index.nodes[f.key] != nil {
			continue
		}
		n := &node{key: f.key, length: max(0, f.size-headerSize), used: earlier(f.used, now), stamped: f.used}
		c.index.addOld(n)
		switch {
		case f.size < headerSize: // torn by a power failure
			c.stats.Damaged++
			c.throwAway(n)
		case c.gone[f.key]: // counted then
			c.throwAway(n)
		case c.forgot[f.key.Prefix()]:
			c.stats.Deleted++
			c.throwAway(n)
		}
	}
	c.forgot, c.gone = nil, nil
	for c.index.bytes() > c.opts.MaxBytes || len(c.index.nodes) > c.opts.MaxEntries {
		c.stats.Evicted++
		c.throwAway(c.index.first())
	}
}
