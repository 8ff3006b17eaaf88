package backends

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// The keys of the registry itself.
const (
	keyAll     = "storage."
	keyBackend = "storage.backend"
	keyClass   = "storage.backend.class"
)

// Registry maps names to factories. The zero value is empty and ready. Register everything before the first Open: a Registry is not
// safe for changes while it is used.
type Registry struct {
	factories map[string]Factory // by name
	names     map[string]string  // name or alias -> name
}

// Register adds a kind of driver. A name or alias that is taken, a table of settings that contradicts itself or names settings that
// are not below "storage.", is an error.
func (r *Registry) Register(f Factory) error {
	if f.Name == "" || f.Open == nil {
		return fmt.Errorf("register driver %q: it needs a name and an Open function", f.Name)
	}
	if err := settings.Check(f.Settings); err != nil {
		return fmt.Errorf("register driver %s: %w", f.Name, err)
	}
	for _, s := range f.Settings {
		if !strings.HasPrefix(s.Name, keyAll) || s.Name == keyBackend || s.Name == keyClass {
			return fmt.Errorf("register driver %s: setting %s does not belong to a driver", f.Name, s.Name)
		}
	}
	all := append([]string{f.Name}, f.Aliases...)
	for i, name := range all {
		if owner, taken := r.names[name]; taken {
			return fmt.Errorf("register driver %s: the name %s belongs to driver %s", f.Name, name, owner)
		}
		if slices.Contains(all[:i], name) {
			return fmt.Errorf("register driver %s: the name %s is given twice", f.Name, name)
		}
	}
	if r.factories == nil {
		r.factories, r.names = make(map[string]Factory), make(map[string]string)
	}
	r.factories[f.Name] = f
	for _, name := range all {
		r.names[name] = f.Name
	}
	return nil
}

// Names returns the names of the registered drivers, sorted, without aliases.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.factories)) }

// Factory returns the driver of that name or alias.
func (r *Registry) Factory(name string) (Factory, bool) {
	f, ok := r.factories[r.names[name]]
	return f, ok
}

// Settings returns the table of the registry itself: how a driver is chosen.
func (r *Registry) Settings() []Setting {
	return []Setting{
		{
			Name: keyBackend, Type: TypeString, OneOf: r.Names(),
			Doc: "The driver of the object store. Either this or `" + keyClass + "` is required.",
		},
		{
			Name: keyClass, Type: TypeString,
			Doc: "The Java class name by which the plug-in for brokers chose the driver; the same choice as `" + keyBackend + "`.",
		},
		{
			Name: "storage.key.prefix", Type: TypeString,
			NoEffect: "the plug-in's sample file shows it by mistake, the setting is key.prefix",
		},
	}
}

// Choice is what the storage.* settings say, before anything is opened.
type Choice struct {
	Factory Factory
	Config  *Config
	Notices []string // what the user should hear once

	prefix string // of the settings in messages
}

// Parse reads the storage.* keys of props; other keys are not looked at. The error joins all mistakes, each a line of its own. Keys that
// belong to another registered driver are ignored with a notice; any other unknown key is a mistake.
func (r *Registry) Parse(props map[string]string, o settings.Options) (*Choice, error) {
	mine, rest := make(map[string]string), make(map[string]string)
	own := r.Settings()
	for key, value := range props {
		switch {
		case !strings.HasPrefix(key, keyAll):
		case slices.ContainsFunc(own, func(s Setting) bool { return s.Name == key }):
			mine[key] = value
		default:
			rest[key] = value
		}
	}
	chosen, err := settings.Parse(own, mine, o)
	name, cerr := r.choose(chosen, o.Prefix)
	if err = errors.Join(err, cerr); err != nil && name == "" {
		return nil, errors.Join(err, r.unknownToAll(rest, o))
	}
	f := r.factories[name]
	o.Ignored = func(key string) (string, bool) {
		owner := r.ownerOf(key)
		return "it belongs to storage.backend=" + owner, owner != ""
	}
	config, ferr := settings.Parse(f.Settings, rest, o)
	if err = errors.Join(err, ferr); err != nil {
		return nil, err
	}
	return &Choice{Factory: f, Config: config, Notices: append(chosen.Notices(), config.Notices()...), prefix: o.Prefix}, nil
}

// choose returns the name of the driver, "" when it cannot be told.
func (r *Registry) choose(v *Config, prefix string) (string, error) {
	name, class := v.String(keyBackend), v.String(keyClass)
	if !v.IsSet(keyBackend) && !v.IsSet(keyClass) {
		return "", settings.Missing(prefix+keyBackend, "is required (%s)", strings.Join(r.Names(), ", "))
	}
	if v.IsSet(keyBackend) && name == "" {
		return "", nil // reported by Parse: not one of the names
	}
	if !v.IsSet(keyClass) {
		return name, nil
	}
	byClass, ok := r.names[class]
	switch {
	case !ok:
		return name, settings.Problemf(prefix+keyClass, class, "no such driver; known are %s", strings.Join(slices.Sorted(maps.Keys(r.names)), ", "))
	case name != "" && name != byClass:
		return name, settings.Problemf(prefix+keyClass, class, "means %s, but %s%s=%s", byClass, prefix, keyBackend, name)
	}
	return byClass, nil
}

// unknownToAll finds the keys that no driver knows, when it is not clear which driver is meant.
func (r *Registry) unknownToAll(rest map[string]string, o settings.Options) error {
	all := r.Settings()
	for _, name := range r.Names() {
		for _, s := range r.factories[name].Settings {
			if !slices.ContainsFunc(all, func(other Setting) bool { return other.Name == s.Name }) {
				all = append(all, s)
			}
		}
	}
	for i := range all {
		all[i].Required, all[i].With, all[i].Conflicts = false, nil, nil
	}
	o.Ignored = nil
	_, err := settings.Parse(all, rest, o)
	var out []error
	for _, p := range settings.Problems(err) {
		if p.Unknown {
			out = append(out, p)
		}
	}
	return errors.Join(out...)
}

// ownerOf returns the driver whose table has key.
func (r *Registry) ownerOf(key string) string {
	for _, name := range r.Names() {
		if settings.Has(r.factories[name].Settings, key) {
			return name
		}
	}
	return ""
}

// Open reads the storage.* keys of props (see Parse), opens the driver and returns a Store over it. Notices are logged once.
func (r *Registry) Open(ctx context.Context, props map[string]string, o Options) (*Store, error) {
	choice, err := r.Parse(props, o.Settings)
	if err != nil {
		return nil, err
	}
	return choice.Open(ctx, o)
}

// Open opens the driver that was chosen and returns a Store over it.
func (c *Choice) Open(ctx context.Context, o Options) (*Store, error) {
	o.Env = o.Env.withDefaults()
	mask := newMasker(o.Mask)
	for _, n := range c.Notices {
		o.Env.Log.WarnContext(ctx, "configuration", "notice", n)
	}
	env := o.Env
	env.Log = mask.logger(env.Log)
	at := &run{s: &Store{props: Properties{Name: c.Factory.Name}, mask: mask}, op: OpOpen}
	d, err := c.Factory.Open(ctx, c.Config, env)
	if err != nil {
		for _, p := range settings.Problems(err) {
			p.Key = c.prefix + p.Key // drivers do not know it
		}
		return nil, at.wrap(ctx, nil, err)
	}
	s, err := NewStore(d, o)
	if err != nil {
		return nil, at.wrap(ctx, nil, errors.Join(err, d.Close()))
	}
	return s, nil
}
