package rlmm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/tierkit/tierkit/remotelog"
)

// snapContent is a snapshot file as it was read.
type snapContent struct {
	logID      LogID
	partitions int32
	createdMs  int64
	parts      map[int32]*restored
}

// restored is one metadata partition of a snapshot.
type restored struct {
	complete    bool
	begin, end  Position
	lastEventMs int64
	users       map[remotelog.TopicIDPartition]*restoredUser
}

type restoredUser struct {
	cache *cache
	from  int64
	named bool
}

// The smallest sizes of what is counted, so that a number is believed only as far as bytes are left to fill it.
const (
	leastSnapPart     = 4 + 1 + 12 + 12 + 8 + 4
	leastSnapUser     = 16 + 2 + 4 + 1 + 8 + 1 + 4 + 4
	leastSnapEpoch    = 4 + 1 + 8
	leastSnapSegment  = 16 + 4*8 + 2*4 + 2 + 4 + leastSnapSegEpoch
	leastSnapSegEpoch = 4 + 8 + 1
)

// errSnapDamaged: the bytes are not a whole snapshot.
var errSnapDamaged = errors.New("it is damaged")

// snapDecoder reads a snapshot. The first error stays; after it everything read is zero.
type snapDecoder struct {
	r    *bufio.Reader
	left int64 // bytes before the CRC
	err  error
	none [64]byte
}

// readSnapshot reads a snapshot of size bytes: first all of it for the CRC, so that nothing is built of damaged bytes, then the
// metadata partitions that want accepts. What it allocates is bounded by size.
func readSnapshot(r io.ReadSeeker, size int64, want func(p int32) bool) (*snapContent, error) {
	if err := checkSnapshot(r, size); err != nil {
		return nil, err
	}
	d := &snapDecoder{r: bufio.NewReaderSize(r, int(min(max(size, 1<<10), encodeChunk))), left: size - snapCRCBytes}
	d.take(len(snapMagic) + 4)
	c := &snapContent{partitions: int32(d.u32()), parts: map[int32]*restored{}}
	n := d.count(leastSnapPart)
	c.createdMs = d.i64()
	c.logID = LogID(d.text())
	if d.err == nil && (c.partitions < 1 || n > int(c.partitions)) {
		d.fail("%d of %d metadata partitions", n, c.partitions)
	}
	before := int32(-1)
	for range n {
		index := int32(d.u32())
		if index <= before || index >= c.partitions {
			d.fail("metadata partition %d behind %d, of %d", index, before, c.partitions)
		}
		before = index
		p := d.part(c.partitions, index, want(index))
		if d.err != nil {
			return nil, d.err
		}
		if p != nil {
			c.parts[index] = p
		}
	}
	if d.err == nil && d.left != 0 {
		d.fail("%d bytes too many", d.left)
	}
	return c, d.err
}

// checkSnapshot verifies magic, version and CRC, and leaves r at its start.
func checkSnapshot(r io.ReadSeeker, size int64) error {
	if size < int64(len(snapMagic))+4+snapCRCBytes {
		return fmt.Errorf("%w: %d bytes are too few", errSnapDamaged, size)
	}
	buf := make([]byte, min(size, encodeChunk))
	var crc uint32
	var head []byte
	for left := size - snapCRCBytes; left > 0; {
		n, err := r.Read(buf[:min(left, int64(len(buf)))])
		crc = crc32.Update(crc, castagnoli, buf[:n])
		if want := len(snapMagic) + 4; len(head) < want {
			head = append(head, buf[:min(n, want-len(head))]...)
		}
		if left -= int64(n); err != nil && left > 0 {
			return fmt.Errorf("read: %w", err)
		}
	}
	if _, err := io.ReadFull(r, buf[:snapCRCBytes]); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if string(head[:len(snapMagic)]) != snapMagic {
		return fmt.Errorf("%w: it does not begin like a snapshot", errSnapDamaged)
	}
	if v := binary.BigEndian.Uint32(head[len(snapMagic):]); v != snapVersion {
		return fmt.Errorf("its format has version %d, this program reads %d", v, snapVersion)
	}
	if stored := binary.BigEndian.Uint32(buf); stored != crc {
		return fmt.Errorf("%w: checksum %08x, stored %08x", errSnapDamaged, crc, stored)
	}
	_, err := r.Seek(0, io.SeekStart)
	return err
}

func (d *snapDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s, %d bytes before its end", errSnapDamaged, fmt.Sprintf(format, args...), d.left)
	}
	d.left = 0
}

// take returns the next n <= 64 bytes or fewer than the buffer has; they are valid until the next call.
func (d *snapDecoder) take(n int) []byte {
	if d.err == nil && int64(n) > d.left {
		d.fail("%d bytes are wanted, %d are left", n, d.left)
	}
	if d.err != nil {
		return d.none[:min(n, len(d.none))]
	}
	b, err := d.r.Peek(n)
	if err != nil {
		d.err = fmt.Errorf("read: %w", err)
		return d.none[:min(n, len(d.none))]
	}
	_, _ = d.r.Discard(n) // what was peeked can be discarded
	d.left -= int64(n)
	return b
}

func (d *snapDecoder) u8() uint8   { return d.take(1)[0] }
func (d *snapDecoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *snapDecoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }
func (d *snapDecoder) i64() int64  { return int64(d.u64()) }

func (d *snapDecoder) uuid() (u remotelog.UUID) {
	copy(u[:], d.take(16))
	return u
}

// count reads a number of things of at least so many bytes each.
func (d *snapDecoder) count(least int64) int {
	n := d.u32()
	if int64(n)*least > d.left {
		d.fail("%d entries of %d bytes", n, least)
		return 0
	}
	return int(n)
}

func (d *snapDecoder) text() string {
	n := int(binary.BigEndian.Uint16(d.take(2)))
	b := d.take(n)
	if d.err != nil {
		return ""
	}
	return string(b)
}

// flags reads flags of which only known ones may be set.
func (d *snapDecoder) flags(known uint8) uint8 {
	f := d.u8()
	if f&^known != 0 {
		d.fail("flags %02x", f)
	}
	return f
}

func (d *snapDecoder) position() Position {
	return Position{Offset: d.i64(), Epoch: int32(d.u32())}
}

// part reads a metadata partition; without build it only passes over it, and returns nil.
func (d *snapDecoder) part(partitions, index int32, build bool) *restored {
	p := &restored{users: map[remotelog.TopicIDPartition]*restoredUser{}}
	p.complete = d.flags(snapComplete) != 0
	p.begin, p.end = d.position(), d.position()
	p.lastEventMs = d.i64()
	if p.begin.Offset < 0 || p.end.Offset < p.begin.Offset {
		d.fail("positions %d and %d", p.begin.Offset, p.end.Offset)
	}
	var before remotelog.TopicIDPartition
	n := d.count(leastSnapUser)
	for i := 0; i < n && d.err == nil; i++ {
		tp := remotelog.TopicIDPartition{TopicID: d.uuid(), Topic: d.text(), Partition: int32(d.u32())}
		if d.err == nil && (MetadataPartition(tp, partitions) != index || i > 0 && before.Compare(tp) >= 0) {
			d.fail("partition %v in metadata partition %d", tp, index)
		}
		before = tp
		u := d.user(tp, build)
		if d.err == nil && (u.from < p.begin.Offset || u.from > p.end.Offset) {
			d.fail("partition %v is from %d", tp, u.from)
		}
		if build {
			p.users[tp] = u
		}
	}
	if d.err != nil || !build {
		return nil
	}
	return p
}

func (d *snapDecoder) user(tp remotelog.TopicIDPartition, build bool) *restoredUser {
	u := &restoredUser{named: d.flags(snapNamed) != 0, from: d.i64()}
	c := newCache(tp)
	u.cache = c
	if mark := d.u8(); mark != snapNoMark {
		c.deletes = deleteMark{set: true, state: remotelog.DeleteState(mark)}
		if !c.deletes.state.Valid() {
			d.fail("partition delete state %d", mark)
		}
	}
	before := int64(-1) << 32
	n := d.count(leastSnapEpoch)
	for i := 0; i < n && d.err == nil; i++ {
		epoch := int32(d.u32())
		st := newEpochState(epoch)
		st.hasHighest, st.highest = d.flags(snapHasHighest) != 0, d.i64()
		if int64(epoch) <= before {
			d.fail("epoch %d behind %d", epoch, before)
		}
		before = int64(epoch)
		c.epochs[epoch] = st
	}
	n = d.count(leastSnapSegment)
	if n > 0 && c.deletes.finished() {
		d.fail("a deleted partition has %d segments", n)
	}
	b := builder{c: c, epochs: map[int32]*epochItems{}}
	if build {
		c.byID, b.all = make(map[remotelog.UUID]*segment, n), make([]item, 0, n)
	}
	var last *segment
	for i := 0; i < n && d.err == nil; i++ {
		s, referenced := d.segment(c)
		if d.err == nil && last != nil && (s.start < last.start || s.start == last.start && byEnd(last, s) >= 0) {
			d.fail("segment %v is out of order", s.id)
		}
		if last = s; d.err == nil && build && !b.put(s, referenced) {
			d.fail("segment %v is there twice", s.id)
		}
	}
	if d.err == nil && !b.finish() {
		d.fail("an epoch of %v refers to two segments at one offset", tp)
	}
	return u
}

// segment reads one segment and which of its epochs refer to it.
func (d *snapDecoder) segment(c *cache) (s *segment, referenced []bool) {
	v := segment{id: d.uuid(), start: d.i64(), end: d.i64(), maxTs: d.i64(), eventTs: d.i64()}
	v.size, v.broker = int32(d.u32()), int32(d.u32())
	v.state = remotelog.State(d.u8())
	flags := d.flags(snapTxnEmpty | snapCustom)
	v.txnEmpty = flags&snapTxnEmpty != 0
	n := d.count(leastSnapSegEpoch)
	if d.err == nil && (v.start < 0 || v.end < v.start || !v.state.Valid() || v.state == remotelog.DeleteSegmentFinished || n == 0) {
		d.fail("segment %v [%d-%d] in state %v with %d epochs", v.id, v.start, v.end, v.state, n)
		n = 0
	}
	v.epochs = make([]remotelog.LeaderEpoch, n)
	for i := range v.epochs {
		e := remotelog.LeaderEpoch{Epoch: int32(d.u32()), StartOffset: d.i64()}
		ref := d.flags(snapReferenced) != 0
		if d.err == nil && (c.epochs[e.Epoch] == nil || i > 0 && e.Epoch <= v.epochs[i-1].Epoch || ref && v.state != remotelog.CopySegmentFinished) {
			d.fail("epoch %d of segment %v", e.Epoch, v.id)
		}
		if ref && referenced == nil {
			referenced = make([]bool, n)
		}
		if ref {
			referenced[i] = true
		}
		v.epochs[i] = e
	}
	if flags&snapCustom != 0 {
		v.custom = d.custom()
	}
	return v.keep(), referenced
}

func (d *snapDecoder) custom() remotelog.CustomMetadata {
	n := d.count(1)
	if d.err != nil {
		return nil
	}
	b := make(remotelog.CustomMetadata, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.err = fmt.Errorf("read: %w", err)
	}
	d.left -= int64(n)
	return b
}

// builder gathers the entries of a cache's trees, which are then built at once: that is several times as fast as one after the
// other.
type builder struct {
	c      *cache
	all    []item
	epochs map[int32]*epochItems
	last   *epochItems // of the epoch of the segment before
	lastOf int32
}

type epochItems struct{ list, refs []item }

func (b *builder) epoch(epoch int32) *epochItems {
	if b.last == nil || b.lastOf != epoch {
		e := b.epochs[epoch]
		if e == nil {
			e = &epochItems{}
			b.epochs[epoch] = e
		}
		b.last, b.lastOf = e, epoch
	}
	return b.last
}

// put takes a segment in; it reports whether its id is new.
func (b *builder) put(s *segment, referenced []bool) bool {
	before := len(b.c.byID)
	b.c.byID[s.id] = s
	b.all = append(b.all, item{s.start, s})
	for i, le := range s.epochs {
		e := b.epoch(le.Epoch)
		e.list = append(e.list, item{s.start, s})
		if referenced != nil && referenced[i] {
			e.refs = append(e.refs, item{le.StartOffset, s})
		}
		b.c.epochs[le.Epoch].size += int64(s.size)
	}
	return len(b.c.byID) > before
}

// finish builds the trees; it reports false if an epoch refers to two segments at one offset.
func (b *builder) finish() bool {
	b.c.all.build(b.all)
	for epoch, e := range b.epochs {
		st := b.c.epochs[epoch]
		for _, t := range []struct {
			tree  *tree
			items []item
		}{{&st.list, e.list}, {&st.refs, e.refs}} {
			if !slices.IsSortedFunc(t.items, t.tree.compare) {
				slices.SortFunc(t.items, t.tree.compare)
			}
			t.tree.build(t.items)
		}
		for i := 1; i < len(e.refs); i++ {
			if e.refs[i-1].key == e.refs[i].key {
				return false
			}
		}
	}
	return true
}
