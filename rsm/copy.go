package rsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// maxChunks bounds the tables of a copy and the checksums in its manifest. Aiven's limit for compressed segments is about the same:
// 10 MiB for the sizes of the chunks.
const maxChunks = 10 << 20

// cleanupTimeout bounds what a failed copy does to remove what it stored.
const cleanupTimeout = 30 * time.Second

// Copy implements remotelog.StorageManager.
func (m *Manager) Copy(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData) (remotelog.CustomMetadata, error) {
	return m.CopyNoting(ctx, md, data, func() {})
}

// CopyNoting is Copy for a caller who notes that it runs, so that what it leaves can be found should the process be killed. note runs beside what
// can be done without it and has returned before anything in the store changes; it has returned, or is never called, when CopyNoting returns.
func (m *Manager) CopyNoting(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData, note func()) (_ remotelog.CustomMetadata, err error) {
	if md.State != remotelog.CopySegmentStarted {
		return nil, fmt.Errorf("%w: copy of segment %s in state %v, want %v", remotelog.ErrInvalidArgument, md.SegmentID, md.State, remotelog.CopySegmentStarted)
	}
	if err := md.Validate(); err != nil {
		return nil, err
	}
	inner, done, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	began := m.now()
	defer func() {
		if err = m.ended(ctx, err); err != nil {
			err = fmt.Errorf("copy segment %s: %w", md.SegmentID, err)
		}
		if f := m.hooks.CopyEnded; f != nil {
			f(m.now().Sub(began), err)
		}
	}()
	unlock, err := m.locks.lock(inner, md.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := &copying{m: m, md: &md, at: m.configuredStems(&md), note: note}
	defer c.release()
	if err := c.prepare(inner, data); err != nil {
		return nil, err // nothing was touched in the store
	}
	return c.store(inner)
}

// copying is one copy on its way.
type copying struct {
	m  *Manager
	md *remotelog.SegmentMetadata
	at stems

	note  func()
	noted sync.WaitGroup // until then nothing in the store changes

	src    *sources
	key    *crypto.DataKey // nil: not encrypted
	wrap   string
	log    chunking.EncodeOptions
	memory *membudget.Reservation // one for the whole copy
	tables *membudget.Reservation // of it: sizes, checksums, the manifest

	encoding *encoding // the .log on its way into its stored form
	parts    []indexPart
	man      manifest.Manifest
	stored   int64 // bytes of the three objects
}

func (c *copying) release() {
	c.encoding.end()
	c.noted.Wait()
	if c.src != nil {
		c.src.close()
	}
	if c.tables != nil {
		c.tables.Release()
	}
	if c.memory != nil {
		c.memory.Release()
	}
}

// prepare opens and checks everything that can be before the store is touched, and reserves the memory.
func (c *copying) prepare(ctx context.Context, data remotelog.SegmentData) (err error) {
	conf := &c.m.config
	if err := c.checkKeys(); err != nil {
		return err
	}
	if c.src, err = openSources(ctx, c.md, data); err != nil {
		return err
	}
	c.log = chunking.EncodeOptions{PlainBytes: c.md.SizeBytes, ChunkBytes: conf.ChunkBytes, Workers: c.m.codecs.Pairs()}
	if conf.Encryption {
		if c.key, err = c.m.newDataKey(); err != nil {
			return err
		}
		if c.wrap, err = c.m.keys.Wrap(ctx, c.key.Key()); err != nil {
			return err
		}
		c.log.Key, c.src.overhead = c.key, crypto.Overhead
	}
	// An empty log is not compressed: Aiven's reader takes it only like that.
	if conf.Compression && c.md.SizeBytes > 0 && (!conf.Heuristic || c.m.compressible(ctx, c.md, data.Log)) {
		c.log.Codecs = c.m.codecs
	}
	if err := c.src.checkIndexes(); err != nil {
		return err
	}
	return c.reserve(ctx)
}

// checkKeys finds out whether the store can hold the segment's keys at all. The manifest's is the longest.
func (c *copying) checkKeys() error {
	if err := c.m.store.CheckKey(c.at.configured.key(manifest.ManifestSuffix)); err != nil {
		return fmt.Errorf("%w: use another storage.backend for this topic, or a shorter %s", err, keyPrefix)
	}
	return nil
}

// reserve takes the memory of the whole copy at once: the least that each of its steps needs, and the least of the store's beside it.
func (c *copying) reserve(ctx context.Context) error {
	chunks := chunking.EncodedChunks(c.log)
	if chunks > maxChunks {
		return fmt.Errorf("%w: %d bytes in chunks of %d are %d chunks, at most %d are stored: raise %s",
			remotelog.ErrInvalidArgument, c.md.SizeBytes, c.log.ChunkBytes, chunks, maxChunks, keyChunkSize)
	}
	if c.log.Codecs != nil {
		if err := chunking.CheckVariable(int64(c.log.ChunkBytes), c.log.PlainBytes); err != nil {
			return fmt.Errorf("%w: %v", remotelog.ErrInvalidArgument, err) //nolint:errorlint // nothing is corrupt yet
		}
	}
	const perChunk, perEpoch, fields = 12, 40, 8 << 10 // of the manifest's JSON: more than it can have
	manifestBytes := int64(fields) + chunks*perChunk + int64(len(c.md.LeaderEpochs))*perEpoch
	tables := 8*chunks + 2*manifestBytes
	steps := max(chunking.EncodeMemory(c.log), membudget.Capacity(c.src.largestIndex()))
	puts := putMemory(c.m.store, c.logSize(), c.src.storedIndexes(), manifestBytes)
	var err error
	if c.memory, err = c.m.budget.Reserve(ctx, membudget.Copy, tables+steps+puts); err != nil {
		return err
	}
	if c.tables = c.memory.Split(tables); c.tables == nil || !c.tables.Charge(tables) {
		return errors.New("the memory budget gave less than was reserved")
	}
	return nil
}

// logSize is the stored size of the .log, if it is known beforehand.
func (c *copying) logSize() int64 {
	if c.log.Codecs != nil {
		return backends.SizeUnknown
	}
	if c.key != nil {
		return c.log.PlainBytes + chunking.EncodedChunks(c.log)*crypto.Overhead
	}
	return c.log.PlainBytes
}

// store replaces whatever is there by the new copy. When it fails nothing is left, or the error says so. The .log is encoded from the start on: while
// the copy is noted and the store asked about an earlier one the first chunks come into being.
func (c *copying) store(ctx context.Context) (_ remotelog.CustomMetadata, err error) {
	c.noted.Go(c.note)
	if c.encoding, err = c.encode(ctx); err != nil {
		return nil, err
	}
	if err := c.retract(ctx); err != nil {
		return nil, err
	}
	if err = c.putData(ctx); err == nil {
		err = c.putManifest(ctx)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if cerr := c.m.remove(clean, c.at, ""); cerr != nil {
			err = fmt.Errorf("%w; and %w: %w", err, ErrLeftBehind, cerr)
		}
		return nil, err
	}
	c.m.forget(c.at.ofManifest())
	if f := c.m.hooks.Copied; f != nil {
		f(*c.md, c.stored)
	}
	return c.custom(), nil
}

// retract makes an earlier copy under the same id absent, before any of its objects is replaced. It asks first: in a bucket with versions a
// DELETE of a key that is not there leaves a marker.
func (c *copying) retract(ctx context.Context) error {
	key := c.at.configured.key(manifest.ManifestSuffix)
	_, err := c.m.store.Stat(ctx, key)
	c.noted.Wait()
	switch {
	case errors.Is(err, backends.NotFound):
		return nil
	case err != nil && !errors.Is(err, backends.Denied):
		return err
	}
	if err := c.m.store.Delete(ctx, key); err != nil {
		return err
	}
	c.m.forget(c.at.ofManifest())
	return nil
}

// custom is what the broker is to keep with the segment; nil for nothing.
func (c *copying) custom() remotelog.CustomMetadata {
	if len(c.m.fields) == 0 {
		return nil
	}
	var out manifest.Custom
	for _, f := range c.m.fields {
		out.Has[f] = true
	}
	out.RemoteSize, out.ObjectPrefix = c.stored, c.m.config.KeyPrefix
	out.ObjectKey = manifest.MainPath(c.md.SegmentID, c.md.StartOffset, manifest.ASCIIDigits)
	return out.Append(nil)
}

// checkIndexes refuses indexes that a manifest cannot hold.
func (s *sources) checkIndexes() error {
	if n := s.storedIndexes(); n > math.MaxInt32 {
		return fmt.Errorf("%w: the indexes have %d stored bytes, a manifest holds %d", remotelog.ErrInvalidArgument, n, math.MaxInt32)
	}
	return nil
}
