package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// maxNesting is how deep statements may be nested in a function that is no test. It is a test of ours because the linter's rule
// does not count range loops.
const maxNesting = 3

// source is a Go file as the parser sees it.
type source struct {
	name string
	fset *token.FileSet
	file *ast.File
}

// sources are what forEachGoFile has parsed: once for all tests, under the race detector it takes a while.
var sources struct {
	mu  sync.Mutex
	all []source
}

// forEachGoFile calls do with every tracked Go file outside testdata, which it must not change.
func forEachGoFile(t *testing.T, do func(name string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	sources.mu.Lock()
	defer sources.mu.Unlock()
	if sources.all == nil {
		sources.all = parsed(t)
	}
	for _, s := range sources.all {
		do(s.name, s.fset, s.file)
	}
}

// parsed parses every tracked Go file outside testdata.
func parsed(t *testing.T) (all []source) {
	t.Helper()
	root, names := trackedFiles(t)
	for _, name := range names {
		if filepath.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			continue
		}
		text := read(t, root, name)
		if text == nil {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, fset, f})
	}
	return all
}

// deepest returns the deepest nesting of if, for, switch and select below n, and where it is. An else-if is as deep as its if; a
// function literal begins anew.
func deepest(n ast.Node, depth int) (int, token.Pos) {
	most, at := depth, n.Pos()
	ast.Inspect(n, func(child ast.Node) bool {
		if child == nil || child == n {
			return child == n
		}
		below := depth
		switch c := child.(type) {
		case *ast.FuncLit:
			below = 0
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			below++
		case *ast.IfStmt:
			if parent, ok := n.(*ast.IfStmt); !ok || parent.Else != c {
				below++
			}
		}
		if d, pos := deepest(child, below); d > most {
			most, at = d, pos
		}
		return false
	})
	return most, at
}

// messageMatches finds strings.Contains(err.Error(), ...) and its like: errors are told apart by type and code, a message
// changes with the next version of a library.
func messageMatches(f *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index", "MatchString"}, fun.Sel.Name) {
			return true
		}
		for _, arg := range call.Args {
			if c, ok := arg.(*ast.CallExpr); ok && len(c.Args) == 0 {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" {
					found = append(found, call.Pos())
				}
			}
		}
		return true
	})
	return found
}

// usesSynctest tells whether a file runs its tests in bubbles, where time.Sleep is how a test moves the clock.
func usesSynctest(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing/synctest"` })
}

// sleeps finds time.Sleep.
func sleeps(f *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, s.Pos())
			}
		}
		return true
	})
	return found
}

func TestStyle_NestingIsShallow(t *testing.T) {
	forEachGoFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				if n, at := deepest(fn.Body, 0); n > maxNesting {
					t.Errorf("%s: %s is nested %d deep, at most %d: return early, or name the inner part",
						fset.Position(at), fn.Name.Name, n, maxNesting)
				}
			}
		}
	})
}

func TestStyle_ErrorsAreNotToldApartByTheirText(t *testing.T) {
	forEachGoFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, pos := range messageMatches(f) {
			t.Errorf("%s: looks into the text of an error; use errors.Is or errors.As", fset.Position(pos))
		}
	})
}

// The bubble may be made by a helper in another file of the package.
func TestStyle_TestsDoNotSleep(t *testing.T) {
	bubbles := map[string]bool{}
	found := map[string][]string{}
	forEachGoFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := filepath.Dir(name)
		bubbles[dir] = bubbles[dir] || usesSynctest(f)
		for _, pos := range sleeps(f) {
			found[dir] = append(found[dir], fset.Position(pos).String())
		}
	})
	for dir, places := range found {
		if !bubbles[dir] {
			t.Errorf("sleeps outside synctest: %s; wait for what the test waits for", strings.Join(places, ", "))
		}
	}
}

// measurements finds the tests that are long measurements by what they call.
func measurements(f *ast.File) []string {
	var found []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Bench" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "need" {
					found = append(found, fn.Name.Name)
				}
			}
			return true
		})
	}
	return found
}

// scripts/bench.sh finds them by name.
func TestStyle_LongMeasurementsAreNamedForMakeBench(t *testing.T) {
	forEachGoFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		for _, test := range measurements(f) {
			if !strings.HasPrefix(test, "TestBench_") {
				t.Errorf("%s: %s calls need.Bench; name it TestBench_..., or make bench does not run it", name, test)
			}
		}
	})
}

func TestStyle_TheChecksSeeWhatTheyLookFor(t *testing.T) {
	const text = `package p

import "time"

func f(err error) {
	for range 3 { // 1
		if err != nil { // 2
			return
		} else if err == nil { // 2
			switch { // 3
			default:
				func() {
					if err != nil { // 1 again
					}
				}()
				select { // 4
				}
			}
		}
	}
	_ = strings.Contains(err.Error(), "x")
	_ = re.MatchString(err.Error())
	_ = strings.Contains("x", name)
	time.Sleep(1)
}

func TestLong(t *testing.T) {
	need.Bench(t)
}
`
	parse := func(text string) (*token.FileSet, *ast.File) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "p.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fset, f
	}
	fset, f := parse(text)
	n, at := deepest(f.Decls[1].(*ast.FuncDecl).Body, 0)
	lines := []string{fmt.Sprintf("nesting %d at %d", n, fset.Position(at).Line)}
	for _, pos := range append(messageMatches(f), sleeps(f)...) {
		lines = append(lines, fmt.Sprint(fset.Position(pos).Line))
	}
	if got, want := strings.Join(lines, ", "), "nesting 4 at 16, 21, 22, 24"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if got := measurements(f); !slices.Equal(got, []string{"TestLong"}) {
		t.Errorf("long measurements: %v, want TestLong", got)
	}
	_, f = parse(strings.Replace(text, `import "time"`, "import (\n\"testing/synctest\"\n\"time\"\n)", 1))
	if !usesSynctest(f) {
		t.Error("the import of testing/synctest is not seen")
	}
}
