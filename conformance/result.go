package conformance

import (
	"fmt"
	"strings"
	"time"
)

// Outcome is what became of a case.
type Outcome string

// The outcomes.
const (
	Pass     Outcome = "pass"
	Fail     Outcome = "fail"
	Deviates Outcome = "deviates" // it failed, and a Deviation says so
	Skip     Outcome = "skip"
)

// Result of one run of a case.
type Result struct {
	Case    string // the ID
	Level   Level
	Rule    string
	Outcome Outcome
	Seed    uint64 // of the whole run
	Took    time.Duration
	Why     string   // of Skip and Deviates
	Detail  []string // of Fail and Deviates: what was violated, line by line
	Log     []string // what the case noted
	Wire    []Request
	Again   string // of Fail: how to run it again; "": the name and the seed tell
}

// Name is what Harness.Only matches.
func (r Result) Name() string { return r.Case + "/" + r.Level.String() }

// wireShown bounds the requests in a text; the last ones tell most.
const wireShown = 60

// String is for somebody who has not seen the code: what must hold, what happened, how to run it again, what went over the wire.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s)\n", strings.ToUpper(string(r.Outcome)), r.Name(), r.Took.Round(time.Millisecond))
	fmt.Fprintf(&b, "  the rule: %s\n", r.Rule)
	if r.Why != "" {
		fmt.Fprintf(&b, "  because: %s\n", r.Why)
	}
	for _, line := range r.Detail {
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(line, "\n", "\n    "))
	}
	if r.Outcome != Fail {
		return b.String()
	}
	for _, line := range r.Log {
		fmt.Fprintf(&b, "  note: %s\n", strings.ReplaceAll(line, "\n", "\n    "))
	}
	again := r.Again
	if again == "" {
		again = fmt.Sprintf("^%s$ with seed %d", r.Name(), r.Seed)
	}
	fmt.Fprintf(&b, "  run it again: %s\n", again)
	if n := len(r.Wire); n > 0 {
		fmt.Fprintf(&b, "  the last %d of %d requests:\n", min(n, wireShown), n)
		for _, q := range r.Wire[max(0, n-wireShown):] {
			fmt.Fprintf(&b, "    %s\n", q)
		}
	}
	return b.String()
}
