package rlmm

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The primitives of Kafka's flexible message versions (org.apache.kafka.common.protocol.types, 4.4): fixed-width big-endian
// integers, unsigned LEB128 varints, compact strings, bytes and arrays (length + 1, 0 = null), tagged fields.

// maxVarintBytes is what Kafka's ByteUtils.readUnsignedVarint reads at most.
const maxVarintBytes = 5

// wireWriter appends primitives to a slice.
type wireWriter struct{ b []byte }

func (w *wireWriter) i8(v int8)        { w.b = append(w.b, byte(v)) }
func (w *wireWriter) i32(v int32)      { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *wireWriter) i64(v int64)      { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *wireWriter) uuid(v [16]byte)  { w.b = append(w.b, v[:]...) }
func (w *wireWriter) uvarint(v uint32) { w.b = binary.AppendUvarint(w.b, uint64(v)) }

func (w *wireWriter) str(s string) {
	w.uvarint(uint32(len(s)) + 1)
	w.b = append(w.b, s...)
}

// bytes writes nullable bytes: nil is null.
func (w *wireWriter) bytes(b []byte) {
	if b == nil {
		w.uvarint(0)
		return
	}
	w.uvarint(uint32(len(b)) + 1)
	w.b = append(w.b, b...)
}

// tags writes the tagged fields that end a struct.
func (w *wireWriter) tags(ts []Tag) {
	w.uvarint(uint32(len(ts)))
	w.rawTags(ts)
}

func (w *wireWriter) rawTags(ts []Tag) {
	for _, t := range ts {
		w.uvarint(t.ID)
		w.uvarint(uint32(len(t.Data)))
		w.b = append(w.b, t.Data...)
	}
}

// wireReader takes primitives from a value. Its first error stays, and everything read after it is zero. It allocates nothing
// beyond what the bytes left can fill.
type wireReader struct {
	b    []byte
	left []byte
	err  *DecodeError
}

func (r *wireReader) fail(reason DropReason, format string, args ...any) {
	if r.err == nil {
		at := fmt.Sprintf(" at byte %d", len(r.b)-len(r.left))
		r.err = &DecodeError{Reason: reason, Detail: fmt.Sprintf(format, args...) + at}
	}
	r.left = nil
}

// take returns the next n bytes of the value itself; nil with an error set if there are fewer.
func (r *wireReader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.left) {
		r.fail(DropUndecodable, "%s needs %d bytes, %d are left", what, n, len(r.left))
		return nil
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *wireReader) i8(what string) int8 {
	if b := r.take(1, what); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *wireReader) i32(what string) int32 {
	if b := r.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *wireReader) i64(what string) int64 {
	if b := r.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *wireReader) uuid(what string) (u [16]byte) {
	copy(u[:], r.take(16, what))
	return u
}

func (r *wireReader) uvarint(what string) uint32 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.left[:min(len(r.left), maxVarintBytes)])
	switch {
	case n <= 0 && len(r.left) < maxVarintBytes:
		r.fail(DropUndecodable, "%s ends inside a number", what)
	case n <= 0 || v > math.MaxUint32:
		r.fail(DropUndecodable, "%s is a number above 2^32-1", what)
	default:
		r.left = r.left[n:]
		return uint32(v)
	}
	return 0
}

// compact reads the length of a compact string, bytes or array; -1 is null.
func (r *wireReader) compact(what string) int64 { return int64(r.uvarint(what)) - 1 }

// sized returns the bytes of a compact string or bytes; nil without an error is null.
func (r *wireReader) sized(what string) []byte {
	n := r.compact(what)
	if r.err != nil || n < 0 {
		return nil
	}
	if n > int64(len(r.left)) {
		r.fail(DropUndecodable, "%s needs %d bytes, %d are left", what, n, len(r.left))
		return nil
	}
	return r.take(int(n), what)
}

// tags reads the tagged fields that end a struct. known, which may be nil, is given each field first and reports whether it is
// one that this version knows.
func (r *wireReader) tags(what string, known func(id uint32, data []byte) bool) []Tag {
	n := r.uvarint(what)
	if n == 0 || r.err != nil {
		return nil
	}
	const least = 2 // a field has at least the bytes of its number and its length
	if int64(n)*least > int64(len(r.left)) {
		r.fail(DropUndecodable, "%s: %d fields, but %d bytes are left", what, n, len(r.left))
		return nil
	}
	var out []Tag
	for range n {
		id, size := r.uvarint(what), r.uvarint(what)
		if r.err == nil && int64(size) > int64(len(r.left)) {
			r.fail(DropUndecodable, "%s: field %d needs %d bytes, %d are left", what, id, size, len(r.left))
		}
		if r.err != nil {
			return nil
		}
		data := r.take(int(size), what)
		if known == nil || !known(id, data) {
			out = append(out, Tag{ID: id, Data: append([]byte{}, data...)})
		}
	}
	return out
}
