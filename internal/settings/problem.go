package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one mistake in a configuration. Its text is one line that names the key, the value where it may be shown, what is
// wrong and what is allowed. Components report mistakes that a table cannot express (one setting that demands another) as
// Problems of their own and join them with those of Parse.
type Problem struct {
	Key     string // as the user wrote it, with its prefix
	Value   string
	Hidden  bool   // the value is a secret, or there is none
	Unknown bool   // the key is not known
	What    string // "must be at least 1MiB"
}

// maxShown bounds how much of a value a message shows.
const maxShown = 64

func (p *Problem) Error() string {
	if p.Hidden {
		return p.Key + ": " + oneLine(p.What)
	}
	v := p.Value
	if len(v) > maxShown {
		v = strings.ToValidUTF8(v[:maxShown], "") + "..."
	}
	return p.Key + "=" + strconv.QuoteToGraphic(v) + ": " + oneLine(p.What)
}

func oneLine(s string) string { return strings.Join(strings.FieldsFunc(s, isBreak), " ") }

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// Problemf returns a Problem about a key whose value may be shown.
func Problemf(key, value, format string, args ...any) *Problem {
	return &Problem{Key: key, Value: value, What: fmt.Sprintf(format, args...)}
}

// Missing returns a Problem about a key that has no value to show.
func Missing(key, format string, args ...any) *Problem {
	return &Problem{Key: key, Hidden: true, What: fmt.Sprintf(format, args...)}
}

// Problems returns every *Problem in err, in order: the lines to print. It is nil when err is not about configuration.
func Problems(err error) []*Problem {
	switch e := err.(type) { //nolint:errorlint // this walks the whole tree, which errors.As does not
	case nil:
		return nil
	case *Problem:
		return []*Problem{e}
	case interface{ Unwrap() []error }:
		var out []*Problem
		for _, inner := range e.Unwrap() {
			out = append(out, Problems(inner)...)
		}
		return out
	}
	return Problems(errors.Unwrap(err))
}

func joinProblems(ps []*Problem) error {
	slices.SortStableFunc(ps, func(a, b *Problem) int { return cmp.Compare(a.Key, b.Key) })
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errors.Join(errs...)
}
