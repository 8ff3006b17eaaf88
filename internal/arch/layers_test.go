package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tierkit/tierkit"

// layerOf names the layer of a package, given its path inside the module. The first entry that matches decides; "x/..." is x and
// everything below it.
var layerOf = []struct{ pattern, layer string }{
	{"remotelog", "remotelog"},
	{"membudget", "membudget"},
	{"crypto", "crypto"},
	{"cache/...", "cache"},
	{"chunking", "chunking"},
	{"manifest", "manifest"},
	{"backends", "backends"},
	{"backends/mem", "backends"},
	{"backends/parts", "backends"},
	{"backends/httpstore", "backends"},
	{"backends/localtiered", "bridge"},
	{"backends/...", "driver"},
	{"conformance/...", "conformance"},
	{"rsm", "rsm"},
	{"rlmm", "rlmm"},
	{"rlmm/logtest", "test support"},
	{"rlmm/memlog/memlogtest", "test support"},
	{"rlmm/internal/...", "event log core"},
	{"rlmm/...", "event log"},
	{"rlm", "rlm"},
	{"serve", "serve"},
	{"metrics", "metrics"},
	{"cli/...", "cli"},
	{"cmd/tierkit", "main"},
	{"internal/gen", "main"},
	{"internal/need", "test support"},
	{"internal/testbed", "test support"},
	{"internal/slowstore", "driver"},
	{"internal/arch", "test support"},
	{"internal/golden/aiven", "test support"},
	{"compat", "test support"},
	{"kafka-plugin", "test support"},
	{"test/...", "test support"},
	{"internal/...", "internal"},
}

// mayImport is the table of the architecture: a layer and the layers that its packages may import. Every package may import
// others of its own layer, except the drivers and event logs, which know nothing of each other. Test files may import anything
// but main.
var mayImport = map[string][]string{
	"internal":    {"remotelog", "membudget", "crypto"},
	"remotelog":   {},
	"membudget":   {"internal"},
	"crypto":      {"internal"},
	"cache":       {"internal", "membudget"},
	"chunking":    {"internal", "crypto", "membudget"},
	"manifest":    {"internal", "remotelog", "chunking", "crypto"},
	"backends":    {"internal", "membudget"},
	"driver":      {"internal", "backends", "membudget"},
	"conformance": {"internal", "backends", "membudget"},
	// A driver that shows another layout as objects of ours.
	"bridge": {"internal", "backends", "remotelog", "manifest", "chunking"},
	"rsm":    {"internal", "remotelog", "manifest", "chunking", "crypto", "cache", "backends", "membudget"},
	"rlmm":   {"internal", "remotelog"},
	// What several event logs are made of.
	"event log core": {"internal", "remotelog", "rlmm"},
	"event log":      {"internal", "remotelog", "rlmm", "event log core"},
	"rlm":            {"internal", "remotelog"},
	// The daemon beside a broker is over the storage manager and below the command line.
	"serve":        {"internal", "remotelog", "manifest", "backends", "membudget", "rsm"},
	"test support": {"internal", "remotelog", "rlmm", "event log", "event log core"},
	"metrics": {
		"internal", "remotelog", "membudget", "crypto", "cache", "chunking", "manifest", "backends", "rsm", "rlmm", "rlm",
		"serve",
	},
	"cli": {
		"internal", "remotelog", "membudget", "crypto", "cache", "chunking", "manifest", "backends", "conformance", "rsm", "rlmm",
		"event log", "rlm", "metrics", "serve",
	},
	"main": {"internal", "backends", "cli", "driver", "bridge", "metrics"},
}

// apart are the layers whose packages do not import one another.
var apart = []string{"driver", "event log"}

func layer(pkg string) (string, bool) {
	for _, e := range layerOf {
		base, tree := strings.CutSuffix(e.pattern, "/...")
		if pkg == base || tree && strings.HasPrefix(pkg, base+"/") {
			return e.layer, true
		}
	}
	return "", false
}

// verdict says what is wrong with an import of to by from, both paths inside the module; "" is nothing.
func verdict(from, to string) string {
	fromLayer, ok := layer(from)
	if !ok {
		return fmt.Sprintf("package %s is in no layer: say in internal/arch/layers_test.go where it belongs", from)
	}
	toLayer, ok := layer(to)
	switch {
	case !ok:
		return fmt.Sprintf("package %s is in no layer: say in internal/arch/layers_test.go where it belongs", to)
	case fromLayer == toLayer && !slices.Contains(apart, fromLayer):
		return ""
	case slices.Contains(mayImport[fromLayer], toLayer):
		return ""
	}
	return fmt.Sprintf("%s (%s) imports %s (%s), which it may not: see mayImport in internal/arch/layers_test.go",
		from, fromLayer, to, toLayer)
}

// imports reads the imports of the Go files below root that are not tests, whatever system they are for: package path inside the
// module to the packages of the module that it imports. Nested modules are not entered.
func imports(root string) (map[string][]string, error) {
	found := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, file, d.Name())
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(dir)
		if found[pkg] == nil {
			found[pkg] = map[string]bool{}
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if inside, ok := strings.CutPrefix(name, module+"/"); ok {
				found[pkg][inside] = true
			}
		}
		return nil
	})
	list := map[string][]string{}
	for pkg, set := range found {
		list[pkg] = slices.Sorted(maps.Keys(set))
	}
	return list, err
}

// enter skips what Go skips, and nested modules.
func enter(root, dir, name string) error {
	if dir == root {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
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

func TestLayers_EveryImportIsAllowed(t *testing.T) {
	list, err := imports(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := list["remotelog"]; !ok {
		t.Fatalf("package remotelog not found among %d packages: the walk is broken", len(list))
	}
	for pkg, imported := range list {
		if _, ok := layer(pkg); !ok {
			t.Error(verdict(pkg, pkg))
			continue
		}
		for _, to := range imported {
			if bad := verdict(pkg, to); bad != "" {
				t.Error(bad)
			}
		}
	}
}

func TestLayers_WhatTheTableForbidsIsFound(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"rsm", "manifest", ""},
		{"rsm", "internal/flight", ""},
		{"backends/fs", "backends", ""},
		{"cli", "rlmm/kafkalog", ""},
		{"cmd/tierkit", "backends/s3", ""},
		{"rlmm/memlog", "rlmm", ""},
		{"serve", "rsm", ""},
		{"serve", "metrics", "may not"},
		{"rlm", "rsm", "may not"},
		{"rlm", "rlmm", "may not"},
		{"rlmm", "rlmm/memlog", "may not"},
		{"rlmm/kafkalog", "rlmm/filelog", "may not"},
		{"rsm", "backends/fs", "may not"},
		{"cli", "backends/fs", "may not"},
		{"backends/s3", "backends/fs", "may not"},
		{"crypto", "membudget", "may not"},
		{"internal/flight", "rsm", "may not"},
		{"rsm", "internal/need", "may not"},
		{"rsm", "cli", "may not"},
		{"cli", "cmd/tierkit", "may not"},
		{"newpackage", "remotelog", "no layer"},
		{"rsm", "newpackage", "no layer"},
	} {
		got := verdict(tc.from, tc.to)
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("verdict(%q, %q) = %q, want %q in it", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestLayers_ImportsSeesFilesOfEverySystemAndNoTests(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"rlm/a_windows.go":     "package rlm\n\nimport _ \"" + module + "/rsm\"\n",
		"rlm/b.go":             "//go:build ignore\n\npackage rlm\n\nimport (\n\t\"fmt\"\n\tx \"" + module + "/cli\"\n)\n",
		"rlm/b_test.go":        "package rlm\n\nimport _ \"" + module + "/cmd/tierkit\"\n",
		"rlm/testdata/c.go":    "package rlm\n\nimport _ \"" + module + "/metrics\"\n",
		"nested/go.mod":        "module nested\n",
		"nested/d.go":          "package nested\n\nimport _ \"" + module + "/rlmm\"\n",
		"internal/other/ok.go": "package other\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := imports(root)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"rlm": {"cli", "rsm"}, path.Join("internal", "other"): nil}
	if len(got) != len(want) || !slices.Equal(got["rlm"], want["rlm"]) || len(got["internal/other"]) != 0 {
		t.Errorf("imports = %v, want %v", got, want)
	}
}

func TestLayers_TheTableIsClosed(t *testing.T) {
	for from, list := range mayImport {
		for _, to := range list {
			if _, ok := mayImport[to]; !ok {
				t.Errorf("layer %q may import %q, which is no layer", from, to)
			}
			if slices.Contains(mayImport[to], from) && from != "internal" && to != "internal" {
				t.Errorf("layers %q and %q may import each other", from, to)
			}
		}
	}
	for _, e := range layerOf {
		if _, ok := mayImport[e.layer]; !ok {
			t.Errorf("pattern %q has layer %q, which is not in the table", e.pattern, e.layer)
		}
	}
}
