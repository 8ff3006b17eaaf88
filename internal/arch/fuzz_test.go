package arch

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestFuzz_EveryTargetHasSeeds: without a corpus, go test runs a fuzz target on nothing.
func TestFuzz_EveryTargetHasSeeds(t *testing.T) {
	_, names := trackedFiles(t)
	seeds := map[string]int{}
	for _, name := range names {
		seeds[path.Dir(name)]++
	}
	targets := 0
	forEachGoFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			targets++
			if dir := path.Join(path.Dir(name), "testdata", "fuzz", fn.Name.Name); seeds[dir] == 0 {
				t.Errorf("%s: %s has no seeds in %s", name, fn.Name.Name, dir)
			}
		}
	})
	if targets == 0 {
		t.Fatal("no fuzz target seen")
	}
}
