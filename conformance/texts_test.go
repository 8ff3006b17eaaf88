package conformance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostWithoutWant is how many texts of failures do not say what was wanted: those of the suite's own servers, files and budgets, of bytes that are compared
// (difference says it), and of panics. It may only become smaller.
const mostWithoutWant = 29

// TestTexts_SayWhatWasWanted: who reads a report has not seen the code. Each text says what came and what was wanted.
func TestTexts_SayWhatWasWanted(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all, without := 0, []string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if text := failure(n); text != "" {
				if all++; !strings.Contains(text, "want") {
					without = append(without, set.Position(n.Pos()).String()+": "+text)
				}
			}
			return true
		})
	}
	if all < 400 || len(without) != mostWithoutWant {
		t.Errorf("%d of %d texts do not say what was wanted, the number here is %d, which may only become smaller:\n%s", len(without), all, mostWithoutWant, strings.Join(without, "\n"))
	}
}

// failure is the text of a call that fails a case, as it stands in the source.
func failure(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Errorf" && f.Sel.Name != "Fatalf" {
		return ""
	}
	if pkg, ok := f.X.(*ast.Ident); ok && (pkg.Name == "fmt" || pkg.Name == "backends") {
		return ""
	}
	text, _ := call.Args[0].(*ast.BasicLit)
	if text == nil {
		return ""
	}
	return text.Value
}
