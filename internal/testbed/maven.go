package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

const howToGetJava = "install a JDK, 17 or newer, and Maven (Debian: apt-get install default-jdk maven; macOS: brew install openjdk maven)"

// pluginDir is the plug-in's project, from the module's root.
const pluginDir = "kafka-plugin"

// building keeps two tests from building at once; two processes may, the first one to finish wins.
var building sync.Mutex

// Java returns the paths of a JVM and of Maven.
func Java(t testing.TB) (java, mvn string) {
	t.Helper()
	return need.Command(t, "java", howToGetJava), need.Command(t, "mvn", howToGetJava)
}

// PluginJar builds the Kafka plug-in, once for each state of its sources, and returns the path of the jar.
func PluginJar(t testing.TB) string {
	t.Helper()
	// One test runs too, so that Maven has all it needs to run the others.
	dir := MavenBuild(t, filepath.Join(moduleRoot(t), pluginDir), "-Dtest=JsonTest", "package")
	return filepath.Join(dir, "tierkit-kafka-plugin.jar")
}

// MavenBuild runs Maven on the project in a directory and returns where its output lies: in the cache, below the project's name and a hash of
// its sources, so that a project is built once. The project puts everything into the directory of its property `out`.
func MavenBuild(t testing.TB, project string, args ...string) string {
	t.Helper()
	_, mvn := Java(t)
	building.Lock()
	defer building.Unlock()
	abs, err := filepath.Abs(project)
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(need.CacheDir(t), "maven")
	dir := filepath.Join(cache, filepath.Base(abs)+"-"+sourcesHash(t, project))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	partial, err := os.MkdirTemp(cache, "partial.") //nolint:usetesting // beside its final place, so that a rename can move it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(partial) }() // nothing there once it is moved
	t.Logf("building %s into %s", project, dir)
	args = append([]string{"-B", "-ntp", "-q", "-Dstyle.color=never", "-f", filepath.Join(project, "pom.xml"), "-Dout=" + partial}, args...)
	if out, err := exec.CommandContext(t.Context(), mvn, args...).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", project, err, out)
	}
	if err := os.Rename(partial, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sourcesHash names a state of a project's sources.
func sourcesHash(t testing.TB, project string) string {
	t.Helper()
	h := sha256.New()
	add := func(file string) error {
		name, err := filepath.Rel(project, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		h.Write([]byte(filepath.ToSlash(name) + "\n"))
		h.Write(text)
		return err
	}
	err := add(filepath.Join(project, "pom.xml"))
	if err == nil {
		err = filepath.WalkDir(filepath.Join(project, "src"), func(file string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return add(file)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// moduleRoot is the directory of go.mod, found upwards from the package of the test.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
