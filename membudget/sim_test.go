package membudget

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// The simulation drives a real Budget through a discrete-event model of the process: copies to a store that may stall, readers with a chunk cache and
// coalesced loads, index loads, read-ahead, callers that give up. It is single-threaded and depends on its seed alone. It keeps accounts of its own
// and fails on what a user would notice (failure.kind); the order of grants is checked against the rules as they are written in doc.go.

// kind is what went wrong in a simulation.
type kind string

const (
	deadlock kind = "deadlock" // somebody waits and nothing will ever happen
	starved  kind = "starved"  // a wait longer than all who were ahead can explain
	isolated kind = "isolated" // one class waited for the stall of the other
	limit    kind = "limit"    // more held, or more memory there, than allowed
	nilBytes kind = "nil"      // bytes that were reserved were not given
	refused  kind = "refused"  // bytes that nobody else wants were not given, or too many were
	wasted   kind = "wasted"   // a cache was emptied for nothing
	guess    kind = "guess"    // a reader waited only because of read-ahead
	order    kind = "order"    // somebody got bytes before a waiter that must not be passed over
	asleep   kind = "asleep"   // a waiter does not get what is there for it
	account  kind = "account"  // the budget's account differs from the simulation's
)

// failure ends a simulation; it is thrown as a panic.
type failure struct {
	kind kind
	text string
}

// event is something that happens at a time; seq keeps events of one time in order.
type event struct {
	at, seq int64
	do      func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// sim is one run.
type sim struct {
	profile
	rnd   *rand.Rand
	b     *Budget
	watch []kind // nil: all kinds are failures; else only these and those that the run cannot go on after

	now, seq int64
	events   events
	waiting  []*simWaiter

	held       [Ahead + 1]int64 // by class, as the simulation counts
	ahead      int64            // of held[Fetch]: by read-ahead on its way
	real       int64            // buffers handed out and charges
	loads      int              // fetches on their way, without read-ahead
	chunks     *simCache
	indexes    *simCache
	inflight   map[int][]func(*simEntry)
	calling    Class        // the class of a TryGrow or TryReserve that runs
	callBytes  int64        // and its size
	entering   *simWaiter   // whose Reserve runs
	enters     simWaiter    // the same for queued, once the budget has made a waiter of it
	queue      []*simWaiter // the last answer of queued
	reclaiming int          // depth of reclaimers that run
	copies     []*simRes    // running copies, for a TryGrow in the middle of a reclaim
	stats      simStats
}

type simStats struct{ events, grants, waits, cancels, grows, refusals, evicted, aheads, tooLarge int }

// simWaiter is a Reserve that has not been granted.
type simWaiter struct {
	w       *waiter
	since   int64
	ahead   int   // how many waited already
	behind  bool  // a large request of its class is ahead
	clear   int64 // when one was last
	then    func(*simRes)
	ordinal int64
}

// simRes is a reservation as the simulation sees it.
type simRes struct {
	s        *sim
	r        *Reservation
	class    Class
	size     int64
	parent   *simRes
	lent     int64
	occupied int64 // of size
	real     int64 // what that really is
	closed   bool
}

func newSim(seed uint64, r rules, watch []kind) *sim {
	rnd := rand.New(rand.NewPCG(seed, 0x7e1e))
	s := &sim{profile: newProfile(rnd, r), rnd: rnd, watch: watch, inflight: map[int][]func(*simEntry){}}
	b, err := newBudget(s.limit, s.needs, r)
	if err != nil {
		panic(err)
	}
	s.b = b
	s.chunks = newSimCache(s, s.cacheMax)
	s.indexes = newSimCache(s, s.cacheMax/2)
	return s
}

// run returns the failure of a run, or nil.
func (s *sim) run() (f *failure) {
	defer func() {
		if p := recover(); p != nil {
			var ok bool
			if f, ok = p.(*failure); !ok {
				panic(p)
			}
		}
	}()
	s.arrivals()
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		s.stats.events++
		e.do()
		s.poll()
		s.check()
	}
	if len(s.waiting) > 0 {
		w := s.waiting[0]
		s.failf(deadlock, "%d wait for ever, the first for %d of %s", len(s.waiting), w.w.min, w.w.class)
	}
	s.chunks.evictAll()
	s.indexes.evictAll()
	if len(s.chunks.entries)+len(s.indexes.entries)+s.loads+len(s.copies) > 0 {
		panic("the simulation has lost something")
	}
	if st := s.b.Stats(); st.CopyBytes != 0 || st.FetchBytes != 0 || st.InUseBytes != 0 {
		s.failf(account, "at the end the budget holds %+v", st)
	}
	return nil
}

// failf ends the run. In a variant, which breaks its rules in any case, only the consequences that are looked for do, and a deadlock or a nil.
func (s *sim) failf(k kind, format string, args ...any) {
	if s.watch != nil && !slices.Contains(s.watch, k) && k != deadlock && k != nilBytes {
		return
	}
	panic(&failure{k, fmt.Sprintf("at %d ms: ", s.now) + fmt.Sprintf(format, args...)})
}

// at runs do after d milliseconds.
func (s *sim) at(d int64, do func()) {
	s.seq++
	heap.Push(&s.events, event{s.now + d, s.seq, do})
}

// upTo is a random number from 1 to n.
func (s *sim) upTo(n int64) int64 { return 1 + s.rnd.Int64N(max(1, n)) }

func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

// poll finds out who was granted, in order of arrival, and lets them go on at this same time.
func (s *sim) poll() {
	for i := 0; i < len(s.waiting); {
		sw := s.waiting[i]
		if sw.w.got == nil {
			i++
			continue
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		res := &simRes{s: s, r: sw.w.got, class: sw.w.class, size: sw.w.min}
		s.held[accountOf(res.class)] += res.size
		s.stats.grants++
		if res.class == Fetch {
			s.loads++ // until its load ends
		}
		s.inOrder(sw.w.class, sw.ordinal)
		s.checkWait(sw)
		s.at(0, func() { sw.then(res) })
	}
}

// reserve is Reserve: then runs when the bytes are there; after patience milliseconds the caller gives up, unless that is forever.
func (s *sim) reserve(c Class, n, patience int64, then func(*simRes)) {
	onlyGuesses := c == Fetch && n <= s.needs.Fetch && len(s.waiting) == 0 && s.held[Copy] == 0 && s.loads == 0 && s.chunks.pinned+s.indexes.pinned == 0
	s.seq++
	sw := &simWaiter{since: s.now, ahead: len(s.waiting), then: then, ordinal: s.seq}
	s.entering = sw
	w, err := s.b.enter(c, n)
	s.entering = nil
	if (n > s.ceiling(c)) != errors.Is(err, ErrTooLarge) {
		s.failf(refused, "a %s of %d bytes, its ceiling is %d: got %v", c, n, s.ceiling(c), err)
	}
	if err != nil {
		s.stats.tooLarge++
		return
	}
	sw.w = w
	s.waiting = append(s.waiting, sw)
	s.poll()
	if w.got != nil {
		return
	}
	s.stats.waits++
	if onlyGuesses {
		s.failf(guess, "a fetch of %d bytes waits, and nobody but read-ahead (%d) holds bytes", n, s.ahead)
	}
	if patience != forever {
		s.at(patience, func() { s.giveUp(sw) })
	}
}

func (s *sim) giveUp(sw *simWaiter) {
	i := slices.Index(s.waiting, sw)
	if i < 0 {
		return
	}
	s.stats.cancels++
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.b.leave(sw.w)
	s.poll()
}

// tryReserve is TryReserve.
func (s *sim) tryReserve(c Class, n int64) *simRes {
	var r *Reservation
	if !s.try(c, n, func() bool { r = s.b.TryReserve(c, n); return r != nil }) {
		return nil
	}
	return &simRes{s: s, r: r, class: c, size: n}
}

// try takes n bytes of class c at once, by do.
func (s *sim) try(c Class, n int64, do func() bool) bool {
	queue, outerClass, outerBytes := len(s.waiting), s.calling, s.callBytes
	s.calling, s.callBytes = c, n
	got := do()
	s.calling, s.callBytes = outerClass, outerBytes
	if !got {
		s.stats.refusals++
		help := s.reclaimable()
		if c == Copy && s.full(c, n) {
			help = 0
		}
		if c != Ahead && queue == 0 && s.reclaiming == 0 && s.lack(c, n) <= help {
			s.failf(refused, "nobody waits, %s lacks %d, caches have %d, and it may not take %d", c, s.lack(c, n), help, n)
		}
		return false
	}
	s.stats.grows++
	s.held[accountOf(c)] += n
	s.inOrder(c, 1<<62)
	s.poll()
	return true
}
