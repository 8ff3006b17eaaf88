package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
)

// space opens drivers over one space, whatever the namespace.
func space() Harness {
	s := new(mem.Space)
	return Harness{Seed: 7, Shared: true, Open: func(context.Context, OpenOptions) (backends.Driver, error) {
		return s.Client(mem.Options{}), nil
	}}
}

// runs runs f as a case that runs alone.
func runs(t *testing.T, h Harness, f func(T, *Bench)) Result {
	t.Helper()
	r, err := prepare(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return r.run(t.Context(), job{c: Case{ID: "get/whole", Rule: "The rule.", Serial: true, Run: f}, l: Driver})
}

func TestRun_SeesWhatACaseLeaves(t *testing.T) {
	stop := make(chan struct{})
	dir := t.TempDir()
	var file *os.File
	for name, tc := range map[string]struct {
		f    func(T, *Bench)
		want string // in the result; "" passes
	}{
		"nothing":           {func(_ T, b *Bench) { b.Client().Write("k", nil) }, ""},
		"an error":          {func(t T, _ *Bench) { t.Errorf("it is %d", 5) }, "run_test.go:"},
		"the end":           {func(t T, _ *Bench) { t.FailNow() }, "gave up"},
		"a panic":           {func(T, *Bench) { panic("boom") }, "panic: boom"},
		"a failed clean-up": {func(t T, _ *Bench) { t.Cleanup(func() { t.Fatalf("not clean") }) }, "not clean"},
		"an object": {func(t T, b *Bench) {
			d := b.Client().Driver()
			_, _ = d.Put(t.Context(), "stranger", strings.NewReader(""), backends.PutOptions{})
		}, `got an object "stranger"`},
		"a goroutine":  {func(T, *Bench) { go func() { <-stop }() }, "goroutines are left"},
		"a descriptor": {func(T, *Bench) { file, _ = os.Open("run_test.go") }, "descriptor is still open: "},
		"a temp file":  {func(T, *Bench) { _ = os.WriteFile(filepath.Join(dir, "left"), nil, 0o600) }, "temp file is left: left"},
	} {
		h := space()
		h.TempDir = dir
		res := runs(t, h, tc.f)
		if (res.Outcome == Fail) != (tc.want != "") || !strings.Contains(res.String(), tc.want) {
			t.Errorf("%s: %s\nwant %q", name, res, tc.want)
		}
		if res.Outcome == Fail && (!strings.Contains(res.String(), "the rule: The rule.") || !strings.Contains(res.String(), "^get/whole/driver$ with seed 7")) {
			t.Errorf("%s: the result does not tell the rule and how to run it again: %s", name, res)
		}
	}
	close(stop)
	_ = file.Close()
}

func TestRun_EndsACaseThatHangs(t *testing.T) {
	h := space()
	h.Limits.CaseTimeout = 50 * time.Millisecond
	res := runs(t, h, func(t T, _ *Bench) { <-t.Context().Done() })
	if res.Outcome != Fail || !strings.Contains(res.String(), "want its end within 50ms") || !strings.Contains(res.String(), "run_test.go") {
		t.Errorf("%s", res)
	}
}

// lister claims that an upload is pending.
type lister struct {
	backends.Driver
}

func (lister) ListUploads(context.Context, string) ([]backends.Upload, error) {
	return []backends.Upload{{Key: "k", ID: "u1"}}, nil
}
func (lister) AbortUpload(context.Context, backends.Upload) error { return nil }

type rawText string

func (r rawText) Leftovers(_ context.Context, ns string, keys []string) ([]string, error) {
	return []string{fmt.Sprintf("%s %t %q", string(r), strings.HasPrefix(ns, "tk-"), keys)}, nil
}

func TestRun_LooksForPendingUploads(t *testing.T) {
	h := space()
	inner := h.Open
	h.Open = func(ctx context.Context, o OpenOptions) (backends.Driver, error) {
		d, err := inner(ctx, o)
		return lister{d}, err
	}
	if res := runs(t, h, func(T, *Bench) {}); !strings.Contains(res.String(), "a pending upload is left: got {Key:k ID:u1") {
		t.Errorf("%s", res)
	}
	h = space()
	h.Raw = rawText("a block")
	res := runs(t, h, func(t T, b *Bench) {
		_, _ = b.Client().Put(t.Context(), "bad", iotest.ErrReader(io.ErrClosedPipe), backends.PutOptions{Size: 1})
		b.Client().Write("good", nil)
	})
	if text := res.String(); !strings.Contains(text, "left under the driver: got a block true [\"tk-") || !strings.Contains(text, "/bad\"]") {
		t.Errorf("%s", text)
	}
}

func TestSkips_NameTheProperty(t *testing.T) {
	j := job{c: Case{Needs: multipartOverHTTP}}
	for want, p := range map[string]backends.Properties{
		"the driver's properties exclude it: HTTP is false": {MinPartBytes: 1}, "the driver's properties exclude it: MinPartBytes is 0": {HTTP: true}, "": {HTTP: true, MinPartBytes: 1},
	} {
		if got := j.skips(&Harness{}, p); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func TestRun_DeviationsAreStrict(t *testing.T) {
	h := space()
	h.Deviations = []Deviation{{Case: "get/whole/driver", Reason: "of a lie", Issue: "issue 1"}}
	if res := runs(t, h, func(t T, _ *Bench) { t.Errorf("no") }); res.Outcome != Deviates || res.Why != "of a lie (issue 1)" {
		t.Errorf("%s", res)
	}
	if res := runs(t, h, func(T, *Bench) {}); res.Outcome != Fail || !strings.Contains(res.String(), "take it off the list") {
		t.Errorf("%s", res)
	}
	for _, bad := range []Deviation{{Case: "get/nonsense", Reason: "x"}, {Case: "get/whole"}} {
		h.Deviations = []Deviation{bad}
		if _, err := prepare(t.Context(), h); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestReport_CleansUpWhenItIsCancelled(t *testing.T) {
	s := new(mem.Space)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	var opened atomic.Int64
	n := 0
	err := Report(ctx, Harness{Shared: true, Open: func(context.Context, OpenOptions) (backends.Driver, error) {
		if opened.Add(1) == 30 {
			cancel(cause)
		}
		return s.Client(mem.Options{}), nil
	}}, func(Result) { n++ })
	if !errors.Is(err, cause) || n == 0 || n >= len(Cases()) {
		t.Errorf("got %v after %d results", err, n)
	}
	page, err := s.Client(mem.Options{}).List(t.Context(), backends.ListOptions{})
	if err != nil || len(page.Infos) > 0 {
		t.Errorf("left: %v, %v", page.Infos, err)
	}
}

// TestRun_AnInterruptedCaseEnds: whoever ends a run waits for no step of a case that cannot come any more, and no Put outlives it.
func TestRun_AnInterruptedCaseEnds(t *testing.T) {
	r, err := prepare(t.Context(), space())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := r.run(ctx, job{c: Case{ID: "put/waits", Rule: "The rule.", Serial: true, Run: func(t T, b *Bench) {
		c, body := b.Client(), newGate(t, []byte("bytes"), 3)
		go func() { _, _ = c.Put(t.Context(), "k", body, backends.PutOptions{Size: 5}) }()
		b.Wait(body.reached, "the middle of the body")
		cancel()
		b.Wait(make(chan struct{}), "what never comes")
	}}, l: Driver})
	if text := res.String(); res.Outcome != Fail || len(res.Detail) != 1 || !strings.Contains(text, "want what never comes, got the end of the run before it") {
		t.Errorf("got %s\nwant the end of the wait alone", text)
	}
}

// A report is handed on: to a vendor, into an issue.
func TestWire_ShowsNoSignature(t *testing.T) {
	for in, want := range map[string]string{
		"http://h/b/k?comp=block&sig=secret%3D&sv=1":            "/b/k?comp=block&sig=...&sv=1",
		"http://h/k?X-Amz-Credential=a&X-Amz-Signature=b&x=1&y": "/k?X-Amz-Credential=...&X-Amz-Signature=...&x=1&y",
		"http://h/a%2Fb?q=a%26sig":                              "/a%2Fb?q=a%26sig",
		"http://h/":                                             "/",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := public(u); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestReport_StaysBelowThePrefix(t *testing.T) {
	var mu sync.Mutex
	var outside []string
	s := new(mem.Space)
	h := Harness{Shared: true, Prefix: "tiered/", Only: regexp.MustCompile("^put/"), Open: func(context.Context, OpenOptions) (backends.Driver, error) {
		return watching{s.Client(mem.Options{}), func(key string) {
			mu.Lock()
			defer mu.Unlock()
			if !strings.HasPrefix(key, "tiered/tk-") {
				outside = append(outside, key)
			}
		}}, nil
	}}
	n := 0
	if err := Report(t.Context(), h, func(r Result) {
		n++
		if r.Outcome == Fail {
			t.Errorf("%s", r)
		}
	}); err != nil || n == 0 {
		t.Errorf("%v after %d results", err, n)
	}
	if len(outside) > 0 {
		t.Errorf("put outside of the prefix: %q", outside)
	}
}

// watching tells the keys of Puts.
type watching struct {
	backends.Driver
	put func(key string)
}

func (w watching) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	w.put(key)
	return w.Driver.Put(ctx, key, body, o)
}

func TestReport_SameSeedSameBytes(t *testing.T) {
	var sums [2][]byte
	for i := range sums {
		res := runs(t, space(), func(_ T, b *Bench) { sums[i] = append(b.Bytes(100), byte(b.IntN(256))) })
		if res.Outcome != Pass {
			t.Fatal(res)
		}
	}
	if string(sums[0]) != string(sums[1]) {
		t.Error("the same seed gives other bytes")
	}
}

func TestResult_CanBeReadByOneWhoHasNotSeenTheCode(t *testing.T) {
	h := space()
	inner := h.Open
	h.Open = func(ctx context.Context, o OpenOptions) (backends.Driver, error) {
		forged := func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTeapot, Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://store/bucket/key?x=1", strings.NewReader("12345"))
		if err != nil {
			return nil, err
		}
		req.Header.Set("If-Match", "v1")
		resp, err := o.Env.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return forged(r)
		})).RoundTrip(req)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return inner(ctx, o)
	}
	res := runs(t, h, func(t T, b *Bench) {
		b.Client()
		t.Logf("the store was asked")
		t.Errorf("got 5, want 6")
	})
	text := res.String()
	for _, want := range []string{
		"FAIL get/whole/driver", "the rule: The rule.", "got 5, want 6", "note: the store was asked", "run it again: ^get/whole/driver$ with seed 7",
		"PUT", "/bucket/key?x=1", "{If-Match: v1}", "-> 418 (sent 5, got 2)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the result lacks %q:\n%s", want, text)
		}
	}
}
