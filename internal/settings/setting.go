package settings

import (
	"fmt"
	"strings"
)

// Type is the kind of a setting's value.
type Type string

// The types, with the text forms that they accept.
const (
	TypeString   Type = "string"   // any text, the empty one included
	TypeInt      Type = "int"      // a decimal number that fits 64 bits
	TypeBytes    Type = "bytes"    // a plain number of bytes, or a number with B, KiB, MiB, GiB or TiB
	TypeBool     Type = "bool"     // true or false, in any case
	TypeDuration Type = "duration" // a plain number of milliseconds (as Kafka has it), or Go's form: 30s, 1m30s, 250ms
	TypeList     Type = "list"     // values separated by commas; spaces around them do not count
	TypeSecret   Type = "secret"   // the secret itself, file:PATH or env:NAME
	TypeFile     Type = "file"     // a path
)

// ID in a Setting.Name stands for a part that the user chooses, as in "encryption.key.pairs.<id>.public.key.file". A name holds
// it at most once; what stands for it may contain dots but is not empty.
const ID = "<id>"

// Setting describes one setting. Default, Min and Max are written as a user would write the value.
type Setting struct {
	Name    string // full name, lower case, dotted
	Type    Type
	Default string // "" for none
	Doc     string // whole sentences for the reference: what it does, what it costs

	Min, Max string   // bounds, both inclusive, of numbers and durations; "" for none (Bytes and Duration: then Min is 0)
	OneOf    []string // the only values allowed (List: for each element)

	Required  bool     // must be given
	Secret    bool     // the value is never shown; implied by TypeSecret
	Conflicts []string // settings that may not be given together with this one
	With      []string // settings that must be given when this one is

	// NoEffect, if set, makes the setting accepted without effect: it says why. A value given is not looked at, and Parse leaves
	// a notice.
	NoEffect string
}

// dynamic reports whether the name has a part that the user chooses.
func (s *Setting) dynamic() bool { return strings.Contains(s.Name, ID) }

// secret reports whether the value must not be shown.
func (s *Setting) secret() bool { return s.Secret || s.Type == TypeSecret }

// match reports whether key is the setting's name, and what stands for ID in it.
func (s *Setting) match(key string) (id string, ok bool) {
	before, after, dyn := strings.Cut(s.Name, ID)
	if !dyn {
		return "", key == s.Name
	}
	id, ok = strings.CutPrefix(key, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	return id, ok && id != ""
}

// Allowed says in a few words which values the setting takes: "1..1073741823", "fs, gcs, s3". It is "" when the type says all.
func (s *Setting) Allowed() string {
	switch {
	case len(s.OneOf) > 0:
		return strings.Join(s.OneOf, ", ")
	case s.Type == TypeBool:
		return "true, false"
	case s.Min != "" && s.Max != "":
		return s.Min + ".." + s.Max
	case s.Min != "":
		return s.Min + " or more"
	case s.Max != "":
		return "at most " + s.Max
	}
	return ""
}

// Check reports what is wrong with a table: names given twice or not in the usual form, no documentation, a default or bound that
// is no value of the type, a reference to a setting that is not there. Parse panics over such a table; whoever takes a
// table from strangers calls Check first.
func Check(table []Setting) error {
	names := make(map[string]bool, len(table))
	for _, s := range table {
		if names[s.Name] {
			return fmt.Errorf("setting %s: stands twice in the table", s.Name)
		}
		names[s.Name] = true
	}
	for i := range table {
		s := &table[i]
		if err := checkOne(s); err != nil {
			return fmt.Errorf("setting %s: %w", s.Name, err)
		}
		for _, other := range append(append([]string(nil), s.Conflicts...), s.With...) {
			if !names[other] || strings.Contains(other, ID) || s.dynamic() {
				return fmt.Errorf("setting %s: refers to %s, which is not a plain setting of the table", s.Name, other)
			}
		}
	}
	return nil
}

func checkOne(s *Setting) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if strings.TrimSpace(s.Doc) == "" && s.NoEffect == "" {
		return fmt.Errorf("has no documentation")
	}
	switch s.Type {
	case TypeString, TypeBool, TypeList, TypeSecret, TypeFile:
		if s.Min != "" || s.Max != "" {
			return fmt.Errorf("bounds make no sense for type %s", s.Type)
		}
	case TypeInt, TypeBytes, TypeDuration:
	default:
		return fmt.Errorf("unknown type %q", s.Type)
	}
	if s.Default != "" && (s.Required || s.dynamic() || s.secret()) {
		return fmt.Errorf("a required, secret or <id> setting has no default")
	}
	for _, bound := range []string{s.Min, s.Max} {
		if bound == "" {
			continue
		}
		if _, why := parseNumber(s.Type, bound); why != "" {
			return fmt.Errorf("bound %q: %s", bound, why)
		}
	}
	if s.Default != "" && s.NoEffect == "" {
		if _, why := s.parse(s.Default); why != "" {
			return fmt.Errorf("default %q: %s", s.Default, why)
		}
	}
	return nil
}

// checkName refuses names that a reader could not tell from values, or that would be ambiguous.
func checkName(name string) error {
	if strings.Count(name, ID) > 1 {
		return fmt.Errorf("name holds %s more than once", ID)
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == ID {
			continue
		}
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return fmt.Errorf("name is not lower case and dotted")
		}
	}
	return nil
}
