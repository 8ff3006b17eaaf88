package conformance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tierkit/tierkit/backends"
)

func closeCases() []Case {
	return []Case{
		{ID: "close/idempotent", Rule: "Close may be called again and by many at once: it is nil.", Run: closeTwice},
		{ID: "close/in-flight", Rule: "Close ends the calls that wait and the streams that are open, with Closed, and returns.", Run: closeInFlight},
		{ID: "close/after", Rule: "Every call after Close is Closed; other clients go on.", Run: closeAfter},
		{ID: "reopen/sees-data", Rule: "What was stored is there after Close and a new Open.", Run: reopen},
	}
}

func closeTwice(t T, b *Bench) {
	c := b.Client()
	c.Write("k", []byte("x"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Errorf("one of several Close: got %v, want success", err)
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil {
		t.Errorf("a last Close: got %v, want success", err)
	}
}

func closeInFlight(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	data := b.Bytes(8 << 20) // more than a connection holds
	other.Write("k", data)
	obj := c.Open("k", backends.All())
	if _, err := io.ReadFull(obj.Body, make([]byte, 1000)); err != nil {
		t.Errorf("read: got %v, want success", err)
	}
	p := b.part()
	body := newGate(t, b.Bytes(2*p), p+10)
	returned := make(chan struct{})
	var perr error
	go func() {
		defer close(returned)
		_, perr = c.Put(t.Context(), "new", body, backends.PutOptions{Size: int64(2 * p)})
	}()
	b.Wait(body.reached, "the middle of the body")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := c.Close(); err != nil {
			t.Errorf("close: got %v, want success", err)
		}
	}()
	if !b.Store() { // a Store waits for the call, and so for the body
		b.Wait(closed, "Close of a driver with calls in flight")
	}
	close(body.open)
	b.Wait(returned, "the return of a Put that was in flight")
	b.Wait(closed, "Close")
	if perr != nil && !errors.Is(perr, backends.Closed) {
		t.Errorf("the Put in flight: %s, want closed or success", shown(perr))
	}
	got, err := readWhole(obj)
	_ = obj.Body.Close() // read side
	if err == nil && len(got) != len(data)-1000 || err != nil && !errors.Is(err, backends.Closed) {
		t.Errorf("the stream in flight: %d more bytes, %s, want closed or all of it", len(got), shown(err))
	}
	if perr != nil {
		other.Lacks("new")
	}
}

func closeAfter(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	c.Write("k", []byte("x"))
	if err := c.Close(); err != nil {
		t.Errorf("close: got %v, want success", err)
	}
	errs := callAll(t.Context(), c)
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		if !errors.Is(errs[name], backends.Closed) {
			t.Errorf("%s after Close: %s, want closed", name, shown(errs[name]))
		}
	}
	other.Holds("k", []byte("x"))
}

func reopen(_ T, b *Bench) {
	c := b.Client()
	stored := map[string][]byte{}
	for i, n := range []int{0, 100, b.part() + 10} {
		key := fmt.Sprintf("d/%d", i)
		stored[key] = b.Bytes(n)
		c.Write(key, stored[key])
	}
	if err := c.Close(); err != nil {
		b.t.Errorf("close: got %v, want success", err)
	}
	look(b.t, b.Client(), stored)
}

func envCases() []Case {
	return []Case{
		{
			ID: "env/transport-honoured", Rule: "Every request goes through Env.WrapTransport: the server sees no other.", Needs: overHTTP, Uses: []Facility{UsesPlainServer},
			Run: envTransport,
		},
		{ID: "env/logger-honoured", Rule: "What a driver has to say it says to Env.Log: nothing goes to standard error or output.", Serial: true, Run: envLogger},
		{
			ID: "env/no-global-state", Rule: "Two drivers with different settings in one process do not influence each other.", Level: Driver,
			Needs: multipartOverHTTP, Uses: []Facility{UsesParts}, Run: envGlobal,
		},
		{ID: "env/user-agent", Rule: "Every request names Env.UserAgent.", Needs: overHTTP, Run: envAgent},
	}
}

// workload does a bit of everything, also what fails.
func workload(t T, b *Bench, c *Client) {
	n := b.part() + 100
	c.Write("w/a", b.Bytes(n))
	c.Write("w/b", b.Bytes(10))
	c.Range("w/a", backends.Range{Offset: 5, Length: 50})
	c.Info("w/a")
	c.Keys("w/")
	broken := io.MultiReader(plain(b.Bytes(n)), readerFunc(func([]byte) (int, error) { return 0, errSource }))
	if _, err := c.Put(t.Context(), "w/c", broken, backends.PutOptions{Size: int64(2 * n)}); !errors.Is(err, errSource) {
		t.Errorf("put of a source that fails: got %s, want the error of the source", shown(err))
	}
	c.refused("w/none", backends.All(), backends.NotFound)
	c.refused("w/b", backends.Range{Offset: 100, Length: 1}, backends.InvalidRange)
	if b.Store() {
		if err := c.DeleteMany(t.Context(), []string{"w/a", "w/none"}); err != nil {
			t.Errorf("DeleteMany: got %v, want success", err)
		}
	}
	c.Remove("w/a")
	c.Remove("w/b")
}

func envTransport(t T, b *Bench) {
	var seen atomic.Int64
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: b.r.h.plainServer()})
			r.Out.Host = r.In.Host // signatures are over it
			if r.Out.Header["User-Agent"] == nil {
				r.Out.Header["User-Agent"] = nil // none is none
			}
		},
		ErrorLog: quiet(),
	}
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	to.Transport = tr
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	mark := b.Mark()
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.Endpoint(srv.URL)})
	workload(t, b, c)
	if through := len(b.Requests(mark)); int64(through) != seen.Load() || through == 0 {
		t.Errorf("got %d requests through Env.WrapTransport, want the %d that the server saw, and some", through, seen.Load())
	}
}

func envLogger(t T, b *Bench) {
	file := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	restore := divert(f)
	func() {
		defer restore() // also when a step ends the case
		c := b.Client()
		workload(t, b, c)
		if err := c.Close(); err != nil {
			t.Errorf("close: got %v, want success", err)
		}
	}()
	_ = f.Close() // what was written is read below
	if said, err := os.ReadFile(file); err != nil || len(said) > 0 {
		t.Errorf("the process's own output: got %q, %v, want nothing", said, err)
	}
}

func envGlobal(t T, b *Bench) {
	small, large := b.Client(), b.ClientWith(ClientOptions{LargeParts: true})
	data := b.Bytes(2*b.part() + 10)
	for range 2 {
		for name, tc := range map[string]struct {
			c     *Client
			parts bool
		}{"small": {small, true}, "large": {large, false}} {
			mark := b.Mark()
			tc.c.Write(name, data)
			if n := len(withBody(b.Requests(mark))); (n > 2) != tc.parts {
				t.Errorf("the client with %s parts: got %[3]d requests for %[2]d bytes, want several with small parts alone", name, len(data), n)
			}
		}
	}
}

func envAgent(t T, b *Bench) {
	const agent = "conformance-agent-7" // some SDKs replace a slash
	var mu sync.Mutex
	var without []string
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.UserAgent(), agent) {
				mu.Lock()
				without = append(without, r.Method+" "+r.URL.RequestURI()+": "+r.UserAgent())
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	workload(t, b, b.ClientWith(ClientOptions{UserAgent: agent}))
	mu.Lock()
	defer mu.Unlock()
	for _, r := range without {
		t.Errorf("want the user agent %s in each request, got one without: %s", agent, r)
	}
}
