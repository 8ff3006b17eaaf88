package rlmm

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"

	"github.com/tierkit/tierkit/remotelog"
)

// The numbers of docs/snapshot-format.md.
const (
	snapMagic   = "TIERSNP\n"
	snapVersion = 1

	snapComplete   = 1 // flags of a metadata partition
	snapNamed      = 1 // flags of a user partition
	snapHasHighest = 1 // flags of an epoch
	snapTxnEmpty   = 1 // flags of a segment
	snapCustom     = 2
	snapReferenced = 1 // flags of a leader epoch of a segment
	snapNoMark     = 0xff

	snapCRCBytes = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// snapshot is what a manager knew, as views: nothing in it changes any more, and it is walked without a lock.
type snapshot struct {
	logID      LogID
	partitions int32
	createdMs  int64
	parts      []partSnapshot // in order of index
}

// partSnapshot is one metadata partition. Its users were captured a few at a time, while reading went on: each holds all events
// below its own from, which lies between begin and end.
type partSnapshot struct {
	index       int32
	complete    bool // every partition that the log names below begin is among users
	begin, end  Position
	lastEventMs int64
	users       []userSnapshot
}

// userSnapshot is one user partition.
type userSnapshot struct {
	tp      remotelog.TopicIDPartition
	from    int64
	named   bool
	deletes deleteMark
	epochs  []epochSnapshot // ascending
	count   int             // segments
	all     *node
}

type epochSnapshot struct {
	epoch      int32
	hasHighest bool
	highest    int64
	refs       *node
}

// view returns the state of c as it is now; the owner's lock is held.
func (c *cache) view() userSnapshot {
	u := userSnapshot{tp: c.tp, deletes: c.deletes, count: len(c.byID), all: c.keepAll(), epochs: make([]epochSnapshot, 0, len(c.epochs))}
	for e, st := range c.epochs {
		u.epochs = append(u.epochs, epochSnapshot{epoch: e, hasHighest: st.hasHighest, highest: st.highest, refs: st.refs.root})
	}
	return u
}

// snapEncoder writes a snapshot and its CRC. The first error stays.
type snapEncoder struct {
	w   io.Writer
	b   []byte
	crc uint32
	n   int64
	err error
}

// encodeChunk is how much is gathered for one write.
const encodeChunk = 256 << 10

// encode writes the snapshot to w and returns its size.
func (s *snapshot) encode(w io.Writer) (int64, error) {
	e := &snapEncoder{w: w, b: make([]byte, 0, 4<<10)}
	e.b = append(e.b, snapMagic...)
	e.u32(snapVersion)
	e.u32(uint32(s.partitions))
	e.u32(uint32(len(s.parts)))
	e.u64(uint64(s.createdMs))
	e.text(string(s.logID))
	for i := range s.parts {
		e.part(&s.parts[i])
	}
	e.flush()
	e.u32(e.crc)
	e.flush()
	return e.n, e.err
}

func (e *snapEncoder) u8(v uint8)   { e.b = append(e.b, v) }
func (e *snapEncoder) u16(v uint16) { e.b = binary.BigEndian.AppendUint16(e.b, v) }
func (e *snapEncoder) u32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *snapEncoder) u64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }

// text writes a string of at most 65,535 bytes: topic names of records have at most 32,767.
func (e *snapEncoder) text(s string) {
	e.u16(uint16(len(s)))
	e.b = append(e.b, s...)
}

func (e *snapEncoder) flag(on bool, bit uint8) uint8 {
	if on {
		return bit
	}
	return 0
}

func (e *snapEncoder) position(p Position) {
	e.u64(uint64(p.Offset))
	e.u32(uint32(p.Epoch))
}

func (e *snapEncoder) flush() {
	if e.err != nil {
		e.b = e.b[:0]
		return
	}
	n, err := e.w.Write(e.b)
	e.crc = crc32.Update(e.crc, castagnoli, e.b)
	e.n += int64(n)
	e.err = err
	e.b = e.b[:0]
}

// room writes what was gathered if it is enough for a write.
func (e *snapEncoder) room() {
	if len(e.b) >= encodeChunk {
		e.flush()
	}
}

func (e *snapEncoder) part(p *partSnapshot) {
	e.u32(uint32(p.index))
	e.u8(e.flag(p.complete, snapComplete))
	e.position(p.begin)
	e.position(p.end)
	e.u64(uint64(p.lastEventMs))
	slices.SortFunc(p.users, func(a, b userSnapshot) int { return a.tp.Compare(b.tp) })
	e.u32(uint32(len(p.users)))
	for i := range p.users {
		e.user(&p.users[i])
	}
}

func (e *snapEncoder) user(u *userSnapshot) {
	e.b = append(e.b, u.tp.TopicID[:]...)
	e.text(u.tp.Topic)
	e.u32(uint32(u.tp.Partition))
	e.u8(e.flag(u.named, snapNamed))
	e.u64(uint64(u.from))
	mark := uint8(snapNoMark)
	if u.deletes.set {
		mark = uint8(u.deletes.state)
	}
	e.u8(mark)
	slices.SortFunc(u.epochs, func(a, b epochSnapshot) int { return cmp.Compare(a.epoch, b.epoch) })
	e.u32(uint32(len(u.epochs)))
	for _, ep := range u.epochs {
		e.u32(uint32(ep.epoch))
		e.u8(e.flag(ep.hasHighest, snapHasHighest))
		e.u64(uint64(ep.highest))
		e.room()
	}
	e.u32(uint32(u.count))
	last := 0
	u.all.walk(func(it item) bool {
		last = e.segment(u, it.seg, last)
		e.room()
		return e.err == nil
	})
}

// segment writes one segment. at is where in u.epochs the one before was found, most often that of this one too.
func (e *snapEncoder) segment(u *userSnapshot, s *segment, at int) int {
	e.b = append(e.b, s.id[:]...)
	e.u64(uint64(s.start))
	e.u64(uint64(s.end))
	e.u64(uint64(s.maxTs))
	e.u64(uint64(s.eventTs))
	e.u32(uint32(s.size))
	e.u32(uint32(s.broker))
	e.u8(uint8(s.state))
	e.u8(e.flag(s.txnEmpty, snapTxnEmpty) | e.flag(s.custom != nil, snapCustom))
	e.u32(uint32(len(s.epochs)))
	for _, le := range s.epochs {
		if u.epochs[at].epoch != le.Epoch {
			at, _ = slices.BinarySearchFunc(u.epochs, le.Epoch, func(x epochSnapshot, want int32) int { return cmp.Compare(x.epoch, want) })
		}
		it, ok := u.epochs[at].refs.floor(le.StartOffset)
		e.u32(uint32(le.Epoch))
		e.u64(uint64(le.StartOffset))
		e.u8(e.flag(ok && it.key == le.StartOffset && it.seg.id == s.id, snapReferenced))
	}
	if s.custom != nil {
		e.u32(uint32(len(s.custom)))
		e.b = append(e.b, s.custom...)
	}
	return at
}
