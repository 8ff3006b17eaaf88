package filelog

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tierkit/tierkit/rlmm"
)

// accept checks a whole group against its place and hands its events to yield, which may be nil. Then the place is behind the
// group. The slices of the events are parts of the group's bytes.
func (t *tail) accept(name string, partition int32, g group, yield func(rlmm.Event)) error {
	bad := func(format string, args ...any) error {
		return &CorruptError{File: name, Position: t.pos, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case g.flags != 0:
		return newer(name, fmt.Sprintf("group at byte %d has flags", t.pos), uint64(g.flags))
	case g.prev != t.crc:
		return bad("the group follows one with checksum %08x, found is %08x", g.prev, t.crc)
	case g.base != t.next:
		return bad("the group starts at offset %d, want %d", g.base, t.next)
	case g.epoch < 0 || g.epoch < t.epoch:
		return bad("the group has epoch %d after %d", g.epoch, t.epoch)
	case g.offsets < 1 || g.count > g.offsets || g.base > math.MaxInt64-int64(g.offsets):
		return bad("the group has %d events on %d offsets from %d", g.count, g.offsets, g.base)
	}
	rest, last := g.events, int64(-1)
	for range g.count {
		e, delta, n, err := parseEvent(rest)
		switch {
		case err != nil:
			return fmt.Errorf("%s: group at byte %d: %w", name, t.pos, err)
		case n == 0:
			return bad("the event after offset %d breaks off", g.base+last)
		case delta <= last || delta >= int64(g.offsets):
			return bad("offset %d of an event is out of order", g.base+delta)
		}
		if yield != nil {
			e.Partition, e.Offset, e.Epoch = partition, g.base+delta, g.epoch
			yield(e)
		}
		rest, last = rest[n:], delta
	}
	if len(rest) > 0 {
		return bad("%d bytes are left behind the last event", len(rest))
	}
	*t = tail{pos: t.pos + g.size, next: g.base + int64(g.offsets), epoch: g.epoch, crc: g.crc}
	return nil
}

// parseEvent reads the event that b begins with: without partition, offset and epoch, but with its offset delta and its size,
// which is 0 if it is malformed.
func parseEvent(b []byte) (e rlmm.Event, delta int64, size int, err error) {
	if len(b) < eventFixed {
		return e, 0, 0, nil
	}
	n := int64(binary.BigEndian.Uint32(b)) + 4
	if n < eventFixed || n > int64(len(b)) {
		return e, 0, 0, nil
	}
	flags, rest := b[4], b[eventFixed:n:n]
	if flags&^(eventKey|eventNoVal) != 0 {
		return e, 0, 0, fmt.Errorf("event flags %#x: %w", flags, ErrNewerFormat)
	}
	e.TimestampMs = int64(binary.BigEndian.Uint64(b[9:]))
	if flags&eventKey != 0 {
		if len(rest) < 4 {
			return e, 0, 0, nil
		}
		k := int64(binary.BigEndian.Uint32(rest))
		if k > int64(len(rest)-4) {
			return e, 0, 0, nil
		}
		e.Key, rest = rest[4:4+k:4+k], rest[4+k:]
	}
	if flags&eventNoVal == 0 {
		e.Value = rest
	} else if len(rest) > 0 {
		return e, 0, 0, nil
	}
	return e, int64(binary.BigEndian.Uint32(b[5:])), int(n), nil
}

// eventSize returns how many bytes an event takes in a group.
func eventSize(e rlmm.Event) int {
	n := eventFixed + len(e.Value)
	if e.Key != nil {
		n += 4 + len(e.Key)
	}
	return n
}

// appendGroup adds a group to dst. The events are in order, from base on and below base + offsets.
func appendGroup(dst []byte, t tail, epoch int32, offsets uint32, events []rlmm.Event) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, groupHead)...)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, t.crc)
	dst = binary.BigEndian.AppendUint32(dst, uint32(epoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.next))
	dst = binary.BigEndian.AppendUint32(dst, offsets)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(events)))
	for _, e := range events {
		dst = appendEvent(dst, e, uint32(e.Offset-t.next))
	}
	g := dst[start:]
	binary.BigEndian.PutUint32(g, uint32(len(g)-groupHead))
	binary.BigEndian.PutUint32(g[4:], groupCRC(g))
	return dst
}

func appendEvent(dst []byte, e rlmm.Event, delta uint32) []byte {
	var flags byte
	if e.Key != nil {
		flags |= eventKey
	}
	if e.Value == nil {
		flags |= eventNoVal
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(eventSize(e)-4))
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, delta)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.TimestampMs))
	if e.Key != nil {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Key)))
		dst = append(dst, e.Key...)
	}
	return append(dst, e.Value...)
}
