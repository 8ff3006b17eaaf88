package cache

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/internal/flight"
	"github.com/tierkit/tierkit/membudget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = 4096 // the smallest buffer that the budget makes

func budget(t testing.TB, pages int64) *membudget.Budget {
	t.Helper()
	b, err := membudget.New(pages*page, membudget.Needs{Copy: page, Fetch: page})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := b.Stats(); s.CopyBytes+s.FetchBytes+s.InUseBytes != 0 {
			t.Errorf("the budget did not get everything back: %+v", s)
		}
	})
	return b
}

func newCache(t testing.TB, opts Options) *Cache[int, []byte] {
	t.Helper()
	c := New[int, []byte](opts)
	t.Cleanup(c.Close)
	return c
}

// loader returns a load as rsm does it: reserve, split the chunk's share off, fill its buffer with a pattern of the key.
func loader(b *membudget.Budget, key, pages int) func(context.Context) (Entry[[]byte], error) {
	return func(ctx context.Context) (Entry[[]byte], error) {
		r, err := b.Reserve(ctx, membudget.Fetch, int64(pages)*page)
		if err != nil {
			return Entry[[]byte]{}, err
		}
		defer r.Release()
		mem := r.Split(int64(pages) * page)
		buf := mem.Buffer(pages * page)
		for i := range buf {
			buf[i] = byte(key)
		}
		return Entry[[]byte]{Value: buf, Memory: mem, Buffer: buf}, nil
	}
}

func get(t testing.TB, c *Cache[int, []byte], b *membudget.Budget, key, pages int) *Handle[int, []byte] {
	t.Helper()
	h, err := c.Get(t.Context(), key, loader(b, key, pages))
	if err != nil {
		t.Fatalf("Get(%d): %v", key, err)
	}
	check(t, h, key)
	return h
}

func check(t testing.TB, h *Handle[int, []byte], key int) {
	t.Helper()
	for i, v := range h.Value() {
		if v != byte(key) {
			t.Fatalf("key %d: byte %d is %d: the buffer was reused under its reader", key, i, v)
		}
	}
}

func TestGet_HundredWaitersOneLoad(t *testing.T) {
	for name, maxBytes := range map[string]int64{"kept": 8 * page, "size 0": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget(t, 16)
				c := newCache(t, Options{Budget: b, MaxBytes: maxBytes})
				var loads atomic.Int32
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						h, err := c.Get(t.Context(), 3, func(ctx context.Context) (Entry[[]byte], error) {
							loads.Add(1)
							time.Sleep(time.Second)
							return loader(b, 3, 2)(ctx)
						})
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(time.Second) // all hold it at the same time
						check(t, h, 3)
						h.Release()
						h.Release()
					})
				}
				wg.Wait()
				s := c.Stats()
				if loads.Load() != 1 || s.Loads != 1 || s.Misses != 100 || s.PinnedBytes != 0 {
					t.Errorf("got %d loads, stats %+v, want one load for 100 misses and no pin left", loads.Load(), s)
				}
				if want := min(maxBytes, 2*page); s.Bytes != want {
					t.Errorf("the cache keeps %d bytes, want %d", s.Bytes, want)
				}
				c.Close()
			})
		})
	}
}

func TestGet_FirstCallerLeavesOthersGetTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 16)
		c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
		slow := func(ctx context.Context) (Entry[[]byte], error) {
			time.Sleep(time.Second)
			return loader(b, 3, 2)(ctx)
		}
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Get(ctx, 3, slow); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			h, err := c.Get(t.Context(), 3, slow)
			if err != nil {
				t.Errorf("the one who stayed: %v", err)
				return
			}
			h.Release()
		})
		synctest.Wait()
		leave()
		wg.Wait()
		c.Close()
	})
}

func TestGet_NobodyLeftFreesTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 16)
		c := newCache(t, Options{Budget: b})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, err := c.Get(ctx, 3, func(ctx context.Context) (Entry[[]byte], error) {
			e, err := loader(b, 3, 2)(ctx)
			<-ctx.Done() // a load that succeeds although it was cancelled
			return e, err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		synctest.Wait()
		if s := b.Stats(); s.FetchBytes != 0 {
			t.Errorf("%d bytes are held for nobody", s.FetchBytes)
		}
		c.Close()
	})
}

func TestGet_ErrorsAndPanicsAreNotKept(t *testing.T) {
	b := budget(t, 16)
	c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
	boom := errors.New("boom")
	bad := map[string]func(context.Context) (Entry[[]byte], error){
		"error": func(ctx context.Context) (Entry[[]byte], error) { return Entry[[]byte]{}, boom },
		"error with memory": func(ctx context.Context) (Entry[[]byte], error) {
			e, _ := loader(b, 1, 1)(ctx)
			return e, boom
		},
		"panic":     func(context.Context) (Entry[[]byte], error) { panic(boom) },
		"no memory": func(context.Context) (Entry[[]byte], error) { return Entry[[]byte]{Value: []byte{1}}, nil },
	}
	for name, load := range bad {
		_, err := c.Get(t.Context(), 1, load)
		if want := map[bool]error{true: ErrNoMemory, false: boom}[name == "no memory"]; !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if name == "panic" && !errors.As(err, new(*flight.PanicError)) {
			t.Errorf("panic: got %T, want PanicError", err)
		}
	}
	if s := c.Stats(); s.Entries != 0 {
		t.Errorf("an error was kept: %+v", s)
	}
	get(t, c, b, 1, 1).Release()
	if h := c.Peek(1); h == nil {
		t.Error("after the errors the value is not kept")
	} else {
		h.Release()
	}
}

// A load that waits for memory is the holder of nothing: a cache full of entries gives way to it.
func TestReclaim_FullCacheGivesWay(t *testing.T) {
	b := budget(t, 16)
	c := newCache(t, Options{Budget: b, MaxBytes: 12 * page})
	for key := range 12 {
		get(t, c, b, key, 1).Release()
	}
	want := b.Ceiling(membudget.Copy)
	r, err := b.Reserve(t.Context(), membudget.Copy, want)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Stats()
	if got := s.Bytes; got != b.Stats().Limit-want {
		t.Errorf("the cache holds %d bytes beside a copy of %d, want %d", got, want, b.Stats().Limit-want)
	}
	if h := c.Peek(11); h == nil {
		t.Error("the entry used last is gone: reclaim must take those unused for longest")
	} else {
		h.Release()
	}
	if s.Reclaimed != 8 || s.ReclaimedBytes != 8*page {
		t.Errorf("got %+v, want 8 entries reclaimed", s)
	}
	r.Release()
}

func TestReclaim_LastPinWakesTheWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 8)
		c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
		one, two, oneAgain := get(t, c, b, 1, 3), get(t, c, b, 2, 3), get(t, c, b, 1, 3) // 2 of 8 pages are left
		granted := make(chan *membudget.Reservation, 1)
		go func() {
			r, err := b.Reserve(t.Context(), membudget.Copy, 4*page)
			if err != nil {
				t.Error(err)
			}
			granted <- r
		}()
		synctest.Wait()
		one.Release()
		synctest.Wait()
		if len(granted) != 0 {
			t.Fatal("granted although both entries are pinned")
		}
		check(t, oneAgain, 1)
		two.Release()
		synctest.Wait()
		if len(granted) != 1 {
			t.Fatal("entry 2 is free to take and its bytes suffice, but the copy still waits")
		}
		check(t, oneAgain, 1)
		oneAgain.Release()
		(<-granted).Release()
		c.Close()
	})
}

func TestDelete_ReaderKeepsItAndRunningLoadIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 16)
		c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
		h := get(t, c, b, 1, 2)
		c.Delete(1)
		if c.Peek(1) != nil {
			t.Error("Peek finds a deleted key")
		}
		get(t, c, b, 2, 6).Release() // would take the buffer if it could
		check(t, h, 1)
		if s := c.Stats(); s.LingeringBytes != 2*page {
			t.Errorf("got %+v, want the reader's 2 pages lingering", s)
		}
		h.Release()

		old := make(chan *Handle[int, []byte])
		go func() {
			h, err := c.Get(t.Context(), 3, func(ctx context.Context) (Entry[[]byte], error) {
				time.Sleep(time.Second)
				return loader(b, 33, 1)(ctx)
			})
			if err != nil {
				t.Error(err)
			}
			old <- h
		}()
		synctest.Wait()
		c.Delete(3)
		now := get(t, c, b, 3, 1) // does not join the load that began before the delete
		stale := <-old
		check(t, stale, 33)
		stale.Release()
		now.Release()
		again := get(t, c, b, 3, 1)
		again.Release()
		if s := c.Stats(); s.LingeringBytes != 0 {
			t.Errorf("got %+v, want nothing lingering", s)
		}
		c.Close()
	})
}

func TestExpiry(t *testing.T) {
	b := budget(t, 16)
	now := time.Unix(0, 0)
	removed := map[Reason]int{}
	c := newCache(t, Options{
		Budget: b, MaxBytes: 8 * page, Now: func() time.Time { return now },
		ExpireAfterAccess: 10 * time.Second, ExpireAfterLoad: 25 * time.Second,
		Hooks: Hooks{Removed: func(_ int64, r Reason) { removed[r]++ }},
	})
	get(t, c, b, 1, 1).Release()
	get(t, c, b, 2, 1).Release()
	for _, step := range []struct {
		at   time.Duration
		key  int
		want bool
	}{
		{9 * time.Second, 1, true}, {18 * time.Second, 1, true}, {18 * time.Second, 2, false}, {24 * time.Second, 1, true}, {25 * time.Second, 1, false},
	} {
		now = time.Unix(0, 0).Add(step.at)
		h := c.Peek(step.key)
		if got := h != nil; got != step.want {
			t.Errorf("at %v key %d: got %v, want %v", step.at, step.key, got, step.want)
		}
		if h != nil {
			h.Release()
		}
	}
	if diff := cmp.Diff(map[Reason]int{Expired: 2}, removed); diff != "" {
		t.Errorf("removed: %s", diff)
	}
	if s := b.Stats(); s.FetchBytes != 0 {
		t.Errorf("expired entries hold %d bytes", s.FetchBytes)
	}
}

func TestAdd(t *testing.T) {
	b := budget(t, 16)
	c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
	for range 2 { // the second finds the key and is freed
		e, err := loader(b, 1, 1)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(1, e); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.Stats(); s.FetchBytes != page {
		t.Errorf("got %d bytes held, want one page", s.FetchBytes)
	}
	h, err := c.Get(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, h, 1)
	h.Release()
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 16)
		c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
		h := get(t, c, b, 1, 1)
		waiting := make(chan error)
		go func() {
			_, err := c.Get(t.Context(), 2, func(ctx context.Context) (Entry[[]byte], error) {
				<-ctx.Done()
				return Entry[[]byte]{}, ctx.Err()
			})
			waiting <- err
		}()
		synctest.Wait()
		c.Close()
		c.Close()
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("who waited: got %v, want ErrClosed", err)
		}
		if _, err := c.Get(t.Context(), 1, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
		e, err := loader(b, 5, 1)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(5, e); !errors.Is(err, ErrClosed) {
			t.Errorf("Add after Close: got %v, want ErrClosed", err)
		}
		check(t, h, 1)
		h.Release()
	})
}

func TestGet_HitAllocatesOnlyItsHandle(t *testing.T) {
	b := budget(t, 16)
	c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
	get(t, c, b, 1, 1).Release()
	ctx := t.Context()
	if n := testing.AllocsPerRun(200, func() {
		h, err := c.Get(ctx, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
	}); n > 1 {
		t.Errorf("a hit allocates %v times, want once: its handle", n)
	}
}

func BenchmarkGet_Hit(b *testing.B) {
	bud := budget(b, 16)
	c := newCache(b, Options{Budget: bud, MaxBytes: 8 * page})
	get(b, c, bud, 1, 1).Release()
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, err := c.Get(ctx, 1, nil)
			if err != nil {
				b.Fatal(err)
			}
			h.Release()
		}
	})
}

func BenchmarkGet_MissWithReuse(b *testing.B) {
	const pages = 64
	bud := budget(b, 16*pages)
	c := newCache(b, Options{Budget: bud, MaxBytes: 4 * pages * page})
	b.SetBytes(pages * page)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h, err := c.Get(b.Context(), i, loader(bud, i, pages))
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}

func TestHandle_KeepHoldsOffEvictionAndGivesWayToWhoWaits(t *testing.T) {
	b := budget(t, 8)
	now := time.Unix(0, 0)
	c := newCache(t, Options{Budget: b, MaxBytes: page, ExpireAfterAccess: time.Minute, Now: func() time.Time { return now }})
	h := get(t, c, b, 1, 1)
	h.Keep()
	h.Keep()
	get(t, c, b, 2, 1).Release() // above MaxBytes: 2 goes, not 1
	now = now.Add(time.Hour)
	get(t, c, b, 3, 1).Release()
	if s := c.Stats(); s.Entries != 1 || s.PinnedBytes != 0 {
		t.Errorf("%+v, want the one entry that is kept, without a pin", s)
	}
	if !h.Pin() {
		t.Fatal("an entry that is kept has left")
	}
	check(t, h, 1)
	h.Keep()
	r, err := b.Reserve(t.Context(), membudget.Fetch, b.Ceiling(membudget.Fetch)) // waits for ever if what is kept were not given back
	if err != nil {
		t.Fatal(err)
	}
	if h.Pin() {
		t.Error("an entry that was reclaimed was pinned")
	}
	r.Release()
	h.Release()
	h.Release()

	h = get(t, c, b, 4, 1)
	h.Keep()
	h.Release()
	get(t, c, b, 5, 1).Release()
	if c.Peek(4) != nil {
		t.Error("an entry is kept after the release")
	}
	h = get(t, c, b, 6, 1)
	h.Keep()
	c.Delete(6)
	if h.Pin() {
		t.Error("a deleted entry was pinned")
	}
	h.Release()
}

func TestHandle_PinAgainOnlyWhileTheEntryIsThere(t *testing.T) {
	b := budget(t, 8)
	c := newCache(t, Options{Budget: b, MaxBytes: 8 * page})
	h := get(t, c, b, 1, 2)
	if h.Pin() {
		t.Error("a handle that is pinned was pinned again")
	}
	h.Release()
	if !h.Pin() {
		t.Fatal("the entry is there and could not be pinned again")
	}
	if s := c.Stats(); s.PinnedBytes != 2*page {
		t.Errorf("%d bytes are pinned, want those of the entry", s.PinnedBytes)
	}
	c.Delete(1)
	h.Release()
	h.Release()
	if h.Pin() {
		t.Error("an entry that has left the cache was pinned")
	}
	if s := c.Stats(); s.PinnedBytes != 0 || s.LingeringBytes != 0 || s.Entries != 0 {
		t.Errorf("%+v after all was released", s)
	}
	if s := b.Stats(); s.InUseBytes != 0 {
		t.Errorf("%d bytes of the budget are still in use", s.InUseBytes)
	}
}

// What a reader has passed makes way for what was loaded ahead of it and is older, and a handle that is used again allocates nothing.
func TestCache_WhatIsSpentGoesFirst(t *testing.T) {
	b := budget(t, 16)
	c := newCache(t, Options{Budget: b, MaxBytes: 4 * page})
	add := func(key int) {
		t.Helper()
		e, err := loader(b, key, 1)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(key, e); err != nil {
			t.Fatal(err)
		}
	}
	for key := range 4 {
		add(key)
	}
	var h Handle[int, []byte]
	if n := testing.AllocsPerRun(10, func() {
		if !c.Lookup(3, &h) {
			t.Fatal("key 3 is not there")
		}
		h.Release()
	}); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
	c.Spent(3)
	c.Spent(2)
	add(4)
	add(5)
	for key, want := range []bool{true, true, false, false, true, true} {
		if got := c.Has(key); got != want {
			t.Errorf("key %d is there: %v, want %v", key, got, want)
		}
	}
	if c.Lookup(2, &h) {
		t.Error("key 2 was dropped and is found")
	}
}

// A sparing cache gives what is enough, and else nothing; a waiter that others serve in part gets the rest from it.
func TestCache_SparingGivesOnlyWhatIsEnough(t *testing.T) {
	b := budget(t, 8)
	big, small := newCache(t, Options{Budget: b, MaxBytes: 8 * page}), newCache(t, Options{Budget: b, MaxBytes: 8 * page, Sparing: true})
	add := func(c *Cache[int, []byte], key, pages int) {
		t.Helper()
		e, err := loader(b, key, pages)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(key, e); err != nil {
			t.Fatal(err)
		}
	}
	all := b.Ceiling(membudget.Fetch) / page
	add(small, 1, 1)
	add(big, 2, 2)
	rest := b.TryReserve(membudget.Fetch, (all-3)*page)
	if rest == nil {
		t.Fatal("the budget is not as the test thinks")
	}
	if r := b.TryReserve(membudget.Fetch, 4*page); r != nil || small.Stats().Entries != 1 || big.Stats().Entries != 0 {
		t.Errorf("4 pages of 3: got %v; the sparing cache has %d entries, want 1, the other %d, want 0", r, small.Stats().Entries, big.Stats().Entries)
	}
	add(big, 2, 2)
	granted := make(chan error)
	go func() {
		r, err := b.Reserve(t.Context(), membudget.Fetch, 4*page)
		if err == nil {
			r.Release()
		}
		granted <- err
	}()
	for b.Stats().FetchWaiters == 0 {
		runtime.Gosched()
	}
	rest.Shrink(page) // what both caches have is enough now
	if err := <-granted; err != nil || small.Stats().Entries != 0 {
		t.Errorf("%v, the sparing cache has %d entries, want 0", err, small.Stats().Entries)
	}
	rest.Release()
}
