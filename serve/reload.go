package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// lookEvery is how often files of tokens and certificates are looked at: beside the calls, none of which waits for the disk they are on.
const lookEvery = time.Second

// reloaded is what was read from files, and is read again when they change: tokens and certificates are renewed while the daemon runs.
// What cannot be read, perhaps because it is being written, leaves it as it was.
type reloaded[T any] struct {
	what  string
	files []string
	read  func() (T, error)
	log   *slog.Logger

	value   atomic.Pointer[T]
	seen    []stamp // of the files, before value was read
	refused []stamp // of files that could not be used; logged once
}

// stamp tells one state of a file from another.
type stamp struct {
	there bool
	size  int64
	at    time.Time
	file  os.FileInfo
}

func (s stamp) equal(o stamp) bool {
	return s.there == o.there && (!s.there || s.size == o.size && s.at.Equal(o.at) && os.SameFile(s.file, o.file))
}

func stampsOf(files []string) []stamp {
	out := make([]stamp, len(files))
	for i, name := range files {
		if fi, err := os.Stat(name); err == nil {
			out[i] = stamp{true, fi.Size(), fi.ModTime(), fi}
		}
	}
	return out
}

func equalStamps(a, b []stamp) bool { return slices.EqualFunc(a, b, stamp.equal) }

// get returns the present value, without a system call.
func (r *reloaded[T]) get() T { return *r.value.Load() }

// follow looks at the files until ctx ends. Where their disk does not answer, it does not return until that does.
func (r *reloaded[T]) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.look()
		case <-ctx.Done():
			return
		}
	}
}

// look reads the files again if they have changed. One call at a time.
func (r *reloaded[T]) look() {
	now := stampsOf(r.files)
	if equalStamps(now, r.seen) {
		return
	}
	v, err := r.read()
	switch {
	case err == nil:
		if r.seen != nil {
			r.log.Info("read again, since it has changed", "what", r.what, "files", r.files)
		}
		r.value.Store(&v)
		r.seen, r.refused = now, nil
	case !equalStamps(now, r.refused):
		r.refused = now
		r.log.Warn("it has changed and cannot be used: what was read before stays", "what", r.what, "error", err)
	}
}

// follow returns a configuration that takes the certificates anew for each connection after their files have changed.
func (c *Config) follow(ctx context.Context, first *tls.Config, log *slog.Logger) *tls.Config {
	r := &reloaded[*tls.Config]{what: "certificates", read: c.readTLS, log: log}
	r.value.Store(&first)
	for _, name := range []string{c.CertFile, c.KeyFile, c.ClientCAFile} {
		if name != "" {
			r.files = append(r.files, name)
		}
	}
	r.look() // they may have changed since
	go r.follow(ctx)
	t := first.Clone()
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.get(), nil }
	return t
}
