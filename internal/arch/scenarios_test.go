package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scenarioNumbers returns the scenarios that a test's name says it holds: TestScenario07_X, TestScenario19And21_X, TestScenarios96To102_X.
func scenarioNumbers(test string) []int {
	name, ok := strings.CutPrefix(test, "TestScenario")
	if !ok {
		return nil
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "s"), "_")
	var found []int
	for _, m := range regexp.MustCompile(`(\d+)(?:To(\d+))?`).FindAllStringSubmatch(name, -1) {
		from, _ := strconv.Atoi(m[1])
		to := from
		if m[2] != "" {
			to, _ = strconv.Atoi(m[2])
		}
		for n := from; n <= to; n++ {
			found = append(found, n)
		}
	}
	return found
}

// What Kafka's own tests check of metadata, and the records that kill its metadata consumer, are numbered scenarios: 1 to 94, 213 to 226;
// 198 to 212 are those of whole brokers. Each has a test with its number, but for 67 (a second configure is ignored), for which a Manager
// has nothing: New configures it, once; and for 210, in which a replica moves between two log directories of a broker.
func TestScenarios_EachHasItsTest(t *testing.T) {
	tests := map[int]bool{67: true, 210: true}
	forEachGoFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				for _, n := range scenarioNumbers(fn.Name.Name) {
					tests[n] = true
				}
			}
		}
	})
	for n := 1; n <= 226; n++ {
		if (n <= 94 || n >= 198) && !tests[n] {
			t.Errorf("no test is named TestScenario%02d_...", n)
		}
	}
}

func TestScenarios_NumbersInNames(t *testing.T) {
	for name, want := range map[string][]int{
		"TestScenario07_Empty":          {7},
		"TestScenario19And21_Zero9":     {19, 21},
		"TestScenarios96To98_Copy":      {96, 97, 98},
		"TestScenario58And72And73_Once": {58, 72, 73},
		"TestScenarios_Table12":         nil,
		"TestOther12":                   nil,
	} {
		got := scenarioNumbers(name)
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}
