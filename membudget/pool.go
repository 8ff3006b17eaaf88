package membudget

// pool keeps returned buffers by capacity and counts memory that is really there. Guarded by Budget.mu.
type pool struct {
	avail  int64 // occupied + idle never exceed it
	strict bool  // false only in a variant of the simulation: idle buffers are not counted
	inUse  int64 // buffers handed out, and Charge
	idle   int64
	free   map[int64]*freeList
	seq    uint64

	garbage int64 // dropped or forgotten since the last collection: still resident, though nobody's

	fresh, reused, dropped, collected uint64
}

// freeList is the idle buffers of one capacity, the one idle for longest first.
type freeList struct {
	bufs []idleBuf
}

type idleBuf struct {
	buf []byte
	seq uint64
}

func (p *pool) init(avail int64, strict bool) {
	p.avail, p.strict, p.free = avail, strict, make(map[int64]*freeList)
}

// get hands out an idle buffer of exactly size bytes, the one used last: its memory is most likely in the processor's caches. Where there is none it
// makes room, counts the buffer and returns nil: the caller makes it.
func (p *pool) get(size int64) []byte {
	l := p.free[size]
	if l == nil || len(l.bufs) == 0 {
		p.fresh++
		p.occupy(size)
		return nil
	}
	p.reused++
	last := len(l.bufs) - 1
	buf := l.bufs[last].buf
	l.bufs[last] = idleBuf{}
	l.bufs = l.bufs[:last]
	p.idle -= size
	p.inUse += size
	return buf
}

// put takes a buffer back.
func (p *pool) put(buf []byte) {
	size := int64(len(buf))
	p.inUse -= size
	p.idle += size
	l := p.free[size]
	if l == nil {
		l = &freeList{}
		p.free[size] = l
	}
	p.seq++
	l.bufs = append(l.bufs, idleBuf{buf: buf, seq: p.seq})
}

// occupy counts n bytes of new memory, after the buffers idle for longest have made room for it. There is always enough to drop, since what is in use is
// within what is reserved.
func (p *pool) occupy(n int64) {
	p.inUse += n
	for p.strict && p.idle > 0 && p.inUse+p.idle > p.avail {
		p.dropOldest()
	}
}

// forget stops counting memory that is no longer charged and was not returned.
func (p *pool) forget(n int64) {
	p.inUse -= n
	p.garbage += n
}

// garbageBytes is the least garbage that is worth a collection, and garbageShare the part of the budget from which on it is. Measured with a budget of
// 64 MiB and 4 MiB buffers of which every 16th is of an odd size: 232 MB resident at most without collections of our own, 142 MB with a soft limit of
// 128 MiB, 87 MB with them, soft limit or not. Buffers hold no pointers, so a collection costs less than touching that much fresh memory.
const (
	garbageBytes = 8 << 20
	garbageShare = 8
)

// takeGarbage says whether to collect now, before fresh memory is taken.
func (p *pool) takeGarbage() bool {
	if p.garbage < max(garbageBytes, p.avail/garbageShare) {
		return false
	}
	p.garbage = 0
	p.collected++
	return true
}

// dropOldest leaves the buffer idle for longest to the garbage collector.
func (p *pool) dropOldest() {
	var oldest *freeList
	var size int64
	for s, l := range p.free {
		if len(l.bufs) > 0 && (oldest == nil || l.bufs[0].seq < oldest.bufs[0].seq) {
			oldest, size = l, s
		}
	}
	n := copy(oldest.bufs, oldest.bufs[1:])
	oldest.bufs[n] = idleBuf{}
	oldest.bufs = oldest.bufs[:n]
	if n == 0 {
		delete(p.free, size) // sizes of odd last chunks must not pile up
	}
	p.idle -= size
	p.dropped++
	p.garbage += size
}
