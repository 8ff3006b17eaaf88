package rsm

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/remotelog"
)

// Fetch implements remotelog.StorageManager. The stream ends when ctx does.
func (m *Manager) Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error) {
	began := m.now()
	s, err := m.fetch(ctx, md, start, end)
	if err != nil {
		m.fetched(ctx, began, FetchEnd{Err: err})
		return nil, err
	}
	s.began, s.start, s.waited = began, start, m.now().Sub(began)
	return s, nil
}

func (m *Manager) fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (_ *logStream, err error) {
	if start < 0 || end < start {
		return nil, fmt.Errorf("%w: fetch from %d to %d: positions must not be negative, nor the end before the start", remotelog.ErrInvalidArgument, start, end)
	}
	inner, done, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() { err = m.ended(ctx, err) }()
	r, err := m.open(inner, &md)
	if err != nil {
		return nil, err
	}
	x, err := r.checkSize(inner)
	if err != nil {
		r.release()
		return nil, err
	}
	size := x.FileSize()
	if start > size {
		r.release()
		return nil, fmt.Errorf("%w: fetch from %d of segment %s, which has %d bytes", remotelog.ErrInvalidArgument, start, md.SegmentID, size)
	}
	s := &logStream{r: r, caller: ctx, pos: start, end: min(end, size-1), bounded: end < size-1, at: -1}
	if !s.bounded {
		s.prefetch = m.config.PrefetchBytes
	}
	s.scan = m.chunks.follow(&md, start, s.end+1)
	s.ctx, s.cancel = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, s.leave)
	return s, nil
}

// checkSize returns the chunks of the segment. It refuses a manifest that describes another size than the broker knows: what is missing at
// its end, or too much, would pass for the segment. Aiven's plug-in does not look.
func (r *reader) checkSize(ctx context.Context) (*chunking.Index, error) {
	for {
		seg, _, err := r.segment(ctx)
		if err != nil {
			return nil, err
		}
		size := seg.Chunks.FileSize()
		if size == r.md.SizeBytes {
			return seg.Chunks, nil
		}
		cause := fmt.Errorf("%w: its manifest describes %d bytes, its metadata say %d", chunking.ErrBadIndex, size, r.md.SizeBytes)
		if fresh, err := r.recheck(ctx, cause); !fresh {
			return nil, err
		}
	}
}

// logStream reads a .log out of the chunk cache. Nothing is loaded before the first Read. A chunk is pinned for one Read at a time, and one that
// was waited for a moment longer (see lease); nothing is while it waits.
type logStream struct {
	gate
	r      *reader
	caller context.Context //nolint:containedctx // an io.Reader has no other way to get it
	ctx    context.Context //nolint:containedctx // the same, ended by Close
	cancel context.CancelFunc
	pos    int64        // of the next byte
	end    int64        // of the last byte, inclusive
	at     int          // chunk that the last Read was in; -1: none yet
	first  int64        // position of its first byte
	past   int64        // position behind its last byte
	stands chunkKey     // the same chunk
	h      *chunkHandle // of it, not pinned between Reads; nil: none yet
	hit    chunkHandle  // what h points to if the chunk was there: a hit allocates nothing
	begun  bool         // bytes were delivered: the stream stays with the copy of the segment that they came from

	bounded  bool  // the caller said where it ends, before the end of the segment
	prefetch int64 // what is loaded ahead of it whatever is known of its reader
	scan     *scan // that it is part of

	reads atomic.Uint64 // that delivered something
	lease *lease        // on the chunk that it is in; guarded by chunkLoads.mu

	began  time.Time     // when Fetch was called
	start  int64         // the first position
	waited time.Duration // for the first byte: in Fetch, and then in Read

	versionMu sync.Mutex
	version   string // of the .log object, from the first request

	loads interest // that end with this stream; guarded by chunkLoads.mu
	left  bool     // leave was called; guarded by chunkLoads.mu
}

// Read implements io.Reader: at most up to the end of the chunk that pos is in.
func (s *logStream) Read(p []byte) (int, error) {
	if err := s.lock(); err != nil {
		return 0, err
	}
	defer s.unlock()
	if s.pos > s.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	h, err := s.timed()
	if err != nil {
		return 0, s.failed(s.r.m.ended(s.caller, err))
	}
	defer h.Release()
	got := copy(p[:min(int64(len(p)), s.end-s.pos+1)], h.Value()[s.pos-s.first:])
	s.pos += int64(got)
	s.begun = true
	s.reads.Add(1)
	return got, nil
}

// timed is chunk, and measures how long the first byte took.
func (s *logStream) timed() (*chunkHandle, error) {
	if s.begun || s.r.m.hooks.Fetched == nil {
		return s.chunk()
	}
	now := s.r.m.now
	began := now()
	h, err := s.chunk()
	s.waited += now().Sub(began)
	return h, err
}

// chunk returns the chunk that pos is in, pinned.
func (s *logStream) chunk() (*chunkHandle, error) {
	if s.h != nil && s.pos < s.past && s.h.Pin() {
		return s.h, nil // the usual case, and the cheap one: a hit is counted once for each chunk that a stream comes to
	}
	for tried := false; ; tried = true {
		seg, err := s.segment()
		if err != nil {
			return nil, err
		}
		x := seg.Chunks
		s.end = min(s.end, x.FileSize()-1)
		n, ok := x.Find(s.pos)
		if !ok { // the segment was copied again, and is shorter
			return nil, fmt.Errorf("%w: position %d of segment %s, which has %d bytes now", remotelog.ErrCorrupt, s.pos, s.r.md.SegmentID, x.FileSize())
		}
		if n != s.at {
			s.move(seg, n)
		}
		h, err := s.r.m.chunks.get(s.ctx, s, seg, n)
		if s.h = h; err == nil {
			s.first = x.Start(n)
			s.past = s.first + x.Chunk(n).Size
			return h, nil
		}
		if tried || s.begun {
			return nil, s.final(err)
		}
		fresh, err := s.r.recheck(s.ctx, err)
		if !fresh {
			return nil, err
		}
		s.forget()
	}
}

// segment returns the segment that the stream reads.
func (s *logStream) segment() (*segment, error) {
	seg, fresh, err := s.r.segment(s.ctx)
	switch {
	case err != nil || !fresh:
		return seg, err
	case s.begun:
		return nil, s.replaced()
	}
	s.forget()
	return seg, nil
}

func (s *logStream) replaced() error {
	return fmt.Errorf("segment %s was replaced while it was read; fetch it again", s.r.md.SegmentID)
}

// final gives an error its kind when the stream cannot go over to another copy of the segment.
func (s *logStream) final(err error) error {
	fresh, err := s.r.recheck(s.ctx, err)
	if fresh {
		return s.replaced()
	}
	return err
}

// forget drops what belongs to the copy of the segment that was read so far.
func (s *logStream) forget() {
	s.quit()
	s.at = -1
	s.h = nil
	s.versionMu.Lock()
	s.version = ""
	s.versionMu.Unlock()
}

// move is called when the stream comes into chunk n: it sees that what its reader will want next is on its way.
func (s *logStream) move(seg *segment, n int) {
	c, key := s.r.m.chunks, chunkKey{seg.id, n}
	c.stand(key)
	s.quit()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.at >= 0 && n == s.at+1 {
		s.scan.inOrder = true
		c.cache.Spent(s.stands)
	}
	c.endLease(s.lease)
	s.at, s.stands = n, key
	c.arrive(s.scan, seg, n, s.pos)
	if !c.wanted(seg.id, n) { // else the load that the Read begins comes first
		c.advance(s.ctx, s, seg, s.scan, n, s.lastFor(seg), s.prefetch)
	}
}

// quit says that the stream has left the chunk it was in.
func (s *logStream) quit() {
	if s.at >= 0 {
		s.r.m.chunks.quit(s.stands)
	}
}

// rest says how far the stream came. With the cache switched off its last chunk stays a little: a broker closes after each piece of one.
func (s *logStream) rest() {
	c := s.r.m.chunks
	c.mu.Lock()
	defer c.mu.Unlock()
	s.scan.next = max(s.scan.next, s.pos)
	if s.at < 0 || !c.off {
		return
	}
	c.linger(s.scan, s.stands)
	if s.left && s.scan.streams == 0 { // the context ended before Close came
		c.watch(s.scan)
	}
}

// origin says what the loads that s begins read.
func (s *logStream) origin(seg *segment) origin {
	return origin{seg: seg, at: s.r.stems.ofData(seg.stem), version: s.pinned(), pin: s.pin, stream: s, scan: s.scan}
}

// leave ends the stream's interest in the loads that it began: when its context ends, which Close brings about too.
func (s *logStream) leave() {
	c := s.r.m.chunks
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	c.endLease(s.lease)
	s.loads.end(c)
	c.unfollow(s.scan)
}

// pinned is the version of the .log object that the stream stays with, "" before its first request.
func (s *logStream) pinned() string {
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	return s.version
}

func (s *logStream) pin(version string) {
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	if s.version == "" {
		s.version = version
	}
}

// Close implements io.Closer. It is idempotent and may come while a Read waits. Loads that only this stream wants are stopped.
func (s *logStream) Close() error {
	s.cancel()
	var f *FetchEnd
	s.shut(func() {
		s.rest()
		s.leave()
		s.r.release()
		f = &FetchEnd{Bytes: s.pos - s.start, Err: s.err}
		if s.begun {
			f.FirstByte = s.waited
		}
	})
	if f != nil {
		s.r.m.fetched(s.caller, s.began, *f)
	}
	return nil
}
