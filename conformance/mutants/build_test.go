package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// Mutant is a driver with one bug.
type Mutant struct {
	ID    string
	Case  string // that kills it
	Bug   string // what a programmer did there
	Edits []Edit
	On    string // the clean driver with which it runs, if the bug is in a package that all have in common
}

// clean is the driver without the bug.
func (m *Mutant) clean() string {
	switch {
	case m.On != "":
		return m.On
	case strings.HasPrefix(m.Edits[0].File, "mem/"):
		return cleanMemory
	}
	return cleanHTTP
}

// Edit replaces text that occurs once in a file: mem/get.go, acme/client.go, acmeserver/objects.go, parts/put.go, httpstore/body.go.
type Edit struct{ File, Old, New string }

const (
	module = "github.com/tierkit/tierkit"
	root   = "../.."
	here   = "conformance/mutants"
)

// where the clean sources are, by the first part of an Edit's file.
func where(pkg string) string {
	switch pkg {
	case "acme", "acmeserver", "suite":
		return "examples/driver-acme/" + pkg
	}
	return "backends/" + pkg
}

// importPath is that of a clean package.
func importPath(pkg string) string {
	if strings.HasPrefix(pkg, "acme") {
		return "example.com/acme/driver-acme/" + pkg
	}
	return module + "/backends/" + pkg
}

// overlay gathers files that the go command is to see and that are not there.
type overlay struct {
	t    *testing.T
	root string // of the module
	dir  string // where the files really are
	n    int
	file map[string]string
	main []string // imports
	body []string // entries of the map of subjects
}

func (o *overlay) add(name, text string) {
	o.t.Helper()
	real := filepath.Join(o.dir, fmt.Sprintf("%d.go", o.n))
	o.n++
	if err := os.WriteFile(real, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.file[filepath.Join(o.root, filepath.FromSlash(name))] = real
}

// copied puts a package with edits below gen/, and returns its import path. What it imports of others is replaced.
func (o *overlay) copied(to, pkg string, edits []Edit, imports map[string]string) string {
	o.t.Helper()
	files, err := filepath.Glob(filepath.Join(o.root, filepath.FromSlash(where(pkg)), "*.go"))
	if err != nil || len(files) == 0 {
		o.t.Fatalf("no sources of %s: %v", pkg, err)
	}
	at := path.Join(here, "gen", to, pkg)
	done := 0
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			o.t.Fatal(err)
		}
		text := string(data)
		for _, e := range edits {
			if e.File == pkg+"/"+base {
				done++
				text = o.replaced(text, to, e)
			}
		}
		for from, to := range imports {
			text = strings.ReplaceAll(text, `"`+from+`"`, `"`+to+`"`)
		}
		o.add(path.Join(at, base), text)
	}
	if done != len(edits) {
		o.t.Errorf("mutant %s: %d of %d edits are of files that are there", to, done, len(edits))
	}
	return module + "/" + at
}

// replaced makes an edit.
func (o *overlay) replaced(text, mutant string, e Edit) string {
	o.t.Helper()
	if n := strings.Count(text, e.Old); n != 1 || e.Old == e.New {
		o.t.Errorf("mutant %s: its text is %d times in %s, want once:\n%s", mutant, n, e.File, e.Old)
	}
	return strings.Replace(text, e.Old, e.New, 1)
}

// subject adds a driver with edits to the program.
func (o *overlay) subject(id string, edits []Edit) {
	o.t.Helper()
	of := map[string][]Edit{}
	for _, e := range edits {
		pkg, _, _ := strings.Cut(e.File, "/")
		of[pkg] = append(of[pkg], e)
	}
	alias := "m" + fmt.Sprint(len(o.main))
	if len(of["mem"]) > 0 || id == cleanMemory {
		o.main = append(o.main, fmt.Sprintf("%s %q", alias, o.copied(id, "mem", of["mem"], nil)))
		o.body = append(o.body, fmt.Sprintf(`%q: runner.Memory(func() runner.Client {
			s := new(%s.Space)
			return func(now func() time.Time) backends.Driver { return s.Client(%s.Options{Now: now}) }
		}),`, id, alias, alias))
		return
	}
	imports := map[string]string{}
	for _, pkg := range []string{"httpstore", "parts"} {
		if len(of[pkg]) > 0 {
			imports[importPath(pkg)] = o.copied(id, pkg, of[pkg], nil)
		}
	}
	server := module + "/" + path.Join(here, "gen", cleanHTTP, "acmeserver")
	if len(of["acmeserver"]) > 0 || id == cleanHTTP {
		server = o.copied(id, "acmeserver", of["acmeserver"], nil)
	}
	o.main = append(o.main, fmt.Sprintf("%s %q", alias, o.copied(id, "acme", of["acme"], imports)), fmt.Sprintf("%ss %q", alias, server))
	o.body = append(o.body, fmt.Sprintf(`%q: runner.HTTP(%s.Factory(), func() http.Handler {
		s := %ss.New(%ss.Options{})
		s.Trust("conformance")
		return s
	}, suite.Access{Reader: "reader:reader-secret", Trusted: true}.Complete),`, id, alias, alias, alias))
}

const (
	cleanMemory = "clean-mem"
	cleanHTTP   = "clean-http"
)

// build makes the program with all mutants and the clean drivers.
func build(t *testing.T, all []Mutant) (program string) {
	t.Helper()
	goCommand := need.Command(t, "go", "install Go")
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := &overlay{t: t, root: base, dir: dir, file: map[string]string{}}
	suite := o.copied(cleanHTTP, "suite", nil, nil)
	o.subject(cleanMemory, nil)
	o.subject(cleanHTTP, nil)
	for _, m := range all {
		if m.On == "" {
			o.subject(m.ID, m.Edits)
		}
	}
	o.inPlace(all)
	if t.Failed() {
		t.FailNow()
	}
	slices.Sort(o.main)
	o.add(path.Join(here, "gen/main.go"), "package main\n\nimport (\n\t\"net/http\"\n\t\"os\"\n\t\"time\"\n\n\t\""+module+"/backends\"\n\t\""+module+"/"+here+"/runner\"\n\t\""+
		suite+"\"\n"+strings.Join(o.main, "\n")+
		"\n)\n\nfunc main() {\n\tos.Exit(runner.Main(map[string]runner.Subject{\n"+strings.Join(o.body, "\n")+"\n}, os.Args[1:]))\n}\n")
	data, err := json.Marshal(map[string]any{"Replace": o.file})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mutants.exe")
	cmd := exec.CommandContext(t.Context(), goCommand, "build", "-overlay", list, "-o", program, "./"+here+"/gen")
	cmd.Dir = base
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
