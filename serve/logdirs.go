package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// metaProperties is what a Kafka broker writes into each of its log directories.
const metaProperties = "meta.properties"

// CheckDirs refuses the directories that a daemon makes for itself where they are inside a log directory of the broker, which does not start
// again with a directory in it that is no partition's. Besides the known log directories it tells those that a broker has used. cache is
// the disk cache's own directory, "": there is none. The error joins a settings.Problem for each, with prefix before the setting.
func CheckDirs(c *Config, broker int32, cache, prefix string, logDirs []string) error {
	var errs []error
	for _, d := range []struct{ setting, dir string }{{keyStateDir, c.StateDir}, {"fetch.chunk.cache.path", cache}} {
		if d.dir == "" {
			continue
		}
		own := d.dir
		if d.setting == keyStateDir {
			own = stateDir(d.dir, broker)
		}
		if in, why := logDirAbove(own, logDirs); in != "" {
			errs = append(errs, settings.Missing(prefix+d.setting, "would be inside %s, a log directory of the broker (%s), with %s: Kafka does not start with a directory there that is no partition's; "+
				"name one outside of it", in, why, own))
		}
	}
	return errors.Join(errs...)
}

// logDirAbove finds the log directory that dir is inside of, as it is written and as its links lead, and what tells that it is one.
func logDirAbove(dir string, logDirs []string) (in, why string) {
	for _, path := range []string{absolute(dir), resolved(dir)} {
		for _, l := range logDirs {
			if inside(path, absolute(l)) || inside(path, resolved(l)) {
				return l, "log.dirs"
			}
		}
		for up := filepath.Dir(path); ; up = filepath.Dir(up) {
			if fi, err := os.Stat(filepath.Join(up, metaProperties)); err == nil && fi.Mode().IsRegular() {
				return up, fmt.Sprintf("it has %s", metaProperties)
			}
			if filepath.Dir(up) == up {
				break
			}
		}
	}
	return "", ""
}

// inside tells whether path is below dir, and not dir itself.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

// resolved is path without links, as far as it is there.
func resolved(path string) string {
	path = absolute(path)
	got, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil:
		return got
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path:
		return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
	}
	return path
}
