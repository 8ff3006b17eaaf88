package rsm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// identity tells the stored forms of segments apart: a mark of the manifest's key, and of the SHA-256 of that key and the manifest's bytes all
// but the first 8 bytes. A copy of the same id again has another manifest, or the same bytes.
type identity [sha256.Size]byte

// segment is a parsed manifest with what reading needs.
type segment struct {
	*manifest.Manifest
	stem stem
	id   identity
	key  *crypto.DataKey // nil: not encrypted
}

const (
	// manifestGuess is what the first request for a manifest has memory for: one of a segment of 1 GiB in chunks of 4 MiB has
	// about 3 KB.
	manifestGuess = 16 << 10
	// segmentBytes is what a segment holds besides its manifest: key schedule, identity, stem.
	segmentBytes = 4 << 10
	// manifestShare is the part of the budget that manifests may take: they are small, and what they save is a request each.
	manifestShare = 8
)

// manifestNeed is the memory for reading and parsing a manifest of n bytes: the bytes, and at most about twice as much beside them while
// they are parsed.
func manifestNeed(n int64) int64 { return membudget.Capacity(int(n)) + 2*n + segmentBytes }

// manifestCache keeps segments by the key of their manifest.
type manifestCache struct {
	m       *Manager
	cache   *cache.Cache[string, *segment]
	timeout time.Duration
}

// segmentHandle is a segment that stays charged until it is released.
type segmentHandle = cache.Handle[string, *segment]

func newManifestCache(m *Manager, now func() time.Time) *manifestCache {
	c := m.config.Manifests
	limit := m.budget.Stats().Limit / manifestShare
	o := cache.Options{Budget: m.budget, MaxBytes: limit, ExpireAfterLoad: c.Retention, Now: now, Sparing: true}
	if n := c.Max.within(1000, 1<<30); n < 1<<30 {
		o.MaxEntries = int(n)
		if n == 0 {
			o.MaxBytes = 0
		}
	}
	return &manifestCache{m: m, cache: cache.New[string, *segment](o), timeout: c.Timeout}
}

func (c *manifestCache) close() { c.cache.Close() }

// get returns the segment whose manifest has one of the stems, the first that is there. No manifest: ErrNotFound.
func (c *manifestCache) get(ctx context.Context, md *remotelog.SegmentMetadata, at []stem) (*segmentHandle, error) {
	for _, s := range at {
		h, err := c.cache.Get(ctx, s.key(manifest.ManifestSuffix), func(ctx context.Context) (cache.Entry[*segment], error) {
			return c.load(ctx, s)
		})
		if errors.Is(err, backends.NotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", md.SegmentID, err)
		}
		return h, nil
	}
	return nil, fmt.Errorf("%w: segment %s has no manifest in the store", remotelog.ErrNotFound, md.SegmentID)
}

// drop forgets the manifests at the stems, so that the next get asks the store.
func (c *manifestCache) drop(at []stem) {
	for _, s := range at {
		c.cache.Delete(s.key(manifest.ManifestSuffix))
	}
}

// load reads a manifest. Its size is known only when the request is answered, and then nobody may wait for memory: if it is
// larger than guessed and the rest cannot be had at once, the request is given up and made again with enough.
func (c *manifestCache) load(ctx context.Context, s stem) (cache.Entry[*segment], error) {
	const tries = 3 // one for the guess, one for the size, one for an object that was replaced in between
	need := int64(manifestGuess)
	for range tries {
		e, size, err := c.try(ctx, s, need)
		if err != nil || e.Memory != nil {
			return e, err
		}
		need = size
	}
	return cache.Entry[*segment]{}, fmt.Errorf("manifest %q changes its size while it is read", s)
}

// try reads the manifest with memory for n bytes. An entry without memory: it has size bytes.
func (c *manifestCache) try(ctx context.Context, s stem, n int64) (_ cache.Entry[*segment], size int64, err error) {
	var none cache.Entry[*segment]
	res, err := c.m.reserve(ctx, manifestNeed(n))
	if err != nil {
		return none, 0, fmt.Errorf("manifest %q: %w", s, err)
	}
	defer res.Release()
	ctx, stop := withTimeout(ctx, c.timeout, "loading a manifest")
	defer stop(&err)
	obj, err := c.m.store.Get(ctx, s.key(manifest.ManifestSuffix), backends.GetOptions{Range: backends.All()})
	if err != nil {
		return none, 0, err
	}
	defer func() { _ = obj.Body.Close() }() // read only
	if obj.Length > manifest.MaxBytes {
		return none, 0, fmt.Errorf("%w: manifest %q has %d bytes, at most %d are read", remotelog.ErrCorrupt, s, obj.Length, manifest.MaxBytes)
	}
	if more := manifestNeed(obj.Length) - res.Size(); more > 0 && !res.TryGrow(more) {
		return none, obj.Length, nil
	}
	buf := res.Buffer(int(obj.Length))
	if _, err := io.ReadFull(obj.Body, buf); err != nil {
		return none, 0, fmt.Errorf("manifest %q: %w", s, err)
	}
	seg, err := c.m.parseSegment(ctx, s, buf)
	if err != nil {
		return none, 0, err
	}
	res.Return(buf)
	held := res.Split(min(seg.MemoryBytes()+segmentBytes, res.Unused()))
	held.Charge(held.Size())
	return cache.Entry[*segment]{Value: seg, Memory: held}, 0, nil
}

// parseSegment parses a manifest and opens its data key.
func (m *Manager) parseSegment(ctx context.Context, s stem, data []byte) (*segment, error) {
	man, err := manifest.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("manifest %q: %w", s, err)
	}
	if d := man.Metadata; d != nil && !s.isOf(d.ID) {
		return nil, fmt.Errorf("%w: manifest %q describes another segment, %s", remotelog.ErrCorrupt, s, d.SegmentID)
	}
	seg := &segment{Manifest: man, stem: s}
	h := sha256.New()
	_, _ = io.WriteString(h, string(s)+"\x00") // a hash never fails
	_, _ = h.Write(data)
	h.Sum(seg.id[:0])
	mark := s.mark()
	copy(seg.id[:], mark[:])
	if man.Encryption == nil {
		return seg, nil
	}
	if m.keys == nil {
		return nil, fmt.Errorf("%w: segment at %q is encrypted and no key pairs are configured: set %s", crypto.ErrUnknownKey, s, keyPairs)
	}
	key, err := m.keys.Unwrap(ctx, man.Encryption.DataKey)
	if err != nil {
		return nil, fmt.Errorf("manifest %q: %w", s, err)
	}
	if seg.key, err = crypto.OpenDataKey(key, man.Encryption.AAD); err != nil {
		return nil, fmt.Errorf("manifest %q: %w", s, err)
	}
	return seg, nil
}

// withTimeout bounds a load. stop ends it and turns an error that the bound brought about into one that says so.
func withTimeout(ctx context.Context, d time.Duration, what string) (context.Context, func(*error)) {
	late := &timeoutError{what: what, after: d}
	ctx, cancel := context.WithTimeoutCause(ctx, d, late)
	return ctx, func(err *error) {
		if *err != nil && errors.Is(*err, context.DeadlineExceeded) && context.Cause(ctx) == error(late) { //nolint:errorlint // identity
			*err = fmt.Errorf("%w: %v", late, *err) //nolint:errorlint // the context error is ours, not the caller's: it must not match
		}
		cancel()
	}
}

// reader is what one fetch reads through: the segment as its manifest describes it, and where its objects are. Between two uses it holds no
// bytes that nobody could take: it keeps the manifest from eviction, not from who waits for memory. Streams that were opened and are not
// read, however many, can therefore never keep a load waiting.
type reader struct {
	m     *Manager
	md    *remotelog.SegmentMetadata
	stems stems
	h     *segmentHandle // kept, not pinned
	id    identity       // of the segment in h
}

// open finds the segment. OBJECT_KEY of another segment is ErrCorrupt.
func (m *Manager) open(ctx context.Context, md *remotelog.SegmentMetadata) (*reader, error) {
	s, err := m.segmentStems(ctx, md)
	if err != nil {
		return nil, err
	}
	r := &reader{m: m, md: md, stems: s}
	h, err := m.manifests.get(ctx, md, s.ofManifest())
	if err != nil {
		return nil, err
	}
	r.take(h)
	return r, nil
}

// segment returns the segment. Its manifest is loaded again if its memory was taken meanwhile; fresh: it is another one now, because the
// segment was copied again. The segment is the caller's for the call that it works on: it stays valid, whatever becomes of its
// place in the cache, and is no longer charged then.
func (r *reader) segment(ctx context.Context) (seg *segment, fresh bool, err error) {
	if seg = r.there(); seg != nil {
		return seg, false, nil
	}
	h, err := r.m.manifests.get(ctx, r.md, r.stems.ofManifest())
	if err != nil {
		return nil, false, err
	}
	before := r.id
	seg = r.take(h)
	return seg, r.id != before, nil
}

// there returns the segment as segment does, nil if its memory was taken.
func (r *reader) there() *segment {
	if !r.h.Pin() {
		return nil
	}
	seg := r.h.Value()
	r.h.Keep()
	return seg
}

// take makes h the reader's.
func (r *reader) take(h *segmentHandle) *segment {
	if r.h != nil {
		r.h.Release()
	}
	seg := h.Value()
	r.h, r.id = h, seg.id
	h.Keep()
	return seg
}

func (r *reader) release() { r.h.Release() }

// get opens a range of one of the segment's objects, wherever it is.
func (m *Manager) get(ctx context.Context, at []stem, suffix manifest.Suffix, o backends.GetOptions) (obj *backends.Object, err error) {
	for _, s := range at {
		tried, terr := m.store.Get(ctx, s.key(suffix), o)
		if !errors.Is(terr, backends.NotFound) {
			obj, err = tried, terr
			break
		}
		if err == nil {
			err = terr // names the key where it should be, not the last of the unlikely ones
		}
	}
	if err == nil && obj.Length < o.Range.Length {
		_ = obj.Body.Close() // read only
		return nil, fmt.Errorf("%w: %s has %d bytes of the %d at %d", errShort, suffix, obj.Length, o.Range.Length, o.Range.Offset)
	}
	return obj, err
}

// recheck decides what an error of reading an object means, by asking for the manifest past the cache. fresh: the segment was copied
// again meanwhile, r describes the new copy now, and reading may be tried again. Otherwise the error has its final kind: ErrNotFound if
// the segment is gone, ErrCorrupt if its manifest still says what could not be read.
func (r *reader) recheck(ctx context.Context, cause error) (fresh bool, err error) {
	if !suspicious(cause) {
		return false, cause
	}
	at := r.stems.ofManifest()
	r.m.manifests.drop(at)
	h, err := r.m.manifests.get(ctx, r.md, at)
	if err != nil {
		if errors.Is(err, remotelog.ErrNotFound) {
			return false, fmt.Errorf("%w; it was there before: %v", err, cause) //nolint:errorlint // the cause must not add its kind
		}
		return false, fmt.Errorf("%w; the manifest was asked for because of: %w", err, hideNotFound{cause})
	}
	if seg := h.Value(); seg.id == r.id {
		r.take(h)
		if errors.Is(cause, backends.Precondition) {
			return false, cause
		}
		return false, fmt.Errorf("%w: segment %s at %q: %w", remotelog.ErrCorrupt, r.md.SegmentID, seg.stem, corruptCause{cause})
	}
	r.take(h)
	return true, nil
}

// corruptCause keeps a cause in the chain but hides that it may be NotFound: an object that is missing although the manifest names it
// must never look like an absent segment.
type corruptCause struct{ err error }

func (c corruptCause) Error() string { return c.err.Error() }

func (c corruptCause) As(target any) bool { return errors.As(c.err, target) }

func (c corruptCause) Is(target error) bool {
	return target != error(remotelog.ErrNotFound) && !errors.Is(backends.NotFound, target) && errors.Is(c.err, target)
}
