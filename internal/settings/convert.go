package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads a value of any type but Secret. why is "" when v holds it, else says what is wrong and what is allowed.
func (s *Setting) parse(text string) (v any, why string) {
	if text == "" && s.Type != TypeString && s.Type != TypeList {
		return nil, "is empty: remove the line, or give a value" + hint(s)
	}
	switch s.Type {
	case TypeInt, TypeBytes, TypeDuration:
		return s.parseBounded(text)
	case TypeBool:
		switch strings.ToLower(text) {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
		return nil, "must be true or false"
	case TypeList:
		return s.parseList(text)
	default: // String, File
		if why := s.oneOf(text); why != "" {
			return nil, why
		}
		return text, ""
	}
}

func (s *Setting) parseList(text string) (v any, why string) {
	list := []string{}
	for e := range strings.SplitSeq(text, ",") {
		e = strings.TrimSpace(e)
		if e == "" {
			continue
		}
		if why := s.oneOf(e); why != "" {
			return nil, "holds " + strconv.Quote(e) + ": " + why
		}
		list = append(list, e)
	}
	return list, ""
}

func (s *Setting) oneOf(text string) (why string) {
	if len(s.OneOf) == 0 || slices.Contains(s.OneOf, text) {
		return ""
	}
	why = "must be one of " + strings.Join(s.OneOf, ", ")
	if near := Nearest(text, s.OneOf); near != "" {
		why += "; did you mean " + near + "?"
	}
	return why
}

// parseBounded reads a number and holds it against the bounds.
func (s *Setting) parseBounded(text string) (v any, why string) {
	n, why := parseNumber(s.Type, text)
	if why != "" {
		return nil, why
	}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	loText := s.Min
	if loText == "" && s.Type != TypeInt {
		loText = "0"
	}
	if loText != "" {
		lo, _ = parseNumber(s.Type, loText)
	}
	if s.Max != "" {
		hi, _ = parseNumber(s.Type, s.Max)
	}
	switch {
	case n < lo && s.Max == "":
		return nil, "must be at least " + loText
	case n > hi && loText == "":
		return nil, "must be at most " + s.Max
	case n < lo || n > hi:
		return nil, "must be in " + loText + ".." + s.Max
	}
	if s.Type == TypeDuration {
		return time.Duration(n), ""
	}
	return n, ""
}

// parseNumber reads an Int, Bytes or Duration (in nanoseconds).
func parseNumber(t Type, text string) (n int64, why string) {
	if t == TypeBytes {
		return parseBytes(text)
	}
	if t == TypeDuration {
		return parseDuration(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "must be a whole number" + tooBig(text)
	}
	return n, ""
}

// units of Bytes. Decimal ones (kB, MB) are refused: half of those who write them mean the binary ones.
var units = []struct {
	name  string
	shift uint
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}, {"", 0}}

// parseBytes reads "8MiB", "8 MiB", "512B", "1048576". Negative numbers are for settings whose Min allows them (-1: no bound).
func parseBytes(text string) (n int64, why string) {
	const form = "must be a number of bytes, plain or with KiB, MiB, GiB or TiB (8MiB)"
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		digits = strings.TrimRight(digits, " ")
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
			return 0, form + tooBig(digits)
		case n > math.MaxInt64>>u.shift || n < math.MinInt64>>u.shift:
			return 0, form + tooBig(strings.Repeat("9", 20))
		}
		return n << u.shift, ""
	}
	return 0, form
}

// parseDuration reads Go's form, or a plain number of milliseconds.
func parseDuration(text string) (n int64, why string) {
	const form = "must be a duration such as 30s, 5m or 250ms, or a plain number of milliseconds"
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms > math.MaxInt64/int64(time.Millisecond) || ms < math.MinInt64/int64(time.Millisecond) {
			return 0, form + fmt.Sprintf(" of at most %d", math.MaxInt64/int64(time.Millisecond))
		}
		return ms * int64(time.Millisecond), ""
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, form
	}
	return int64(d), ""
}

// tooBig adds a hint when text is a number and only its size is wrong.
func tooBig(text string) string {
	digits := strings.TrimLeft(text, "+-")
	if len(digits) >= 19 && strings.Trim(digits, "0123456789") == "" {
		return fmt.Sprintf(" of at most %d", int64(math.MaxInt64))
	}
	return ""
}
