package conformance

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func ctxCases() []Case {
	return []Case{
		{ID: "ctx/dead-on-entry", Rule: "No method starts work with a context that was cancelled; it returns that error, without a request.", Run: ctxDead},
		{ID: "ctx/deadline-on-entry", Rule: "No method starts work behind its deadline; it returns context.DeadlineExceeded, not a timeout of ours.", Run: ctxLate},
		{
			ID: "ctx/cancel-while-body-blocks", Rule: "Put cannot interrupt a source that blocks, but when its Read returns, Put returns the context's error and has " +
				"removed what it sent.", Run: ctxBlockedBody,
		},
		{ID: "ctx/cancel-waiting-for-limits", Rule: "A call that waits for a slot or for its rate ends with its context.", Level: Store, Run: ctxLimits},
		{ID: "ctx/cause", Rule: "The cause of a cancellation stays in the chain of the error.", Level: Store, Run: ctxCause},
		{ID: "ctx/values-reach-transport", Rule: "The values of a context are there in each request of its call, those that clean up included.", Needs: overHTTP, Run: ctxValues},
		{ID: "ctx/cleanup-detached", Rule: "An upload whose context ended is removed by requests with a context of their own, before Put returns.", Needs: multipart, Run: ctxCleanup},
		{ID: "ctx/ends-a-read", Rule: "The context of a Get rules its stream: when it ends, a Read ends with its error.", Run: ctxEndsRead},
	}
}

func multipart(p backends.Properties) string { return unless(p.MinPartBytes > 0, "MinPartBytes is 0") }

// callAll calls everything that takes a context and returns the errors by name. The object "k" must be there.
func callAll(ctx context.Context, c *Client) map[string]error {
	out := map[string]error{}
	_, out["put"] = c.Put(ctx, "k", plain([]byte("y")), backends.PutOptions{Size: 1})
	obj, err := c.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
	if err == nil {
		_ = obj.Body.Close() // should not be there
	}
	out["get"] = err
	_, out["stat"] = c.Stat(ctx, "k")
	out["delete"] = c.Delete(ctx, "k")
	out["list"] = c.Lists(ctx, "", func(backends.Info) {})
	if _, ok := c.Raw().(backends.BulkDeleter); ok || c.store != nil {
		out["delete_many"] = c.DeleteMany(ctx, []string{"k"})
	}
	if _, ok := c.Raw().(backends.UploadLister); ok {
		_, out["uploads"] = c.Uploads(ctx, "")
		out["abort"] = c.AbortUpload(ctx, backends.Upload{Key: "k", ID: "x"})
	}
	if _, ok := c.Raw().(backends.Prober); ok || c.store != nil {
		out["probe"] = c.Probe(ctx)
	}
	return out
}

func ended(t T, b *Bench, ctx context.Context, want error) {
	c := b.Client()
	c.Write("k", []byte("x"))
	mark := b.Mark()
	errs := callAll(ctx, c)
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		if !errors.Is(errs[name], want) {
			t.Errorf("%s: %s, want %v", name, shown(errs[name]), want)
		}
		if _, coded := errors.AsType[*backends.Error](errs[name]); coded && name != "delete_many" {
			t.Errorf("%s: got a code for the end of the caller's context, want the context's error alone: %s", name, shown(errs[name]))
		}
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests although the context had ended: got %v, want none", log)
	}
	c.Holds("k", []byte("x"))
}

func ctxDead(t T, b *Bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended(t, b, ctx, context.Canceled)
}

func ctxLate(t T, b *Bench) {
	ctx, cancel := context.WithDeadline(t.Context(), b.Now().Add(-time.Second))
	defer cancel()
	ended(t, b, ctx, context.DeadlineExceeded)
}

func ctxBlockedBody(t T, b *Bench) {
	c := b.Client()
	c.Write("k", []byte("old"))
	p := b.part()
	body := newGate(t, b.Bytes(2*p), p+p/2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan struct{})
	var err error
	go func() {
		defer close(returned)
		_, err = c.Put(ctx, "k", body, backends.PutOptions{Size: int64(2 * p)})
	}()
	b.Wait(body.reached, "the middle of the body")
	cancel()
	close(body.open)
	b.Wait(returned, "the return of Put when its source went on")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put: %s, want context.Canceled", shown(err))
	}
	c.Holds("k", []byte("old"))
}

func ctxLimits(t T, b *Bench) {
	c := b.ClientWith(ClientOptions{Limits: backends.Limits{Reads: 1, Writes: 1, UploadBytesPerSecond: 100 << 10}})
	b.Client().Write("k", b.Bytes(1000))
	obj := c.Open("k", backends.All()) // holds the slot of reads
	body := newGate(t, []byte("x"), 0)
	holds := make(chan struct{})
	go func() { // holds the slot of writes
		defer close(holds)
		if _, err := c.Put(t.Context(), "w", body, backends.PutOptions{Size: 1}); err != nil {
			t.Errorf("put: got %v, want success", err)
		}
	}()
	b.Wait(body.reached, "the first Read of a body")
	for name, call := range map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := c.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := c.Put(ctx, "k2", plain([]byte("x")), backends.PutOptions{Size: 1})
			return err
		},
		"delete": func(ctx context.Context) error { return c.Delete(ctx, "k") },
	} {
		b.endsWith(t, name+" without a slot", call)
	}
	close(body.open)
	b.Wait(holds, "the end of the Put")
	_ = obj.Body.Close() // gives the slot back
	big := int64(10 << 20)
	b.endsWith(t, "put beyond its rate", func(ctx context.Context) error {
		_, err := c.Put(ctx, "slow", zeros(big), backends.PutOptions{Size: big})
		return err
	})
}

// endsWith calls something that waits, cancels it, and wants context.Canceled soon.
func (b *Bench) endsWith(t T, what string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- call(ctx) }()
	timer := time.NewTimer(50 * time.Millisecond) // it should be waiting by then; if it is not, it still has to end
	select {
	case err := <-returned:
		t.Errorf("%s: got an end before it was cancelled, want one after that: %s", what, shown(err))
		return
	case <-timer.C:
	}
	cancel()
	late := time.NewTimer(b.Prompt())
	defer late.Stop()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %s, want context.Canceled", what, shown(err))
		}
	case <-late.C:
		t.Fatalf("%s: want its end within %s after that of its context, got none", what, b.Prompt())
	}
}

func ctxCause(t T, b *Bench) {
	c := b.Client()
	cause := errors.New("the reason why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, err := range callAll(ctx, c) {
		if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %s, want both context.Canceled and its cause", name, shown(err))
		}
	}
}

// ctxKey marks the context of a case.
type ctxKey struct{}

// valued counts the requests whose context lacks the mark.
type valued struct {
	next    http.RoundTripper
	mu      *sync.Mutex
	without *[]string
}

func (v *valued) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(ctxKey{}) == nil {
		v.mu.Lock()
		*v.without = append(*v.without, r.Method+" "+r.URL.RequestURI())
		v.mu.Unlock()
	}
	return v.next.RoundTrip(r)
}

func ctxValues(t T, b *Bench) {
	var mu sync.Mutex
	without := []string{}
	b.Inject(func(next http.RoundTripper) http.RoundTripper { return &valued{next, &mu, &without} })
	c := b.Client()
	mu.Lock()
	without = without[:0] // of Open
	mu.Unlock()
	ctx := context.WithValue(t.Context(), ctxKey{}, true)
	p := b.part()
	if _, err := c.Put(ctx, "k", plain(b.Bytes(p+10)), backends.PutOptions{Size: int64(p + 10)}); err != nil {
		t.Errorf("put: got %v, want success", err)
	}
	failing := io.MultiReader(plain(b.Bytes(p+5)), readerFunc(func([]byte) (int, error) { return 0, errSource }))
	if _, err := c.Put(ctx, "f", failing, backends.PutOptions{Size: int64(p + 10)}); !errors.Is(err, errSource) {
		t.Errorf("put of a source that fails: got %s, want the error of the source", shown(err))
	}
	for name, err := range callAll(ctx, c) {
		if err != nil && name != "abort" && name != "get" && name != "stat" {
			t.Errorf("%s: got %v, want success", name, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, r := range without {
		t.Errorf("got a request without the values of the caller's context, want them in each: %s", r)
	}
}

func ctxCleanup(t T, b *Bench) {
	c := b.Client()
	p := b.part()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := int64(0)
	body := readerFunc(func(buf []byte) (int, error) {
		if n > int64(2*p+p/2) {
			cancel()
		}
		n += int64(len(buf))
		return len(buf), nil
	})
	if _, err := c.Put(ctx, "k", body, backends.PutOptions{Size: backends.SizeUnknown}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %s, want context.Canceled", shown(err))
	}
	if _, ok := c.Raw().(backends.UploadLister); ok && b.Properties().PendingExpires == 0 {
		ups, err := c.Uploads(t.Context(), "k")
		if err != nil || len(ups) > 0 {
			t.Errorf("uploads pending when Put had returned: got %+v, %v, want none", ups, err)
		}
	}
	c.Lacks("k")
}

func ctxEndsRead(t T, b *Bench) {
	c := b.Client()
	c.Write("k", b.Bytes(4<<20))
	for _, n := range []int{0, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		obj, err := c.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			cancel()
			t.Fatalf("get: got %v, want success", err)
		}
		if _, err := io.ReadFull(obj.Body, make([]byte, n)); err != nil {
			t.Errorf("read: got %v, want success", err)
		}
		cancel()
		got, err := io.Copy(io.Discard, obj.Body)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a read whose context ended after %d bytes: %d more, then %s, want context.Canceled", n, got, shown(err))
		}
		if err := obj.Body.Close(); err != nil {
			t.Errorf("close: got %v, want success", err)
		}
	}
}
