package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

func mpuCases() []Case {
	return []Case{
		{
			ID: "mpu/abort-after-inflight", Rule: "An upload is removed only when the last request with a part of it has ended: a part that comes later would stay.",
			Level: Driver, Needs: multipartOverHTTP, Uses: []Facility{UsesParts}, Run: mpuAbortAfter,
		},
		{ID: "mpu/parts-concurrent", Rule: "No more parts are sent at a time than the memory of a Put has room for.", Level: Driver, Needs: multipartOverHTTP, Uses: []Facility{UsesParts}, Run: mpuConcurrent},
		{
			ID: "mpu/concurrent-uploads-same-key", Rule: "Uploads to one key at the same time do not mix: the object is one of them, and nothing pending is left.",
			Run: mpuSameKey,
		},
		{ID: "mpu/etag-quirks", Rule: "What the store calls the version of a part or an object may have any form: quoted or not, an MD5 or not.", Level: Driver, Needs: multipartOverHTTP, Uses: []Facility{UsesParts}, Run: mpuETags},
		{
			ID: "mpu/part-retry-resends-all", Rule: "A part that is sent again is sent whole, with the same bytes.", Level: Driver,
			Needs: multipartOverHTTP, Uses: []Facility{UsesParts}, Run: mpuResend,
		},
		{
			ID: "mpu/list-and-abort-foreign", Rule: "An upload that a client left behind is found by another one, and can be removed.", Run: mpuForeign,
		},
	}
}

func multipartOverHTTP(p backends.Properties) string { return cmp.Or(overHTTP(p), multipart(p)) }

func fewParts(p backends.Properties) string {
	return unless(p.MaxParts > 0 && p.MaxParts <= 1000, "MaxParts is 0 or above 1000")
}

// event is the beginning or the end of a request with a body, or of another one that changes something.
type event struct {
	part  bool // carries more than some framing
	began bool
	what  string
}

// watch notes when requests begin and end.
type watch struct {
	least  int64 // bytes from which on a body is that of a part
	mu     sync.Mutex
	events []event
	now    atomic.Int64 // requests with a part on their way
	most   atomic.Int64
	hold   func(r *http.Request) // called while a request with a part is on its way
}

func (w *watch) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		part := r.ContentLength >= w.least
		e := event{part: part, began: true, what: r.Method + " " + r.URL.RequestURI()}
		w.note(e)
		if part {
			n := w.now.Add(1)
			for old := w.most.Load(); n > old && !w.most.CompareAndSwap(old, n); old = w.most.Load() {
			}
			if w.hold != nil {
				w.hold(r)
			}
		}
		resp, err := next.RoundTrip(r)
		if part {
			w.now.Add(-1)
		}
		e.began = false
		w.note(e)
		return resp, err
	})
}

func (w *watch) note(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// roundTripper is a transport made of a function.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// withMemory is memory with which a driver sends as many parts at a time as it wants, out of a budget that has more; nil where it needs none.
func withMemory(t T, c *Client, size int64) (mem *membudget.Reservation, want int64) {
	t.Helper()
	sizer, ok := c.Raw().(backends.PutSizer)
	if !ok {
		return nil, 0
	}
	least, want := sizer.PutMemory(size)
	if least == 0 {
		return nil, 0
	}
	budget, err := membudget.New(8*want, membudget.Needs{Copy: want, Fetch: 1})
	if err != nil {
		t.Fatalf("budget: %v", err)
	}
	if mem, err = budget.Reserve(t.Context(), membudget.Copy, want); err != nil {
		t.Fatalf("reserve: %v", err)
	}
	t.Cleanup(mem.Release)
	return mem, want
}

// within waits for done, and no longer than d.
func within(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// mpuAbortAfter: parts are on their way until a while after the source has broken.
func mpuAbortAfter(t T, b *Bench) {
	p := b.part()
	w := &watch{least: int64(p / 2)}
	broken, flying := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.hold = func(*http.Request) {
		once.Do(func() { close(flying) })
		within(time.Second, broken) // a driver may read on only when a part was sent
		within(100*time.Millisecond, nil)
	}
	b.Inject(w.wrap)
	c := b.Client()
	size := int64(4 * p)
	mem, _ := withMemory(t, c, size)
	body := io.MultiReader(plain(b.Bytes(2*p+10)), readerFunc(func([]byte) (int, error) {
		within(time.Second, flying) // a driver may gather more before it sends
		close(broken)
		return 0, errSource
	}))
	if _, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: size, Memory: mem}); !errors.Is(err, errSource) {
		t.Errorf("put of a source that fails: got %s, want the error of the source", shown(err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	open := 0
	for _, e := range w.events {
		switch {
		case e.part && e.began:
			open++
		case e.part:
			open--
		case e.began && strings.HasPrefix(e.what, http.MethodDelete) && open > 0:
			t.Errorf("%s: got %d requests with parts on their way when it began, want none", e.what, open)
		}
	}
	if len(w.events) == 0 {
		t.Errorf("got no request, want some")
	}
}

func mpuConcurrent(t T, b *Bench) {
	p := b.part()
	w := &watch{least: int64(p / 2), hold: func(*http.Request) { within(50*time.Millisecond, nil) }}
	b.Inject(w.wrap)
	c := b.Client()
	size := int64(8*p + 5)
	mem, want := withMemory(t, c, size)
	for _, o := range []backends.PutOptions{{Size: size}, {Size: size, Memory: mem}} {
		w.most.Store(0)
		if _, err := c.Put(t.Context(), "k", zeros(size), o); err != nil {
			t.Errorf("put: got %v, want success", err)
		}
		room := int64(1) // without memory of the caller the driver takes its least
		if o.Memory != nil {
			room = want / int64(p)
		}
		if most := w.most.Load(); want > 0 && most > room {
			t.Errorf("got %d parts of %d bytes on their way at a time, want at most %d, for which there is room", most, p, room)
		}
	}
}

func mpuSameKey(t T, b *Bench) {
	clients := []*Client{b.Client(), b.Client()}
	n := 2*b.part() + 50
	bodies := [][]byte{stripe(0, n), stripe(1, n)}
	rounds := 3
	if n > 4<<20 {
		rounds = Pick(b, 2, 3) // they cost seconds
	}
	for range rounds {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range bodies {
			wg.Go(func() {
				_, errs[i] = clients[i].Put(t.Context(), "k", &again{data: bodies[i]}, backends.PutOptions{Size: int64(n)})
			})
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
			} else if !lost(err) {
				t.Errorf("upload %d: got %s, want success, or that it lost against the other", i, shown(err))
			}
		}
		if won == 0 {
			t.Errorf("got no success of two uploads, want one at least: %v", errs)
			continue
		}
		if got := clients[0].Read("k"); !bytes.Equal(got, bodies[0]) && !bytes.Equal(got, bodies[1]) {
			t.Errorf("got an object that is neither of the two that were stored, want one of them, whole")
		}
	}
}

// again is a body that can be sent again.
type again struct {
	data []byte
	done int
}

func (a *again) Read(p []byte) (int, error) {
	if a.done == len(a.data) {
		return 0, io.EOF
	}
	n := copy(p, a.data[a.done:])
	a.done += n
	return n, nil
}

// Rewind implements backends.Rewinder.
func (a *again) Rewind() error { a.done = 0; return nil }

// mpuETags strips the quotes of ETags, as some stores do. What the driver sends back is what it was given.
func mpuETags(t T, b *Bench) {
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.Header.Get("ETag") != "" && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
				resp.Header.Set("ETag", strings.Trim(resp.Header.Get("ETag"), `"`))
			}
			return resp, err
		})
	})
	c := b.Client()
	for _, n := range []int{10, 2*b.part() + 10} {
		data := b.Bytes(n)
		c.Write("k", data)
		c.Holds("k", data)
		obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: c.Info("k").Version})
		if err != nil {
			t.Errorf("get with the version that Stat told: got %v, want success", err)
			continue
		}
		_ = obj.Body.Close() // it could be opened
	}
}

// mpuResend answers the first request of each part with 503 when it was read whole, and compares what comes again.
func mpuResend(t T, b *Bench) {
	var mu sync.Mutex
	sums := map[string][32]byte{}
	resent := 0
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.ContentLength < int64(b.part()/2) {
				return next.RoundTrip(r)
			}
			data, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			name, sum := r.Method+" "+r.URL.RequestURI()+r.Header.Get("Content-Range"), sha256.Sum256(data)
			first, seen := sums[name]
			sums[name] = sum
			if seen {
				resent++
			}
			mu.Unlock()
			if !seen {
				return &http.Response{
					StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r,
				}, nil
			}
			if first != sum {
				t.Errorf("%s: got other bytes when it was sent again, want the same", name)
			}
			r = r.Clone(r.Context())
			r.Body = io.NopCloser(bytes.NewReader(data))
			return next.RoundTrip(r)
		})
	})
	c := b.Client()
	data := b.Bytes(2*b.part() + b.part()/2)
	c.Write("k", data)
	c.Holds("k", data)
	if resent < 2 {
		t.Errorf("got %d parts sent again, want all", resent)
	}
}

// removed aborts an upload that is running: some drivers refuse that for now, others need not.
func removed(t T, c *Client, u backends.Upload) {
	for range 2 {
		err := c.AbortUpload(t.Context(), u)
		if backends.CodeOf(err).Temporary() || errors.Is(err, backends.Unsupported) {
			return
		}
		if err != nil {
			t.Errorf("abort of %+v: got %v, want success", u, err)
		}
	}
	ups, err := c.allUploads(t.Context(), u.Key)
	if err != nil || u.ID != "" && lists(ups, u.ID) {
		t.Errorf("uploads after %+v was aborted: got %+v, %v, want it gone", u, ups, err)
	}
}

func lists(ups []backends.Upload, id string) bool {
	return slices.ContainsFunc(ups, func(u backends.Upload) bool { return u.ID == id })
}

// made are the uploads to key that other lists and c makes. In a place that others use too, one that is listed without its key is c's only if c itself
// knows the key. When all others are nobody knows whose, none of them is touched, and told is false.
func (b *Bench) made(ctx context.Context, c, other *Client, key string) (ups []backends.Upload, told bool, err error) {
	all, err := other.allUploads(ctx, key)
	if err != nil || !b.r.h.Shared {
		return all, true, err
	}
	known, err := c.Uploads(ctx, key)
	for _, u := range all {
		if u.Key != "" || u.ID != "" && lists(known, u.ID) {
			ups = append(ups, u)
		}
	}
	return ups, len(ups) > 0 || len(all) == 0, err
}

func mpuForeign(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	if _, ok := c.Raw().(backends.UploadLister); !ok {
		if _, err := c.Uploads(t.Context(), ""); !errors.Is(err, backends.Unsupported) {
			t.Errorf("uploads of a driver that does not list them: %s, want unsupported", shown(err))
		}
		return
	}
	p := b.part()
	body := newGate(t, b.Bytes(2*p), p+p/2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		_, _ = c.Put(ctx, "dir/k", body, backends.PutOptions{Size: int64(2 * p)}) // its upload is taken away: it fails
	}()
	b.Wait(body.reached, "the middle of the body")
	var ups []backends.Upload
	b.Until("the upload in the list of another client", func() bool {
		var err error
		told := false
		if ups, told, err = b.made(t.Context(), c, other, "dir/k"); err != nil {
			t.Errorf("list uploads: got %v, want success", err)
		}
		return len(ups) > 0 || !told || t.Failed()
	})
	if len(ups) == 0 {
		t.Logf("uploads are listed without their keys, and others may use the place: none was removed")
	}
	for _, u := range ups {
		if u.Key != "" && u.Key != "dir/k" || u.ID == "" && b.Properties().PendingExpires == 0 {
			t.Errorf("the listing of the upload: got %+v, want its key and an id", u)
		}
		removed(t, other, u)
	}
	if ups, err := other.Uploads(t.Context(), "other/"); err != nil {
		t.Errorf("list uploads: got %v, want success", err)
	} else {
		for _, u := range ups {
			if u.Key != "" {
				t.Errorf("uploads below a prefix of nothing: got %+v, want none", u)
			}
		}
	}
	cancel()
	close(body.open)
	b.Wait(returned, "the return of Put")
	other.Lacks("dir/k")
	if b.Properties().PendingExpires == 0 {
		left, err := other.allUploads(t.Context(), "dir/k")
		if b.r.h.Shared {
			left = slices.DeleteFunc(left, func(u backends.Upload) bool { return u.Key == "" && !lists(ups, u.ID) })
		}
		if err != nil || len(left) > 0 {
			t.Errorf("after all that there are uploads: %s, want none", fmt.Sprint(left, err))
		}
	}
}
