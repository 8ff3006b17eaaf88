package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func concCases() []Case {
	return []Case{
		{ID: "conc/64-keys-mixed", Rule: "Many goroutines that each put, get, stat, list and delete keys of their own do not disturb each other.", Run: concMixed},
		{
			ID: "conc/one-client-many-goroutines", Rule: "A call that does not come forward holds up no other: while an upload waits for its source, 32 reads end.",
			Run: concNotHeldUp,
		},
	}
}

func concMixed(t T, b *Bench) {
	clients := []*Client{b.Client(), b.Client()}
	ctx, cancel := context.WithTimeout(t.Context(), Pick(b, time.Second, 3*time.Second))
	defer cancel()
	var wg sync.WaitGroup
	for g := range Pick(b, 24, 64) {
		wg.Go(func() {
			for i := 0; (i == 0 || ctx.Err() == nil) && !t.Failed(); i++ {
				concRound(t, clients[g%2], clients[(g+1)%2], fmt.Sprintf("x/y/z%d/%d", g%5, g), Random(uint64(g*1000+i), 1+(g*31+i*377)%20_000), i%2 == 0 && b.Properties().IfAbsent)
			}
		})
	}
	wg.Wait()
	if keys := clients[0].Keys(""); len(keys) > 0 {
		t.Errorf("everything was deleted: got %q, want nothing", keys)
	}
}

func concRound(t T, c, other *Client, key string, data []byte, ifAbsent bool) {
	size := int64(len(data))
	if _, err := c.Put(t.Context(), key, plain(data), backends.PutOptions{Size: size, IfAbsent: ifAbsent}); err != nil {
		t.Errorf("put %s: got %v, want success", key, err)
		return
	}
	obj, err := other.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Errorf("get %s: got %v, want success", key, err)
		return
	}
	got, err := readWhole(obj)
	_ = obj.Body.Close() // read side
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %s: got %v, want success; %s", key, err, difference(got, data))
	}
	if st, err := other.Stat(t.Context(), key); err != nil || st.Size != size {
		t.Errorf("stat %s: %d bytes, %v, want %d", key, st.Size, err, size)
	}
	if err := c.Delete(t.Context(), key); err != nil {
		t.Errorf("delete %s: got %v, want success", key, err)
	}
	if _, err := c.Stat(t.Context(), key); !errors.Is(err, backends.NotFound) {
		t.Errorf("stat %s after Delete: got %s, want not_found", key, shown(err))
	}
}

func concNotHeldUp(t T, b *Bench) {
	c, data := stored(b, 1000)
	p := b.part()
	body := newGate(t, b.Bytes(p+10), p/2)
	var upload, reads sync.WaitGroup
	upload.Go(func() {
		if _, err := c.Put(t.Context(), "slow", body, backends.PutOptions{Size: int64(p + 10)}); err != nil {
			t.Errorf("put: got %v, want success", err)
		}
	})
	b.Wait(body.reached, "the middle of the body")
	for range 32 {
		reads.Go(func() {
			obj, err := c.Get(t.Context(), "dir/k", backends.GetOptions{Range: backends.All()})
			if err != nil {
				t.Errorf("get: got %v, want success", err)
				return
			}
			defer obj.Body.Close()
			if got, err := readWhole(obj); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read: got %v, want success; %s", err, difference(got, data))
			}
		})
	}
	done := make(chan struct{})
	go func() { reads.Wait(); close(done) }()
	b.Wait(done, "the end of 32 reads beside an upload that waits")
	close(body.open)
	upload.Wait()
}
