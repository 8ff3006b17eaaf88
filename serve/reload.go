package serve

import (
	"crypto/tls"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// reloaded is what was read from files, and is read again when they change: tokens and certificates are renewed while the daemon runs.
// What cannot be read, perhaps because it is being written, leaves it as it was.
type reloaded[T any] struct {
	what  string
	files []string
	read  func() (T, error)
	log   *slog.Logger

	mu      sync.Mutex
	value   T
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

// get returns the present value: some system calls where nothing has changed.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) == 0 {
		return r.value
	}
	now := stampsOf(r.files)
	if equalStamps(now, r.seen) {
		return r.value
	}
	v, err := r.read()
	switch {
	case err == nil:
		if r.seen != nil {
			r.log.Info("read again, since it has changed", "what", r.what, "files", r.files)
		}
		r.value, r.seen, r.refused = v, now, nil
	case !equalStamps(now, r.refused):
		r.refused = now
		r.log.Warn("it has changed and cannot be used: what was read before stays", "what", r.what, "error", err)
	}
	return r.value
}

// follow returns a configuration that takes the certificates anew for each connection after their files have changed.
func (c *Config) follow(first *tls.Config, log *slog.Logger) *tls.Config {
	r := &reloaded[*tls.Config]{what: "certificates", read: c.readTLS, log: log, value: first}
	for _, name := range []string{c.CertFile, c.KeyFile, c.ClientCAFile} {
		if name != "" {
			r.files = append(r.files, name)
		}
	}
	r.get()
	t := first.Clone()
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.get(), nil }
	return t
}
