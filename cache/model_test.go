package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/membudget"
)

// model is what a cache must look like from outside: a map, and the order in which entries without pins were last used.
type model struct {
	max     int64
	most    int // entries; 0: any number
	expire  time.Duration
	now     time.Time
	entries map[int]*modelEntry
	order   []*modelEntry // without pins and not kept, unused for longest first
	passed  []*modelEntry // the same of spent ones, which are not in order
	kept    []*modelEntry // without pins, kept, in the same order
	gone    []*modelEntry // left the cache, pins hold them
}

type modelEntry struct {
	key, pages, pins, keeps int
	used                    time.Time
	spent                   bool
}

func (m *model) weight() (n int64) {
	for _, e := range m.entries {
		n += int64(e.pages) * page
	}
	return n
}

func (m *model) lingering() (n int64) {
	for _, e := range m.gone {
		n += int64(e.pages) * page
	}
	return n
}

// find returns the entry of key unless it has expired, which removes it.
func (m *model) find(key int) *modelEntry {
	e := m.entries[key]
	if e != nil && e.pins == 0 && e.keeps == 0 && m.now.Sub(e.used) >= m.expire {
		m.remove(e)
		return nil
	}
	return e
}

func (m *model) remove(e *modelEntry) {
	delete(m.entries, e.key)
	m.unlist(e)
	if e.pins > 0 {
		m.gone = append(m.gone, e)
	}
}

func (m *model) unlist(e *modelEntry) {
	is := func(x *modelEntry) bool { return x == e }
	m.order, m.passed, m.kept = slices.DeleteFunc(m.order, is), slices.DeleteFunc(m.passed, is), slices.DeleteFunc(m.kept, is)
}

// list puts an entry without pins where it belongs.
func (m *model) list(e *modelEntry) {
	switch {
	case e.keeps > 0:
		m.kept = append(m.kept, e)
	case e.spent:
		m.passed = append(m.passed, e)
	default:
		m.order = append(m.order, e)
	}
}

// free is what may be evicted, in order.
func (m *model) free() []*modelEntry { return slices.Concat(m.passed, m.order) }

func (m *model) pin(e *modelEntry) {
	e.pins++
	e.spent = false
	m.unlist(e)
}

// keep ends a pin as Handle.Keep does, which does not look at the clock.
func (m *model) keep(e *modelEntry) {
	e.keeps++
	if e.pins--; e.pins > 0 {
		return
	}
	if i := slices.Index(m.gone, e); i >= 0 {
		m.gone = slices.Delete(m.gone, i, i+1)
		return
	}
	m.list(e)
	m.fit()
}

// letGo ends a keep.
func (m *model) letGo(e *modelEntry) {
	if e.keeps--; e.keeps > 0 || !slices.Contains(m.kept, e) {
		return
	}
	m.unlist(e)
	e.used = m.now
	m.list(e)
	m.fit()
}

// unpin ends a pin. Whatever has expired goes at the same time, also when e itself stays pinned or has left the cache.
func (m *model) unpin(e *modelEntry) {
	m.dropStale()
	if e.pins--; e.pins > 0 {
		return
	}
	if i := slices.Index(m.gone, e); i >= 0 {
		m.gone = slices.Delete(m.gone, i, i+1)
		return
	}
	e.used = m.now
	m.list(e)
	m.fit()
}

func (m *model) dropStale() {
	for _, e := range m.free() {
		if m.now.Sub(e.used) >= m.expire {
			m.remove(e)
		}
	}
}

func (m *model) fit() {
	for (m.weight() > m.max || m.most > 0 && len(m.entries) > m.most) && len(m.free()) > 0 {
		m.remove(m.free()[0])
	}
}

func (m *model) reclaim(want int64) (freed int64) {
	for freed < want && len(m.free())+len(m.kept) > 0 {
		e := append(m.free(), m.kept...)[0]
		freed += int64(e.pages) * page
		m.remove(e)
	}
	return freed
}

type modelPin struct {
	h *Handle[int, []byte]
	e *modelEntry
}

func TestCache_MatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := membudget.New(1<<20*page, membudget.Needs{Copy: page, Fetch: page}) // so much that only the test's own reclaim takes entries
		if err != nil {
			t.Fatal(err)
		}
		m := &model{
			max:     rapid.SampledFrom([]int64{0, 1, 4, 10}).Draw(t, "max pages") * page,
			most:    rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "max entries"),
			expire:  rapid.SampledFrom([]time.Duration{5 * time.Second, time.Hour}).Draw(t, "expire"),
			now:     time.Unix(0, 0),
			entries: map[int]*modelEntry{},
		}
		c := New[int, []byte](Options{Budget: b, MaxBytes: m.max, MaxEntries: m.most, ExpireAfterAccess: m.expire, Now: func() time.Time { return m.now }})
		defer c.Close()
		var pins, keeps []modelPin
		key := rapid.IntRange(0, 7)
		boom := errors.New("boom")
		load := func(k int, missed *bool, fail bool) func(context.Context) (Entry[[]byte], error) {
			return func(ctx context.Context) (Entry[[]byte], error) {
				*missed = true
				if fail {
					return Entry[[]byte]{}, boom
				}
				return loader(b, k, 1+k%4)(ctx)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				k, fail, missed := key.Draw(t, "key"), rapid.IntRange(0, 4).Draw(t, "fail") == 0, false
				e := m.find(k)
				h, err := c.Get(context.Background(), k, load(k, &missed, fail))
				if missed != (e == nil) || (e == nil && fail) != errors.Is(err, boom) {
					t.Fatalf("get %d: loaded %v, error %v; in the model it is %+v", k, missed, err, e)
				}
				if err != nil {
					return
				}
				if e == nil {
					e = &modelEntry{key: k, pages: 1 + k%4, pins: 1}
					m.entries[k] = e
					m.fit()
				} else {
					m.pin(e)
				}
				pins = append(pins, modelPin{h, e})
			},
			"peek": func(t *rapid.T) {
				k := key.Draw(t, "key")
				e, h := m.find(k), c.Peek(k)
				if (e == nil) != (h == nil) {
					t.Fatalf("peek %d: got %v, in the model it is %+v", k, h, e)
				}
				if e != nil {
					m.pin(e)
					pins = append(pins, modelPin{h, e})
				}
			},
			"lookup": func(t *rapid.T) {
				k, h := key.Draw(t, "key"), new(Handle[int, []byte])
				has, e := c.Has(k), m.find(k)
				if got := c.Lookup(k, h); got != (e != nil) || has != got {
					t.Fatalf("lookup %d: got %v, has %v, in the model it is %+v", k, got, has, e)
				}
				if e != nil {
					m.pin(e)
					pins = append(pins, modelPin{h, e})
				}
			},
			"spent": func(t *rapid.T) {
				k := key.Draw(t, "key")
				c.Spent(k)
				e := m.entries[k]
				if e == nil || e.spent {
					return
				}
				e.spent = true
				if e.pins == 0 && e.keeps == 0 {
					m.unlist(e)
					m.list(e)
				}
			},
			"add": func(t *rapid.T) {
				k := key.Draw(t, "key")
				entry, err := loader(b, k, 1+k%4)(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Add(k, entry); err != nil {
					t.Fatal(err)
				}
				e := m.find(k)
				if e == nil {
					e = &modelEntry{key: k, pages: 1 + k%4, pins: 1}
					m.entries[k] = e
					m.fit()
				} else {
					m.pin(e)
				}
				m.unpin(e)
			},
			"release": func(t *rapid.T) {
				if len(pins) == 0 {
					t.Skip("no pin")
				}
				i := rapid.IntRange(0, len(pins)-1).Draw(t, "pin")
				check2(t, pins[i].h, pins[i].e.key)
				pins[i].h.Release()
				m.unpin(pins[i].e)
				pins = slices.Delete(pins, i, i+1)
			},
			"keep": func(t *rapid.T) {
				if len(pins) == 0 {
					t.Skip("no pin")
				}
				i := rapid.IntRange(0, len(pins)-1).Draw(t, "pin")
				pins[i].h.Keep()
				m.keep(pins[i].e)
				keeps = append(keeps, pins[i])
				pins = slices.Delete(pins, i, i+1)
			},
			"pin and keep again": func(t *rapid.T) {
				if len(keeps) == 0 {
					t.Skip("nothing is kept")
				}
				k := rapid.SampledFrom(keeps).Draw(t, "kept")
				there := m.entries[k.e.key] == k.e
				if got := k.h.Pin(); got != there {
					t.Fatalf("pin %d: %v, in the model %v", k.e.key, got, there)
				}
				if !there {
					return
				}
				check2(t, k.h, k.e.key)
				m.pin(k.e)
				k.h.Keep()
				k.e.keeps--
				m.keep(k.e)
			},
			"let go": func(t *rapid.T) {
				if len(keeps) == 0 {
					t.Skip("nothing is kept")
				}
				i := rapid.IntRange(0, len(keeps)-1).Draw(t, "kept")
				keeps[i].h.Release()
				m.letGo(keeps[i].e)
				keeps = slices.Delete(keeps, i, i+1)
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				c.Delete(k)
				if e := m.entries[k]; e != nil {
					m.remove(e)
				}
			},
			"delete even": func(t *rapid.T) {
				c.DeleteFunc(func(k int) bool { return k%2 == 0 })
				for k, e := range m.entries {
					if k%2 == 0 {
						m.remove(e)
					}
				}
			},
			"reclaim": func(t *rapid.T) {
				want := rapid.Int64Range(0, 6).Draw(t, "pages") * page
				if got, freed := c.reclaim(want), m.reclaim(want); got != freed {
					t.Fatalf("reclaim %d: got %d, want %d", want, got, freed)
				}
			},
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				s := c.Stats()
				if s.Bytes != m.weight() || s.Entries != len(m.entries) || s.LingeringBytes != m.lingering() {
					t.Fatalf("got %+v, the model weighs %d, %d entries, %d lingering", s, m.weight(), len(m.entries), m.lingering())
				}
				if got := b.Stats().FetchBytes; got != s.Bytes+s.LingeringBytes {
					t.Fatalf("the budget is charged %d, the cache holds %d", got, s.Bytes+s.LingeringBytes)
				}
				held := s.PinnedBytes
				for _, e := range m.kept {
					held += int64(e.pages) * page
				}
				if s.Bytes > max(m.max, held) {
					t.Fatalf("got %+v, above the ceiling %d by more than pins", s, m.max)
				}
				for _, p := range pins {
					check2(t, p.h, p.e.key)
				}
			},
		})
		for _, p := range append(pins, keeps...) {
			p.h.Release()
		}
		c.Close()
		if s := b.Stats(); s.FetchBytes+s.InUseBytes != 0 {
			t.Fatalf("after Close and all releases the budget still has %+v", s)
		}
	})
}

func check2(t *rapid.T, h *Handle[int, []byte], key int) {
	for _, v := range h.Value() {
		if v != byte(key) {
			t.Fatalf("key %d: found %d in its buffer", key, v)
		}
	}
}

// Many readers of more keys than fit, uploads that take memory away, callers that leave, deletes: whatever a reader holds keeps its pattern, and
// the limit holds at every moment.
func TestCache_ConcurrentPressure(t *testing.T) {
	const pages, seed = 24, 7
	b := budget(t, pages)
	c := newCache(t, Options{Budget: b, MaxBytes: 12 * page})
	const keys = 40
	var loads, done, left atomic.Int64
	stop := make(chan struct{})
	var sampler, wg sync.WaitGroup
	sampler.Go(func() {
		for {
			s := b.Stats()
			if s.CopyBytes+s.FetchBytes > s.Limit || s.InUseBytes+s.IdleBytes > s.Limit {
				t.Errorf("above the limit: %+v", s)
			}
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	for g := range 12 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			for i := range 400 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(100))*time.Microsecond, cancel)
				}
				if g == 0 {
					if r, err := b.Reserve(ctx, membudget.Copy, int64(4+rnd.IntN(14))*page); err == nil {
						r.Release()
					}
					cancel()
					continue
				}
				key := min(rnd.IntN(keys), rnd.IntN(keys))
				if rnd.IntN(50) == 0 {
					c.Delete(key)
				}
				h, err := c.Get(ctx, key, func(ctx context.Context) (Entry[[]byte], error) {
					loads.Add(1)
					return loader(b, key, 1+key%3)(ctx)
				})
				switch {
				case err == nil:
					if err := intact(h.Value(), key); err != nil {
						t.Error(err)
					}
					h.Release()
					done.Add(1)
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
	s, m := c.Stats(), b.Stats()
	if s.Reclaimed == 0 || s.Evicted == 0 || m.Reused == 0 || loads.Load() == 0 || s.Hits == 0 {
		t.Errorf("the test did not reach what it is for: %+v %+v", s, m)
	}
	t.Logf("%d reads, %d left, %d loads, cache %+v, budget %+v", done.Load(), left.Load(), loads.Load(), s, m)
}

// A caller may miss and then be delayed until the load that it should have joined has ended: it must find the entry, not load again.
func TestGet_NoSecondLoadOfWhatIsKept(t *testing.T) {
	const keys = 50
	b := budget(t, 4*keys)
	c := newCache(t, Options{Budget: b, MaxBytes: 2 * keys * page})
	var loads [keys]atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for key := range keys {
				h, err := c.Get(t.Context(), key, func(ctx context.Context) (Entry[[]byte], error) {
					loads[key].Add(1)
					return loader(b, key, 1)(ctx)
				})
				if err != nil {
					t.Error(err)
					return
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	for key := range loads {
		if n := loads[key].Load(); n != 1 {
			t.Errorf("key %d was loaded %d times", key, n)
		}
	}
}

func intact(buf []byte, key int) error {
	for i, v := range buf {
		if v != byte(key) {
			return fmt.Errorf("key %d: byte %d is %d: the buffer was reused under its reader", key, i, v)
		}
	}
	return nil
}
