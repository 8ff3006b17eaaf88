package settings

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Values are the parsed values of one table. The getters take a full name (for a dynamic setting with the part that the user
// chose), return the default where nothing was given, and the type's zero value where there is no default or Parse reported a
// mistake. A name that is not in the table, or of another type, panics. Values are safe for concurrent use.
type Values struct {
	table   []Setting
	entries map[string]*entry   // by key as given, and by name for what has a default
	ids     map[string][]string // dynamic name -> parts that the user chose, sorted
	read    []atomic.Bool       // per table index
	notices []string
}

type entry struct {
	text  string
	value any // nil: mistake, or no effect
	given bool
}

func newValues(table []Setting) *Values {
	v := &Values{
		table: slices.Clone(table), entries: make(map[string]*entry),
		ids: make(map[string][]string), read: make([]atomic.Bool, len(table)),
	}
	for i := range table {
		s := &table[i]
		if s.Default == "" || s.NoEffect != "" {
			continue
		}
		val, _ := s.parse(s.Default) // Check has seen that it parses
		v.entries[s.Name] = &entry{text: s.Default, value: val}
	}
	return v
}

// set records what was given; keys come in sorted order.
func (v *Values) set(key string, s *Setting, id, text string, val any) {
	v.entries[key] = &entry{text: text, value: val, given: true}
	if s.dynamic() {
		v.ids[s.Name] = append(v.ids[s.Name], id)
	}
}

// Notices returns what the user should hear once: settings without effect, keys passed over.
func (v *Values) Notices() []string { return slices.Clone(v.notices) }

// IsSet reports whether the setting was given, be it with a mistake.
func (v *Values) IsSet(name string) bool {
	v.lookup(name)
	e := v.entries[name]
	return e != nil && e.given
}

// IDs returns, sorted, what was given for ID in a dynamic setting's name ("encryption.key.pairs.<id>.public.key.file").
func (v *Values) IDs(name string) []string {
	s := v.lookup(name)
	if s.Name != name || !s.dynamic() {
		panic("settings: " + name + " has no part to choose")
	}
	ids := slices.Clone(v.ids[name])
	slices.Sort(ids)
	return ids
}

// String returns a String setting.
func (v *Values) String(name string) string { return get[string](v, name, TypeString) }

// File returns a File setting: the path, "" if there is none.
func (v *Values) File(name string) string { return get[string](v, name, TypeFile) }

// Int returns an Int setting.
func (v *Values) Int(name string) int64 { return get[int64](v, name, TypeInt) }

// Bytes returns a Bytes setting.
func (v *Values) Bytes(name string) int64 { return get[int64](v, name, TypeBytes) }

// Bool returns a Bool setting.
func (v *Values) Bool(name string) bool { return get[bool](v, name, TypeBool) }

// Duration returns a Duration setting; below zero where the setting allows -1.
func (v *Values) Duration(name string) time.Duration {
	return get[time.Duration](v, name, TypeDuration)
}

// List returns a List setting; never to be modified.
func (v *Values) List(name string) []string { return get[[]string](v, name, TypeList) }

// Secret returns a Secret setting.
func (v *Values) Secret(name string) Secret { return get[Secret](v, name, TypeSecret) }

// Text returns a setting of any type as it was written, or its default. A secret is Redacted.
func (v *Values) Text(name string) string {
	s := v.lookup(name)
	e := v.entries[name]
	switch {
	case e == nil:
		return ""
	case s.secret():
		return Redacted
	}
	return e.text
}

// Unread returns the names of the table that no getter was asked for: a test of a component proves with it that every setting
// that is documented is read. Settings without effect do not count.
func (v *Values) Unread() []string {
	var out []string
	for i := range v.table {
		if !v.read[i].Load() && v.table[i].NoEffect == "" {
			out = append(out, v.table[i].Name)
		}
	}
	return out
}

// lookup finds the setting of a name and marks it as read. The name may be the dynamic one itself.
func (v *Values) lookup(name string) *Setting {
	for i := range v.table {
		if v.table[i].Name == name {
			v.read[i].Store(true)
			return &v.table[i]
		}
	}
	for i := range v.table {
		if _, ok := v.table[i].match(name); ok {
			v.read[i].Store(true)
			return &v.table[i]
		}
	}
	panic("settings: " + name + " is not in the table")
}

func get[T any](v *Values, name string, t Type) T {
	s := v.lookup(name)
	if s.Type != t {
		panic(fmt.Sprintf("settings: %s is of type %s, not %s", name, s.Type, t))
	}
	var zero T
	e := v.entries[name]
	if e == nil || e.value == nil {
		return zero
	}
	val, ok := e.value.(T)
	if !ok { // the types of Parse and of the getters are the same
		panic(fmt.Sprintf("settings: %s holds a %T", name, e.value))
	}
	return val
}
