// Package example checks the example of a vendor's driver from the side of tierkit: that it needs nothing but what is public, and that the guide which
// quotes it tells the truth.
package example

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

const (
	module  = "github.com/tierkit/tierkit"
	example = "../../examples/driver-acme"
	guide   = "../../docs/writing-a-driver.md"
)

// sources returns the files of the example, path below it to text.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(example), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(example, name))
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("the example has %d files: the walk is broken", len(found))
	}
	return found
}

// The compiler would let the example import tierkit's internal packages if its module path were below tierkit's.
func TestExample_ImportsOnlyWhatIsPublic(t *testing.T) {
	seen := 0
	for name, text := range sources(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(path, module) {
				seen++
			}
			if strings.Contains(path+"/", "/internal/") {
				t.Errorf("%s imports %s, which a vendor cannot", name, path)
			}
		}
	}
	if seen == 0 {
		t.Error("the example does not use tierkit at all")
	}
}

// TestExample_BuildsAgainstTheModule as a vendor's module does: its own go.mod and go.sum, here copies, so that a dependency of tierkit that moved on is
// followed and nothing in the tree changes.
func TestExample_BuildsAgainstTheModule(t *testing.T) {
	goCommand := need.Command(t, "go", "install Go")
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"build", "-o", dir}, {"vet"}} {
		args = append(args, "-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "./...")
		cmd := exec.CommandContext(t.Context(), goCommand, args...)
		cmd.Dir = example
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "tierkit-acme"), "config", "acme").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "storage.acme.url") {
		t.Errorf("tierkit-acme config acme: %v\n%s", err, out)
	}
}

// quoted finds what a guide shows: the file that the line before a block of Go links to, and the block.
var quoted = regexp.MustCompile("(?s)\\]\\(\\.\\./examples/driver-acme/([^)]+)\\):\n\n```go\n(.*?)```")

func TestGuide_QuotesTheExample(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	files := sources(t)
	quotes := quoted.FindAllStringSubmatch(string(text), -1)
	for _, q := range quotes {
		if !strings.Contains(files[q[1]], q[2]) {
			t.Errorf("the guide shows code of %s that is not there:\n%s", q[1], q[2])
		}
	}
	if n := strings.Count(string(text), "```go\n"); len(quotes) != n || n < 5 {
		t.Errorf("the guide has %d blocks of Go, %d of them with the file that they are from", n, len(quotes))
	}
}
