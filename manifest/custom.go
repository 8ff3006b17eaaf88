package manifest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tierkit/tierkit/remotelog"
)

// CustomField is one of the fields that custom metadata may have.
type CustomField uint8

// The fields; the numbers are the tags on the wire.
const (
	RemoteSize   CustomField = 0 // stored bytes of the three objects
	ObjectPrefix CustomField = 1 // the configured key prefix
	ObjectKey    CustomField = 2 // main path: the key without prefix and suffix
)

// customNames are the names in the setting custom.metadata.fields.include.
var customNames = [...]string{"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"}

// String is the name in the setting custom.metadata.fields.include.
func (f CustomField) String() string {
	if int(f) < len(customNames) {
		return customNames[f]
	}
	return fmt.Sprintf("CustomField(%d)", uint8(f))
}

// ParseCustomField reads the name that String writes.
func ParseCustomField(s string) (CustomField, error) {
	for i, n := range customNames {
		if n == s {
			return CustomField(i), nil
		}
	}
	return 0, fmt.Errorf("%w: custom metadata field %.40q is none of %s", remotelog.ErrInvalidArgument, s, strings.Join(customNames[:], ", "))
}

// Custom is the custom metadata of a segment: what a copy returns, Kafka's RLMM keeps, and every later call gets back.
type Custom struct {
	Has          [3]bool // by CustomField
	RemoteSize   int64
	ObjectPrefix string
	ObjectKey    string
}

// Append encodes c as the plug-in does: the body of Kafka's tagged fields, without version or header.
func (c *Custom) Append(dst []byte) []byte {
	n := uint64(0)
	for _, has := range c.Has {
		if has {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, n)
	if c.Has[RemoteSize] {
		value := binary.AppendVarint(nil, c.RemoteSize) // zig-zag, as Kafka's varlong
		dst = append(dst, byte(RemoteSize), byte(len(value)))
		dst = append(dst, value...)
	}
	if c.Has[ObjectPrefix] {
		dst = appendField(dst, ObjectPrefix, c.ObjectPrefix)
	}
	if c.Has[ObjectKey] {
		dst = appendField(dst, ObjectKey, c.ObjectKey)
	}
	return dst
}

func appendField(dst []byte, f CustomField, s string) []byte {
	value := binary.AppendUvarint(nil, uint64(len(s))+1) // compact string
	dst = append(dst, byte(f))
	dst = binary.AppendUvarint(dst, uint64(len(value)+len(s)))
	dst = append(dst, value...)
	return append(dst, s...)
}

// ParseCustom reads custom metadata. Nothing, nil or empty, has no fields. Unknown tags and anything behind the last field are
// ignored, as the plug-in does. Everything else that is not well-formed is remotelog.ErrCorrupt: it was written by another
// RemoteStorageManager, or is damaged.
func ParseCustom(b []byte) (Custom, error) {
	var c Custom
	if len(b) == 0 {
		return c, nil
	}
	r := customReader{b: b}
	n := r.uvarint()
	last := int64(-1)
	for ; n > 0 && r.err == nil; n-- {
		tag, size := int64(r.uvarint()), r.uvarint()
		value := r.take(size)
		if r.err == nil && tag <= last {
			r.fail("tag %d behind tag %d", tag, last)
		}
		if r.err != nil {
			break
		}
		last = tag
		r.err = c.set(tag, value)
	}
	if r.err != nil {
		return Custom{}, fmt.Errorf("%w: custom metadata of %d bytes: %w", remotelog.ErrCorrupt, len(b), r.err)
	}
	return c, nil
}

func (c *Custom) set(tag int64, value []byte) error {
	switch tag {
	case int64(RemoteSize):
		v, n := binary.Varint(value)
		if n != len(value) || n <= 0 || v < 0 {
			return fmt.Errorf("REMOTE_SIZE is malformed")
		}
		c.RemoteSize, c.Has[RemoteSize] = v, true
	case int64(ObjectPrefix):
		s, err := compactString(value)
		if err != nil {
			return fmt.Errorf("OBJECT_PREFIX %w", err)
		}
		c.ObjectPrefix, c.Has[ObjectPrefix] = s, true
	case int64(ObjectKey):
		s, err := compactString(value)
		if err != nil {
			return fmt.Errorf("OBJECT_KEY %w", err)
		}
		c.ObjectKey, c.Has[ObjectKey] = s, true
	}
	return nil
}

func compactString(value []byte) (string, error) {
	r := customReader{b: value}
	n := r.uvarint()
	switch {
	case r.err != nil:
		return "", r.err
	case n == 0:
		return "", fmt.Errorf("is null")
	case n-1 != uint64(len(r.b)):
		return "", fmt.Errorf("says %d bytes, its field has %d", n-1, len(r.b))
	case !utf8.Valid(r.b):
		return "", fmt.Errorf("is not UTF-8")
	}
	return string(r.b), nil
}

// CheckOwner reports, as ErrCorrupt, an OBJECT_KEY that belongs to another segment: custom metadata come from a topic, and must
// never make a fetch or delete reach another segment's objects.
func (c *Custom) CheckOwner(id remotelog.UUID) error {
	if c.Has[ObjectKey] && !strings.HasSuffix(c.ObjectKey, "-"+id.String()) {
		return fmt.Errorf("%w: OBJECT_KEY %.300q in the custom metadata of segment %s is another segment's", remotelog.ErrCorrupt, c.ObjectKey, id)
	}
	return nil
}

type customReader struct {
	b   []byte
	err error
}

func (r *customReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// uvarint reads Kafka's unsigned varint: at most 5 bytes, of a Java int.
func (r *customReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 5 || v > math.MaxInt32 {
		r.fail("malformed number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *customReader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)) {
		r.fail("a field says %d bytes, %d are left", n, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}
