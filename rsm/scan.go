package rsm

import (
	"context"
	"slices"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

const (
	// maxScans is how many scans are remembered that no stream is open of. Random reads leave one each.
	maxScans = 256
	// scanIdle is how long what was asked for ahead of a scan is waited for when nobody reads any more, and how long a pause may be
	// that counts as slow reading.
	scanIdle = 2 * time.Second
	// scanOverlap is how far before the end of a fetch the next one may begin. A broker's begins with the batch that the last one's reading
	// ended in, or with the one before it; and the end of that reading is up to one window of the plug-in's, of 4 MiB, before what was
	// sent.
	scanOverlap = 8 << 20
	// scanMemory is how many bytes of a scan count for its speed; older ones count half, and so on.
	scanMemory = 64 << 20
)

// scan is somebody who reads a partition in order, over many fetches: see the section Read-ahead of the package. All fields are
// guarded by chunkLoads.mu.
type scan struct {
	tp        remotelog.TopicIDPartition
	segment   remotelog.UUID
	endOffset int64 // of the segment
	size      int64 // of the segment

	start, next int64 // where its last fetch began, in however many requests, and what follows the last byte that it was given
	asked       int64 // what follows the last byte that it asked for
	streams     int   // open
	followed    bool  // a fetch went on where another had ended
	inOrder     bool  // that, or a stream came from one chunk into the next

	id    identity // of the stored form that at and edge are about
	chunk int64    // its chunk size
	last  int      // its last chunk
	// request is how many chunks of it one request is made for at most.
	request int
	at      int   // the furthest chunk that a stream stood in; -1: none
	edge    int   // chunks up to here are there or on their way
	read    int64 // plain bytes of the chunks that were come to in order

	pace    pace
	ceiling int64         // bytes: more drove chunks out before they were read; 0: none did
	took    time.Duration // of its loads, from the request to the last chunk
	loads   interest      // that go on when a stream is closed, because the next will come
	running int           // loads
	unread  int           // chunks that were loaded ahead and not yet come to
	asleep  bool          // nobody has read for scanIdle
	timer   *time.Timer   // until then; nil: never needed
	lingers chunkKey      // with the cache switched off: the chunk that its last stream stood in
	stays   bool          // lingers is one
	after   successor     // what its reader will come to
	before  *scan         // of a successor whose reader has not come yet: where that is; else nil
}

// pace is how fast a reader reads when it has what it reads.
type pace struct {
	pos    int64
	seen   time.Time
	bytes  int64
	busy   time.Duration
	waited time.Duration // since seen, for chunks
}

// interest is the loads that somebody wants beyond the chunk that is waited for.
type interest struct{ loads []*load }

// add makes the holder one of those that want l.
func (i *interest) add(l *load) {
	running := i.loads[:0]
	for _, old := range i.loads {
		if !old.ended {
			running = append(running, old)
		}
	}
	clear(i.loads[len(running):])
	i.loads = append(running, l)
	l.users++
}

// end gives all of them up.
func (i *interest) end(c *chunkLoads) {
	for _, l := range i.loads {
		c.leave(l)
	}
	i.loads = nil
}

func newScan(md *remotelog.SegmentMetadata, start int64) *scan {
	return &scan{
		tp: md.TopicIDPartition, segment: md.ID, endOffset: md.EndOffset, size: md.SizeBytes, start: start, next: start, at: -1, edge: -1,
	}
}

// heir returns the scan that goes on in the next segment: what is known of the reader holds there too.
func (sc *scan) heir(md *remotelog.SegmentMetadata) *scan {
	h := newScan(md, 0)
	sc.bequeath(h)
	return h
}

// bequeath makes the reader of sc that of h.
func (sc *scan) bequeath(h *scan) {
	h.followed, h.inOrder, h.read, h.pace, h.took = sc.followed, sc.inOrder, sc.read, sc.pace, max(sc.took, h.took)
	if h.ceiling == 0 {
		h.ceiling = sc.ceiling
	}
	h.pace.pos = 0
	sc.pace.seen = time.Time{}
}

// follow returns the scan that a fetch of the bytes from start up to end, exclusive, is part of, with one more stream. A broker's fetch begins a little
// before the end of the last, or, if that took too long, where the last began.
func (c *chunkLoads) follow(md *remotelog.SegmentMetadata, start, end int64) *scan {
	c.mu.Lock()
	defer c.mu.Unlock()
	sc := c.scanAt(md, start)
	switch before := c.scanBefore(md); {
	case sc != nil:
		if start > sc.start {
			sc.followed, sc.inOrder = true, true
		}
		c.come(sc)
	case start == 0 && before != nil:
		sc = before.heir(md)
		sc.followed, sc.inOrder = true, true
	default:
		sc = newScan(md, start)
	}
	c.remember(sc)
	if start != sc.asked { // else it is a part of the last one, whose client asked for it piece by piece
		sc.start = start
	}
	sc.asked = end
	sc.streams++
	sc.asleep = false
	return sc
}

// expect is called for a segment whose offset index is asked for. A broker does that when a reader has come to the end of the segment
// before, three requests ahead of the first fetch: the chunks that this will be for can be on their way by then.
func (c *chunkLoads) expect(ctx context.Context, r *reader) {
	seg, _, err := r.segment(ctx)
	if err != nil {
		return // as who asked will find out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.scanBefore(r.md)
	if before == nil || !before.followed {
		return
	}
	if sc := c.scanAt(r.md, 0); sc != nil {
		if sc.before != nil { // known already
			c.spillFrom(ctx, sc)
		}
		return
	}
	sc := before.heir(r.md)
	c.adopt(sc, seg)
	c.remember(sc)
	c.advance(ctx, &expected{r, sc}, seg, sc, -1, seg.Chunks.Chunks()-1, 0)
	c.watch(sc)
}

// expected is the source of what is loaded before there is a stream.
type expected struct {
	r  *reader
	sc *scan
}

func (e *expected) origin(seg *segment) origin {
	return origin{seg: seg, at: e.r.stems.ofData(seg.stem), scan: e.sc}
}

// adopt makes sc a scan of that stored form of its segment.
func (c *chunkLoads) adopt(sc *scan, seg *segment) {
	sc.id, sc.chunk, sc.last, sc.request = seg.id, seg.Chunks.ChunkSize(), seg.Chunks.Chunks()-1, c.request(seg)
	sc.at, sc.edge = -1, -1
}

// scanAt finds the scan that goes on at start; of several the one used last. Should they be of several readers, these are so near to one another that they want the
// same. One that ended nearer would, were two of one reader, take turns with the other, each as if its reader were half as fast.
func (c *chunkLoads) scanAt(md *remotelog.SegmentMetadata, start int64) *scan {
	for _, sc := range slices.Backward(c.scans) {
		if sc.segment == md.ID && (start == sc.start || start >= max(sc.start, sc.next-scanOverlap) && start <= sc.next) {
			return sc
		}
	}
	return nil
}

// scanBefore finds a scan that has come to the end of the segment before md's, whose last offset is the one before its first.
func (c *chunkLoads) scanBefore(md *remotelog.SegmentMetadata) (best *scan) {
	for _, sc := range c.scans {
		if sc.endOffset+1 == md.StartOffset && sc.next == sc.size && sc.tp == md.TopicIDPartition {
			best = sc // the one used last
		}
	}
	return best
}

// remember puts sc at the end of the scans, and forgets the one that was not used for longest if there are too many: first those that
// have not shown any order.
func (c *chunkLoads) remember(sc *scan) {
	c.forgetScan(sc)
	c.scans = append(c.scans, sc)
	if len(c.scans) <= maxScans {
		return
	}
	var victim *scan
	for _, old := range c.scans[:maxScans] {
		if old.streams == 0 && (victim == nil || victim.inOrder && !old.inOrder) {
			victim = old
		}
	}
	if victim == nil {
		return // all are in use
	}
	c.rest(victim)
	c.letGo(victim)
	if victim.before != nil {
		c.letGo(victim.before)
	}
	c.forgetScan(victim)
}

func (c *chunkLoads) forgetScan(sc *scan) {
	for i, old := range c.scans {
		if old == sc {
			copy(c.scans[i:], c.scans[i+1:])
			c.scans[len(c.scans)-1] = nil
			c.scans = c.scans[:len(c.scans)-1]
			return
		}
	}
}

// unfollow takes a stream off its scan. Without any, what is on its way for the scan is waited for no longer than scanIdle.
func (c *chunkLoads) unfollow(sc *scan) {
	if sc.streams--; sc.streams == 0 {
		c.watch(sc)
	}
}

// watch sees that sc comes to rest if nobody reads on.
func (c *chunkLoads) watch(sc *scan) {
	switch {
	case c.closed, len(sc.loads.loads) == 0 && !sc.stays && sc.unread == 0 && !sc.after.busy():
	case sc.timer == nil:
		sc.timer = time.AfterFunc(scanIdle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if sc.streams == 0 {
				c.rest(sc)
			}
		})
	default:
		sc.timer.Reset(scanIdle)
	}
}

// rest stops what was asked for ahead of sc.
func (c *chunkLoads) rest(sc *scan) {
	sc.asleep = true
	if sc.timer != nil {
		sc.timer.Stop()
	}
	sc.loads.end(c)
	c.restAfter(sc)
	if sc.stays {
		sc.stays = false
		c.standOff(sc.lingers)
	}
}

// arrive notes that a stream of sc came to chunk n of seg, at pos.
func (c *chunkLoads) arrive(sc *scan, seg *segment, n int, pos int64) {
	if sc.id != seg.id {
		if sc.id != (identity{}) { // copied anew
			sc.read = 0
		}
		c.adopt(sc, seg)
	}
	sc.next = max(sc.next, pos)
	sc.pace.step(pos, c.now())
	key := chunkKey{seg.id, n}
	lost := false // it was loaded ahead, and driven out again
	if owner := c.unread[key]; owner != nil {
		lost = !c.cache.Has(key)
		c.settleUnread(key, owner, seg.Chunks.Chunk(n).Size, lost)
	}
	if n <= sc.at {
		return
	}
	if sc.at >= 0 {
		c.cache.Spent(chunkKey{seg.id, sc.at})
	}
	sc.read += sc.chunk
	sc.at = n
	if lost {
		sc.ceiling = max(1, int64(sc.edge-n)*sc.chunk/2)
		sc.edge = n
	} else if sc.ceiling > 0 {
		sc.ceiling += sc.chunk / 2
	}
}

// step notes that the reader has come to pos.
func (p *pace) step(pos int64, now time.Time) {
	if !p.seen.IsZero() {
		p.busy += min(max(0, now.Sub(p.seen)-p.waited), scanIdle)
		p.bytes += max(0, pos-p.pos)
	}
	p.pos, p.seen, p.waited = max(p.pos, pos), now, 0
	if p.bytes > scanMemory {
		p.bytes /= 2
		p.busy /= 2
	}
}

// during returns how many bytes the reader reads in d, at most most.
func (p *pace) during(d time.Duration, most int64) int64 {
	n := float64(p.bytes) * d.Seconds()
	if n >= float64(most)*p.busy.Seconds() {
		return most
	}
	return int64(n / p.busy.Seconds())
}

// loaded notes how long a load took: at once if longer than before, else bit by bit, since a chunk that comes too late costs the reader
// more than one that comes early.
func (sc *scan) loaded(took time.Duration) {
	if took < sc.took {
		took = (3*sc.took + took) / 4
	}
	sc.took = took
}
