package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Forever is a Rule.Times without an end.
const Forever = -1

// Rule fires when a request matches. It is plain data: what a plan does can be printed and done again.
type Rule struct {
	Step  string // from the dialect; "" matches every step
	Nth   int    // the first matching request to hit, from 1; 0 is 1
	Times int    // how many from there on; 0 is 1, Forever is all
	Do    Action
}

// String is "mpu.part#2x3: DropRequest".
func (r Rule) String() string {
	step, times := r.Step, ""
	if step == "" {
		step = "*"
	}
	if r.Nth > 1 {
		step += fmt.Sprintf("#%d", r.Nth)
	}
	switch {
	case r.Times < 0:
		times = "x*"
	case r.Times > 1:
		times = fmt.Sprintf("x%d", r.Times)
	}
	return step + times + ": " + r.Do.String()
}

// Event is one request as it was seen on the wire.
type Event struct {
	At     time.Time
	Step   string
	Method string
	Path   string // without the query, which may hold a signature
	Rule   int    // which rule hit it; -1: none
	Status int    // of the answer that the driver saw, 0 if none
	Err    error  // that the driver saw in place of an answer
	Sent   int64  // bytes of the request's body that went past here
	Got    int64  // bytes of the answer's body that the driver took

	// Began and Ended number what happened in a plan, so that orders can be told without a clock: one request was over before another began if its Ended
	// is smaller than the other's Began. A request ends with its error, or once its answer's body was closed or read to its end; 0: not yet.
	Began, Ended int
}

// String is one line of a log.
func (e Event) String() string {
	step := e.Step
	if step == "" {
		step = "UNKNOWN"
	}
	s := fmt.Sprintf("%s %-12s %s %s", e.At.Format("15:04:05.000"), step, e.Method, e.Path)
	switch {
	case e.Err != nil:
		s += fmt.Sprintf(" -> %v", e.Err)
	case e.Status != 0:
		s += fmt.Sprintf(" -> %d", e.Status)
	default:
		s += " -> (under way)"
	}
	s += fmt.Sprintf(", sent %d, got %d", e.Sent, e.Got)
	if e.Rule >= 0 {
		s += fmt.Sprintf(", rule %d", e.Rule)
	}
	return s
}

// Plan is an ordered list of rules, and the log of what happened. It is safe for concurrent use. One plan may stand in several places at the same time (the
// clients of one run): they share its counts.
type Plan struct {
	dialect Dialect
	now     func() time.Time

	mu      sync.Mutex
	rules   []Rule
	stopped int   // so many of them are over
	seen    []int // matching requests, by rule
	fired   []int // by rule
	clock   int
	events  []*Event
	owned   []interface{ CloseIdleConnections() } // transports made here, see Close
}

// NewPlan returns a plan. Without rules it only writes the log.
func NewPlan(d Dialect, rules ...Rule) *Plan {
	p := &Plan{dialect: d, now: time.Now} //nolint:forbidigo // of the log alone
	p.Add(rules...)
	return p
}

// Add puts rules behind those that are there. They count from now on.
func (p *Plan) Add(rules ...Rule) {
	for _, r := range rules {
		if r.Do == nil {
			panic("fault: a rule without an action")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rules...)
	p.seen = append(p.seen, make([]int, len(rules))...)
	p.fired = append(p.fired, make([]int, len(rules))...)
}

// Stop ends all rules: from here on everything is passed on and logged, so that a case can look at what is left with the same client.
func (p *Plan) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = len(p.rules)
}

// Rules returns the rules as they are.
func (p *Plan) Rules() []Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.rules)
}

// Fired returns how often a rule has hit.
func (p *Plan) Fired(rule int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired[rule]
}

// Unfired returns the rules that never hit: the case did not test what it says.
func (p *Plan) Unfired() []Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Rule
	for i, n := range p.fired {
		if n == 0 {
			out = append(out, p.rules[i])
		}
	}
	return out
}

// Log returns what was seen so far, in the order in which the requests began.
func (p *Plan) Log() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Event, len(p.events))
	for i, e := range p.events {
		out[i] = *e
	}
	return out
}

// Count returns how many requests of a step were seen; "" counts all.
func (p *Plan) Count(step string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.events {
		if step == "" || e.Step == step {
			n++
		}
	}
	return n
}

// Check is what every run ends with: each rule has hit, and each request was one that the dialect knows.
func (p *Plan) Check() error {
	var errs []error
	for _, r := range p.Unfired() {
		errs = append(errs, fmt.Errorf("rule %q never fired", r))
	}
	for _, e := range p.Log() {
		if e.Step == "" {
			errs = append(errs, fmt.Errorf("%s %s is a request that the dialect does not know", e.Method, e.Path))
		}
	}
	return errors.Join(errs...)
}

// String is the whole plan and its log, for a failure.
func (p *Plan) String() string {
	var b strings.Builder
	p.mu.Lock()
	for i, r := range p.rules {
		fmt.Fprintf(&b, "rule %d, fired %d times: %s\n", i, p.fired[i], r)
	}
	p.mu.Unlock()
	for _, e := range p.Log() {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// Close closes the idle connections of transports that the plan made for itself (see StallHeaders). Nothing else is owned.
func (p *Plan) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.owned {
		t.CloseIdleConnections()
	}
	p.owned = nil
}

// begin writes the request down and chooses the rule that hits it.
func (p *Plan) begin(r *http.Request) (*Event, Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	e := &Event{At: p.now(), Step: p.dialect.Step(r), Method: r.Method, Path: r.URL.Path, Rule: -1, Began: p.clock}
	p.events = append(p.events, e)
	var do Action
	for i := range p.rules {
		rule := &p.rules[i]
		if rule.Step != "" && rule.Step != e.Step {
			continue
		}
		p.seen[i]++
		if do == nil && i >= p.stopped && p.seen[i] >= rule.Nth && (rule.Times < 0 || p.fired[i] < max(1, rule.Times)) {
			p.fired[i]++
			e.Rule, do = i, rule.Do
		}
	}
	return e, do
}

// update changes an event of the log.
func (p *Plan) update(e *Event, f func(e *Event)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(e)
}

// end marks a request as over.
func (p *Plan) end(e *Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Ended == 0 {
		p.clock++
		e.Ended = p.clock
	}
}
