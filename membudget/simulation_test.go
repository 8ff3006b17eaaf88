package membudget

import (
	"flag"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

var (
	simSeeds = flag.Int("sim.seeds", need.Times(60, 200), "how many seeds of the simulation to run")
	simFirst = flag.Uint64("sim.first", 1, "the first of them: to repeat one that failed, with -sim.seeds=1")
)

func TestSimulation(t *testing.T) {
	var sum simStats
	for i := range *simSeeds {
		seed := *simFirst + uint64(i)
		s := newSim(seed, allRules(), nil)
		if f := s.run(); f != nil {
			t.Fatalf("seed %d: %s: %s\nprofile %+v", seed, f.kind, f.text, s.profile)
		}
		sum.add(s.stats)
	}
	t.Logf("%d seeds: %+v", *simSeeds, sum)
}

// A seed that fails must fail again: nothing in a run depends on anything else.
func TestSimulation_IsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := newSim(seed, allRules(), nil), newSim(seed, allRules(), nil)
		a.run()
		b.run()
		if a.stats != b.stats || a.now != b.now || a.b.Stats() != b.b.Stats() {
			t.Errorf("seed %d: two runs differ: %+v and %+v, %+v and %+v", seed, a.stats, b.stats, a.b.Stats(), b.b.Stats())
		}
	}
}

func (a *simStats) add(b simStats) {
	a.events += b.events
	a.grants += b.grants
	a.waits += b.waits
	a.cancels += b.cancels
	a.grows += b.grows
	a.refusals += b.refusals
	a.evicted += b.evicted
	a.aheads += b.aheads
	a.tooLarge += b.tooLarge
}

// variants are the budget without one rule each, and what then goes wrong. Only consequences count, but for the two rules that say no more than who comes
// first.
var variants = []struct {
	name    string
	without func(*rules)
	want    []kind
}{
	{"copies leave no floor to fetches", func(r *rules) { r.fetchFloor = false }, []kind{isolated}},
	{"fetches leave no floor to copies", func(r *rules) { r.copyFloor = false }, []kind{isolated}},
	{"whoever fits goes first", func(r *rules) { r.fifo = false }, []kind{starved, isolated}},
	{"nobody is passed over", func(r *rules) { r.passOver = false }, []kind{isolated}},
	{"waiters below their ceiling are passed over", func(r *rules) { r.passOverCeiling = false }, []kind{starved, isolated}},
	{"waiters that caches could help are passed over", func(r *rules) { r.passOverDry = false }, []kind{order}},
	{"growing goes before waiters of the class", func(r *rules) { r.growYields = false }, []kind{starved, isolated}},
	{"growing goes before waiters of the other class", func(r *rules) { r.growYieldsOther = false }, []kind{starved, isolated}},
	{"a cancelled waiter does not run the queue", func(r *rules) { r.cancelReruns = false }, []kind{isolated, asleep}},
	{"what never fits is queued", func(r *rules) { r.refuseTooLarge = false }, []kind{deadlock, starved, isolated}},
	{"read-ahead goes before waiters", func(r *rules) { r.aheadYields = false }, []kind{starved, isolated}},
	{"read-ahead leaves nothing free", func(r *rules) { r.aheadLeaves = false }, []kind{guess}},
	{"read-ahead takes from caches", func(r *rules) { r.aheadNoReclaim = false }, []kind{wasted}},
	{"no reclaim before a wait", func(r *rules) { r.reclaimOnWait = false }, []kind{deadlock, starved, isolated}},
	{"no reclaim at a release", func(r *rules) { r.reclaimOnRelease = false }, []kind{deadlock, starved, isolated}},
	{"no reclaim when a cache has something", func(r *rules) { r.reclaimOnIdle = false }, []kind{deadlock, starved, isolated}},
	{"no reclaim at a cancelled wait", func(r *rules) { r.reclaimOnCancel = false }, []kind{asleep}},
	{"no reclaim before growing fails", func(r *rules) { r.reclaimOnGrow = false }, []kind{refused}},
	{"reclaim for copies at their ceiling", func(r *rules) { r.reclaimOnlyToHelp = false }, []kind{wasted}},
	{"splits do not return", func(r *rules) { r.splitReturns = false }, []kind{nilBytes}},
	{"detached splits return", func(r *rules) { r.detachCuts = false }, []kind{refused}},
	{"buffers are charged by length", func(r *rules) { r.chargeCapacity = false }, []kind{limit}},
	{"idle buffers do not count", func(r *rules) { r.idleCounts = false }, []kind{limit}},
}

// Each rule is needed: without it the simulation fails within a few seeds.
func TestSimulation_EachRuleIsNeeded(t *testing.T) {
	const enough = 300
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			r := allRules()
			v.without(&r)
			for seed := uint64(1); seed <= enough; seed++ {
				s := newSim(seed, r, v.want)
				f := s.run()
				if f == nil {
					continue
				}
				if !slices.Contains(v.want, f.kind) {
					t.Errorf("seed %d fails with %s: %s; want one of %v", seed, f.kind, f.text, v.want)
				}
				t.Logf("seed %d: %s: %s", seed, f.kind, f.text)
				return
			}
			t.Errorf("%d seeds pass without this rule", enough)
		})
	}
}
