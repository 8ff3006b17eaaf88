package rsm

import (
	"context"
	"errors"
	"log/slog"
	"os"
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
	Hooks    Hooks
	Now      func() time.Time
}

// Setup is what the settings say, before anything is opened.
type Setup struct {
	Config Config
	choice *backends.Choice
	o      OpenOptions
}

// ReadSettings reads and checks the settings without any I/O but for secrets in files. The error names every mistake.
func ReadSettings(o OpenOptions) (*Setup, error) {
	if o.Registry == nil {
		return nil, errors.New("rsm: OpenOptions.Registry is required")
	}
	c, err := parseConfig(o.Props, o.settings(), o.Keys)
	choice, serr := o.Registry.Parse(o.Props, o.settings())
	if err := errors.Join(err, serr); err != nil {
		return nil, err
	}
	return &Setup{Config: c, choice: choice, o: o}, nil
}

func (o *OpenOptions) settings() settings.Options {
	return settings.Options{Prefix: o.Prefix, Getenv: o.Getenv}
}

// Open is ReadSettings and Setup.Open in one.
func Open(ctx context.Context, o OpenOptions) (*Manager, error) {
	s, err := ReadSettings(o)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx)
}

// Open loads the keys, opens the store, and returns a Manager that owns both the store and a memory budget of its own. Close the Manager
// after use.
func (s *Setup) Open(ctx context.Context) (*Manager, error) {
	c, o, keys := s.Config, s.o, s.o.Keys
	if keys == nil {
		var err error
		if keys, err = c.keyRing(); err != nil {
			return nil, settings.Missing(o.Prefix+keyPairs, "%v", err)
		}
	}
	so := backends.Options{
		Env: backends.Env{Log: o.Logger, Now: o.Now}, Observer: o.Observer, Settings: o.settings(),
		Limits: backends.Limits{UploadBytesPerSecond: c.UploadBytesPerSecond},
	}
	if c.MaskPrefix {
		so.Mask = c.KeyPrefix
	}
	store, err := s.choice.Open(ctx, so)
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
	if err := backends.CheckKey(store.Properties(), c.KeyPrefix+"t"); err != nil {
		return nil, settings.Missing(o.Prefix+keyPrefix, "no object of this store can be behind it: %v", errors.Unwrap(err))
	}
	if dir := c.Disk.Dir; c.Disk.on() {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, settings.Problemf(o.Prefix+keyDiskPath, dir, "is not a directory that is there; tierkit-chunks is made in it")
		}
	}
	budget, err := NewBudget(c, store)
	if errors.Is(err, membudget.ErrTooLarge) {
		return nil, settings.Problemf(o.Prefix+keyMemoryBudget, strconv.FormatInt(c.MemoryBudgetBytes, 10),
			"is too little for the other settings: set it to %d or more", MinBudgetBytes(c, store))
	}
	if err != nil {
		return nil, err
	}
	store.UseBudget(budget)
	return New(Options{Store: store, Budget: budget, Keys: keys, Config: c, Logger: o.Logger, Hooks: o.Hooks, Now: o.Now})
}
