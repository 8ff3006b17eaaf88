package logfiles

import (
	"encoding/binary"
	"math"
	"sort"
)

const timeEntrySize = 12 // int64 timestamp, int32 offset relative to the segment's base

// TimeEntry says that no record up to and including Offset has a timestamp above TimestampMs.
type TimeEntry struct {
	TimestampMs int64
	Offset      int64
}

// TimeIndex is a parsed time index. It keeps the bytes that it was made of.
type TimeIndex struct {
	base int64
	b    []byte
}

// ParseTimeIndex checks that b is a time index of the segment that begins at base: whole entries, timestamps ascending, offsets not
// descending. An empty index is valid.
func ParseTimeIndex(b []byte, base int64) (TimeIndex, error) {
	x := TimeIndex{base: base, b: b}
	if len(b)%timeEntrySize != 0 {
		return TimeIndex{}, corrupt("time index has %d bytes, no multiple of %d", len(b), timeEntrySize)
	}
	if used := x.used(); used != x.Len() {
		return TimeIndex{}, corrupt("time index is not ascending at entry %d of %d", used, x.Len())
	}
	return x, nil
}

// CutTimeIndex returns the used part of the time index of an active segment, which Kafka preallocates with zeros.
func CutTimeIndex(b []byte, base int64) (TimeIndex, error) {
	whole := TimeIndex{base: base, b: b[:len(b)/timeEntrySize*timeEntrySize]}
	cut := TimeIndex{base: base, b: b[:whole.used()*timeEntrySize]}
	return cut, onlyZeros("time index", b, len(cut.b))
}

func (x TimeIndex) used() int {
	last := TimeEntry{TimestampMs: math.MinInt64, Offset: x.base}
	for i := range x.Len() {
		e := x.Entry(i)
		if e.TimestampMs <= last.TimestampMs || e.Offset < last.Offset {
			return i
		}
		if i == 0 && e.TimestampMs == 0 && e.Offset == x.base && x.restIsZero(i) {
			return 0 // a preallocated index without any entry
		}
		last = e
	}
	return x.Len()
}

// restIsZero reports whether entry i and the next one are zero: a single zero entry can be real (timestamp 0 at the base offset).
func (x TimeIndex) restIsZero(i int) bool {
	for _, c := range x.b[i*timeEntrySize : min(len(x.b), (i+2)*timeEntrySize)] {
		if c != 0 {
			return false
		}
	}
	return len(x.b) > timeEntrySize
}

// Len is the number of entries.
func (x TimeIndex) Len() int { return len(x.b) / timeEntrySize }

// Bytes returns the index as stored.
func (x TimeIndex) Bytes() []byte { return x.b }

// Entry returns entry i.
func (x TimeIndex) Entry(i int) TimeEntry {
	e := x.b[i*timeEntrySize:]
	return TimeEntry{int64(binary.BigEndian.Uint64(e)), x.base + int64(int32(binary.BigEndian.Uint32(e[8:])))}
}

// Before returns the last entry whose timestamp is below target; ok is false if there is none. No record up to its offset is a
// result of a search for target.
func (x TimeIndex) Before(target int64) (e TimeEntry, ok bool) {
	i := sort.Search(x.Len(), func(i int) bool { return x.Entry(i).TimestampMs >= target })
	if i == 0 {
		return TimeEntry{TimestampMs: -1, Offset: x.base}, false
	}
	return x.Entry(i - 1), true
}
