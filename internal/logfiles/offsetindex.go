package logfiles

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/tierkit/tierkit/remotelog"
)

const offsetEntrySize = 8 // int32 offset relative to the segment's base, int32 position

// OffsetEntry says that the batch at Position ends with Offset.
type OffsetEntry struct {
	Offset   int64
	Position int64
}

// OffsetIndex is a parsed offset index. It keeps the bytes that it was made of.
type OffsetIndex struct {
	base int64
	b    []byte
}

// ParseOffsetIndex checks that b is an offset index of the segment that begins at base: whole entries, offsets and positions
// ascending. An empty index is valid.
func ParseOffsetIndex(b []byte, base int64) (OffsetIndex, error) {
	x := OffsetIndex{base: base, b: b}
	if len(b)%offsetEntrySize != 0 {
		return OffsetIndex{}, corrupt("offset index has %d bytes, no multiple of %d", len(b), offsetEntrySize)
	}
	if used := x.used(); used != x.Len() {
		return OffsetIndex{}, corrupt("offset index is not ascending at entry %d of %d", used, x.Len())
	}
	return x, nil
}

// CutOffsetIndex returns the used part of the offset index of an active segment, which Kafka preallocates with zeros.
func CutOffsetIndex(b []byte, base int64) (OffsetIndex, error) {
	whole := OffsetIndex{base: base, b: b[:len(b)/offsetEntrySize*offsetEntrySize]}
	cut := OffsetIndex{base: base, b: b[:whole.used()*offsetEntrySize]}
	return cut, onlyZeros("offset index", b, len(cut.b))
}

// used counts the leading entries that are ascending, the first one included if it is no zero entry.
func (x OffsetIndex) used() int {
	last := OffsetEntry{Offset: -1, Position: -1}
	for i := range x.Len() {
		e := x.relative(i)
		if e.Offset <= last.Offset || e.Position <= last.Position || e == (OffsetEntry{}) || e.Offset > math.MaxInt64-x.base {
			return i
		}
		last = e
	}
	return x.Len()
}

// relative returns entry i with the offset as stored; a negative value stays negative and is never ascending.
func (x OffsetIndex) relative(i int) OffsetEntry {
	e := x.b[i*offsetEntrySize:]
	return OffsetEntry{int64(int32(binary.BigEndian.Uint32(e))), int64(int32(binary.BigEndian.Uint32(e[4:])))}
}

// Len is the number of entries.
func (x OffsetIndex) Len() int { return len(x.b) / offsetEntrySize }

// Bytes returns the index as stored.
func (x OffsetIndex) Bytes() []byte { return x.b }

// Entry returns entry i.
func (x OffsetIndex) Entry(i int) OffsetEntry {
	e := x.relative(i)
	e.Offset += x.base
	return e
}

// Lookup returns the last entry whose offset is at most target; ok is false, and the position 0, if there is none.
func (x OffsetIndex) Lookup(target int64) (e OffsetEntry, ok bool) {
	i := sort.Search(x.Len(), func(i int) bool { return x.Entry(i).Offset > target })
	if i == 0 {
		return OffsetEntry{Offset: x.base}, false
	}
	return x.Entry(i - 1), true
}

func onlyZeros(what string, b []byte, from int) error {
	for i, c := range b[from:] {
		if c != 0 {
			return corrupt("%s: byte %d behind the last ascending entry is not zero", what, from+i)
		}
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", remotelog.ErrCorrupt, fmt.Sprintf(format, args...))
}
