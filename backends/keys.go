package backends

import (
	"strings"
	"unicode/utf8"
)

// Reserved is the first segment of names that belong to tierkit itself: temp files and the embedded metadata log of a file system
// store. No key is or starts with it, no listing shows it.
const Reserved = ".tierkit"

// IsReserved reports whether key is, or lies below, the reserved segment. Case does not count: there are file systems that fold it.
func IsReserved(key string) bool {
	first, _, _ := strings.Cut(key, "/")
	return strings.EqualFold(first, Reserved)
}

// CheckKey reports, as InvalidArgument, why key cannot be the key of an object in a store with these properties. The rules: 1 to
// MaxKeyBytes bytes of valid UTF-8 without NUL, not reserved, no segment above MaxSegmentBytes; without FlatKeys also no empty, "."
// or ".." segment, so no "/" at either end.
func CheckKey(p Properties, key string) error {
	if key == "" {
		return Errorf(InvalidArgument, "the key is empty")
	}
	if p.MaxKeyBytes > 0 && len(key) > p.MaxKeyBytes {
		return Errorf(InvalidArgument, "the key has %d bytes, at most %d are possible", len(key), p.MaxKeyBytes)
	}
	if err := checkText(key); err != nil {
		return err
	}
	if IsReserved(key) {
		return Errorf(InvalidArgument, "keys below %s/ are reserved", Reserved)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case p.MaxSegmentBytes > 0 && len(segment) > p.MaxSegmentBytes:
			return Errorf(InvalidArgument, "a name in the key has %d bytes, this store holds at most %d between slashes", len(segment), p.MaxSegmentBytes)
		case !p.FlatKeys && (segment == "" || segment == "." || segment == ".."):
			return Errorf(InvalidArgument, "the key has an empty, . or .. segment, which this store cannot hold")
		}
	}
	return nil
}

// checkText is what holds for keys and for prefixes of listings.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return Errorf(InvalidArgument, "the key is not valid UTF-8")
	}
	if strings.IndexByte(s, 0) >= 0 {
		return Errorf(InvalidArgument, "the key has a NUL byte")
	}
	return nil
}

// checkPut refuses options that no driver should have to look at.
func checkPut(p Properties, o PutOptions) error {
	switch {
	case o.Size < SizeUnknown:
		return Errorf(InvalidArgument, "size %d is negative", o.Size)
	case p.MaxObjectBytes > 0 && o.Size > p.MaxObjectBytes:
		return Errorf(InvalidArgument, "size %d is above the %d bytes that an object can have", o.Size, p.MaxObjectBytes)
	case o.IfAbsent && !p.IfAbsent:
		return Errorf(Unsupported, "this store cannot create an object only if it is absent")
	}
	return checkMeta(o.Meta)
}

func checkMeta(meta map[string]string) error {
	total := 0
	for k, v := range meta {
		total += len(k) + len(v)
		if k == "" || strings.Trim(k, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return Errorf(InvalidArgument, "metadata key %q is not lower-case ASCII letters, digits, - and _", k)
		}
		for i := range len(v) {
			if v[i] < ' ' || v[i] > '~' {
				return Errorf(InvalidArgument, "the value of metadata key %q is not printable ASCII", k)
			}
		}
	}
	if total > MaxMetaBytes {
		return Errorf(InvalidArgument, "metadata of %d bytes is above %d", total, MaxMetaBytes)
	}
	return nil
}

func checkGet(p Properties, o GetOptions) error {
	switch {
	case o.Range.Offset < 0:
		return Errorf(InvalidArgument, "offset %d is negative", o.Range.Offset)
	case o.IfVersion != "" && !p.Versions:
		return Errorf(Unsupported, "this store has no versions")
	}
	return nil
}

// Resolve turns r into the part of an object of that size that it selects, by the rules of Driver.Get. r is as a Driver gets it.
func (r Range) Resolve(size int64) (offset, length int64, err error) {
	if r.Offset >= size && (r.Offset > 0 || r.Length >= 0) {
		return 0, 0, Errorf(InvalidRange, "offset %d is not in the object of %d bytes", r.Offset, size)
	}
	length = size - r.Offset
	if r.Length >= 0 {
		length = min(length, r.Length)
	}
	return r.Offset, length, nil
}
