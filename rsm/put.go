package rsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put stores one object with memory split off the copy's, and sees that the store has as many bytes of it as were sent. sent tells how
// many they were and whether they were all, once the body was read.
func (c *copying) put(ctx context.Context, s manifest.Suffix, body io.Reader, o backends.PutOptions, sent func() (int64, error)) error {
	key := c.at.configured.key(s)
	least, _ := c.m.store.PutMemory(o.Size)
	if o.Memory = c.memory.Split(least); o.Memory == nil {
		return fmt.Errorf("store %s: its put needs %d bytes of memory, which were not reserved", s, least)
	}
	defer o.Memory.Release()
	info, err := c.m.store.Put(ctx, key, body, o)
	if err != nil {
		return err
	}
	want, err := sent()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("store %s: %w", s, err) // we stopped reading, not the store
	}
	if err != nil {
		return fmt.Errorf("%w: store %s: the store calls it done before it has everything: %w", remotelog.ErrCorrupt, s, err)
	}
	if info.Size == want && s != manifest.ManifestSuffix {
		// What a store says about its own Put may be no more than what it was told; the manifest that follows promises the size.
		switch there, serr := c.m.store.Stat(ctx, key); {
		case errors.Is(serr, backends.Denied): // may write only
		case serr != nil:
			return fmt.Errorf("check %s after storing it: %w", s, hideNotFound{serr})
		default:
			info.Size = there.Size
		}
	}
	if info.Size != want {
		return fmt.Errorf("%w: %s has %d bytes in the store, %d were sent", remotelog.ErrCorrupt, s, info.Size, want)
	}
	return nil
}

// hideNotFound is an object that was stored and cannot be found: not an absent segment.
type hideNotFound = corruptCause

// encoding is the encoder of a copy and its share of the copy's memory.
type encoding struct {
	*chunking.Encoder
	memory *membudget.Reservation
}

// encode begins to encode the .log, which touches no store.
func (c *copying) encode(ctx context.Context) (*encoding, error) {
	o := c.log
	if o.Memory = c.memory.Split(chunking.EncodeMemory(o)); o.Memory == nil {
		return nil, errNotReserved
	}
	enc, err := chunking.NewEncoder(ctx, c.src.log, o)
	if err != nil {
		o.Memory.Release()
		return nil, err
	}
	return &encoding{enc, o.Memory}, nil
}

// end stops the encoder and gives its memory back to the copy. It may be called several times, and of nil.
func (e *encoding) end() {
	if e != nil {
		_ = e.Close() // never fails; it waits for the workers
		e.memory.Release()
	}
}

var errNotReserved = errors.New("the memory budget gave less than was reserved")

// putData stores the .log and the .indexes: at the same time where the budget has the memory at once, else one after the other. It returns when
// nothing is on its way any more.
func (c *copying) putData(ctx context.Context) error {
	if !c.roomBeside() {
		if err := c.putLog(ctx); err != nil {
			return err
		}
		return c.putIndexes(ctx)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return c.putIndexes(ctx) })
	both.Go(func() error { return c.putLog(ctx) })
	return both.Wait()
}

// roomBeside sees to it that the copy's memory is enough for the .indexes beside the .log, without waiting: what was reserved is enough for one
// after the other.
func (c *copying) roomBeside() bool {
	log, _ := c.m.store.PutMemory(c.logSize())
	indexes, _ := c.m.store.PutMemory(c.src.storedIndexes())
	need := log + indexes + membudget.Capacity(c.src.largestIndex())
	return c.memory.TryGrow(max(0, need-c.memory.Unused()))
}

// putLog stores the .log and notes its chunk index and checksums.
func (c *copying) putLog(ctx context.Context) error {
	o, enc := &c.log, c.encoding
	defer enc.end()
	err := c.put(ctx, manifest.LogSuffix, enc, backends.PutOptions{Size: c.logSize()}, func() (int64, error) {
		_, _, n, err := enc.Result()
		return n, err
	})
	if err != nil {
		return err
	}
	sizes, crcs, stored, err := enc.Result()
	if err != nil {
		return err
	}
	m := &c.man
	if o.Codecs != nil {
		m.Compression = true
		m.Chunks, err = chunking.NewVariable(int64(o.ChunkBytes), o.PlainBytes, sizes)
	} else {
		m.Chunks, err = chunking.Layout(int64(o.ChunkBytes), o.PlainBytes, o.Key != nil)
	}
	if err != nil {
		return err
	}
	if m.Chunks.StoredSize() != stored || len(crcs) != m.Chunks.Chunks() {
		return fmt.Errorf("stored %d bytes in %d chunks, the chunk index has %d in %d", stored, len(crcs), m.Chunks.StoredSize(), m.Chunks.Chunks())
	}
	m.Checksums = manifest.NewChecksums(len(crcs))
	m.Checksums.LogBytes = stored
	for _, sum := range crcs {
		m.Checksums.AppendChunk(sum)
	}
	return nil
}

// putIndexes stores the .indexes and notes its parts.
func (c *copying) putIndexes(ctx context.Context) error {
	b := &indexBody{key: c.key, parts: c.src.indexes}
	if n := c.src.largestIndex(); n > 0 {
		if b.buf = c.memory.Buffer(n); b.buf == nil {
			return errNotReserved
		}
		defer c.memory.Return(b.buf)
	}
	size := c.src.storedIndexes()
	err := c.put(ctx, manifest.IndexesSuffix, b, backends.PutOptions{Size: size}, func() (int64, error) {
		if b.sent != size {
			return b.sent, fmt.Errorf("%d of %d bytes", b.sent, size)
		}
		return b.sent, nil
	})
	c.parts = b.noted
	return err
}

// putManifest stores the manifest: with it the segment exists.
func (c *copying) putManifest(ctx context.Context) error {
	sums := c.man.Checksums
	for _, p := range c.parts {
		c.man.Indexes.Append(p.t, p.size)
		sums.SetPart(p.t, p.sum)
		sums.IndexBytes += p.size
	}
	c.man.Metadata = manifest.MetadataOf(c.md)
	if c.key != nil {
		c.man.Encryption = &manifest.Encryption{DataKey: c.wrap, AAD: c.key.AAD()}
	}
	data, err := c.man.Marshal()
	if err != nil {
		return fmt.Errorf("%w: %w", remotelog.ErrInvalidArgument, err)
	}
	c.stored = sums.LogBytes + sums.IndexBytes + int64(len(data))
	sum := crc32.Checksum(data, castagnoli)
	o := backends.PutOptions{Size: int64(len(data)), CRC32C: &sum}
	return c.put(ctx, manifest.ManifestSuffix, bytes.NewReader(data), o, func() (int64, error) { return int64(len(data)), nil })
}

// indexPart is what the manifest says about an index.
type indexPart struct {
	t    remotelog.IndexType
	size int64
	sum  uint32
}

// indexBody is the .indexes object: one part after the other, each read whole, sealed and noted.
type indexBody struct {
	key   *crypto.DataKey // nil: not encrypted
	parts []indexSource
	noted []indexPart
	buf   []byte // the largest part, sealed
	left  []byte // of buf: not yet sent
	sent  int64
}

// Read implements io.Reader.
func (b *indexBody) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		if len(b.parts) == 0 {
			return 0, io.EOF
		}
		if err := b.next(b.parts[0]); err != nil {
			return 0, err
		}
		b.parts = b.parts[1:]
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	b.sent += int64(n)
	return n, nil
}

func (b *indexBody) next(s indexSource) error {
	piece := b.buf[:s.size]
	if _, err := io.ReadFull(s.r, piece); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ended before %d bytes", chunking.ErrSourceSize, s.size)
		}
		return fmt.Errorf("read the %s index: %w", s.t, err)
	}
	var one [1]byte
	switch n, err := io.ReadFull(s.r, one[:]); {
	case n > 0:
		return fmt.Errorf("read the %s index: %w: it goes on after %d bytes", s.t, chunking.ErrSourceSize, s.size)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read the %s index: %w", s.t, err)
	}
	if b.key != nil && s.size > 0 {
		piece = b.key.Seal(piece[:0], piece)
	}
	b.noted = append(b.noted, indexPart{s.t, int64(len(piece)), manifest.Checksum(piece)})
	b.left = piece
	return nil
}

// stored is the stored size of an index of n bytes: an empty one is not sealed.
func (s *sources) stored(n int64) int64 {
	if n > 0 {
		n += s.overhead
	}
	return n
}

// storedIndexes is the size of the .indexes object.
func (s *sources) storedIndexes() (n int64) {
	for _, x := range s.indexes {
		n += s.stored(x.size)
	}
	return n
}

// largestIndex is the stored size of the largest part.
func (s *sources) largestIndex() (n int) {
	for _, x := range s.indexes {
		n = max(n, int(s.stored(x.size)))
	}
	return n
}
