package rsm

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// windowBytes is how much of a segment a stream that is read in order has loaded or on its way, beside the chunk that is being read.
// It must keep all processors busy while the reader copies, and is wasted if the reader leaves.
const windowBytes = 32 << 20

// maxWindowChunks bounds the window of segments with very small chunks: each chunk on its way costs some memory beside the budget.
const maxWindowChunks = 1024

// Fetch implements remotelog.StorageManager. The stream ends when ctx does.
func (m *Manager) Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (_ io.ReadCloser, err error) {
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
	s := &logStream{r: r, caller: ctx, pos: start, end: min(end, size-1), at: -1, edge: -1}
	s.ctx, s.cancel = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, s.leave)
	s.window = 1
	if ahead := m.config.PrefetchBytes; ahead > 0 {
		s.window += int(min(ahead/x.ChunkSize(), 1<<20))
	}
	if end < size-1 { // a reader that says where it ends wants all of it
		s.window = int(min(s.end/x.ChunkSize()-start/x.ChunkSize()+1, 1<<20))
	}
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

// logStream reads a .log out of the chunk cache. Nothing is loaded before the first Read. A chunk is pinned for one Read at a time, and nothing
// is while it waits.
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
	edge   int          // chunks up to here were there or on their way when the stream last looked
	window int          // chunks that are loaded or on their way, the one being read included
	begun  bool         // bytes were delivered: the stream stays with the copy of the segment that they came from

	versionMu sync.Mutex
	version   string // of the .log object, from the first request

	loads []*load // that this stream began; guarded by chunkLoads.mu
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
	h, err := s.chunk()
	if err != nil {
		return 0, s.failed(s.r.m.ended(s.caller, err))
	}
	defer h.Release()
	got := copy(p[:min(int64(len(p)), s.end-s.pos+1)], h.Value()[s.pos-s.first:])
	s.pos += int64(got)
	s.begun = true
	return got, nil
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
		last, _ := x.Find(s.end)
		last = max(n, min(last, x.Chunks()-1))
		if n != s.at {
			s.move(seg, n, last)
		}
		h, err := s.r.m.chunks.get(s.ctx, s, seg, n, min(last, n+s.window-1))
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
	s.edge = -1
	s.at = -1
	s.h = nil
	s.versionMu.Lock()
	s.version = ""
	s.versionMu.Unlock()
}

// move is called when the stream comes into chunk n: it widens the window while reading goes on in order, and sees that what is in it is
// on its way.
func (s *logStream) move(seg *segment, n, end int) {
	c := s.r.m.chunks
	id := seg.id
	inOrder := s.at >= 0 && n == s.at+1
	c.stand(chunkKey{id, n})
	s.quit()
	s.at, s.stands = n, chunkKey{id, n}
	most := c.maxWindow(seg)
	if inOrder {
		s.window *= 2
	}
	s.window = max(1, min(s.window, most))
	if s.window == 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted(id, n) {
		if n <= s.edge { // it was brought and driven out before it was read: the window is too wide for the memory there is
			s.window, s.edge = max(1, s.window/4), n
		}
		return // the load that the Read begins takes the window with it
	}
	first := max(n, s.edge) + 1
	last := min(end, n+s.window-1)
	for first <= last && !c.wanted(id, first) {
		s.edge = first
		first++
	}
	// Requests for single chunks would be many: one is made when half of the window is missing, or all that there is.
	if missing := last - first + 1; missing > 0 && (2*missing >= s.window || last == end) {
		c.ahead(s.ctx, s, seg, first, last)
	}
}

// maxWindow is the largest window of a stream over seg. It must fit into the cache together with what other streams read, or loads would
// drive out what was loaded ahead.
func (c *chunkLoads) maxWindow(seg *segment) int {
	if c.off {
		return 1
	}
	size := seg.Chunks.ChunkSize()
	room := min(c.most, c.m.budget.Ceiling(membudget.Fetch)-loadNeed(c.options(seg, 0, 0))) / 2
	want := max(windowBytes, c.m.config.PrefetchBytes, 2*int64(runtime.GOMAXPROCS(0))*size)
	return int(max(1, min(min(room, want)/size, maxWindowChunks)))
}

// quit says that the stream has left the chunk it was in.
func (s *logStream) quit() {
	if s.at >= 0 {
		s.r.m.chunks.quit(s.stands)
	}
}

// join makes the stream one of those that want l. Called with chunkLoads.mu held.
func (s *logStream) join(l *load) {
	if s.ctx.Err() != nil {
		return // leave has been called, or will be
	}
	running := s.loads[:0]
	for _, old := range s.loads {
		if !old.ended {
			running = append(running, old)
		}
	}
	clear(s.loads[len(running):])
	s.loads = append(running, l)
	l.users++
	s.edge = max(s.edge, l.first+len(l.chunks)-1)
}

// leave ends the stream's interest in the loads that it began: when its context ends, which Close brings about too.
func (s *logStream) leave() {
	c := s.r.m.chunks
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range s.loads {
		c.leave(l)
	}
	s.loads = nil
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
	s.shut(func() {
		s.leave()
		s.quit()
		s.r.release()
	})
	return nil
}
