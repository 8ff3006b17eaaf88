package manifest

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON with Jackson's rules, as a stream: it keeps nothing but the strings that are asked for. encoding/json does
// not serve here: it matches field names without regard to case, and has no way to tell a missing field from a null one.
type scanner struct {
	data  []byte
	pos   int
	depth int
}

// Jackson's StreamReadConstraints (jackson-core 2.15).
const (
	maxDepth     = 1000
	maxNumberLen = 1000
)

type tokenKind uint8

const (
	tokString tokenKind = iota
	tokInt
	tokFloat
	tokBool
	tokNull
	tokObject // only its first byte is read
	tokArray
)

type token struct {
	kind tokenKind
	text string // of a string, unescaped; of a number or bool, as written
}

func (t token) String() string {
	switch t.kind {
	case tokObject:
		return "an object"
	case tokArray:
		return "an array"
	case tokNull:
		return "null"
	default:
		const most = 40
		if len(t.text) > most {
			return strconv.Quote(t.text[:most]) + "..."
		}
		return strconv.Quote(t.text)
	}
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("%s at byte %d", fmt.Sprintf(format, args...), s.pos)
}

// skipSpace moves to the next byte that is not white space and returns it, 0 at the end.
func (s *scanner) skipSpace() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// next reads one value; of an object or array only the first byte.
func (s *scanner) next() (token, error) {
	switch c := s.skipSpace(); {
	case c == '{' || c == '[':
		if s.depth++; s.depth > maxDepth {
			return token{}, s.errorf("nested deeper than %d", maxDepth)
		}
		s.pos++
		if c == '[' {
			return token{kind: tokArray}, nil
		}
		return token{kind: tokObject}, nil
	case c == '"':
		raw, err := s.rawString()
		if err != nil {
			return token{}, err
		}
		text, err := unescape(raw)
		if err != nil {
			return token{}, s.errorf("%v", err)
		}
		return token{kind: tokString, text: text}, nil
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case s.pos >= len(s.data):
		return token{}, s.errorf("JSON ends")
	default:
		return s.literal()
	}
}

func (s *scanner) literal() (token, error) {
	start := s.pos
	for s.pos < len(s.data) && isWord(s.data[s.pos]) {
		s.pos++
	}
	switch text := string(s.data[start:s.pos]); text {
	case "true", "false":
		return token{kind: tokBool, text: text}, nil
	case "null":
		return token{kind: tokNull, text: text}, nil
	}
	s.pos = start
	return token{}, s.errorf("no JSON value")
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func (s *scanner) digits() int {
	n := 0
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
		n++
	}
	return n
}

func (s *scanner) number() (token, error) {
	start, kind := s.pos, tokInt
	if s.data[s.pos] == '-' {
		s.pos++
	}
	first := s.pos
	if n := s.digits(); n == 0 || n > 1 && s.data[first] == '0' {
		return token{}, s.errorf("malformed number")
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		kind = tokFloat
		s.pos++
		if s.digits() == 0 {
			return token{}, s.errorf("malformed number")
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		kind = tokFloat
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return token{}, s.errorf("malformed number")
		}
	}
	if s.pos < len(s.data) && isWord(s.data[s.pos]) || s.pos-start > maxNumberLen {
		return token{}, s.errorf("malformed number")
	}
	return token{kind: kind, text: string(s.data[start:s.pos])}, nil
}

// rawString reads a string and returns what is between its quotes.
func (s *scanner) rawString() ([]byte, error) {
	s.pos++ // the quote
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			raw := s.data[start:s.pos]
			s.pos++
			if !utf8.Valid(raw) {
				return nil, s.errorf("string is not UTF-8")
			}
			return raw, nil
		case c == '\\':
			s.pos += 2
		case c < 0x20:
			return nil, s.errorf("control character in a string")
		default:
			s.pos++
		}
	}
	s.pos = len(s.data)
	return nil, s.errorf("JSON ends in a string")
}

// unescape resolves the escapes of a JSON string.
func unescape(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		if k := strings.IndexByte(from, raw[i]); k >= 0 {
			out = append(out, to[k])
			continue
		}
		if raw[i] != 'u' {
			return "", fmt.Errorf("unknown escape \\%c", raw[i])
		}
		r, err := hex4(raw[i+1:])
		if err != nil {
			return "", err
		}
		i += 4
		if utf16.IsSurrogate(r) && i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
			low, err := hex4(raw[i+3:])
			if err != nil {
				return "", err
			}
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				r = full
				i += 6
			}
		}
		out = utf8.AppendRune(out, r) // a lone surrogate becomes U+FFFD
	}
	return string(out), nil
}

func hex4(b []byte) (rune, error) {
	if len(b) < 4 {
		return 0, fmt.Errorf("escape \\u is cut off")
	}
	v, err := strconv.ParseUint(string(b[:4]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("escape \\u%q has no four hexadecimal digits", b[:4])
	}
	return rune(v), nil
}

// fields calls f for each field of an object whose first byte has been read. f reads the value.
func (s *scanner) fields(f func(name string) error) error {
	if s.skipSpace() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if s.skipSpace() != '"' {
			return s.errorf("no field name")
		}
		raw, err := s.rawString()
		if err != nil {
			return err
		}
		name, err := unescape(raw)
		if err != nil {
			return s.errorf("%v", err)
		}
		if s.skipSpace() != ':' {
			return s.errorf("no colon behind %q", name)
		}
		s.pos++
		if err := f(name); err != nil {
			return err
		}
		switch s.skipSpace() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.depth--
			return nil
		default:
			return s.errorf("object is not closed")
		}
	}
}

// skip reads one value of any kind and drops it. Its recursion ends at maxDepth.
func (s *scanner) skip() error {
	t, err := s.peekSkip()
	if err != nil {
		return err
	}
	return s.finish(t)
}

// finish reads the rest of a value whose token has been read.
func (s *scanner) finish(t token) error {
	switch t.kind {
	case tokObject:
		return s.fields(func(string) error { return s.skip() })
	case tokArray:
		if s.skipSpace() == ']' {
			s.pos++
			s.depth--
			return nil
		}
		for {
			if err := s.skip(); err != nil {
				return err
			}
			switch s.skipSpace() {
			case ',':
				s.pos++
			case ']':
				s.pos++
				s.depth--
				return nil
			default:
				return s.errorf("array is not closed")
			}
		}
	default:
		return nil
	}
}

// peekSkip is next without the text of strings.
func (s *scanner) peekSkip() (token, error) {
	if s.skipSpace() != '"' {
		return s.next()
	}
	raw, err := s.rawString()
	if err != nil {
		return token{}, err
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		if _, err := unescape(raw); err != nil {
			return token{}, s.errorf("%v", err)
		}
	}
	return token{kind: tokString}, nil
}

// int32Of is Jackson's coercion to a Java int: integers, decimals (cut), both also as strings for integers. Jackson reads null as
// 0 too; that is refused here, since no writer leaves a size out.
func int32Of(t token) (int64, error) {
	switch t.kind {
	case tokInt, tokString:
		v, err := strconv.ParseInt(strings.TrimSpace(t.text), 10, 64)
		if err != nil || v > math.MaxInt32 || v < math.MinInt32 {
			return 0, fmt.Errorf("%v is no integer of 32 bits", t)
		}
		return v, nil
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil || f >= math.MaxInt32+1 || f <= math.MinInt32-1 {
			return 0, fmt.Errorf("%v is no integer of 32 bits", t)
		}
		return int64(f), nil
	default:
		return 0, fmt.Errorf("%v is no integer", t)
	}
}

// boolOf is Jackson's coercion to a Java boolean.
func boolOf(t token) (bool, error) {
	switch t.kind {
	case tokNull:
		return false, nil
	case tokBool:
		return t.text == "true", nil
	case tokInt:
		return strings.Trim(t.text, "-0") != "", nil
	case tokString:
		switch strings.TrimSpace(t.text) {
		case "true", "True", "TRUE":
			return true, nil
		case "false", "False", "FALSE":
			return false, nil
		}
	default:
	}
	return false, fmt.Errorf("%v is no boolean", t)
}
