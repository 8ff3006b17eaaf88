package membudget

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFairness_WhoWaitsGoesBeforeWhoComesLater: with 16 holders of one class that come back for ever, one of the other class that has to wait is served
// before any of them that came after it, whichever class it is. What tells is who is still in the queue when another was served, not a clock.
func TestFairness_WhoWaitsGoesBeforeWhoComesLater(t *testing.T) {
	const page, pages, endless, rounds = 4096, 120, 16, 50
	for _, class := range []Class{Fetch, Copy} {
		other := Fetch + Copy - class
		t.Run(class.String(), func(t *testing.T) {
			b, err := New(pages*page, Needs{Copy: 10 * page, Fetch: 10 * page})
			if err != nil {
				t.Fatal(err)
			}
			waits := func() bool {
				s := b.Stats()
				return class == Fetch && s.FetchWaiters > 0 || class == Copy && s.CopyWaiters > 0
			}
			var stop atomic.Bool
			var seen, served, later atomic.Int64 // seen: the number of the one that was seen in the queue; 0: none
			var all sync.WaitGroup
			for range endless {
				all.Go(func() {
					for !stop.Load() {
						late := seen.Load()
						r, err := b.Reserve(t.Context(), other, 20*page)
						if err != nil {
							t.Error(err)
							return
						}
						if late != 0 && waits() && seen.Load() == late {
							t.Errorf("a %s that came after it was served before a waiting %s", other, class)
							stop.Store(true)
						}
						served.Add(1)
						if late != 0 {
							later.Add(1)
						}
						runtime.Gosched()
						r.Release()
					}
				})
			}
			// More than what is kept free for its class, so that it has to wait for the others.
			need := b.Ceiling(class)
			for waited := int64(0); waited < rounds && !stop.Load(); {
				got := make(chan *Reservation)
				go func() {
					r, err := b.Reserve(t.Context(), class, need)
					if err != nil {
						t.Error(err)
					}
					got <- r
				}()
				var r *Reservation
				for r == nil {
					if seen.Load() == 0 && waits() {
						waited++
						seen.Store(waited)
					}
					select {
					case r = <-got:
					default:
						runtime.Gosched()
					}
				}
				seen.Store(0) // before the next one comes
				r.Release()
			}
			stop.Store(true)
			all.Wait()
			if served.Load() == 0 || later.Load() == 0 {
				t.Errorf("%d were served, %d of them had come while the other waited: the test shows nothing", served.Load(), later.Load())
			}
		})
	}
}
