package conformance

import (
	"context"
	"errors"
	"io"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func sourceCases() []Case {
	return []Case{
		{ID: "source/error-at-0", Rule: "An error of the source before its first byte is in the chain of Put's error, and nothing is stored.", Run: sourceAt(func(int) int { return 0 })},
		{ID: "source/error-in-part-1", Rule: "An error of the source in the first part is in the chain of Put's error, and nothing is stored.", Run: sourceAt(func(p int) int { return p / 2 })},
		{
			ID: "source/error-at-part-boundary", Rule: "An error of the source exactly between two parts is in the chain of Put's error, and nothing is stored.",
			Run: sourceAt(func(p int) int { return p }),
		},
		{
			ID: "source/error-at-last-byte", Rule: "An error of the source where its end was due is in the chain of Put's error, and nothing is stored.",
			Run: sourceAt(func(p int) int { return 2*p + 100 }),
		},
		{ID: "source/short", Rule: "A source that ends too early is SizeMismatch, and nothing is stored.", Run: sourceShort},
		{ID: "source/long", Rule: "A source that has more than announced is SizeMismatch, and nothing is stored; the zero PutOptions announce nothing.", Run: sourceLong},
		{ID: "source/panic", Rule: "A panic of the source reaches the caller of Put, and nothing is stored.", Run: sourcePanic},
		{
			ID: "source/slow", Rule: "A source that is slower than the stall timeout is no stall of the network.", Level: Driver, Uses: []Facility{UsesTimeouts},
			Needs: overHTTP, Run: sourceSlow,
		},
	}
}

// sourceAt is a case with a source of two parts and a bit that fails at a place.
func sourceAt(place func(part int) int) func(T, *Bench) {
	return func(t T, b *Bench) {
		c := b.Client()
		size := 2*b.part() + 100
		data := b.Bytes(size)
		for i, source := range []struct {
			name string
			body func() io.Reader
		}{
			{"alone", func() io.Reader {
				return io.MultiReader(plain(data[:place(b.part())]), iotest.ErrReader(errSource))
			}},
			{"with last bytes", func() io.Reader { return withError(data[:place(b.part())]) }},
		} {
			for _, opt := range b.ways(i, size) {
				_, err := c.Put(t.Context(), "k", source.body(), backends.PutOptions{Size: opt})
				if !errors.Is(err, errSource) {
					t.Errorf("Size %d, error %s: %s, want the source's", opt, source.name, shown(err))
				}
				c.Lacks("k")
			}
		}
	}
}

// withError is a source whose error comes together with its last bytes.
func withError(data []byte) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n := copy(p, data)
		if data = data[n:]; len(data) == 0 {
			return n, errSource
		}
		return n, nil
	})
}

func sourceShort(t T, b *Bench) {
	c := b.Client()
	p := b.part()
	for _, tc := range []struct{ announced, delivered int }{{1, 0}, {1000, 999}, {2 * p, p}, {2*p + 1, 2 * p}, {4 * p, p + p/2}} {
		_, err := c.Put(t.Context(), "k", plain(b.Bytes(tc.delivered)), backends.PutOptions{Size: int64(tc.announced)})
		c.Coded("put of a source that ends too early", err, backends.SizeMismatch)
		c.Lacks("k")
	}
}

func sourceLong(t T, b *Bench) {
	c := b.Client()
	p := b.part()
	for _, tc := range []struct{ announced, delivered int }{{0, 1}, {1000, 1001}, {p, p + 1}, {2 * p, 2*p + 1}, {10, 2 * p}} {
		_, err := c.Put(t.Context(), "k", plain(b.Bytes(tc.delivered)), backends.PutOptions{Size: int64(tc.announced)})
		c.Coded("put of a source that has more than announced", err, backends.SizeMismatch)
		c.Lacks("k")
	}
}

func sourcePanic(t T, b *Bench) {
	c := b.Client()
	for _, n := range []int{0, b.part() + 10} {
		body := io.MultiReader(plain(b.Bytes(n)), readerFunc(func([]byte) (int, error) { panic("boom") }))
		got := func() (r any) {
			defer func() { r = recover() }()
			_, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: int64(2*b.part() + 100)})
			t.Errorf("Put: got %v, want the panic of its source", err)
			return nil
		}()
		if got != "boom" {
			t.Errorf("the panic that reached the caller: got %v, want boom", got)
		}
		c.Lacks("k")
	}
}

func sourceSlow(t T, b *Bench) {
	const stall = 500 * time.Millisecond
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.Timeouts(stall)})
	data := b.Bytes(b.part() + 150)
	fast := b.part() - 50 // the slow bytes lie around the end of the first part
	rest := data[fast:]
	body := io.MultiReader(plain(data[:fast]), readerFunc(func(p []byte) (int, error) {
		if len(rest) == 0 {
			return 0, io.EOF
		}
		pause(t.Context(), 10*time.Millisecond)
		p[0], rest = rest[0], rest[1:]
		return 1, nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*b.Prompt())
	defer cancel()
	if _, err := c.Put(ctx, "k", body, backends.PutOptions{Size: int64(len(data))}); err != nil {
		t.Errorf("put of a slow source, with timeouts of %s: got %v, want success", stall, err)
		return
	}
	c.Holds("k", data)
}
