package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A broker does not start with a directory in a log directory that is no partition's.
func TestCheckDirs_NoneInsideALogDirectory(t *testing.T) {
	dir := t.TempDir()
	logs, used, link, out := filepath.Join(dir, "logs"), filepath.Join(dir, "used"), filepath.Join(dir, "link"), filepath.Join(dir, "out")
	if err := errors.Join(os.Mkdir(logs, 0o700), os.Mkdir(used, 0o700), os.Mkdir(out, 0o700), os.Symlink(logs, link), os.Symlink(out, filepath.Join(logs, "state")),
		os.WriteFile(filepath.Join(used, "meta.properties"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ state, cache, want string }{
		{dir, filepath.Join(dir, "tierkit-chunks"), ""},
		{filepath.Join(dir, "logs-of-tierkit"), "", ""},
		{filepath.Join(dir, "..logs"), "", ""},
		{logs, "", "x.tierkit.state.dir"},
		{filepath.Join(logs, "tierkit"), "", "x.tierkit.state.dir"},
		{filepath.Join(logs, "not", "there"), "", "x.tierkit.state.dir"},
		{filepath.Join(logs, "state"), "", "x.tierkit.state.dir"}, // a link out of it is a directory for the broker
		{filepath.Join(link, "tierkit"), "", "x.tierkit.state.dir"},
		{filepath.Join(used, "tierkit"), "", "meta.properties"},
		{out, filepath.Join(logs, "tierkit-chunks"), "x.fetch.chunk.cache.path"},
	} {
		err := CheckDirs(&Config{StateDir: tc.state}, 1, tc.cache, "x.", []string{logs})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s, %s: %v, want %q", tc.state, tc.cache, err, tc.want)
		}
	}
}
