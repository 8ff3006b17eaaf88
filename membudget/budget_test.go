package membudget

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const kib = 1 << 10

// whole checks that everything came back when the test ends.
func whole(t *testing.T, limit int64, n Needs) *Budget {
	t.Helper()
	b, err := New(limit, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := b.Stats(); s.CopyBytes != 0 || s.FetchBytes != 0 || s.InUseBytes != 0 || s.CopyWaiters+s.FetchWaiters != 0 {
			t.Errorf("at the end the budget still has %+v", s)
		}
	})
	return b
}

func mustReserve(t *testing.T, b *Budget, c Class, n int64) *Reservation {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // entered first, so that a reserve that would wait fails
	w, err := b.enter(c, n)
	if err != nil {
		t.Fatalf("reserve %d of %s: %v", n, c, err)
	}
	if w.got == nil {
		b.leave(w)
		t.Fatalf("reserve %d of %s waits, want it at once: %+v, %v", n, c, b.Stats(), ctx.Err())
	}
	return w.got
}

// waiting starts a Reserve that must wait, and returns what it gets.
func waiting(t *testing.T, b *Budget, ctx context.Context, c Class, n int64) <-chan *Reservation {
	t.Helper()
	before := b.Stats()
	out := make(chan *Reservation, 1)
	go func() {
		r, err := b.Reserve(ctx, c, n)
		if err != nil && ctx.Err() == nil {
			t.Errorf("reserve %d of %s: %v", n, c, err)
		}
		out <- r
	}()
	synctest.Wait()
	if after := b.Stats(); after.Waits != before.Waits+1 {
		t.Fatalf("reserve %d of %s does not wait: %+v", n, c, after)
	}
	return out
}

// granted says whether a waiter has its bytes.
func granted(out <-chan *Reservation) bool {
	synctest.Wait()
	return len(out) == 1
}

func TestNew_ChecksNeeds(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		needs Needs
		want  string // in the error
	}{
		{"exactly", 100, Needs{Fixed: 20, Copy: 50, Fetch: 30}, ""},
		{"one short", 99, Needs{Fixed: 20, Copy: 50, Fetch: 30}, "set memory.budget.bytes to 100 or more"},
		{"overflow", 99, Needs{Fixed: math.MaxInt64, Copy: 50, Fetch: 30}, "set memory.budget.bytes to 9223372036854775807 or more"},
		{"negative fixed", 99, Needs{Fixed: -1}, "the fixed need is negative: -1"},
		{"negative copy", 99, Needs{Copy: -2}, "the copy need is negative: -2"},
		{"negative fetch", 99, Needs{Fetch: -3}, "the fetch need is negative: -3"},
		{"negative limit", -1, Needs{}, "at most -1"},
	} {
		_, err := New(c.limit, c.needs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := New(99, Needs{Copy: 100}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestCeilings(t *testing.T) {
	for _, c := range []struct {
		limit         int64
		needs         Needs
		copies, fetch int64
	}{
		{100, Needs{Copy: 60, Fetch: 40}, 60, 40},              // the smallest: each has its need
		{110, Needs{Copy: 60, Fetch: 40}, 70, 50},              // a quarter is less than either need
		{400, Needs{Copy: 60, Fetch: 40}, 300, 300},            // both floors a quarter
		{300, Needs{Copy: 60, Fetch: 40}, 225, 225},            // the same
		{410, Needs{Fixed: 10, Copy: 60, Fetch: 40}, 300, 300}, // fixed is not shared
		{100, Needs{Copy: 90, Fetch: 1}, 90, 10},               // F: what copies leave, below a quarter
		{100, Needs{Copy: 1, Fetch: 90}, 10, 90},               // C likewise
		{100, Needs{}, 75, 75},
	} {
		b, err := New(c.limit, c.needs)
		if err != nil {
			t.Fatal(err)
		}
		if got, got2 := b.Ceiling(Copy), b.Ceiling(Fetch); got != c.copies || got2 != c.fetch || b.Ceiling(Ahead) != got2 {
			t.Errorf("limit %d, %+v: got ceilings %d and %d, want %d and %d", c.limit, c.needs, got, got2, c.copies, c.fetch)
		}
	}
}

func TestReserve_TooLargeNamesWhatIsNeeded(t *testing.T) {
	needs := Needs{Fixed: 7, Copy: 60, Fetch: 40}
	for _, limit := range []int64{107, 150, 407, 1000} {
		b := whole(t, limit, needs)
		for _, c := range []Class{Copy, Fetch} {
			mustReserve(t, b, c, b.Ceiling(c)).Release()
			for _, over := range []int64{1, 13, 500, 1 << 40} {
				n := b.Ceiling(c) + over
				_, err := b.Reserve(t.Context(), c, n)
				var size *SizeError
				if !errors.Is(err, ErrTooLarge) || !errors.As(err, &size) || !strings.Contains(err.Error(), "memory.budget.bytes") {
					t.Fatalf("limit %d, %s of %d: got %v, want a SizeError that is ErrTooLarge", limit, c, n, err)
				}
				enough, err := New(size.Limit, needs)
				if err != nil {
					t.Fatal(err)
				}
				tight, err := New(size.Limit-1, needs)
				if err != nil {
					t.Fatal(err)
				}
				if enough.Ceiling(c) < n || tight.Ceiling(c) >= n {
					t.Errorf("limit %d, %s of %d: the error names %d; ceilings there are %d, one below %d", limit, c, n, size.Limit, enough.Ceiling(c), tight.Ceiling(c))
				}
			}
		}
	}
}

func TestReserve_WrongCalls(t *testing.T) {
	b := whole(t, 100, Needs{})
	for _, c := range []Class{0, Ahead, 9} {
		if _, err := b.Reserve(t.Context(), c, 1); !errors.Is(err, ErrClass) {
			t.Errorf("class %s: got %v, want ErrClass", c, err)
		}
	}
	if _, err := b.Reserve(t.Context(), Copy, -1); err == nil {
		t.Error("a negative need is granted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Reserve(ctx, Copy, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: got %v", err)
	}
	for _, c := range []Class{0, 9} {
		if b.TryReserve(c, 1) != nil {
			t.Errorf("TryReserve takes class %s", c)
		}
	}
	if b.TryReserve(Fetch, -1) != nil {
		t.Error("TryReserve takes a negative number")
	}
	mustReserve(t, b, Fetch, 0).Release()
}

func TestQueue_FirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{})
		hold := []*Reservation{mustReserve(t, b, Copy, 40), mustReserve(t, b, Fetch, 40)}
		big := waiting(t, b, t.Context(), Copy, 30) // 20 are free
		small := waiting(t, b, t.Context(), Fetch, 10)
		if b.TryReserve(Fetch, 1) != nil || hold[1].TryGrow(1) || hold[0].TryGrow(1) {
			t.Error("somebody gets bytes before a waiter below its ceiling")
		}
		hold[1].Release()
		if !granted(big) || !granted(small) {
			t.Error("a release does not serve both waiters, who fit now")
		}
		for _, r := range []*Reservation{hold[0], <-big, <-small} {
			r.Release()
		}
	})
}

func TestQueue_PassesOverTheClassAtItsCeilingOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{}) // both ceilings 75
		hold := mustReserve(t, b, Copy, 70)
		copy1 := waiting(t, b, t.Context(), Copy, 10)
		copy2 := waiting(t, b, t.Context(), Copy, 1) // would fit under the ceiling, but stands behind
		fetch := mustReserve(t, b, Fetch, 20)
		if granted(copy1) || granted(copy2) {
			t.Fatal("a copy is granted above the ceiling, or before its turn")
		}
		if !fetch.TryGrow(5) {
			t.Error("a fetch cannot grow beside a copy that may be passed over")
		}
		if hold.TryGrow(1) {
			t.Error("a copy grows while its class has a waiter")
		}
		hold.Release()
		if !granted(copy1) || !granted(copy2) {
			t.Error("the copies are not served when the ceiling allows")
		}
		for _, r := range []*Reservation{fetch, <-copy1, <-copy2} {
			r.Release()
		}
	})
}

func TestReserve_CancelledWaiterMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{})
		hold := mustReserve(t, b, Copy, 60)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		big := waiting(t, b, ctx, Fetch, 50)
		small := waiting(t, b, t.Context(), Fetch, 30)
		time.Sleep(59 * time.Second)
		if granted(small) {
			t.Fatal("the small one passed the big one")
		}
		time.Sleep(2 * time.Second)
		if r := <-big; r != nil {
			t.Error("the cancelled one got bytes")
		}
		if !granted(small) {
			t.Error("the one behind is not served when the first gives up")
		}
		(<-small).Release()
		hold.Release()
		if s := b.Stats(); s.Cancelled != 1 || s.Waits != 2 {
			t.Errorf("got %+v, want 2 waits, 1 cancelled", s)
		}
	})
}

func TestAhead_TakesOnlyWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{Copy: 20, Fetch: 20})
		called := false
		b.Reclaimer(func(int64) int64 { called = true; return 0 })
		if r := b.TryReserve(Ahead, 56); r != nil {
			t.Error("read-ahead leaves less than one fetch's need under the ceiling of fetches")
		}
		r := b.TryReserve(Ahead, 50)
		if r == nil || !r.TryGrow(5) || r.TryGrow(1) {
			t.Fatal("read-ahead may have 75 - 20 bytes, no less and no more")
		}
		fetch := mustReserve(t, b, Fetch, 20)
		c := mustReserve(t, b, Copy, 25)
		if called {
			t.Error("read-ahead reclaims")
		}
		wait := waiting(t, b, t.Context(), Copy, 10)
		fetch.Release()
		if !granted(wait) {
			t.Fatal("the copy is not served")
		}
		(<-wait).Release()
		c.Release()
		hold := mustReserve(t, b, Copy, 45)
		wait = waiting(t, b, t.Context(), Copy, 40) // at its ceiling, so it may be passed over, but not by a guess
		if b.TryReserve(Ahead, 0) != nil {
			t.Error("read-ahead gets something while somebody waits")
		}
		hold.Release()
		(<-wait).Release()
		r.Release()
	})
}

// cacheOf is a reclaimer that holds one byte per entry.
type cacheOf struct {
	b       *Budget
	entries []*Reservation
	pinned  bool
	wants   []int64
}

func fill(t *testing.T, b *Budget, n int) *cacheOf {
	t.Helper()
	c := &cacheOf{b: b}
	for range n {
		c.entries = append(c.entries, mustReserve(t, b, Fetch, 1))
	}
	b.Reclaimer(c.free)
	return c
}

func (c *cacheOf) free(want int64) (freed int64) {
	c.wants = append(c.wants, want)
	for !c.pinned && freed < want && len(c.entries) > 0 {
		c.entries[0].Release()
		c.entries = c.entries[1:]
		freed++
	}
	return freed
}

func TestReclaim_BeforeAWaitAndBeforeGrowingFails(t *testing.T) {
	b := whole(t, 100, Needs{})
	c := fill(t, b, 75)
	r := mustReserve(t, b, Copy, 40) // 25 are free
	if len(c.entries) != 60 {
		t.Errorf("caches hold %d, want 60: just what was missing is taken", len(c.entries))
	}
	if !r.TryGrow(10) || len(c.entries) != 50 {
		t.Errorf("a copy does not grow into caches: they hold %d, want 50", len(c.entries))
	}
	asked := len(c.wants)
	if r.TryGrow(40) || len(c.wants) != asked {
		t.Error("caches are asked for a copy that would be above its ceiling")
	}
	f := mustReserve(t, b, Fetch, 50)
	if len(c.entries) != 0 {
		t.Errorf("caches hold %d beside 50 and 50", len(c.entries))
	}
	r.Release()
	f.Release()
}

func TestReclaim_AgainWhenAPinEndsOrBytesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{})
		c := fill(t, b, 70)
		c.pinned = true
		w := waiting(t, b, t.Context(), Copy, 40)
		c.pinned = false
		if granted(w) {
			t.Fatal("granted out of nothing")
		}
		b.Idle()
		if !granted(w) || len(c.entries) != 60 {
			t.Fatalf("Idle does not help the waiter: caches hold %d", len(c.entries))
		}
		hold, bit := <-w, mustReserve(t, b, Copy, 1)
		c.pinned = true
		w = waiting(t, b, t.Context(), Copy, 30)
		c.pinned = false
		bit.Release()
		if !granted(w) || len(c.entries) != 30 {
			t.Errorf("a release does not look into the caches again: they hold %d", len(c.entries))
		}
		(<-w).Release()
		hold.Release()
		c.free(100)
	})
}

func TestReclaim_ForTheOneBehindACancelledCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{})
		hold := mustReserve(t, b, Copy, 40)
		c := fill(t, b, 60)
		ctx, cancel := context.WithCancel(t.Context())
		big := waiting(t, b, ctx, Copy, 70) // at the ceiling: caches are not asked
		small := waiting(t, b, t.Context(), Copy, 20)
		if len(c.wants) != 0 {
			t.Fatalf("caches were asked for %v", c.wants)
		}
		cancel()
		if !granted(small) || len(c.entries) != 40 {
			t.Errorf("the copy behind is not served out of the caches, which hold %d", len(c.entries))
		}
		if r := <-big; r != nil {
			t.Error("the cancelled one got bytes")
		}
		(<-small).Release()
		hold.Release()
		c.free(100)
	})
}

func TestReclaim_NeverForCopiesAtTheirCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := whole(t, 100, Needs{})
		hold := mustReserve(t, b, Copy, 50)
		c := fill(t, b, 50)
		w := waiting(t, b, t.Context(), Copy, 30)
		b.Idle()
		mustReserve(t, b, Fetch, 0).Release()
		if len(c.wants) != 0 {
			t.Errorf("caches were asked for %v for a copy that waits for copies", c.wants)
		}
		behind := waiting(t, b, t.Context(), Fetch, 70) // not its class's ceiling problem: caches help
		if len(c.wants) == 0 || len(c.entries) != 0 {
			t.Errorf("caches were not asked for the fetch behind: %v, they hold %d", c.wants, len(c.entries))
		}
		hold.Release()
		if !granted(w) || !granted(behind) {
			t.Error("not both are served at the end")
		}
		(<-w).Release()
		(<-behind).Release()
	})
}

func TestReclaimer_OrderAndRemoval(t *testing.T) {
	b := whole(t, 100, Needs{})
	hold := mustReserve(t, b, Fetch, 75)
	var asked []string
	add := func(name string) (remove func()) {
		return b.Reclaimer(func(int64) int64 { asked = append(asked, name); return 0 })
	}
	add("a")
	remove := add("b")
	add("c")
	hold.TryGrow(1)
	remove()
	remove()
	hold.TryGrow(1)
	if got := strings.Join(asked, ""); got != "abcac" {
		t.Errorf("asked in the order %s, want abc, then ac", got)
	}
	hold.Release()
}
