package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Command returns the path of a program. Without it the test skips or fails, with what to do about it.
func Command(t testing.TB, name, howToGet string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, howToGet)
	}
	return path
}

// Missing ends the test because something is not there: a failure if it is required here, else a skip.
func Missing(t testing.TB, name, howToGet string) {
	t.Helper()
	if required(os.Getenv, name) {
		t.Fatalf("%s is required here and not there: %s", name, howToGet)
	}
	t.Skipf("%s is not there: %s", name, howToGet)
}

// Never skips a test that cannot hold on this system at all: another operating system, a file system without some feature. It
// is a skip in CI too, so it is for facts, not for what could be installed.
func Never(t testing.TB, because string) {
	t.Helper()
	t.Skip("does not apply here: " + because)
}

// Bench skips a long measurement unless `make bench` runs it. The name of such a test begins with TestBench_.
func Bench(t testing.TB) {
	t.Helper()
	if os.Getenv("TIERKIT_BENCH") != "1" {
		t.Skip("a long measurement: runs in `make bench` (TIERKIT_BENCH=1)")
	}
}

// Long skips a test that takes more than a few seconds when the caller asked for short ones (`go test -short`).
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a while: runs without -short")
	}
}

// Times is how often a test repeats what it takes at random: ordinary, or full where the caller asked for the whole form
// (TIERKIT_FULL=1, as `make test-all` does).
func Times(ordinary, full int) int {
	if os.Getenv("TIERKIT_FULL") == "1" {
		return full
	}
	return ordinary
}

// CacheDir is the directory where the project keeps what it builds for its tests. scripts/tools.sh uses the same.
func CacheDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("TIERKIT_CACHE"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("no cache directory: %v; set TIERKIT_CACHE", err)
	}
	return filepath.Join(dir, "tierkit")
}

// required tells whether name must be there, given the environment.
func required(getenv func(string) string, name string) bool {
	if getenv("CI") == "true" {
		return true
	}
	list := strings.Split(getenv("TIERKIT_REQUIRE"), ",")
	return slices.Contains(list, "all") || slices.Contains(list, name)
}
