package conformance

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func credCases() []Case {
	return []Case{
		{ID: "cred/wrong", Rule: "Wrong credentials are Unauthenticated, after two requests at most, whatever the operation.", Needs: overHTTP, Uses: []Facility{UsesWrongCredentials}, Run: credWrong},
		{ID: "cred/none", Rule: "Without credentials Open or the first call says what is missing, and no request goes out unsigned.", Needs: overHTTP, Uses: []Facility{UsesNoCredentials}, Run: credNone},
		{ID: "cred/expired-refreshes", Rule: "A token that has run out is renewed once, however many operations want it.", Level: Driver, Needs: overHTTP, Uses: []Facility{UsesTokenServer}, Run: credRefreshes},
		{ID: "cred/refresh-fails", Rule: "A renewal that fails does not touch operations whose token still holds.", Level: Driver, Needs: overHTTP, Uses: []Facility{UsesTokenServer}, Run: credRefreshFails},
		{ID: "cred/rotated-file", Rule: "Credentials in a file that changes are used without a restart.", Level: Driver, Needs: overHTTP, Uses: []Facility{UsesCredentialsFile}, Run: credRotated},
		{
			ID: "cred/denied-write-allowed-read", Rule: "Credentials that may only read: Put and Delete are Denied, nothing is left, and Get and List go on.", Needs: overHTTP,
			Uses: []Facility{UsesReadOnly}, Run: credReadOnly,
		},
		{ID: "clock/skew-16min", Rule: "A clock that is 16 minutes off is corrected, or ClockSkew: it does not look like missing permissions.", Needs: overHTTP, Run: clockSkew},
		{ID: "clock/jump", Rule: "A clock that jumps back an hour during an upload ends nothing and hangs nothing.", Run: clockJump},
		{ID: "bucket/missing", Rule: "A missing bucket is InvalidArgument with its name, from Open or from any call: it is never NotFound.", Uses: []Facility{UsesMissingBucket}, Run: bucketMissing},
	}
}

// eachCall opens a client and calls put, get, stat, delete and list. When it does not open, that is the only error.
func (b *Bench) eachCall(o ClientOptions) map[string]error {
	c, err := b.Open(b.t.ctx, o)
	if err != nil {
		return map[string]error{"open": err}
	}
	out := map[string]error{}
	_, out["put"] = c.Put(b.t.ctx, "k", plain([]byte("x")), backends.PutOptions{Size: 1})
	obj, err := c.Get(b.t.ctx, "k", backends.GetOptions{Range: backends.All()})
	if err == nil {
		_ = obj.Body.Close() // the case looks at the error
	}
	out["get"] = err
	_, out["stat"] = c.Stat(b.t.ctx, "k")
	out["delete"] = c.Delete(b.t.ctx, "k")
	out["list"] = c.Lists(b.t.ctx, "", func(backends.Info) {})
	if _, ok := c.Raw().(backends.Prober); ok {
		out["probe"] = c.Probe(b.t.ctx)
	}
	return out
}

func credWrong(t T, b *Bench) {
	b.Client().Write("k", []byte("x"))
	mark := b.Mark()
	errs := b.eachCall(ClientOptions{Override: b.r.h.Knobs.WrongCredentials})
	for name, err := range errs {
		// The answer to a HEAD has no body: some services tell there no more than 403.
		if code := backends.CodeOf(err); code != backends.Unauthenticated && (name != "stat" || code != backends.Denied) {
			t.Errorf("%s with wrong credentials: %s, want unauthenticated", name, shown(err))
		}
	}
	if n := len(b.Requests(mark)); n > 2*len(errs) {
		t.Errorf("got %d requests for %d calls with credentials that cannot get better, want at most two each", n, len(errs))
	}
}

func credNone(t T, b *Bench) {
	mark := b.Mark()
	for name, err := range b.eachCall(ClientOptions{Override: b.r.h.Knobs.NoCredentials}) {
		if code := backends.CodeOf(err); code != backends.Unauthenticated && code != backends.InvalidArgument {
			t.Errorf("%s without credentials: %s, want unauthenticated", name, shown(err))
		}
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests without credentials: got %v, want none", log)
	}
}

// tokens is a token endpoint.
type tokens struct {
	answer  func(w http.ResponseWriter, holds time.Duration)
	asked   atomic.Int64
	seconds atomic.Int64 // how long the next token holds
	fails   atomic.Bool
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.asked.Add(1)
	if s.fails.Load() {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	s.answer(w, time.Duration(s.seconds.Load())*time.Second)
}

// oauth is the answer of an OAuth 2 token endpoint.
func oauth(w http.ResponseWriter, holds time.Duration) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "conformance", "token_type": "Bearer", "expires_in": int(holds.Seconds())}) // to the network
}

// tokenServer starts a token endpoint, and returns the settings for it.
func (b *Bench) tokenServer(seconds int64) (*tokens, map[string]string) {
	s := &tokens{answer: b.r.h.Knobs.TokenAnswer}
	if s.answer == nil {
		s.answer = oauth
	}
	s.seconds.Store(seconds)
	srv := httptest.NewServer(s)
	b.t.Cleanup(srv.Close)
	over, err := b.r.h.Knobs.TokenServer(srv.URL)
	if err != nil {
		b.t.Fatalf("the settings of the token server: %v", err)
	}
	return s, over
}

func (b *Bench) tokens(seconds int64) (*tokens, *Client) {
	s, over := b.tokenServer(seconds)
	return s, b.ClientWith(ClientOptions{Override: over})
}

func credRefreshes(t T, b *Bench) {
	b.Client().Write("k", []byte("x"))
	s, c := b.tokens(1)
	c.Info("k")
	if s.asked.Load() == 0 {
		t.Fatalf("got no request for a token, want one")
	}
	pause(t.Context(), 1500*time.Millisecond) // it has run out
	s.seconds.Store(3600)
	before := s.asked.Load()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := c.Stat(t.Context(), "k"); err != nil {
				t.Errorf("stat: got %v, want success", err)
			}
		})
	}
	wg.Wait()
	if n := s.asked.Load() - before; n != 1 {
		t.Errorf("32 operations at the same time asked for a token %d times, want once", n)
	}
}

func credRefreshFails(t T, b *Bench) {
	b.Client().Write("k", []byte("x"))
	s, c := b.tokens(60) // so short that clients renew it ahead of time
	c.Info("k")
	s.fails.Store(true)
	for range 10 {
		if _, err := c.Stat(t.Context(), "k"); err != nil {
			t.Errorf("stat with a token that holds for a minute, while none can be had: got %v, want success", err)
		}
	}
}

func credRotated(t T, b *Bench) {
	b.Client().Write("k", []byte("x"))
	path := filepath.Join(t.TempDir(), "credentials")
	over, err := b.r.h.Knobs.CredentialsFile(path, false)
	if err != nil {
		t.Fatalf("write the credentials: %v", err)
	}
	// A driver that looks at the file every ten seconds of its clock does so after one with a clock that is nine slow.
	c := b.ClientWith(ClientOptions{Override: over, Now: func() time.Time { return b.Now().Add(-9 * time.Second) }})
	if err := c.Lists(t.Context(), "", func(backends.Info) {}); !errors.Is(err, backends.Unauthenticated) {
		t.Errorf("list with wrong credentials: %s, want unauthenticated", shown(err))
	}
	if _, err = b.r.h.Knobs.CredentialsFile(path, true); err != nil {
		t.Fatalf("write the credentials: %v", err)
	}
	left := settles(t.Context(), 3*b.Prompt(), func() []string { // files are not looked at all the time
		if _, err := c.Stat(t.Context(), "k"); err != nil {
			pause(t.Context(), 200*time.Millisecond)
			return []string{err.Error()}
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("calls %s after the new credentials: got %s, want success", 3*b.Prompt(), left[0])
	}
}

func credReadOnly(t T, b *Bench) {
	good := b.Client()
	good.Write("k", []byte("x"))
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.ReadOnly})
	for _, n := range []int{10, 2*b.part() + 10} {
		body := &guarded{t: t, r: plain(b.Bytes(n))}
		_, err := c.Put(t.Context(), "new", body, backends.PutOptions{Size: int64(n)})
		body.over()
		c.Coded("put", err, backends.Denied)
	}
	c.Coded("delete", c.Delete(t.Context(), "k"), backends.Denied)
	good.Lacks("new")
	c.Holds("k", []byte("x"))
	if got := c.Keys(""); !slices.Equal(got, []string{"k"}) {
		t.Errorf("the listing: got %q, want the key k alone", got)
	}
}

func clockSkew(t T, b *Bench) {
	for _, off := range []time.Duration{16 * time.Minute, -16 * time.Minute} {
		c := b.ClientWith(ClientOptions{Now: func() time.Time { return b.Now().Add(off) }})
		if _, err := c.Put(t.Context(), "k", plain([]byte("x")), backends.PutOptions{Size: 1}); err != nil && !errors.Is(err, backends.ClockSkew) {
			t.Errorf("put with a clock that is %s off: %s, want success or clock_skew", off, shown(err))
		}
		if _, err := c.Stat(t.Context(), "k"); err != nil && !errors.Is(err, backends.ClockSkew) && !errors.Is(err, backends.NotFound) {
			t.Errorf("stat with a clock that is %s off: %s, want success or clock_skew", off, shown(err))
		}
	}
}

func clockJump(t T, b *Bench) {
	var jumped atomic.Bool
	c := b.ClientWith(ClientOptions{Now: func() time.Time {
		if jumped.Load() {
			return b.Now().Add(-time.Hour)
		}
		return b.Now()
	}})
	data := b.Bytes(2*b.part() + 10)
	body := newGate(t, data, b.part()+5)
	returned := make(chan error, 1)
	go func() {
		_, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: int64(len(data))})
		returned <- err
	}()
	b.Wait(body.reached, "the middle of the body")
	jumped.Store(true)
	close(body.open)
	if err := <-returned; err != nil {
		t.Errorf("put during which the clock jumped: got %v, want success", err)
		return
	}
	c.Holds("k", data)
	c.Remove("k")
}

func bucketMissing(t T, b *Bench) {
	name := ""
	for _, v := range b.r.h.Knobs.MissingBucket {
		name = v
	}
	for call, err := range b.eachCall(ClientOptions{Override: b.r.h.Knobs.MissingBucket}) {
		// The answer to a HEAD has no body: it cannot tell a missing bucket from a missing object.
		if !errors.Is(err, backends.InvalidArgument) && (call != "stat" || !b.Properties().HTTP) {
			t.Errorf("%s with a bucket that does not exist: %s, want invalid_argument", call, shown(err))
		}
		if errors.Is(err, backends.InvalidArgument) && !strings.Contains(shown(err), filepath.Base(name)) {
			t.Errorf("%s: want an error that names %s, got %v", call, name, err)
		}
	}
}
