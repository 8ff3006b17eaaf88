package logtest

import (
	"context"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/rlmm"
)

// Harness makes logs for the table. A function that changes a log returns the log to go on with: the one given, if it shows the
// change while it is open, or the same one opened again.
type Harness struct {
	// Open makes a new, empty log with at least two partitions. The table closes it.
	Open func(t testing.TB) rlmm.Log
	// Reopen closes a log and opens it again; nil: the log does not outlive Close.
	Reopen func(t testing.TB, l rlmm.Log) rlmm.Log
	// TrimHead removes the events of p below first, as retention does; first is above the log's First and at most its Next.
	TrimHead func(t testing.TB, l rlmm.Log, p int32, first int64) rlmm.Log
	// Regrow removes the events of p from offset end on and appends others in a higher leader epoch.
	Regrow func(t testing.TB, l rlmm.Log, p int32, end int64, events ...string) rlmm.Log
	// Skip uses up n offsets at the end of p without an event that a reader sees.
	Skip func(t testing.TB, l rlmm.Log, p int32, n int64) rlmm.Log
	// Foreign appends an event with a key, or without a value, as other writers may.
	Foreign func(t testing.TB, l rlmm.Log, p int32, key, value []byte) rlmm.Log
	// Stall holds up the writes to p: when it has returned, an Append does not end by itself before release.
	Stall func(t testing.TB, l rlmm.Log, p int32) (release func())
	// Patience is how long the table waits for what must happen; 0 means 30 s.
	Patience time.Duration
}

// Case is one entry of the table.
type Case struct {
	// Name is the name that the contract uses.
	Name string
	run  func(*env)
	// needs says whether the harness can do what the case needs; nil: nothing.
	needs func(Harness) bool
}

// Cases returns the table.
func Cases() []Case {
	return []Case{
		{Name: "identity", run: identity},
		{Name: "reopen", run: reopen, needs: func(h Harness) bool { return h.Reopen != nil }},
		{Name: "append-position", run: appendPosition},
		{Name: "append-visible", run: appendVisible},
		{Name: "append-copies", run: appendCopies},
		{Name: "append-cancelled", run: appendCancelled},
		{Name: "append-cancelled/stalled", run: appendStalled, needs: func(h Harness) bool { return h.Stall != nil }},
		{Name: "invalid-arguments", run: invalidArguments},
		{Name: "in-order", run: inOrder},
		{Name: "in-order/from-the-middle", run: fromTheMiddle},
		{Name: "in-order/foreign", run: foreign, needs: func(h Harness) bool { return h.Foreign != nil }},
		{Name: "slow-reader", run: slowReader},
		{Name: "fair", run: fair},
		{Name: "next-cancelled", run: nextCancelled},
		{Name: "assign", run: assign},
		{Name: "assign/during-next", run: assignDuringNext},
		{Name: "close-follower", run: closeFollower},
		{Name: "close-log", run: closeLog},
		{Name: "head-gone", run: headGone, needs: func(h Harness) bool { return h.TrimHead != nil }},
		{Name: "truncated-and-regrown", run: regrown, needs: func(h Harness) bool { return h.Regrow != nil }},
		{Name: "truncated", run: truncated, needs: func(h Harness) bool { return h.Regrow != nil }},
		{Name: "holes", run: holes, needs: func(h Harness) bool { return h.Skip != nil }},
	}
}

// Run runs the whole table, each case on a log of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.needs != nil && !c.needs(h) {
				need.Never(t, "the harness has no means for it")
			}
			c.Run(t, h)
		})
	}
}

// Run runs one case, which ends with t.Fatalf where the log breaks the contract.
func (c Case) Run(t testing.TB, h Harness) {
	t.Helper()
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
	defer cancel()
	e := &env{TB: t, h: h, ctx: ctx}
	e.log = h.Open(t)
	defer func() {
		if err := e.log.Close(); err != nil {
			t.Errorf("Close at the end: %v", err)
		}
	}()
	if n := e.log.Partitions(); n < 2 {
		t.Fatalf("Partitions() = %d, the table needs 2", n)
	}
	c.run(e)
}
