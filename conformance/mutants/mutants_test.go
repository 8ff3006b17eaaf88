package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/conformance/mutants/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The numbers that may only change in one direction: an edit here is seen in a review.
const (
	leastMutants = 140
	mostWithout  = 7 // lines of without.txt
)

// mutants are all of them.
func mutants() []Mutant {
	return slices.Concat(memoryMutants(), httpMutants(), storeMutants(), chanceMutants())
}

// switchTo and its ID turn on a switched mutant.
const switchTo = "TIERKIT_MUTANT="

// verdict is what became of one run of the program.
type verdict struct {
	results []runner.Result
	err     error
}

// killed tells whether a case has failed.
func (v *verdict) killed() bool {
	return slices.ContainsFunc(v.results, func(r runner.Result) bool { return r.Outcome == conformance.Fail })
}

// fullCases are those that run only at that scale.
func fullCases() map[string]bool {
	out := map[string]bool{}
	for _, c := range conformance.Cases() {
		out[c.ID] = c.Scale == conformance.Full
	}
	return out
}

// run runs cases on one subject. What a mutant says on standard error (a panic that nobody caught) is an error.
func run(ctx context.Context, program, subject, cases string, more ...string) (v verdict) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var errs strings.Builder
	args, env := []string{"-subject", subject, "-run", cases}, os.Environ()
	for _, arg := range more {
		if strings.HasPrefix(arg, switchTo) {
			env = append(env, arg)
		} else {
			args = append(args, arg)
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return verdict{err: fmt.Errorf("%w: %s", err, errs.String())}
	}
	for line := range strings.Lines(string(out)) {
		var r runner.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return verdict{err: err}
		}
		v.results = append(v.results, r)
	}
	return v
}

// exactly matches the runs of one case at any level.
func exactly(id string) string { return "^" + regexp.QuoteMeta(id) + "/(driver|store)$" }

// family is what the cases of a table of faults have in common: one of them stands for all, whatever the step.
func family(id string) string {
	parts := strings.Split(id, "/")
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// byFamily are the mutants of each case or family.
func byFamily() map[string][]Mutant {
	out := map[string][]Mutant{}
	for _, m := range mutants() {
		out[family(m.Case)] = append(out[family(m.Case)], m)
	}
	return out
}

func TestMutants_EachIsKilledByItsCase(t *testing.T) {
	all := mutants()
	program := build(t, all)
	var mu sync.Mutex
	verdicts := map[string]verdict{}
	var g errgroup.Group
	g.SetLimit(6) // they wait more than they work
	start := func(name, subject, cases string, more ...string) {
		g.Go(func() error {
			v := run(t.Context(), program, subject, cases, more...)
			for range 2 { // some bugs are races, which a busy machine can hide
				if strings.HasPrefix(name, "clean-") || v.err != nil || v.killed() {
					break
				}
				v = run(t.Context(), program, subject, cases, more...)
			}
			mu.Lock()
			defer mu.Unlock()
			verdicts[name] = v
			return nil
		})
	}
	full := fullCases()
	cleans := map[string][]string{}
	for _, clean := range []string{cleanMemory, cleanHTTP} {
		quick, slow := casesOf(all, clean, full)
		cleans[clean], cleans[clean+" full"] = quick, slow
		start(clean, clean, strings.Join(quick, "|"))
		if len(slow) > 0 {
			start(clean+" full", clean, strings.Join(slow, "|"), "-full")
		}
	}
	for _, m := range slices.Backward(all) { // those that wait longest are the last ones: of timeouts, and of the Store
		more := []string{"-prompt", "3s"}
		if full[m.Case] {
			more = append(more, "-full")
		}
		subject := m.ID
		if m.On != "" {
			subject = m.On
			more = append(more, switchTo+m.ID)
		}
		start(m.ID, subject, exactly(m.Case), more...)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for clean, cases := range cleans {
		checkClean(t, clean, verdicts[clean], cases)
	}
	for _, m := range all {
		t.Run(m.ID, func(t *testing.T) { checkKilled(t, m, verdicts[m.ID]) })
	}
}

// casesOf are the cases of the mutants of one clean driver, by scale.
func casesOf(all []Mutant, clean string, full map[string]bool) (quick, slow []string) {
	for _, m := range all {
		switch {
		case m.clean() != clean:
		case full[m.Case]:
			slow = append(slow, exactly(m.Case))
		default:
			quick = append(quick, exactly(m.Case))
		}
	}
	slices.Sort(quick)
	slices.Sort(slow)
	return slices.Compact(quick), slices.Compact(slow)
}

func checkClean(t *testing.T, clean string, v verdict, cases []string) {
	t.Helper()
	if v.err != nil {
		t.Errorf("%s: %v", clean, v.err)
	}
	if len(v.results) < len(cases) {
		t.Errorf("%s: %d results of %d cases", clean, len(v.results), len(cases))
	}
	for _, r := range v.results {
		if r.Outcome != conformance.Pass {
			t.Errorf("%s: %s/%s: %s %s\n%s", clean, r.Case, r.Level, r.Outcome, r.Why, strings.Join(r.Detail, "\n"))
		}
	}
}

func checkKilled(t *testing.T, m Mutant, v verdict) {
	t.Helper()
	if v.err != nil {
		t.Fatalf("%s: the suite did not come to an end: %v", m.Bug, v.err)
	}
	for _, r := range v.results {
		if r.Outcome == conformance.Fail {
			t.Logf("killed by %s/%s in %s: %s", r.Case, r.Level, r.Took.Round(time.Millisecond), r.Detail[0])
			return
		}
	}
	t.Errorf("%s: %s does not notice; %d results: %+v", m.Bug, m.Case, len(v.results), v.results)
}

func TestMutants_AreManyAndDistinct(t *testing.T) {
	all := mutants()
	if len(all) < leastMutants {
		t.Errorf("%d mutants, at least %d", len(all), leastMutants)
	}
	known := map[string]bool{}
	for _, c := range conformance.Cases() {
		known[c.ID] = true
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.ID] || m.Bug == "" || len(m.Edits) == 0 {
			t.Errorf("mutant %q is there twice, or has no bug", m.ID)
		}
		seen[m.ID] = true
		if !known[m.Case] {
			t.Errorf("mutant %s: there is no case %s", m.ID, m.Case)
		}
	}
}

func TestWithout_OnlyShrinks(t *testing.T) {
	text, err := os.ReadFile("without.txt")
	if err != nil {
		t.Fatal(err)
	}
	killers := byFamily()
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" || listed[id] {
			t.Errorf("%s has no reason, or is there twice", id)
		}
		listed[id] = true
		if len(killers[id]) > 0 {
			t.Errorf("%s has the mutant %s: take it off the list", id, killers[id][0].ID)
		}
	}
	if len(listed) != mostWithout {
		t.Errorf("without.txt has %d cases, the number here is %d; it may only become smaller", len(listed), mostWithout)
	}
	families := map[string]bool{}
	for _, c := range conformance.Cases() {
		families[family(c.ID)] = true
	}
	for _, id := range slices.Sorted(maps.Keys(families)) {
		if !listed[id] && len(killers[id]) == 0 {
			t.Errorf("case %s has no mutant: add one", id)
		}
	}
	for id := range listed {
		if !families[id] {
			t.Errorf("there is no case %s", id)
		}
	}
}
