package rsm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/cache/disk"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/membudget"
)

// DiskConfig says where chunks are kept on disk, as stored, beside the decoded ones in memory. The zero value: nowhere.
type DiskConfig struct {
	Dir      string
	MaxBytes int64 // of all files; < 0: no limit
	// Unopened counts the memory that the tier needs and does not use or make the directory: for whoever looks at the settings alone.
	Unopened bool
}

func (d DiskConfig) on() bool { return d.Dir != "" && d.MaxBytes != 0 }

// Own is the directory that the tier makes for itself in Dir, "" where there is no tier.
func (d DiskConfig) Own() string {
	if !d.on() {
		return ""
	}
	return filepath.Join(d.Dir, disk.DirName)
}

const (
	// queueShare is the part of the budget that chunks to be written to disk may take, besides one.
	queueShare = 16
	// indexShare is the part of the budget that is the index of the disk tier's.
	indexShare = 16
)

// openDisk opens the disk tier. A directory that is not there, or that another process uses, is an error: somebody has to do something.
// One that cannot be written to is not used, and the manager works without it.
func (m *Manager) openDisk(now func() time.Time) (err error) {
	c := m.config.Disk
	if !c.on() || c.Unopened {
		return nil
	}
	if c.MaxBytes < 0 {
		c.MaxBytes = 1 << 62
	}
	limit := m.budget.Stats().Limit
	m.disk, err = disk.Open(disk.Options{
		Dir: c.Dir, MaxBytes: c.MaxBytes, MaxEntries: int(max(1, indexNeed(m.config, limit)/disk.IndexBytes)), Retention: m.config.Chunks.Retention,
		Budget: m.budget, QueueBytes: m.diskQueue(limit), Now: now, Logger: m.log,
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, disk.ErrInUse), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w", keyDiskPath, err)
	}
	m.diskBroken = true
	m.log.Warn("the disk cache is not used: its directory cannot be written to", keyDiskPath, c.Dir, "error", err)
	return nil
}

// diskQueue is the memory for chunks to be written: one, for which [Needs] has room, and a part of what is above the least need, so that
// it never keeps a load waiting.
func (m *Manager) diskQueue(limit int64) int64 {
	spare := m.budget.Ceiling(membudget.Fetch) - m.budget.Needs().Fetch
	return diskNeed(m.config) + max(0, min(limit/queueShare, spare))
}

// diskNeed is the memory for one chunk to be written.
func diskNeed(c Config) int64 {
	return disk.Memory(chunking.MaxEncodedSize(c.ChunkBytes) + crypto.Overhead)
}

// mark is what identities of one stem begin with, whatever its manifest says.
type mark = disk.Prefix

func (s stem) mark() mark {
	sum := sha256.Sum256([]byte(s))
	return mark(sum[:])
}

func (id identity) mark() mark { return mark(id[:]) }

// diskKey names a chunk in the disk tier: 20 bytes of the hash of identity remain behind the mark, and the number.
func (k chunkKey) diskKey() (d disk.Key) {
	copy(d[:28], k.id[:])
	binary.BigEndian.PutUint32(d[28:], uint32(k.n))
	return d
}

// forget drops all that the caches have of a segment that is at the stems: it is deleted, or copied again.
func (m *Manager) forget(at []stem) {
	m.manifests.drop(at)
	marks := make(map[mark]bool, len(at))
	for _, s := range at {
		marks[s.mark()] = true
	}
	m.indexes.cache.DeleteFunc(func(k indexKey) bool { return marks[k.id.mark()] })
	m.chunks.cache.DeleteFunc(func(k chunkKey) bool { return marks[k.id.mark()] })
	if m.disk != nil {
		for mark := range marks {
			m.disk.DeletePrefix(mark)
		}
	}
}

// CacheStats is a moment of the caches of a manager.
type CacheStats struct {
	Chunks, Indexes, Manifests cache.Stats // in memory
	Disk                       disk.Stats  // zero where there is none
	DiskBroken                 bool        // there should be one, and its directory could not be opened
}

// CacheStats returns the present numbers, for metrics.
func (m *Manager) CacheStats() CacheStats {
	s := CacheStats{Chunks: m.chunks.cache.Stats(), Indexes: m.indexes.cache.Stats(), Manifests: m.manifests.cache.Stats(), DiskBroken: m.diskBroken}
	if m.disk != nil {
		s.Disk = m.disk.Stats()
	}
	return s
}
