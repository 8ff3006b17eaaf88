package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
)

func configCases() []Case {
	factory := []Facility{UsesFactory}
	return []Case{
		{ID: "config/unknown-key", Rule: "A setting that nobody knows is an error that names it and the nearest known one.", Level: Driver, Uses: factory, Run: configUnknown},
		{ID: "config/missing", Rule: "A required setting that is missing is an error that names it.", Level: Driver, Uses: factory, Run: configMissing},
		{ID: "config/all-errors-at-once", Rule: "All mistakes in the settings are told at once.", Level: Driver, Uses: factory, Run: configAll},
		{ID: "config/docs-match-settings", Rule: "Every setting is read by Open and has a text; whatever is read is a setting.", Level: Driver, Uses: factory, Run: configDocs},
		{ID: "config/java-aliases", Rule: "The Java class names that a driver lists choose it.", Level: Driver, Uses: factory, Run: configAliases},
		{ID: "config/secret-sources", Rule: "A secret is given literally, by file: or by env:; no error tells it.", Level: Driver, Uses: factory, Run: configSecrets},
	}
}

// parse reads the harness's settings with changes, as a Registry would.
func (b *Bench) parse(change func(props map[string]string), o settings.Options) (*backends.Choice, error) {
	var r backends.Registry
	if err := r.Register(*b.r.h.Factory); err != nil {
		b.t.Fatalf("register the factory: got %v, want success", err)
	}
	props := maps.Clone(b.r.h.Settings)
	if props == nil {
		props = map[string]string{}
	}
	props["storage.backend"] = b.r.h.Factory.Name
	change(props)
	return r.Parse(props, o)
}

// names checks that an error has each text.
func names(t T, what string, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error, want one", what)
		return
	}
	for _, text := range texts {
		if said := err.Error(); !strings.Contains(said, text) {
			t.Errorf("%s: want an error that names %s, got %v", what, text, err)
		}
	}
}

func configUnknown(t T, b *Bench) {
	for _, s := range b.r.h.Factory.Settings {
		key := s.Name[:len(s.Name)-1] + "zz"
		_, err := b.parse(func(p map[string]string) { p[key] = "x" }, settings.Options{})
		names(t, "a misspelt "+s.Name, err, key)
		if known := err != nil && slices.ContainsFunc(b.r.h.Factory.Settings, func(s backends.Setting) bool { return strings.Contains(shown(err), s.Name) }); !known {
			t.Errorf("the error about %s: got %v, want one that names a known setting", key, err)
		}
	}
	if len(b.r.h.Factory.Settings) == 0 {
		_, err := b.parse(func(p map[string]string) { p["storage.nonsense"] = "x" }, settings.Options{})
		names(t, "a setting of a driver without any", err, "storage.nonsense")
	}
}

func configMissing(t T, b *Bench) {
	for _, s := range b.r.h.Factory.Settings {
		if s.Required {
			_, err := b.parse(func(p map[string]string) { delete(p, s.Name) }, settings.Options{})
			names(t, "without "+s.Name, err, s.Name)
		}
	}
	if _, err := b.parse(func(map[string]string) {}, settings.Options{}); err != nil {
		t.Errorf("the settings of the harness: got %v, want success", err)
	}
}

func configAll(t T, b *Bench) {
	want := []string{"storage.nonsense.one", "storage.nonsense.two"}
	_, err := b.parse(func(p map[string]string) {
		p[want[0]], p[want[1]] = "x", "y"
		for _, s := range b.r.h.Factory.Settings {
			switch {
			case s.NoEffect != "":
			case s.Type == backends.TypeBytes || s.Type == backends.TypeInt || s.Type == backends.TypeDuration || s.Type == backends.TypeBool:
				p[s.Name] = "no such value"
				want = append(want, s.Name)
			}
		}
	}, settings.Options{})
	names(t, "several mistakes", err, want...)
}

func configDocs(t T, b *Bench) {
	for _, s := range b.r.h.Factory.Settings {
		if s.Doc == "" && s.NoEffect == "" || s.Doc != "" && !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("the text of %s: got %q, want a sentence", s.Name, s.Doc)
		}
	}
	choice, err := b.parse(func(map[string]string) {}, settings.Options{})
	if err != nil {
		t.Fatalf("the settings of the harness: got %v, want success", err)
	}
	d, err := b.r.h.Factory.Open(t.Context(), choice.Config, b.open(ClientOptions{}).Env)
	if err != nil {
		t.Fatalf("open: got %v, want success", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: got %v, want success", err)
	}
	for _, name := range choice.Config.Unread() {
		t.Errorf("%s: got a setting with a text that Open does not read, want every one read", name)
	}
}

func configAliases(t T, b *Bench) {
	for _, alias := range b.r.h.Factory.Aliases {
		choice, err := b.parse(func(p map[string]string) {
			delete(p, "storage.backend")
			p["storage.backend.class"] = alias
		}, settings.Options{})
		if err != nil || choice.Factory.Name != b.r.h.Factory.Name {
			t.Errorf("storage.backend.class=%s: got %v, want success", alias, err)
		}
	}
	_, err := b.parse(func(p map[string]string) {
		delete(p, "storage.backend")
		p["storage.backend.class"] = "com.example.NoSuchStorage"
	}, settings.Options{})
	names(t, "a class that nobody knows", err, "com.example.NoSuchStorage")
}

func configSecrets(t T, b *Bench) {
	const planted = "conformance-planted-secret"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(planted), 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	env := settings.Options{Getenv: func(name string) (string, bool) { return planted, name == "PLANTED" }}
	for _, s := range b.r.h.Factory.Settings {
		if s.Type != backends.TypeSecret || s.NoEffect != "" {
			continue
		}
		for _, form := range []string{planted, "file:" + file, "env:PLANTED"} {
			choice, err := b.parse(func(p map[string]string) { p[s.Name] = form }, env)
			secretIs(t, s.Name, planted, choice, err)
		}
		_, err := b.parse(func(p map[string]string) { p[s.Name] = "file:" + file + "-none" }, env)
		names(t, s.Name+" from a file that is not there", err, s.Name, file+"-none")
	}
}

// secretIs checks that a setting holds the secret, or that its error does not. Together with other settings it may be a mistake.
func secretIs(t T, name, planted string, choice *backends.Choice, err error) {
	t.Helper()
	if strings.Contains(shown(err), planted) {
		t.Errorf("%s: got an error that tells the secret, want one without: %v", name, err)
	}
	if err != nil {
		return
	}
	if got := choice.Config.Secret(name).Reveal(); got != planted {
		t.Errorf("%s: got another secret, of %d bytes, want the one that was set", name, len(got))
	}
	if strings.Contains(choice.Config.Text(name), planted) {
		t.Errorf("the text of %s: got one that tells the secret, want one without", name)
	}
}
