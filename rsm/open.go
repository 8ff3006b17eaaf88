package rsm

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/membudget"
)

// OpenOptions say what Open makes a Manager of. Registry and Props are required.
type OpenOptions struct {
	Registry *backends.Registry
	// Props are the settings of the engine and, below "storage.", of the store, without the prefix rsm.config.
	Props map[string]string
	// Prefix is what was cut off the keys, for messages.
	Prefix string
	// Getenv resolves secrets of the form env:NAME (os.LookupEnv); nil: they are refused.
	Getenv   func(name string) (string, bool)
	Keys     crypto.KeyWrapper // used instead of the key files of Props
	Logger   *slog.Logger
	Observer backends.Observer
	Now      func() time.Time
}

// Open reads the settings, opens the store, and returns a Manager that owns both it and a memory budget of its own. The error names
// every mistake in the settings. Close the Manager after use.
func Open(ctx context.Context, o OpenOptions) (*Manager, error) {
	if o.Registry == nil {
		return nil, errors.New("rsm: OpenOptions.Registry is required")
	}
	s := settings.Options{Prefix: o.Prefix, Getenv: o.Getenv}
	c, err := parseConfig(o.Props, s)
	choice, serr := o.Registry.Parse(o.Props, s)
	if err := errors.Join(err, serr); err != nil {
		return nil, err
	}
	keys := o.Keys
	if keys == nil {
		if keys, err = c.keyRing(); err != nil {
			return nil, err
		}
	}
	so := backends.Options{
		Env: backends.Env{Log: o.Logger, Now: o.Now}, Observer: o.Observer, Settings: s,
		Limits: backends.Limits{UploadBytesPerSecond: c.UploadBytesPerSecond},
	}
	if c.MaskPrefix {
		so.Mask = c.KeyPrefix
	}
	store, err := choice.Open(ctx, so)
	if err != nil {
		return nil, err
	}
	m, err := openOver(store, c, keys, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	m.owned = append(m.owned, store.Close)
	return m, nil
}

func openOver(store *backends.Store, c Config, keys crypto.KeyWrapper, o OpenOptions) (*Manager, error) {
	budget, err := NewBudget(c, store)
	if errors.Is(err, membudget.ErrTooLarge) {
		return nil, settings.Problemf(o.Prefix+keyMemoryBudget, strconv.FormatInt(c.MemoryBudgetBytes, 10),
			"is too little for the other settings: set it to %d or more", MinBudgetBytes(c, store))
	}
	if err != nil {
		return nil, err
	}
	store.UseBudget(budget)
	return New(Options{Store: store, Budget: budget, Keys: keys, Config: c, Logger: o.Logger, Now: o.Now})
}
