package arch

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// maxFileLines is the limit of the style: a longer file holds more than one idea.
const maxFileLines = 800

// pattern is what may not be in a file. Whatever the expression matches holds one of the words: the expression is asked only about files
// that hold one, because under the race detector it takes seconds to read the tree.
type pattern struct {
	expr  *regexp.Regexp
	words []string
}

// begins is the pattern of an expression that begins with a text.
func begins(expr string) pattern {
	compiled := regexp.MustCompile(expr)
	text, _ := compiled.LiteralPrefix()
	return pattern{compiled, []string{text}}
}

// machinePaths matches a directory that exists on one person's machine only. The text between slashes must look like a name, so
// that a mention of /home as such is none.
var machinePaths = pattern{
	regexp.MustCompile(`(^|[^\w.$}/-])/(home|root|Users|work|workspace)/[A-Za-z0-9.]`), []string{"home/", "root/", "Users/", "work/", "workspace/"},
}

// registryHosts matches the usual package registries; what this machine uses in their place is added from its settings.
var registryHosts = []pattern{
	begins(`proxy\.golang\.org`), begins(`registry\.npmjs\.org`), begins(`repo1?\.maven\.(apache\.)?org`), begins(`files\.pythonhosted\.org`),
	begins(`deb\.debian\.org`),
}

// trackedFiles lists what git would commit, with the module's root.
func trackedFiles(t *testing.T) (root string, names []string) {
	t.Helper()
	root = moduleRoot(t)
	git := need.Command(t, "git", "install git")
	cmd := exec.CommandContext(t.Context(), git, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		need.Missing(t, "git", "not a git checkout; clone the project with git")
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 10 {
		t.Fatalf("git lists %d files: the listing is broken", len(names))
	}
	return root, names
}

// read returns a tracked file, nil where it is deleted but not yet committed or no regular file.
func read(t *testing.T, root, name string) []byte {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// thisMachine is what must not be in the tree because it is true here only: the home directory, the checkout itself, the hosts
// that packages come from.
func thisMachine(t *testing.T, root string) []pattern {
	t.Helper()
	list := append([]pattern{machinePaths, begins(regexp.QuoteMeta(root) + `\b`)}, registryHosts...)
	if home, err := os.UserHomeDir(); err == nil && len(home) > 2 {
		list = append(list, begins(regexp.QuoteMeta(home)+"/"))
	}
	proxy, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	addresses := strings.FieldsFunc(string(proxy), func(r rune) bool { return strings.ContainsRune(",|\n", r) })
	for _, name := range []string{"npm_config_registry", "NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "HTTPS_PROXY", "https_proxy"} {
		addresses = append(addresses, os.Getenv(name))
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil || !strings.Contains(u.Hostname(), ".") || strings.HasPrefix(u.Hostname(), "127.") {
			continue // none, this machine itself, or a bare word that would be found everywhere
		}
		list = append(list, pattern{regexp.MustCompile(`\b` + regexp.QuoteMeta(u.Hostname()) + `\b`), []string{u.Hostname()}})
	}
	return list
}

// matches names the lines of a text file in which one of the patterns occurs. A file with a zero byte is not text.
func matches(name string, data []byte, patterns []pattern) []string {
	patterns = slices.DeleteFunc(slices.Clone(patterns), func(p pattern) bool {
		return !slices.ContainsFunc(p.words, func(word string) bool { return bytes.Contains(data, []byte(word)) })
	})
	if len(patterns) == 0 || bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	var found []string
	for i, line := range bytes.Split(data, []byte("\n")) {
		for _, p := range patterns {
			if hit := p.expr.Find(line); hit != nil {
				found = append(found, fmt.Sprintf("%s:%d: %q", name, i+1, hit))
			}
		}
	}
	return found
}

func TestTree_NothingOfOneMachine(t *testing.T) {
	root, names := trackedFiles(t)
	patterns := thisMachine(t, root)
	for _, name := range names {
		if strings.Contains(name, "testdata/") {
			continue // bytes that other programs wrote
		}
		for _, hit := range matches(name, read(t, root, name), patterns) {
			t.Errorf("%s: a path or registry of one machine", hit)
		}
	}
}

func TestTree_MachinePathsAreSeen(t *testing.T) {
	patterns := append([]pattern{machinePaths}, registryHosts...)
	for text, want := range map[string]bool{
		"see " + "/ho" + "me/ann/x":            true,
		`"` + "/ro" + `ot/.cache"`:             true,
		"(" + "/Us" + "ers/ann)":               true,
		"https://proxy." + "golang.org/x":      true,
		"https://repo." + "maven.apache.org/x": true,
		"https://repo1." + "maven.org/x":       true,
		"https://registry." + "npmjs.org/x":    true,
		"https://files." + "pythonhosted.org":  true,
		"https://deb." + "debian.org/x":        true,
		"https://proxy-golang.org/x":           false,
		" /wor" + "k/x":                        true,
		" /work" + "space/x":                   true,
		"https://maven.apache.org/POM/4.0.0":   false,
		"/home is not in it":                   false,
		"a/home/b":                             false,
		"/var/lib/kafka/data":                  false,
		"/tmp/tierkit":                         false,
	} {
		if got := len(matches("f", []byte(text), patterns)) > 0; got != want {
			t.Errorf("%q: found = %v, want %v", text, got, want)
		}
	}
}

func TestTree_NoFileIsTooLong(t *testing.T) {
	root, names := trackedFiles(t)
	seen := 0
	for _, name := range names {
		if ext := filepath.Ext(name); ext != ".go" && ext != ".java" && ext != ".sh" || strings.Contains(name, "testdata/") {
			continue
		}
		seen++
		if n := bytes.Count(read(t, root, name), []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, at most %d: divide it by idea", name, n, maxFileLines)
		}
	}
	if seen == 0 {
		t.Fatal("no source file seen")
	}
}

func TestTree_GoFilesAreASCII(t *testing.T) {
	root, names := trackedFiles(t)
	for _, name := range names {
		if filepath.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			continue
		}
		for i, line := range bytes.Split(read(t, root, name), []byte("\n")) {
			if j := bytes.IndexFunc(line, func(r rune) bool { return r > 126 }); j >= 0 {
				t.Errorf("%s:%d:%d: %q is not ASCII; write it as an escape", name, i+1, j+1, line[j:])
			}
		}
	}
}

// forbiddenWords are what may not be left in the code for later.
var forbiddenWords = pattern{regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`), []string{"TODO", "FIXME", "XXX", "HACK"}}

func TestTree_NothingIsLeftForLater(t *testing.T) {
	root, names := trackedFiles(t)
	for _, name := range names {
		ext := filepath.Ext(name)
		if ext != ".go" && ext != ".java" && ext != ".sh" || strings.Contains(name, "testdata/") ||
			name == "internal/arch/tree_test.go" {
			continue
		}
		for _, hit := range matches(name, read(t, root, name), []pattern{forbiddenWords}) {
			t.Errorf("%s: do it or file an issue and name it", hit)
		}
	}
}
