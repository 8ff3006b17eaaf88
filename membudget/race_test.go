package membudget

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// raceCache is a cache as other packages write one: its own lock, entries released off it.
type raceCache struct {
	mu      sync.Mutex
	entries []*Reservation
}

func (c *raceCache) add(r *Reservation) {
	r.Detach()
	c.mu.Lock()
	c.entries = append(c.entries, r)
	c.mu.Unlock()
}

func (c *raceCache) free(want int64) (freed int64) {
	c.mu.Lock()
	var out []*Reservation
	for freed < want && len(c.entries) > 0 {
		out = append(out, c.entries[0])
		freed += c.entries[0].Size()
		c.entries = c.entries[1:]
	}
	c.mu.Unlock()
	for _, r := range out {
		r.Release()
	}
	return freed
}

// Copies, fetches that fill a cache, read-ahead and callers that leave, on real goroutines: everybody who stays is served, the limit holds at every
// moment that is looked at, and all comes back.
func TestConcurrent_AllAreServed(t *testing.T) {
	const page, seed = 4096, 11
	needs := Needs{Copy: 3 * page, Fetch: 2 * page}
	for _, limit := range []int64{5 * page, 8 * page, 40 * page} {
		b := whole(t, limit, needs)
		c := &raceCache{}
		defer b.Reclaimer(c.free)()
		var served, left, ahead atomic.Int64
		one := func(ctx context.Context, rnd *rand.Rand) error {
			class, n := Copy, needs.Copy
			if rnd.IntN(2) == 0 {
				class, n = Fetch, needs.Fetch
			}
			if rnd.IntN(10) == 0 {
				n = b.Ceiling(class)
			}
			r, err := b.Reserve(ctx, class, n)
			if err != nil {
				return err
			}
			defer r.Release()
			buf := r.Buffer(page)
			runtime.Gosched() // so that others come and wait
			for rnd.IntN(3) > 0 && r.TryGrow(page) {
				if rnd.IntN(2) == 0 {
					r.Shrink(page)
				}
			}
			if class == Fetch {
				c.add(r.Split(page))
				b.Idle()
				if a := b.TryReserve(Ahead, page); a != nil {
					ahead.Add(1)
					c.add(a)
					b.Idle()
				}
			} else {
				r.Split(page).Release()
			}
			r.Return(buf)
			return nil
		}
		stop := make(chan struct{})
		var sampler, wg sync.WaitGroup
		sampler.Go(func() {
			for {
				if s := b.Stats(); s.CopyBytes > s.CopyCeiling || s.FetchBytes > s.FetchCeiling || s.CopyBytes+s.FetchBytes > limit || s.InUseBytes+s.IdleBytes > limit {
					t.Errorf("above a limit: %+v", s)
					return
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
		for g := range 16 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(g)))
				for i := range 150 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%4 == 0 {
						time.AfterFunc(time.Duration(rnd.IntN(50))*time.Microsecond, cancel)
					}
					switch err := one(ctx, rnd); {
					case err == nil:
						served.Add(1)
					case errors.Is(err, context.Canceled):
						left.Add(1)
					default:
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		close(stop)
		sampler.Wait()
		c.free(limit)
		s := b.Stats()
		if served.Load()+left.Load() != 16*150 || s.Waits == 0 || s.Reclaims == 0 {
			t.Errorf("limit %d: %d served, %d left: the test does not reach what it is for: %+v", limit, served.Load(), left.Load(), s)
		}
		t.Logf("limit %d: %d served, %d left, %d ahead, %+v", limit, served.Load(), left.Load(), ahead.Load(), s)
	}
}
