package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func overwriteCases() []Case {
	return []Case{
		{ID: "overwrite/replaces", Rule: "Put replaces what is there, whether it is smaller or larger; nothing of the old object remains.", Run: overwriteReplaces},
		{
			ID: "overwrite/readers-never-mix", Rule: "While writers replace an object, each reader gets one version from end to end, or an error.",
			Run: overwriteNeverMix,
		},
		{ID: "overwrite/reader-in-flight", Rule: "A read that is open when the object is replaced or deleted ends with the old bytes, or with an error.", Run: overwriteInFlight},
		{
			ID: "atomic/invisible-until-return", Rule: "Until Put returns, every client sees what was there before: the old object, or none.", Run: atomicInvisible,
		},
		{
			ID: "atomic/failed-put-keeps-old", Rule: "A Put that fails, by its source, its context or its checksum, leaves the old object as it was.",
			Run: atomicKeepsOld,
		},
		{ID: "ifabsent/creates", Rule: "IfAbsent stores under a key that is not there, in one part or several, announced or not.", Level: Both, Needs: ifAbsent, Run: ifAbsentCreates},
		{
			ID: "ifabsent/refuses", Rule: "IfAbsent on a key that is there is Exists; the object stays, and no more than two parts of the body are read.",
			Needs: ifAbsent, Run: ifAbsentRefuses,
		},
		{
			ID: "ifabsent/race", Rule: "Of many creators of one key through 4 clients exactly one succeeds, the others get Exists, and the object is the winner's.",
			Needs: ifAbsent, Run: ifAbsentRace,
		},
		{ID: "ifabsent/after-delete", Rule: "A deleted key is absent, at once, for other clients too.", Needs: ifAbsent, Run: ifAbsentAfterDelete},
	}
}

func overwriteReplaces(_ T, b *Bench) {
	c, other := b.Client(), b.Client()
	p := b.part()
	for _, n := range []int{1000, 10, 5000, 0, p + 1, 3} {
		data := b.Bytes(n)
		c.Write("k", data)
		other.Holds("k", data)
		if size := other.Info("k").Size; size != int64(n) {
			b.t.Errorf("Stat: got a size of %d, want %d", size, n)
		}
	}
}

// lost tells that the upload gave way to another one of the same key, which is allowed: the body may be sent again.
func lost(err error) bool {
	e, ok := errors.AsType[*backends.Error](err)
	return ok && e.Restart && e.Code.Temporary()
}

// stripe is a body that tells in each of its bytes which one it is.
func stripe(id, n int) []byte { return bytes.Repeat([]byte{byte('A' + id)}, n) }

func overwriteNeverMix(t T, b *Bench) {
	const size = 300_000
	writers := []*Client{b.Client(), b.Client()}
	readers := []*Client{b.Client(), b.Client()}
	writers[0].Write("k", stripe(0, size))
	ctx, cancel := context.WithTimeout(t.Context(), Pick(b, 1500*time.Millisecond, 5*time.Second))
	defer cancel()
	var wg sync.WaitGroup
	for i, w := range writers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				data := stripe(2*(n%10)+i, size)
				if _, err := w.Put(t.Context(), "k", plain(data), backends.PutOptions{Size: size}); err != nil && !lost(err) {
					t.Errorf("put: got %v, want success", err)
					return
				}
				if b.Properties().HTTP {
					pause(ctx, 20*time.Millisecond) // readers need a turn
				}
			}
		})
	}
	var whole int64
	var mu sync.Mutex
	for i := range 8 {
		wg.Go(func() {
			n := readStripes(t, ctx, readers[i%2], size)
			mu.Lock()
			defer mu.Unlock()
			whole += n
		})
	}
	wg.Wait()
	if whole == 0 {
		t.Errorf("got no read that came to its end in all that time, want some")
	}
}

// readStripes reads until ctx ends and returns how many reads got a whole object.
func readStripes(t T, ctx context.Context, c *Client, size int) (whole int64) {
	for ctx.Err() == nil {
		obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			if !errors.Is(err, backends.Precondition) && !backends.CodeOf(err).Temporary() {
				t.Errorf("get while it is replaced: got %s, want success, Precondition or a temporary code", shown(err))
			}
			continue
		}
		got, err := readWhole(obj)
		_ = obj.Body.Close() // read side
		if len(got) > 0 && !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) {
			t.Errorf("a read: got bytes of two objects, want those of one")
		}
		if err != nil {
			continue
		}
		if len(got) != size {
			t.Errorf("a read: got an end without an error after %d of %d bytes, want all", len(got), size)
		}
		whole++
	}
	return whole
}

func overwriteInFlight(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	old := b.Bytes(4 << 20)
	for _, change := range []string{"replaced", "deleted"} {
		c.Write("k", old)
		obj := c.Open("k", backends.All())
		if _, err := io.ReadFull(obj.Body, make([]byte, 1000)); err != nil {
			t.Errorf("read: got %v, want success", err)
		}
		if change == "replaced" {
			other.Write("k", b.Bytes(4<<20))
		} else {
			other.Remove("k")
		}
		got, err := readWhole(obj)
		_ = obj.Body.Close() // read side
		if !bytes.HasPrefix(old[1000:], got) {
			t.Errorf("%s while it was read: %s", change, difference(got, old[1000:]))
		}
		if err == nil && len(got) != len(old)-1000 {
			t.Errorf("%s while it was read: got an end without an error after %d of %d bytes, want an error or all of them", change, len(got), len(old)-1000)
		}
		c.Remove("k")
	}
}

// gate is a body that waits at some byte, until it is opened or the case ends: a Put that waited on would outlive a run that is interrupted,
// and with it what it has stored.
type gate struct {
	ctx     context.Context // of the case: a Read has none
	data    []byte
	at      int
	reached chan struct{}
	open    chan struct{}
	done    int
}

func newGate(t T, data []byte, at int) *gate {
	return &gate{ctx: t.Context(), data: data, at: at, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) Read(p []byte) (int, error) {
	if g.done == g.at {
		select {
		case <-g.reached:
		default:
			close(g.reached)
		}
		select {
		case <-g.open:
		case <-g.ctx.Done():
			return 0, context.Cause(g.ctx)
		}
	}
	if g.done == len(g.data) {
		return 0, io.EOF
	}
	end := len(g.data)
	if g.done < g.at {
		end = g.at
	}
	n := copy(p, g.data[g.done:end])
	g.done += n
	return n, nil
}

func atomicInvisible(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	p := b.part()
	other.Write("old", []byte("old bytes"))
	for _, key := range []string{"old", "new"} {
		data := b.Bytes(2*p + p/2)
		body := newGate(t, data, 2*p+100)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Put(t.Context(), key, body, backends.PutOptions{Size: int64(len(data))})
			ended <- err
		}()
		b.Wait(body.reached, "the last part of the body")
		if key == "old" {
			other.Holds("old", []byte("old bytes"))
		} else {
			other.Lacks("new")
		}
		if keys := other.Keys(""); !slices.Contains(keys, "old") || key == "old" && len(keys) != 1 || key == "new" && len(keys) != 1 {
			t.Errorf("the listing during the Put of %s: got %q, want the key old alone", key, keys)
		}
		close(body.open)
		if err := <-ended; err != nil {
			t.Errorf("put of %s: got %v, want success", key, err)
			continue
		}
		other.Holds(key, data)
	}
}

func atomicKeepsOld(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	old := b.Bytes(1000)
	c.Write("k", old)
	p := b.part()
	data := b.Bytes(p + 1000)
	wrong := castagnoli([]byte("other"))
	for _, n := range []int{500, len(data)} { // in one part, in two
		size := int64(n)
		for name, f := range map[string]func() (io.Reader, backends.PutOptions, error){
			"its source": func() (io.Reader, backends.PutOptions, error) {
				return io.MultiReader(plain(data[:n-10]), iotest.ErrReader(errSource)), backends.PutOptions{Size: size}, errSource
			},
			"its checksum": func() (io.Reader, backends.PutOptions, error) {
				return plain(data[:n]), backends.PutOptions{Size: size, CRC32C: wrong}, backends.Corrupt
			},
			"its size": func() (io.Reader, backends.PutOptions, error) {
				return plain(data[:n-1]), backends.PutOptions{Size: size}, backends.SizeMismatch
			},
		} {
			body, opts, want := f()
			if _, err := c.Put(t.Context(), "k", body, opts); !errors.Is(err, want) {
				t.Errorf("put of %d bytes that fails by %s: %s, want %v", n, name, shown(err), want)
			}
			other.Holds("k", old)
		}
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(plain(data[:n-10]), readerFunc(func([]byte) (int, error) { cancel(); return 0, nil }))
		if _, err := c.Put(ctx, "k", io.MultiReader(io.LimitReader(body, size-10), cancelling(cancel, data[n-10:n])), backends.PutOptions{Size: size}); !errors.Is(err, context.Canceled) {
			t.Errorf("put of %d bytes whose context ends: %s, want context.Canceled", n, shown(err))
		}
		cancel()
		other.Holds("k", old)
	}
}

// cancelling delivers data, and ends a context at the first Read.
func cancelling(cancel func(), data []byte) io.Reader {
	r := plain(data)
	return readerFunc(func(p []byte) (int, error) { cancel(); return r.Read(p) })
}

func ifAbsentCreates(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for i, n := range []int{0, 1000, b.part() + 1000} {
		for j, size := range announced(n) {
			key, data := fmt.Sprintf("k%d-%d", i, j), b.Bytes(n)
			if _, err := c.Put(t.Context(), key, plain(data), backends.PutOptions{Size: size, IfAbsent: true}); err != nil {
				t.Errorf("put of %d bytes, Size %d: got %v, want success", n, size, err)
				continue
			}
			other.Holds(key, data)
		}
	}
}

func ifAbsentRefuses(t T, b *Bench) {
	c := b.Client()
	old := []byte("old bytes")
	b.Client().Write("k", old)
	p := int64(b.part())
	for _, n := range []int64{3, 4*p + 5} {
		for _, size := range announced(int(n)) {
			body := &guarded{t: t, r: zeros(n)}
			_, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: size, IfAbsent: true})
			c.Coded(fmt.Sprintf("put of %d bytes over an object", n), err, backends.Exists)
			if read := body.over(); read > 2*p {
				t.Errorf("got %d of %d bytes read before the refusal, want at most two parts of %d", read, n, p)
			}
			c.Holds("k", old)
		}
	}
}

func ifAbsentRace(t T, b *Bench) {
	clients := []*Client{b.Client(), b.Client(), b.Client(), b.Client()}
	for round, n := range []int{100, 100, 100, b.part() + 100} {
		key := fmt.Sprintf("dir%d/k", round)
		creators := 16
		if n > 1<<20 && !b.Full() { // much to send
			creators = 4
		}
		errs := make([]error, creators)
		together := newBarrier(t.Context(), creators, time.Second)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				defer together.arrive() // one that is refused before its body is read
				body := &startsWith{r: plain(stripe(i, n)), first: together.wait}
				_, errs[i] = clients[i%4].Put(t.Context(), key, body, backends.PutOptions{Size: int64(n), IfAbsent: true})
			})
		}
		wg.Wait()
		var winners []int
		for i, err := range errs {
			if err == nil {
				winners = append(winners, i)
			} else if !errors.Is(err, backends.Exists) {
				t.Errorf("round %d, creator %d: %s, want exists", round, i, shown(err))
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: got %d creators that were told that they made the object, %v, want one; errors: %v", round, len(winners), winners, errs)
		}
		clients[0].Holds(key, stripe(winners[0], n))
	}
}

func ifAbsentAfterDelete(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for i := range 5 {
		data := fmt.Appendf(nil, "round %d", i)
		if _, err := c.Put(t.Context(), "a/k", plain(data), backends.PutOptions{Size: int64(len(data)), IfAbsent: true}); err != nil {
			t.Fatalf("round %d: got %v, want success", i, err)
		}
		other.Holds("a/k", data)
		other.Remove("a/k")
	}
}
