package rsm

import (
	"context"
	"errors"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
)

// load is one request for a run of neighbouring chunks, on a goroutine of its own. It lives as long as somebody wants it: a Read that
// waits, or a stream that will get there.
type load struct {
	c       *chunkLoads
	seg     *segment
	at      []stem
	version string // of the .log object, where the stream has seen one
	first   int
	cancel  context.CancelFunc

	// guarded by chunkLoads.mu
	users  int
	ended  bool
	chunks []*pending // from first on; nil once delivered

	// of the goroutine
	memory *membudget.Reservation
	rooms  []*membudget.Reservation // of the chunks being decoded
	watch  *time.Timer
}

var _ chunking.Sink = (*load)(nil)

// begin starts a load of chunk n and of its neighbours up to last that are neither there nor on their way; nil after close. Called with
// mu held.
func (c *chunkLoads) begin(ctx context.Context, s *logStream, seg *segment, n, last int) *load {
	return c.start(ctx, s, seg, n, last, nil)
}

// ahead starts a load that no Read waits for yet, if there is memory that nobody else wants. Called with mu held.
func (c *chunkLoads) ahead(ctx context.Context, s *logStream, seg *segment, n, last int) *load {
	res := c.m.budget.TryReserve(membudget.Ahead, loadNeed(c.options(seg, n, last)))
	if res == nil {
		return nil
	}
	l := c.start(ctx, s, seg, n, last, res)
	if l == nil {
		res.Release()
	}
	return l
}

func (c *chunkLoads) start(ctx context.Context, s *logStream, seg *segment, n, last int, res *membudget.Reservation) *load {
	if c.closed || ctx.Err() != nil {
		return nil
	}
	for end := n + 1; end <= last; end++ {
		if !c.wanted(seg.id, end) {
			last = end - 1
		}
	}
	l := &load{c: c, seg: seg, at: s.r.stems.ofData(seg.stem), version: s.pinned(), first: n, memory: res}
	for i := n; i <= last; i++ {
		p := &pending{load: l, done: make(chan struct{})}
		l.chunks = append(l.chunks, p)
		c.pending[chunkKey{seg.id, i}] = p
	}
	l.rooms = make([]*membudget.Reservation, len(l.chunks))
	// The load belongs to all who wait for it, so it does not end with the context of the first.
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.loads[l] = struct{}{}
	s.join(l)
	c.running.Go(func() { l.run(ctx, s.pin) })
	return l
}

// options say how to decode chunks n..last of seg.
func (c *chunkLoads) options(seg *segment, n, last int) chunking.DecodeOptions {
	o := chunking.DecodeOptions{Index: seg.Chunks, First: n, Last: last, Key: seg.key, Workers: c.m.codecs.Pairs()}
	if seg.Compression {
		o.Codecs = c.m.codecs
	}
	if seg.Checksums != nil {
		o.CRC32C = seg.Checksums.Chunk
	}
	return o
}

// loadNeed is what a load reserves: one stored chunk and one decoded.
func loadNeed(o chunking.DecodeOptions) int64 {
	return chunking.DecodeMemory(o) + membudget.Capacity(int(o.Index.Chunk(o.First).Size))
}

// run does the load and tells everybody who waits what became of it.
func (l *load) run(ctx context.Context, pin func(version string)) {
	done, err := l.read(ctx, pin)
	if l.memory != nil {
		l.memory.Release()
	}
	l.cancel()
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.ended = true
	delete(c.loads, l)
	for i := done; i < len(l.chunks); i++ {
		p := l.chunks[i]
		if p == nil {
			continue // told already
		}
		p.err = errAgain // whoever waits for it makes it the first chunk of a load of its own
		if i == done && err != nil {
			p.err = err
		}
		l.settle(i, p)
	}
}

// settle ends the wait for chunk i of the load. Called with mu held.
func (l *load) settle(i int, p *pending) {
	if key := (chunkKey{l.seg.id, l.first + i}); l.c.pending[key] == p {
		delete(l.c.pending, key)
	}
	l.chunks[i] = nil
	close(p.done)
}

// read reserves, opens the range and decodes it. It returns how many chunks were delivered.
func (l *load) read(ctx context.Context, pin func(version string)) (done int, err error) {
	m := l.c.m
	o := l.c.options(l.seg, l.first, l.first+len(l.chunks)-1)
	if l.memory == nil {
		if l.memory, err = m.budget.Reserve(ctx, membudget.Fetch, loadNeed(o)); err != nil {
			return 0, err
		}
	}
	o.Memory = l.memory
	// From here on there is memory: the store has so long for each chunk.
	late := &timeoutError{what: "loading chunks", after: l.c.timeout}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.watch = time.AfterFunc(l.c.timeout, func() { cancel(late) })
	defer l.watch.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == error(late) { //nolint:errorlint // identity
			err = late
		}
	}()
	first, last := l.seg.Chunks.Chunk(o.First), l.seg.Chunks.Chunk(o.Last)
	obj, err := m.get(ctx, l.at, manifest.LogSuffix, backends.GetOptions{
		IfVersion: l.version,
		Range:     backends.Range{Offset: first.StoredStart, Length: last.StoredStart + last.StoredSize - first.StoredStart},
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = obj.Body.Close() }() // read only, and perhaps not to its end
	pin(obj.Info.Version)
	done, err = chunking.Decode(ctx, obj.Body, o, l)
	if done == 0 && err == nil {
		err = errors.New("no memory for the first chunk of a load that has reserved it")
	}
	return done, err
}

// Room implements chunking.Sink: the first chunk has its memory, the others take what can be had at once.
func (l *load) Room(n, size int) []byte {
	charge := membudget.Capacity(size)
	if n > l.first && !l.memory.TryGrow(charge) {
		return nil
	}
	room := l.memory.Split(charge)
	if room == nil {
		return nil
	}
	buf := room.Buffer(size)
	if buf == nil {
		room.Release()
		return nil
	}
	l.rooms[n-l.first] = room
	return buf
}

// Done implements chunking.Sink: the chunk goes to the Read that waits for it, or into the cache.
func (l *load) Done(n int, data []byte, err error) {
	i := n - l.first
	room := l.rooms[i]
	l.rooms[i] = nil
	if err != nil {
		room.Return(data)
		room.Release()
		return // run tells who waits
	}
	l.watch.Reset(l.c.timeout)
	e := cache.Entry[[]byte]{Value: data, Buffer: data, Memory: room}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	p := l.chunks[i]
	if p.takers > 0 {
		p.entry = e
	} else if err := c.cache.Add(chunkKey{l.seg.id, n}, e); err != nil {
		p.err = err // closed
	}
	l.settle(i, p)
}
