package httpstore

import (
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/backends"
)

// Whole reports whether r selects everything, so that it is asked for without a range: of an empty object even "bytes=0-" is outside.
func Whole(r backends.Range) bool { return r.Offset == 0 && r.Length < 0 }

// ContentRange is the header of that name of an answer to a request for a range.
type ContentRange struct{ First, Last, Size int64 }

// Length is the number of bytes selected.
func (c ContentRange) Length() int64 { return c.Last - c.First + 1 }

// ParseContentRange reads "bytes 0-9/100". Everything else, unknown sizes included, is refused, but for the empty range at the end
// ("bytes 100-99/100") with which Azurite answers where the protocol wants 416.
func ParseContentRange(s string) (c ContentRange, ok bool) {
	s, ok1 := strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(s, "/")
	from, to, ok3 := strings.Cut(span, "-")
	var ok4, ok5, ok6 bool
	c.First, ok4 = digits(from)
	c.Last, ok5 = digits(to)
	c.Size, ok6 = digits(total)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || c.Last >= c.Size || c.First > c.Last && c.First != c.Size || c.First > c.Last+1 {
		return ContentRange{}, false
	}
	return c, true
}

// digits takes no sign, unlike strconv.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// Resolve holds an answer against what was asked for: whole is the size of the object as the answer tells it, header its Content-Range ("" for an
// answer that is the whole object) and length the bytes that it announces.
func Resolve(asked backends.Range, header string, length int64) (size, offset int64, err error) {
	if header == "" && !Whole(asked) {
		return 0, 0, backends.Errorf(backends.Unsupported, "the store overlooked the range of a GET")
	}
	size = length
	if header != "" {
		c, ok := ParseContentRange(header)
		if !ok {
			return 0, 0, backends.Errorf(backends.Corrupt, "Content-Range %q cannot be understood", header)
		}
		if c.Length() != length {
			return 0, 0, backends.Errorf(backends.Corrupt, "Content-Range %q and a length of %d", header, length)
		}
		size, offset = c.Size, c.First
	}
	off, want, err := asked.Resolve(size)
	if err != nil {
		return 0, 0, err
	}
	if off != offset || want != length {
		return 0, 0, backends.Errorf(backends.Corrupt, "asked for %d bytes at %d of %d, the answer has %d at %d", want, off, size, length, offset)
	}
	return size, offset, nil
}
