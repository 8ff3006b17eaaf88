package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/internal/settings"
)

func (a *app) configCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "config [COMPONENT]",
		Short: "print the configuration reference, of all components or of one",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("one component at a time: %s", strings.Join(args, " "))
			}
			all := Components(a.registry)
			if len(args) == 0 {
				return a.reference(all)
			}
			for _, c := range all {
				if c.Name == args[0] {
					return a.reference([]Component{c})
				}
			}
			var names []string
			for _, c := range all {
				names = append(names, c.Name)
			}
			return usagef("no component %q; the components are: %s", args[0], strings.Join(names, " "))
		},
	}
}

// settingJSON is the JSON shape of config.
type settingJSON struct {
	Component string  `json:"component"`
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	Default   *string `json:"default"`
	Allowed   string  `json:"allowed"`
	Required  bool    `json:"required"`
	Secret    bool    `json:"secret"`
	NoEffect  bool    `json:"noEffect"`
	Doc       string  `json:"doc"`
}

func (a *app) reference(cs []Component) error {
	show := a.componentText
	if a.json {
		show = a.componentJSON
	}
	for _, c := range cs {
		if err := show(c); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) componentJSON(c Component) error {
	for _, s := range c.Settings {
		if err := a.printJSON(settingOf(c.Name, s)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) componentText(c Component) error {
	if err := a.printf("%s: %s\n", c.Name, c.Doc); err != nil {
		return err
	}
	for _, s := range c.Settings {
		if err := a.printf("\n  %s (%s)\n%s", s.Name, facts(s), indent(s.Meaning(), 6, 100)); err != nil {
			return err
		}
	}
	return a.printf("\n")
}

func settingOf(component string, s settings.Setting) settingJSON {
	j := settingJSON{
		Component: component, Name: s.Name, Type: string(s.Type), Allowed: s.Allowed(), Required: s.Required,
		Secret: s.Secret || s.Type == settings.TypeSecret, NoEffect: s.NoEffect != "", Doc: s.Meaning(),
	}
	if s.Default != "" {
		j.Default = &s.Default
	}
	return j
}

// facts are type, bounds and default in a few words.
func facts(s settings.Setting) string {
	parts := []string{string(s.Type)}
	if v := s.Allowed(); v != "" && s.Type != settings.TypeBool {
		parts = append(parts, v)
	}
	switch {
	case s.Required:
		parts = append(parts, "required")
	case s.Default != "":
		parts = append(parts, "default "+s.Default)
	}
	return strings.Join(parts, "; ")
}

// indent breaks text into lines of at most width columns, each behind n spaces.
func indent(text string, n, width int) string {
	var b strings.Builder
	col := 0
	for _, word := range strings.Fields(text) {
		switch {
		case col == 0:
			fmt.Fprintf(&b, "%*s%s", n, "", word)
			col = n + len(word)
		case col+1+len(word) > width:
			fmt.Fprintf(&b, "\n%*s%s", n, "", word)
			col = n + len(word)
		default:
			b.WriteString(" " + word)
			col += 1 + len(word)
		}
	}
	if col == 0 {
		return ""
	}
	return b.String() + "\n"
}
