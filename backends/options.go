package backends

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/tierkit/tierkit/internal/settings"
)

// Options of a Store. The zero value is usable.
type Options struct {
	Env    Env
	Prefix string // put before every key, cut off every answer: a namespace of the store's own (the suite's); not key.prefix
	Mask   string // text that no error and no log shows, "" for none: it becomes "<prefix>", or "<prefix>/" if it ends with a slash
	Limits Limits

	Observer Observer // nil for none

	// Settings is how Registry.Open reads secrets and names keys in messages. It does not matter to NewStore.
	Settings settings.Options
}

// Limits of a Store; zero means none. They can be changed while the Store runs.
type Limits struct {
	Reads  int // Get (until its body is read or closed), Stat, List, Uploads, Probe at the same time
	Writes int // Put, Delete, DeleteMany, AbortUpload at the same time

	UploadBytesPerSecond   int64
	DownloadBytesPerSecond int64
}

func (l Limits) check() error {
	if l.Reads < 0 || l.Writes < 0 || l.UploadBytesPerSecond < 0 || l.DownloadBytesPerSecond < 0 {
		return errors.New("limits must not be negative")
	}
	return nil
}

// withDefaults leaves no field of an Env nil.
func (e Env) withDefaults() Env {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.WrapTransport == nil {
		e.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	if e.UserAgent == "" {
		e.UserAgent = "tierkit"
	}
	if e.Now == nil {
		e.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	return e
}
