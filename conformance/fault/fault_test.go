package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a dialect of one server with three requests.
type plain struct{}

func (plain) Step(r *http.Request) string {
	return map[string]string{http.MethodPut: Put, http.MethodGet: Get, http.MethodHead: Stat}[r.Method]
}

func (plain) Error(step string, kind ErrorKind) *http.Response {
	if kind == Quota {
		return nil
	}
	return NewResponse(http.StatusServiceUnavailable, string(kind)+" of "+step, "X-Id", "7")
}

// shelf is a server that keeps what it was sent, and counts.
type shelf struct {
	mu   sync.Mutex
	data []byte
	puts int
	errs int // bodies that did not come to their end
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		b, err := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.puts++
		if err != nil {
			s.errs++
			return
		}
		s.data = b
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Length", fmt.Sprint(len(s.data)))
	_, _ = w.Write(s.data)
}

func (s *shelf) state() (data string, puts, errs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.data), s.puts, s.errs
}

// bench is a client of a shelf with a plan in between.
type bench struct {
	*shelf
	plan   *Plan
	client *http.Client
}

func newBench(t *testing.T, rules ...Rule) *bench {
	t.Helper()
	b := &bench{shelf: new(shelf), plan: NewPlan(plain{}, rules...)}
	srv := httptest.NewServer(b.shelf)
	t.Cleanup(srv.Close)
	base := &http.Transport{ResponseHeaderTimeout: 5 * time.Second}
	rt := b.plan.Wrap(base)
	b.client = &http.Client{Transport: at{srv.URL, rt}}
	t.Cleanup(func() { rt.(*Transport).CloseIdleConnections() })
	return b
}

// at sends everything to one address.
type at struct {
	url  string
	next http.RoundTripper
}

func (a at) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, _ = strings.Cut(a.url, "://")
	return a.next.RoundTrip(out)
}

func (b *bench) send(t *testing.T, method, body string) (status int, got string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://x.invalid/k?sig=secret", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func TestPlan_RulesHitTheNthRequestOfTheirStep(t *testing.T) {
	b := newBench(t,
		Rule{Step: Put, Nth: 2, Times: 2, Do: Status{Code: 500, Kind: Internal}},
		Rule{Step: Get, Nth: 2, Times: Forever, Do: Status{Kind: SlowDown}},
		Rule{Nth: 9, Do: Status{Code: 418, Kind: Denied}},
	)
	var got []int
	for _, m := range []string{"PUT", "PUT", "GET", "PUT", "PUT", "GET", "HEAD", "GET", "HEAD", "HEAD"} {
		body := ""
		if m == "PUT" {
			body = "x"
		}
		status, _, err := b.send(t, m, body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if want := "[204 500 200 500 204 503 200 503 418 200]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s\n%s", got, want, b.plan)
	}
	if err := b.plan.Check(); err != nil {
		t.Error(err)
	}
	if b.plan.Count(Put) != 4 || b.plan.Count("") != 10 || b.plan.Fired(0) != 2 || b.plan.Fired(1) != 2 {
		t.Errorf("counts are wrong\n%s", b.plan)
	}
}

func TestPlan_AnUnfiredRuleAndAnUnknownStepFailTheRun(t *testing.T) {
	b := newBench(t, Rule{Step: Get, Nth: 3, Do: DropRequest{}})
	if _, _, err := b.send(t, "GET", ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.send(t, "PATCH", ""); err != nil {
		t.Fatal(err)
	}
	err := b.plan.Check()
	for _, want := range []string{`rule "get#3: DropRequest" never fired`, "PATCH /k is a request that the dialect does not know"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if text := b.plan.String(); strings.Contains(text, "secret") || !strings.Contains(text, "UNKNOWN") {
		t.Errorf("the log:\n%s", text)
	}
	b.plan.Stop()
	for range 4 {
		if _, _, err := b.send(t, "GET", ""); err != nil {
			t.Errorf("a stopped rule fired: %v", err)
		}
	}
}

// TestActions: what the client and the server see of each.
func TestActions(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	reset := syscall.ECONNRESET
	for name, tt := range map[string]struct {
		method, body string
		do           Action
		status       int
		got          string // "": whatever
		err          error
		puts, cut    int
	}{
		"drop request":         {"PUT", "new", DropRequest{}, 0, "", reset, 0, 0},
		"drop response":        {"PUT", "new", DropResponse{}, 0, "", reset, 1, 0},
		"reset of the request": {"PUT", long, Reset{Of: Request, After: 70_000}, 0, "", reset, 1, 1},
		"reset behind the end": {"PUT", "new", Reset{Of: Request, After: 1000}, 0, "", reset, 1, 1},
		"reset of no body":     {"GET", "", Reset{Of: Request}, 0, "", reset, 0, 0},
		"reset of the answer":  {"GET", "", Reset{Of: Response, After: 2}, 200, "ol", reset, 0, 0},
		"reset of the last":    {"GET", "", Reset{Of: Response, After: 2000}, 200, "ol", reset, 0, 0},
		"reset of no answer":   {"HEAD", "", Reset{Of: Response, After: 2}, 0, "", reset, 0, 0},
		"truncate":             {"GET", "", Truncate{After: 1}, 200, "o", io.ErrUnexpectedEOF, 0, 0},
		"truncate and shrink":  {"GET", "", Truncate{After: 1, Shrink: true}, 200, "o", nil, 0, 0},
		"clean EOF":            {"GET", "", CleanEOF{After: 1}, 200, "o", nil, 0, 0},
		"corrupt the answer":   {"GET", "", Corrupt{Of: Response, Offset: 1, Xor: 1}, 200, "omd", nil, 0, 0},
		"corrupt far away":     {"GET", "", Corrupt{Of: Response, Offset: 31}, 200, "omd", nil, 0, 0},
		"corrupt the request":  {"PUT", "abc", Corrupt{Of: Request, Offset: 2, Xor: 2}, 204, "", nil, 1, 0},
		"duplicate":            {"PUT", "new", Duplicate{}, 204, "", nil, 2, 0},
		"status":               {"PUT", "new", Status{Code: 503, Kind: SlowDown}, 503, "slow-down of put", nil, 0, 0},
		"status of a HEAD":     {"HEAD", "", Status{Kind: SlowDown}, 503, "", nil, 0, 0},
		"empty status":         {"GET", "", Status{Code: 504}, 504, "", nil, 0, 0},
		"200 with error":       {"PUT", "new", OK200WithError{Internal}, 200, "internal of put", nil, 0, 0},
		"HTML":                 {"GET", "", HTML502(), 502, HTML502().Body, nil, 0, 0},
		"redirect":             {"PUT", "new", Redirect{Code: 301}, 301, "", nil, 0, 0},
		"close idle":           {"GET", "", CloseIdle{}, 200, "old", nil, 0, 0},
		"stall of the answer":  {"GET", "", StallBody{Of: Response, After: 1, For: time.Millisecond}, 200, "old", nil, 0, 0},
		"stall of the request": {"PUT", "abc", StallBody{Of: Request, After: 1, For: time.Millisecond}, 204, "", nil, 1, 0},
		"slow request":         {"PUT", "abc", Slow{Of: Request, BytesPerSec: 1000}, 204, "", nil, 1, 0},
		"slow answer":          {"GET", "", Slow{Of: Response, BytesPerSec: 1000}, 200, "old", nil, 0, 0},
		"late answer":          {"GET", "", StallHeaders{For: time.Millisecond}, 200, "old", nil, 0, 0},
		"hook":                 {"GET", "", Hook{"none", func(next http.RoundTripper, r *http.Request) (*http.Response, error) { return next.RoundTrip(r) }}, 200, "old", nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Rule{Do: tt.do})
			b.data = []byte("old")
			status, got, err := b.send(t, tt.method, tt.body)
			if status != tt.status || !errors.Is(err, tt.err) || tt.got != "" && got != tt.got {
				t.Errorf("got %d %q %v, want %d %q %v\n%s", status, got, err, tt.status, tt.got, tt.err, b.plan)
			}
			data, puts, cut := b.state()
			if cut == 0 && tt.cut == 1 { // the server may see the end of the connection later than we do
				_, _, _ = b.send(t, "GET", "")
			}
			if puts > tt.puts || puts < tt.puts-tt.cut {
				t.Errorf("the server saw %d requests, want %d", puts, tt.puts)
			}
			want := "old"
			switch {
			case name == "corrupt the request":
				want = "aba"
			case tt.puts > tt.cut:
				want = tt.body
			}
			if data != want {
				t.Errorf("the server holds %.20q, want %q", data, want)
			}
			if err := b.plan.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestActions_TheNextRequestIsNotHit, and the connection's state does not spoil it.
func TestActions_TheNextRequestIsNotHit(t *testing.T) {
	for _, do := range []Action{DropRequest{}, DropResponse{}, Reset{Request, 1}, Reset{Response, 1}, Truncate{After: 1}, CleanEOF{1}, Duplicate{}, Status{Kind: Internal}} {
		b := newBench(t, Rule{Do: do})
		_, _, _ = b.send(t, "PUT", "first")
		if status, _, err := b.send(t, "PUT", "second"); err != nil || status != 204 {
			t.Errorf("%s: the next request: %d, %v", do, status, err)
		}
		if data, _, _ := b.state(); data != "second" {
			t.Errorf("%s: the server holds %q", do, data)
		}
	}
}

func TestActions_HugeBodyComesAsItIsRead(t *testing.T) {
	b := newBench(t, Rule{Step: Get, Do: HugeErrorBody(500)})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.invalid/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 100)
	_ = resp.Body.Close()
	if e := b.plan.Log()[0]; e.Got != 100 || e.Status != 500 || resp.ContentLength != 10<<20 {
		t.Errorf("announced %d, %+v", resp.ContentLength, e)
	}
}

func TestActions_DateAndRetryAfter(t *testing.T) {
	b := newBench(t, Rule{Step: Get, Do: ShiftDate{By: -time.Hour}}, Rule{Step: Put, Do: Status{Kind: SlowDown, RetryAfter: 1500 * time.Millisecond}})
	for method, check := range map[string]func(h http.Header) bool{
		"GET": func(h http.Header) bool {
			at, err := http.ParseTime(h.Get("Date"))
			return err == nil && time.Since(at) > 59*time.Minute && time.Since(at) < 62*time.Minute
		},
		"PUT": func(h http.Header) bool { return h.Get("Retry-After") == "2" },
	} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://x.invalid/k", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !check(resp.Header) {
			t.Errorf("%s: %v", method, resp.Header)
		}
	}
}

// TestStalls_EndWithTheClientsOwnTimeouts: that is what they are there to see.
func TestStalls_EndWithTheClientsOwnTimeouts(t *testing.T) {
	b := newBench(t, Rule{Do: StallHeaders{}})
	rt := b.plan.Wrap(&http.Transport{ResponseHeaderTimeout: 20 * time.Millisecond})
	defer rt.(*Transport).CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://x.invalid/k", strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		t.Errorf("got %v, want the timeout of the transport", err)
	}
	if e := b.plan.Log()[0]; e.Sent != 3 || e.Ended == 0 {
		t.Errorf("the log: %+v", e)
	}
}

func TestStalls_EndWithTheRequest(t *testing.T) {
	for _, do := range []Action{StallHeaders{}, StallBody{Of: Request, After: 1}, StallBody{Of: Response, After: 1}, StallHeaders{For: time.Hour}, Slow{Request, 1}, Slow{Response, 1}} {
		b := newBench(t, Rule{Step: Put, Do: do}, Rule{Step: Get, Do: do})
		b.data = []byte("old")
		method := http.MethodGet
		if strings.Contains(do.String(), "(request") {
			method = http.MethodPut
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, method, "http://x.invalid/k", strings.NewReader("a body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.client.Do(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", do, err)
		}
	}
}

func TestEvents_TellOrders(t *testing.T) {
	b := newBench(t)
	if _, _, err := b.send(t, "PUT", "abc"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.send(t, "GET", ""); err != nil {
		t.Fatal(err)
	}
	log := b.plan.Log()
	if len(log) != 2 || log[0].Ended >= log[1].Began || log[0].Sent != 3 || log[1].Got != 3 || log[1].Ended == 0 || log[0].Rule != -1 {
		t.Errorf("the log:\n%s", b.plan)
	}
}

func TestRandom_TheSameSeedGivesTheSameRules(t *testing.T) {
	steps := []string{Put, Get, Stat}
	text := func(seed uint64) string { return fmt.Sprint(Random(seed, steps)) }
	differ := false
	for seed := range uint64(200) {
		n := len(Random(seed, steps))
		if n < 3 || n > 10 || text(seed) != text(seed) {
			t.Fatalf("seed %d: %s", seed, text(seed))
		}
		differ = differ || text(seed) != text(seed+1)
	}
	if !differ {
		t.Error("all seeds give the same rules")
	}
}

// TestHandlerTransport_RunsInABubble: an hour passes in no time.
func TestHandlerTransport_RunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{data: bytes.Repeat([]byte("x"), 300_000)}
		base := HandlerTransport(s)
		plan := NewPlan(plain{}, Rule{Step: Get, Do: StallHeaders{For: time.Hour}})
		rt := plan.Wrap(base).(*Transport)
		defer rt.CloseIdleConnections()
		began := time.Now()
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x.invalid/k", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); len(b) != len(s.data) || err != nil {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			_ = resp.Body.Close()
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("took %s", took)
		}
	})
}

// A status of 0 in a report would be read as one that was sent.
func TestStatus_String(t *testing.T) {
	for want, a := range map[string]Status{
		"Status(unavailable)": {Kind: Unavailable}, "Status(500, internal)": {Code: 500, Kind: Internal}, "Status(slow-down, retry after 1s)": {Kind: SlowDown, RetryAfter: time.Second},
	} {
		if a.String() != want {
			t.Errorf("got %s, want %s", a, want)
		}
	}
}
