package membudget

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
)

func TestSplit_ReturnsToTheOpenParentElseToTheBudget(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Copy, 40*kib)
	buf := r.Buffer(8 * kib)
	if r.Split(33*kib) != nil {
		t.Error("more than is unused was split off")
	}
	one := r.Split(32 * kib)
	if one == nil || r.Unused() != 0 || r.Size() != 8*kib {
		t.Fatalf("after Split: %v, %d unused of %d", one, r.Unused(), r.Size())
	}
	if !one.TryGrow(4 * kib) {
		t.Fatal("a split cannot grow")
	}
	nested := one.Split(20 * kib)
	one.Release()
	one.Release()
	if r.Unused() != 16*kib || b.Stats().CopyBytes != 44*kib-0 {
		// 36 held, 20 lent on: 16 are left to give, all of them lent
		t.Errorf("after the release of the split: %d unused, budget %d", r.Unused(), b.Stats().CopyBytes)
	}
	nested.Release() // its parent is closed
	if got := b.Stats().CopyBytes; got != 24*kib {
		t.Errorf("got %d held, want 24 KiB", got)
	}
	two := r.Split(16 * kib)
	r.Return(buf)
	r.Release()
	if got := b.Stats().CopyBytes; got != 16*kib {
		t.Errorf("got %d held, want the open split's 16 KiB", got)
	}
	two.Release()
}

func TestSplit_GrownBytesGoToTheBudget(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Copy, 10*kib)
	s := r.Split(10 * kib)
	if !s.TryGrow(30 * kib) {
		t.Fatal("no growth")
	}
	s.Release()
	if r.Size() != 10*kib || b.Stats().CopyBytes != 10*kib {
		t.Errorf("the parent has %d, the budget %d, want 10 KiB each", r.Size(), b.Stats().CopyBytes)
	}
	r.Release()
}

func TestDetach_ReleasesToTheBudget(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Fetch, 20*kib)
	s := r.Split(12 * kib)
	s.Detach()
	s.Release()
	if r.Size() != 8*kib || b.Stats().FetchBytes != 8*kib {
		t.Errorf("the parent has %d, the budget %d, want 8 KiB each", r.Size(), b.Stats().FetchBytes)
	}
	r.Release()
}

func TestReservation_ClosedDoesNothing(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Copy, 20*kib)
	buf := r.Buffer(4 * kib)
	r.Release()
	r.Release()
	r.Return(buf) // late, and harmless: not pooled
	r.Detach()
	if r.TryGrow(1) || r.Split(0) != nil || r.Buffer(1) != nil || r.Charge(0) || r.Size() != 0 || r.Unused() != 0 {
		t.Error("a released reservation still gives something")
	}
	if s := b.Stats(); s.IdleBytes != 0 {
		t.Errorf("a buffer that was not returned before the release is pooled: %+v", s)
	}
}

func TestBuffer_ChargesWhatItOccupies(t *testing.T) {
	b := whole(t, 1<<20, Needs{})
	r := mustReserve(t, b, Copy, 512*kib)
	for _, n := range []int{1, 4096, 4097, 100_000, 131072 + 28} {
		before := r.Unused()
		buf := r.Buffer(n)
		if len(buf) != n || int64(cap(buf)) != Capacity(n) || before-r.Unused() != Capacity(n) {
			t.Errorf("Buffer(%d): len %d, cap %d, charged %d, want capacity %d", n, len(buf), cap(buf), before-r.Unused(), Capacity(n))
		}
		r.Return(buf[:0])
		if r.Unused() != before {
			t.Errorf("Return of a buffer of %d leaves %d unused, want %d", n, r.Unused(), before)
		}
	}
	if b := r.Buffer(0); b == nil || len(b) != 0 {
		t.Error("Buffer(0) is not an empty buffer")
	}
	if r.Buffer(-1) != nil || r.Buffer(math.MaxInt) != nil || r.Buffer(512*kib+1) != nil {
		t.Error("a buffer beyond the reservation was given")
	}
	r.Return(nil)
	r.Release()
}

func TestCapacity(t *testing.T) {
	last := int64(0)
	for n := 1; n < 1<<31; n += 1 + n/1000 {
		c := Capacity(n)
		waste := c - int64(n)
		if waste < 0 || c%pageBytes != 0 || waste >= max(pageBytes, int64(n)/16+1) || c < last || Capacity(int(c)) != c {
			t.Fatalf("Capacity(%d) = %d: wastes %d", n, c, waste)
		}
		last = c
	}
	if Capacity(0) != 0 || Capacity(-5) != 0 || Capacity(4<<20) != 4<<20 || Capacity(4<<20+28) != 4<<20+256<<10 {
		t.Error("Capacity of 0, a negative number, 4 MiB or 4 MiB + 28 is wrong")
	}
}

func TestReturn_PanicsOnWhatIsNotIts(t *testing.T) {
	b := whole(t, 1<<20, Needs{})
	r, other := mustReserve(t, b, Copy, 64*kib), mustReserve(t, b, Copy, 64*kib)
	buf := r.Buffer(8 * kib)
	for name, f := range map[string]func(){
		"another reservation's": func() { other.Return(buf) },
		"foreign":               func() { r.Return(make([]byte, 8*kib)) },
		"not its beginning":     func() { r.Return(buf[1:]) },
		"twice":                 func() { x := r.Buffer(4 * kib); r.Return(x); r.Return(x) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Return of a buffer that is %s does not panic", name)
				}
			}()
			f()
		}()
	}
	r.Return(buf[:1:1]) // shortened in length and capacity, still the same buffer
	again := r.Buffer(8 * kib)
	if cap(again) != 8*kib || &again[0] != &buf[0] {
		t.Error("the buffer did not come back whole")
	}
	r.Return(again)
	r.Release()
	other.Release()
}

func TestPool_ReusesAndStaysWithinTheLimit(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Copy, 72*kib)
	first := r.Buffer(40 * kib)
	second := r.Buffer(32 * kib)
	r.Return(first)
	r.Return(second)
	r.Release()
	r = mustReserve(t, b, Copy, 72*kib)
	if again := r.Buffer(40 * kib); &again[0] != &first[0] {
		t.Error("an idle buffer of the size was not used again")
	}
	if s := b.Stats(); s.IdleBytes != 32*kib || s.InUseBytes != 40*kib || s.Reused != 1 || s.Fresh != 2 {
		t.Errorf("got %+v, want 32 KiB idle and 40 KiB in use", s)
	}
	if !r.Charge(28 * kib) { // 40 + 28 + 32 idle: just fits
		t.Fatal("cannot charge what is unused")
	}
	if s := b.Stats(); s.IdleBytes != 32*kib {
		t.Errorf("got %+v, want the idle buffer kept", s)
	}
	if !r.Charge(4*kib) || r.Charge(1) {
		t.Error("Charge takes what is unused, and no more")
	}
	if s := b.Stats(); s.IdleBytes != 0 || s.Dropped != 1 {
		t.Errorf("got %+v, want the idle buffer dropped to make room", s)
	}
	r.Release()
}

func TestPool_DropsWhatIsIdleForLongest(t *testing.T) {
	b := whole(t, 100*kib, Needs{})
	r := mustReserve(t, b, Copy, 72*kib)
	var bufs [][]byte
	for _, n := range []int{4, 8, 12, 16} {
		bufs = append(bufs, r.Buffer(n*kib))
	}
	for _, i := range []int{2, 0, 3, 1} { // 12, 4, 16, 8 KiB in the order of returning: 40 idle
		r.Return(bufs[i])
	}
	r.Return(r.Buffer(64 * kib)) // 4 too many: the 12 go
	if s := b.Stats(); s.Dropped != 1 || s.IdleBytes != 92*kib {
		t.Errorf("got %+v, want one dropped and 92 KiB idle", s)
	}
	if x := r.Buffer(12 * kib); &x[0] == &bufs[2][0] {
		t.Error("the oldest was kept")
	}
	if x := r.Buffer(8 * kib); &x[0] != &bufs[1][0] {
		t.Error("the newest was dropped")
	}
	r.Release()
}

// With the collector off, only the budget's own collections keep dropped and forgotten buffers from piling up.
func TestPool_CollectsWhatItDrops(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	heap := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	runtime.GC()
	before := heap()
	const limit = 64 << 20
	b := whole(t, limit, Needs{})
	for i := range 100 {
		r := mustReserve(t, b, Copy, 48<<20)
		buf := r.Buffer((16 + i%16) << 20) // never the size of one that is idle
		if i%2 == 0 {
			r.Return(buf)
		}
		r.Release()
		if got := heap() - before; got > limit+limit/garbageShare+32<<20 { // one buffer may come on top before the next collection
			t.Fatalf("after %d buffers the heap has grown by %d bytes, the limit is %d", i+1, got, limit)
		}
	}
	if s := b.Stats(); s.Collected == 0 || s.Collected > 100 {
		t.Errorf("got %+v, want some collections", s)
	}
}

func TestSteadyState_AllocatesNothing(t *testing.T) {
	b := whole(t, 64<<20, Needs{})
	b.Reclaimer(func(int64) int64 { return 0 })
	r := mustReserve(t, b, Copy, 16<<20)
	n := testing.AllocsPerRun(200, func() {
		x, y := r.Buffer(4<<20), r.Buffer(4<<20+28)
		r.Return(x)
		r.Return(y)
		if !r.TryGrow(1 << 20) {
			t.Fatal("no growth")
		}
		r.Shrink(1 << 20)
		if r.TryGrow(40 << 20) {
			t.Fatal("grown above the ceiling")
		}
	})
	if n != 0 {
		t.Errorf("buffers and growth allocate %v times in a steady state, want 0", n)
	}
	r.Release()
}

// Two owners never have one buffer: each writes its own number and must find it.
func TestBuffer_ConcurrentOwners(t *testing.T) {
	b := whole(t, 256*kib, Needs{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				r, err := b.Reserve(t.Context(), []Class{Copy, Fetch}[g%2], 64*kib)
				if err != nil {
					t.Error(err)
					return
				}
				buf := r.Buffer((1 + (i+g)%16) * 4 * kib)
				for j := range buf {
					buf[j] = byte(g)
				}
				for j := range buf {
					if buf[j] != byte(g) {
						t.Error("a buffer has two owners")
						return
					}
				}
				if i%5 != 0 {
					r.Return(buf)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
}

func BenchmarkBuffer(b *testing.B) {
	bud, err := New(64<<20, Needs{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := bud.Reserve(b.Context(), Copy, 16<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(4 << 20)
	for b.Loop() {
		r.Return(r.Buffer(4 << 20))
	}
}

func BenchmarkReserve(b *testing.B) {
	bud, err := New(64<<20, Needs{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := bud.Reserve(b.Context(), Fetch, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			r.Release()
		}
	})
}

func BenchmarkTryGrow(b *testing.B) {
	bud, err := New(64<<20, Needs{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := bud.Reserve(b.Context(), Copy, 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !r.TryGrow(1 << 20) {
			b.Fatal("no growth")
		}
		r.Shrink(1 << 20)
	}
}
