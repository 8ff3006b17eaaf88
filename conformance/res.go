package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

func resCases() []Case {
	return []Case{
		{ID: "res/no-goroutine-leak", Rule: "After calls that succeed, fail and are given up, no goroutine is left.", Serial: true, Run: resLeaks},
		{ID: "res/no-fd-leak", Rule: "After many calls that succeed, fail and are given up, no descriptor is left.", Serial: true, Run: resDescriptors},
		{ID: "res/heap-bound-put", Rule: "Put of a large body holds no more than its parts in memory.", Level: Driver, Scale: Full, Serial: true, Run: resHeapPut},
		{ID: "res/heap-bound-get", Rule: "Reading a large object holds next to nothing in memory.", Level: Driver, Scale: Full, Serial: true, Run: resHeapGet},
		{ID: "res/heap-bound-64-puts", Rule: "Many Puts at the same time share a budget of memory, and all of them end.", Level: Store, Serial: true, Run: resShared},
		{ID: "res/connections-reused", Rule: "Small operations one after the other use the same connections.", Level: Driver, Needs: overHTTP, Run: resReused},
		{ID: "res/connections-capped", Rule: "No more connections are opened than the settings allow.", Level: Driver, Needs: overHTTP, Uses: []Facility{UsesMaxConns}, Run: resCapped},
		{ID: "res/alloc-per-op", Rule: "A read of 4 MiB is a stream: it allocates neither the bytes nor thousands of objects.", Level: Driver, Serial: true, Run: resAllocs},
		{ID: "put/huge", Rule: "A body of any size the store takes comes back byte for byte.", Level: Driver, Scale: Full, Serial: true, Run: putHuge},
	}
}

// abandon begins things and gives them up.
func abandon(t T, b *Bench, c *Client) {
	c.Write("big", b.Bytes(2<<20))
	obj := c.Open("big", backends.All())
	if _, err := io.ReadFull(obj.Body, make([]byte, 10)); err != nil {
		t.Errorf("read: got %v, want success", err)
	}
	_ = obj.Body.Close() // in the middle
	ctx, cancel := context.WithCancel(t.Context())
	obj, err := c.Get(ctx, "big", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Errorf("get: got %v, want success", err)
	} else {
		cancel()
		_, _ = io.Copy(io.Discard, obj.Body) // fails
		_ = obj.Body.Close()                 // it failed
	}
	cancel()
	if obj, err = c.Get(t.Context(), "big", backends.GetOptions{Range: backends.Range{Offset: 1, Length: 100}}); err == nil {
		_ = obj.Body.Close() // nothing was read
	}
	if b.Store() {
		if obj, err = c.Get(t.Context(), "big", backends.GetOptions{}); err == nil {
			_ = obj.Body.Close() // an empty stream
		}
	}
}

func resLeaks(t T, b *Bench) {
	c := b.Client()
	workload(t, b, c)
	abandon(t, b, c)
}

func resDescriptors(t T, b *Bench) {
	c := b.Client()
	rounds := 20
	if b.Properties().HTTP {
		rounds = Pick(b, 5, 20) // a connection that is not given back is seen at once
	}
	for range rounds {
		abandon(t, b, c)
	}
	workload(t, b, c)
	if b.Properties().HTTP {
		return // connections are looked at when the client is closed
	}
	before := descriptors()
	for range 20 {
		abandon(t, b, c)
	}
	for _, to := range settles(t.Context(), grace, func() []string { return opened(before, descriptors()) }) {
		t.Errorf("still open: got %s, want nothing", to)
	}
}

// peak calls f and returns by how much the heap grew meanwhile at most.
func peak(f func()) uint64 {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	base := heap()
	stop, done := make(chan struct{}), make(chan struct{})
	var most uint64
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, heap())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most - min(most, base)
}

// declared is what a Put says that it needs.
func declared(c *Client, size int64) uint64 {
	if s, ok := c.Raw().(backends.PutSizer); ok {
		least, _ := s.PutMemory(size)
		return uint64(least)
	}
	return 0
}

func resHeapPut(t T, b *Bench) {
	c := b.ClientWith(ClientOptions{LargeParts: true})
	size := b.r.h.Limits.HugeBytes
	grew := peak(func() {
		if _, err := c.Put(t.Context(), "huge", zeros(size), backends.PutOptions{Size: size}); err != nil {
			t.Errorf("put: got %v, want success", err)
		}
	})
	// The collector lets the heap double before it runs.
	if most := 2*(declared(c, size)+b.r.h.Limits.HeapBytes) + b.r.h.Limits.HeapBytes; grew > most {
		t.Errorf("the heap: got %d MiB more for a body of %d MiB, want at most %d", grew>>20, size>>20, most>>20)
	}
}

func resHeapGet(t T, b *Bench) {
	c := b.ClientWith(ClientOptions{LargeParts: true})
	size := b.r.h.Limits.HugeBytes
	if _, err := c.Put(t.Context(), "huge", zeros(size), backends.PutOptions{Size: size}); err != nil {
		t.Fatalf("put: got %v, want success", err)
	}
	grew := peak(func() {
		obj := c.Open("huge", backends.All())
		defer obj.Body.Close()
		if n, err := io.Copy(io.Discard, obj.Body); n != size || err != nil {
			t.Errorf("read: got %d bytes, want %d; %v", n, size, err)
		}
	})
	if most := 2 * b.r.h.Limits.HeapBytes; grew > most {
		t.Errorf("the heap: got %d MiB more for a stream of %d MiB, want at most %d", grew>>20, size>>20, most>>20)
	}
}

func putHuge(t T, b *Bench) {
	c := b.ClientWith(ClientOptions{LargeParts: true})
	size := b.r.h.Limits.HugeBytes
	seed := uint64(b.IntN(1 << 30))
	sent := sha256.New()
	if _, err := c.Put(t.Context(), "huge", io.TeeReader(io.LimitReader(generated(seed), size), sent), backends.PutOptions{Size: backends.SizeUnknown}); err != nil {
		t.Fatalf("put: got %v, want success", err)
	}
	obj := c.Open("huge", backends.All())
	defer obj.Body.Close()
	got := sha256.New()
	n, err := io.Copy(got, obj.Body)
	if n != size || err != nil || !sameSum(sent, got) {
		t.Errorf("read: got %d bytes, want the %d that were stored; %v, the same bytes: %t", n, size, err, sameSum(sent, got))
	}
}

func sameSum(a, b hash.Hash) bool { return string(a.Sum(nil)) == string(b.Sum(nil)) }

// generated is an endless stream.
func generated(seed uint64) io.Reader {
	block, at := Random(seed, 1<<20), 0
	return readerFunc(func(p []byte) (int, error) {
		n := copy(p, block[at:])
		if at += n; at == len(block) {
			seed++
			block, at = Random(seed, 1<<20), 0
		}
		return n, nil
	})
}

func resShared(t T, b *Bench) {
	c := b.Client()
	size := int64(b.part() + 10)
	least, _ := c.Store().PutMemory(size)
	if least == 0 {
		least = 1 << 20 // the driver needs none of its own; what it declares is another case
	}
	budget, err := membudget.New(6*least, membudget.Needs{Copy: 3 * least, Fetch: least})
	if err != nil {
		t.Fatalf("budget: %v", err)
	}
	c.Store().UseBudget(budget)
	var mu sync.Mutex
	now, most := 0, 0
	reads := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		most = max(most, now)
	}
	puts := Pick(b, 16, 64)
	grew := peak(func() {
		var wg sync.WaitGroup
		for i := range puts {
			wg.Go(func() {
				left := size
				body := io.LimitReader(readerFunc(func(p []byte) (int, error) {
					if left == size {
						reads(1)
						if err := waitFor(t.Context(), 20*time.Millisecond); err != nil { // those who need not wait come meanwhile
							return 0, err
						}
					}
					clear(p)
					if left -= int64(len(p)); left == 0 {
						reads(-1) // as long as the Put has its memory
					}
					return len(p), nil
				}), size)
				if _, err := c.Put(t.Context(), "p/"+string(rune('a'+i%26))+string(rune('a'+i/26)), body, backends.PutOptions{Size: size}); err != nil {
					t.Errorf("put: got %v, want success", err)
				}
			})
		}
		wg.Wait()
	})
	if limit := 2*uint64(6*least+int64(b.r.h.Limits.HeapBytes)) + b.r.h.Limits.HeapBytes; grew > limit {
		t.Errorf("the heap: got %d MiB more with a budget of %d, want at most about twice that", grew>>20, 6*least>>20)
	}
	if s, ok := c.Raw().(backends.PutSizer); ok {
		if _, want := s.PutMemory(size); want > 0 && most > 6 {
			t.Errorf("got %d Puts that read at the same time, want at most 6, for which there is a budget", most)
		}
	}
	if n := len(c.Keys("p/")); n != puts {
		t.Errorf("got %d objects, want the %d that were stored", n, puts)
	}
}

// connections counts those that are opened.
func (b *Bench) connections() *atomic.Int64 {
	n := new(atomic.Int64)
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{ConnectDone: func(_, _ string, err error) {
				if err == nil {
					n.Add(1)
				}
			}})))
		})
	})
	return n
}

func resReused(t T, b *Bench) {
	n := b.connections()
	c := b.Client()
	c.Write("k", b.Bytes(1000))
	for range Pick(b, 50, 200) {
		c.Info("k")
		c.Range("k", backends.Range{Offset: 5, Length: 10})
		c.Write("k", []byte("x1234567890123456"))
		c.refused("none", backends.All(), backends.NotFound)
	}
	if n.Load() > 3 {
		t.Errorf("got %d connections for operations one after the other, want at most 3", n.Load())
	}
}

func resCapped(t T, b *Bench) {
	const most = 4
	n := b.connections()
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.MaxConns(most)})
	c.Write("k", b.Bytes(200_000))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			if err != nil {
				t.Errorf("get: got %v, want success", err)
				return
			}
			defer obj.Body.Close()
			if got, err := io.Copy(io.Discard, obj.Body); got != 200_000 || err != nil {
				t.Errorf("read: got %d bytes, %v, want 200000 and success", got, err)
			}
		})
	}
	wg.Wait()
	if n.Load() > most {
		t.Errorf("got %d connections, want at most the %d of the settings", n.Load(), most)
	}
}

func resAllocs(t T, b *Bench) {
	const size = 4 << 20
	c := b.ClientWith(ClientOptions{LargeParts: true})
	c.Write("k", b.Bytes(size+100))
	read := func() {
		obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 50, Length: size}})
		if err != nil {
			t.Errorf("get: got %v, want success", err)
			return
		}
		defer obj.Body.Close()
		if n, err := io.Copy(io.Discard, obj.Body); n != size || err != nil {
			t.Errorf("read: got %d bytes, %v, want all of the 4 MiB", n, err)
		}
	}
	const runs = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	allocs := testing.AllocsPerRun(runs, read)
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / (runs + 1); bytes > size/2 || allocs > 5000 {
		t.Errorf("a read of 4 MiB: got %d bytes allocated in %.0f objects, want at most 2 MiB in 5000", bytes, allocs)
	}
}

var errTooMuch = errors.New("more than the store takes was read")

func putLimitsCases() []Case {
	return []Case{
		{ID: "put/incompressible-and-zeros", Rule: "What the bytes are does not matter: random ones and zeros are kept alike, and nothing compresses them on the way.", Run: putPatterns},
		{
			ID: "put/plan-limits", Rule: "From 1 byte to the largest object, the first part of a Put is so large that MaxParts suffice, and not above MaxPartBytes.",
			Level: Driver, Needs: multipart, Run: putPlan,
		},
		{ID: "put/too-large", Rule: "A size above MaxObjectBytes is refused before the first byte is read or sent.", Level: Store, Run: putTooLarge},
		{
			ID: "put/too-many-parts", Rule: "A body of unknown size that needs more than MaxParts parts is InvalidArgument, and nothing is left.", Level: Driver,
			Needs: fewParts, Uses: []Facility{UsesTinyParts}, Run: putTooMany, // 64 MiB
		},
	}
}

func putPatterns(t T, b *Bench) {
	c := b.Client()
	n := b.part() + 1000
	for name, data := range map[string][]byte{"random": b.Bytes(n), "zeros": make([]byte, n)} {
		mark := b.Mark()
		c.Write(name, data)
		var sent int64
		for _, r := range b.Requests(mark) {
			sent += r.Sent
		}
		if b.Properties().HTTP && sent < int64(n) {
			t.Errorf("want the %d bytes of %s on the wire, got %d", n, name, sent)
		}
		c.Holds(name, data)
	}
}

func putPlan(t T, b *Bench) {
	p := b.Properties()
	s, ok := b.Client().Raw().(backends.PutSizer)
	if !ok || p.MaxParts <= 0 {
		t.Fatalf("want a driver with parts to say how much memory a Put needs (PutSizer), and MaxParts, got %d", p.MaxParts)
	}
	sizes := []int64{backends.SizeUnknown, 0, 1, p.MaxObjectBytes - 1, p.MaxObjectBytes}
	for n := int64(1); n < p.MaxObjectBytes && n > 0; n *= 3 {
		sizes = append(sizes, n-1, n, n+1)
	}
	for _, parts := range []int64{1, 2, int64(p.MaxParts) - 1, int64(p.MaxParts)} {
		sizes = append(sizes, parts*int64(b.part())-1, parts*int64(b.part()), parts*int64(b.part())+1)
	}
	for _, size := range sizes {
		if size > p.MaxObjectBytes {
			continue
		}
		least, want := s.PutMemory(size)
		if least < 0 || want < least {
			t.Errorf("PutMemory(%d): got %d and %d, want the least first, and not below 0", size, least, want)
		}
		if size > 0 && (size-1)/max(1, least) >= int64(p.MaxParts) {
			t.Errorf("a body of %d bytes in parts of %d: want at most %d of them, got more", size, least, p.MaxParts)
		}
		if p.MaxPartBytes > 0 && least > membudget.Capacity(int(p.MaxPartBytes)) {
			t.Errorf("a body of %d bytes: got parts of %d bytes, want at most %d", size, least, p.MaxPartBytes)
		}
	}
}

func putTooLarge(t T, b *Bench) {
	most := b.Properties().MaxObjectBytes
	if most <= 0 {
		t.Fatalf("Properties.MaxObjectBytes: got %d, want more than 0", most)
	}
	c := b.Client()
	mark := b.Mark()
	_, err := c.Put(t.Context(), "k", readerFunc(func([]byte) (int, error) { return 0, errTooMuch }), backends.PutOptions{Size: most + 1})
	c.Coded("put of a byte too much", err, backends.InvalidArgument)
	if errors.Is(err, errTooMuch) || len(b.Requests(mark)) > 0 {
		t.Errorf("got a body that was read, or requests, want neither: %v, %v", err, b.Requests(mark))
	}
}

func putTooMany(t T, b *Bench) {
	p := b.Properties()
	c := b.Client()
	_, err := c.Put(t.Context(), "k", zeros(int64(p.MaxParts)*p.MaxPartBytes+1), backends.PutOptions{Size: backends.SizeUnknown})
	c.Coded("put of more than all parts hold", err, backends.InvalidArgument)
	c.Lacks("k")
}
