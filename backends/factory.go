package backends

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Env is everything a driver gets from its surroundings. What Registry.Open passes on has no nil field.
type Env struct {
	Log           *slog.Logger
	WrapTransport func(http.RoundTripper) http.RoundTripper // every HTTP transport of a driver, that of token requests included, goes through it
	UserAgent     string
	Now           func() time.Time
}

// Factory describes one kind of driver.
type Factory struct {
	Name     string    // "s3": the value of storage.backend
	Aliases  []string  // Java class names accepted in storage.backend.class
	Settings []Setting // full names below "storage."; parsing, docs and command-line help come from this

	// Open makes a driver. Mistakes in settings that the table cannot express, and what is clearly wrong at once (a missing bucket),
	// are InvalidArgument; it reads every setting of the table (config/docs-match-settings).
	Open func(ctx context.Context, c *Config, env Env) (Driver, error)
}
