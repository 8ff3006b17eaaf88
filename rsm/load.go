package rsm

import (
	"context"
	"errors"
	"time"

	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/chunking"
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
	scan    *scan // whose reader it was made for
	guess   bool  // nobody waited for it when it began
	cancel  context.CancelFunc

	// guarded by chunkLoads.mu
	users   int // who want it: Reads that wait, streams, scans
	waiting int // of these, the Reads
	ended   bool
	chunks  []*pending // from first on; nil once delivered

	// of the goroutine
	memory *membudget.Reservation
	rooms  []*membudget.Reservation // of the chunks being decoded
	stored *storedRun
	watch  *time.Timer
}

var _ chunking.Sink = (*load)(nil)

// origin is what a load reads, and for whom.
type origin struct {
	seg     *segment
	at      []stem
	version string               // of the .log object, where the stream has seen one
	pin     func(version string) // nil: nobody wants to know the version
	stream  *logStream           // nil: only a scan is behind it
	scan    *scan
}

// source is who asks for chunks.
type source interface{ origin(seg *segment) origin }

func (l *load) last() int { return l.first + len(l.chunks) - 1 }

// ahead starts a load that no Read waits for yet, if there is memory that nobody else wants. Called with mu held.
func (c *chunkLoads) ahead(ctx context.Context, o origin, n, last int) *load {
	res := c.m.budget.TryReserve(membudget.Ahead, loadNeed(c.options(o.seg, n, last)))
	if res == nil {
		return nil
	}
	l := c.start(ctx, o, n, last, res)
	if l == nil {
		res.Release()
		return nil
	}
	c.stats.Requests++
	return l
}

// start begins a load of chunk n and of its neighbours up to last that are neither there nor on their way; nil after close. Without res
// it reserves its memory itself. Called with mu held.
func (c *chunkLoads) start(ctx context.Context, o origin, n, last int, res *membudget.Reservation) *load {
	if c.closed || ctx.Err() != nil {
		return nil
	}
	for end := n + 1; end <= last; end++ {
		if !c.wanted(o.seg.id, end) {
			last = end - 1
		}
	}
	l := &load{c: c, seg: o.seg, at: o.at, version: o.version, first: n, scan: o.scan, guess: res != nil, memory: res}
	for i := n; i <= last; i++ {
		p := &pending{load: l, done: make(chan struct{})}
		l.chunks = append(l.chunks, p)
		c.pending[chunkKey{o.seg.id, i}] = p
	}
	l.rooms = make([]*membudget.Reservation, len(l.chunks))
	// The load belongs to all who wait for it, so it does not end with the context of the first.
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.loads[l] = struct{}{}
	o.scan.running++
	switch { // what comes with the chunk that is waited for, or before it, is wanted for as long as this reader may come to it
	case len(l.chunks) == 1 && res == nil:
	case o.scan.followed:
		o.scan.loads.add(l)
	case o.stream != nil && !o.stream.left:
		o.stream.loads.add(l)
	}
	c.running.Go(func() { l.run(ctx, o.pin) })
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
	delete(c.loads, l)
	if !l.ended {
		l.end(done, err)
	}
}

// end tells everybody who still waits that what is not there does not come. Called with mu held.
func (l *load) end(done int, err error) {
	l.ended = true
	l.scan.running--
	if done < len(l.chunks) {
		l.fellShort(l.first+done, err)
	}
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

// overdue ends a load for those who wait for it: its context has ended, and most loads with it, but one that reads from a disk that
// hangs goes on, for nobody knows how long. Whoever asks next begins a load of its own.
func (l *load) overdue(err error) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.ended {
		return
	}
	done := 0
	for done < len(l.chunks) && l.chunks[done] == nil {
		done++
	}
	c.abandon(l)
	l.end(done, err)
}

// fellShort tells the scan that chunk n and those behind it do not come. If there was no memory, less is loaded ahead of it; after an
// error of the store its reader earns that anew. Called with mu held.
func (l *load) fellShort(n int, err error) {
	sc := l.scan
	if sc.id != l.seg.id {
		return
	}
	sc.edge = min(sc.edge, n-1)
	switch {
	case err == nil:
		sc.ceiling = max(1, int64(n-1-sc.at)) * sc.chunk
	case !errors.Is(err, context.Canceled):
		sc.read = 0
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
		if l.memory, err = m.reserve(ctx, loadNeed(o)); err != nil {
			return 0, err
		}
	}
	o.Memory = l.memory
	began := l.c.now()
	// From here on there is memory: the store has so long for each chunk.
	late := &timeoutError{what: "loading chunks", after: l.c.timeout}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.watch = time.AfterFunc(l.c.timeout, func() {
		cancel(late)
		l.overdue(late)
	})
	defer l.watch.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == error(late) { //nolint:errorlint // identity
			err = late
		}
	}()
	l.stored, err = newStoredRun(ctx, l, o, pin)
	defer l.stored.Close()
	if err != nil {
		return 0, err
	}
	done, err = chunking.Decode(ctx, l.stored, o, l)
	err = l.stored.failed(o.First+done, err)
	if done == 0 && err == nil {
		err = errors.New("no memory for the first chunk of a load that has reserved it")
	}
	if err == nil {
		l.c.mu.Lock()
		l.scan.loaded(l.c.now().Sub(began))
		l.c.mu.Unlock()
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
	l.stored.decoded(n, err)
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
	if p == nil { // it came after all
		_ = c.cache.Add(chunkKey{l.seg.id, n}, e) // closed
		return
	}
	if p.takers > 0 {
		p.entry = e
	} else if err := c.cache.Add(chunkKey{l.seg.id, n}, e); err != nil {
		p.err = err // closed
	} else {
		c.markUnread(l, n)
	}
	l.settle(i, p)
}
