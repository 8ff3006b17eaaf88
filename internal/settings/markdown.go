package settings

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the reference of a table: one row per setting in the order of the table.
func Markdown(w io.Writer, table []Setting) error {
	if err := Check(table); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "| setting | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n"); err != nil {
		return err
	}
	for i := range table {
		s := &table[i]
		_, err := fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n", s.Name, s.Type, s.DefaultText(), cell(s.Allowed()), cell(s.Meaning()))
		if err != nil {
			return err
		}
	}
	return nil
}

// DefaultText says in Markdown what holds when the setting is not given.
func (s *Setting) DefaultText() string {
	switch {
	case s.Required:
		return "required"
	case s.Default != "":
		return "`" + cell(s.Default) + "`"
	}
	return ""
}

// Meaning is the documentation together with what the table says about other settings.
func (s *Setting) Meaning() string {
	if s.NoEffect != "" {
		return strings.TrimSpace(s.Doc + " Accepted without effect: " + s.NoEffect + ".")
	}
	out := s.Doc
	if len(s.Conflicts) > 0 {
		out += " Not together with " + quoted(s.Conflicts) + "."
	}
	if len(s.With) > 0 {
		out += " Needs " + quoted(s.With) + "."
	}
	if s.Type == TypeSecret {
		out += " May be given as `file:PATH` or `env:NAME`."
	}
	return out
}

func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// cell makes text fit into one cell of a Markdown table: one line, no bar, and no "<" that would pass for a tag outside of code.
func cell(s string) string {
	s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "<", "&lt;")
	}
	return strings.Join(parts, "`")
}
