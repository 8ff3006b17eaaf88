package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options say where Parse gets what is not in the properties. The zero value is usable: then "env:NAME" secrets are refused.
type Options struct {
	// Getenv looks an environment variable up (os.LookupEnv). Nil: secrets of the form env:NAME are reported as mistakes.
	Getenv func(name string) (string, bool)
	// ReadFile reads the file of a file:PATH secret. Nil: from the file system, at most MaxSecretBytes.
	ReadFile func(path string) ([]byte, error)
	// Prefix is put before names in messages and notices: what the caller cut off the keys ("rsm.config.").
	Prefix string
	// Ignored tells of a key that is not in the table whether to pass over it; a reason that is not empty becomes a notice. Nil:
	// every key that is not in the table is a mistake.
	Ignored func(key string) (reason string, ok bool)
}

// Parse reads props by the table. The error joins every mistake found, each a *Problem, sorted by key; the Values are never nil
// and hold what could be read, so that a caller can look for further mistakes and report all of them together. Parse panics if
// Check refuses the table.
func Parse(table []Setting, props map[string]string, o Options) (*Values, error) {
	if err := Check(table); err != nil {
		panic("settings: " + err.Error())
	}
	p := &parser{table: table, props: props, o: o, values: newValues(table)}
	for _, key := range slices.Sorted(maps.Keys(props)) {
		p.key(key)
	}
	for i := range table {
		p.setting(&table[i])
	}
	return p.values, joinProblems(p.problems)
}

type parser struct {
	table    []Setting
	props    map[string]string
	o        Options
	values   *Values
	problems []*Problem
}

// key reads one key that was given.
func (p *parser) key(key string) {
	s, id := find(p.table, key)
	switch {
	case s == nil:
		p.unknown(key)
	case s.NoEffect != "":
		p.notice(key, "has no effect: "+s.NoEffect)
		p.values.set(key, s, id, p.props[key], nil)
	default:
		text := strings.TrimSpace(p.props[key])
		v, why := p.value(s, text)
		if why != "" {
			p.problem(s, key, text, why)
		}
		p.values.set(key, s, id, text, v)
	}
}

func (p *parser) value(s *Setting, text string) (v any, why string) {
	if s.Type == TypeSecret {
		return p.o.secret(text)
	}
	return s.parse(text)
}

func (p *parser) unknown(key string) {
	if p.o.Ignored != nil {
		if reason, ok := p.o.Ignored(key); ok {
			if reason != "" {
				p.notice(key, "is ignored: "+reason)
			}
			return
		}
	}
	pr := &Problem{Key: p.o.Prefix + key, Unknown: true, Hidden: true, What: "unknown setting"}
	if near := Nearest(key, names(p.table)); near != "" {
		pr.What += ", did you mean " + p.o.Prefix + near + "?"
	}
	p.problems = append(p.problems, pr)
}

// setting looks at what a setting demands of the whole.
func (p *parser) setting(s *Setting) {
	if s.dynamic() || s.NoEffect != "" {
		return
	}
	_, given := p.props[s.Name]
	if !given && s.Required {
		p.problems = append(p.problems, &Problem{Key: p.o.Prefix + s.Name, Hidden: true, What: "is required" + hint(s)})
	}
	if !given {
		return
	}
	for _, other := range s.Conflicts {
		if _, both := p.props[other]; both {
			p.problem(s, s.Name, p.props[s.Name], fmt.Sprintf("cannot be set together with %s%s", p.o.Prefix, other))
		}
	}
	for _, other := range s.With {
		if _, both := p.props[other]; !both {
			p.problem(s, s.Name, p.props[s.Name], fmt.Sprintf("needs %s%s to be set too", p.o.Prefix, other))
		}
	}
}

func hint(s *Setting) string {
	if a := s.Allowed(); a != "" {
		return " (" + a + ")"
	}
	return ""
}

func (p *parser) problem(s *Setting, key, value, what string) {
	p.problems = append(p.problems, &Problem{Key: p.o.Prefix + key, Value: value, Hidden: s.secret(), What: what})
}

func (p *parser) notice(key, what string) {
	p.values.notices = append(p.values.notices, p.o.Prefix+key+" "+what)
}

// find returns the setting that key names: a plain name goes before a dynamic one.
func find(table []Setting, key string) (*Setting, string) {
	var dyn *Setting
	var dynID string
	for i := range table {
		s := &table[i]
		id, ok := s.match(key)
		switch {
		case ok && !s.dynamic():
			return s, ""
		case ok && dyn == nil:
			dyn, dynID = s, id
		}
	}
	return dyn, dynID
}

func names(table []Setting) []string {
	out := make([]string, len(table))
	for i := range table {
		out[i] = table[i].Name
	}
	return out
}

// Has reports whether key is a setting of the table.
func Has(table []Setting, key string) bool {
	s, _ := find(table, key)
	return s != nil
}
