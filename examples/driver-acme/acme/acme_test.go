package acme_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/acme/driver-acme/acme"
	"example.com/acme/driver-acme/suite"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a Store by settings, as the command does. faults may be nil.
func open(t *testing.T, url string, more map[string]string, faults *fault.Plan) *backends.Store {
	t.Helper()
	reg := new(backends.Registry)
	if err := reg.Register(acme.Factory()); err != nil {
		t.Fatal(err)
	}
	props := settings(url)
	props["storage.backend"] = "acme"
	maps.Copy(props, more)
	maps.DeleteFunc(props, func(_, value string) bool { return value == "" })
	var o backends.Options
	if faults != nil {
		o.Env.WrapTransport = faults.Wrap
	}
	s, err := reg.Open(t.Context(), props, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test that looks at it closes it itself
	return s
}

func put(t *testing.T, s *backends.Store, key string, data []byte, o backends.PutOptions) error {
	t.Helper()
	o.Size = int64(len(data))
	_, err := s.Put(t.Context(), key, bytes.NewReader(data), o)
	return err
}

func read(t *testing.T, s *backends.Store, key string) []byte {
	t.Helper()
	obj, err := s.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	data, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPut_KnowsItsOwnObject: the answer to the step that makes the object is lost, and the next attempt finds it there already.
func TestPut_KnowsItsOwnObject(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	for step, size := range map[string]int{fault.Put: 1000, fault.MPUCommit: len(data)} {
		_, url := serve(t)
		plan := fault.NewPlan(suite.Dialect{}, fault.Rule{Step: step, Do: fault.DropResponse{}})
		s := open(t, url, map[string]string{"storage.acme.part.size": "64KiB"}, plan)
		if err := put(t, s, "k", data[:size], backends.PutOptions{IfAbsent: true}); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		if !bytes.Equal(read(t, s, "k"), data[:size]) {
			t.Errorf("%s: other bytes", step)
		}
		if len(plan.Unfired()) > 0 {
			t.Errorf("%s: the fault did not happen", step)
		}
		if ups, err := s.Uploads(t.Context(), ""); err != nil || len(ups) > 0 {
			t.Errorf("%s: left behind: %v, %v", step, ups, err)
		}
		if err := put(t, s, "k", data[:size], backends.PutOptions{IfAbsent: true}); !errors.Is(err, backends.Exists) {
			t.Errorf("%s: a second one: %v, want Exists", step, err)
		}
	}
}

func TestTokens_AreRenewedOnce(t *testing.T) {
	store, url := serve(t)
	plan := fault.NewPlan(suite.Dialect{})
	s := open(t, url, nil, plan)
	if err := put(t, s, "k", []byte("x"), backends.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	store.ExpireTokens()
	var wg sync.WaitGroup
	var bad atomic.Int32
	for range 32 {
		wg.Go(func() {
			if _, err := s.Stat(t.Context(), "k"); err != nil {
				bad.Add(1)
			}
		})
	}
	wg.Wait()
	asked := 0
	for _, e := range plan.Log() {
		if e.Step == fault.Token {
			asked++
		}
	}
	if bad.Load() > 0 || asked != 2 {
		t.Errorf("%d of 32 calls failed, %d tokens were asked for, want 2", bad.Load(), asked)
	}
}

// TestTokens_FailuresAreNotMultiplied: the attempts of a token request are all there are.
func TestTokens_FailuresAreNotMultiplied(t *testing.T) {
	_, url := serve(t)
	for kind, want := range map[fault.ErrorKind]struct {
		code     backends.Code
		requests int
	}{fault.Unavailable: {backends.Unavailable, 3}, fault.Unauthenticated: {backends.Unauthenticated, 1}} {
		plan := fault.NewPlan(suite.Dialect{}, fault.Rule{Step: fault.Token, Times: -1, Do: fault.Status{Kind: kind}})
		s := open(t, url, map[string]string{"storage.acme.max.attempts": "3"}, plan)
		if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, want.code) || len(plan.Log()) != want.requests {
			t.Errorf("%s: %v after %d requests, want %v after %d", kind, err, len(plan.Log()), want.code, want.requests)
		}
	}
}

func TestPause_EndsWithTheContext(t *testing.T) {
	_, url := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	plan := fault.NewPlan(suite.Dialect{}, fault.Rule{Step: fault.Stat, Times: -1, Do: fault.Hook{Name: "busy, and nobody waits", Do: func(http.RoundTripper, *http.Request) (*http.Response, error) {
		time.AfterFunc(20*time.Millisecond, cancel)
		return suite.Dialect{}.Error(fault.Stat, fault.SlowDown), nil
	}}})
	s := open(t, url, map[string]string{"storage.acme.max.retry.delay": "1h"}, plan)
	if _, err := s.Stat(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := len(plan.Log()); n != 2 {
		t.Errorf("%d requests, want the token and one attempt", n)
	}
}

func TestErrors_SayWhatToDo(t *testing.T) {
	_, url := serve(t)
	for name, tt := range map[string]struct {
		settings map[string]string
		code     backends.Code
		text     string
	}{
		"bucket":      {set("storage.acme.bucket", "nobodys"), backends.InvalidArgument, "storage.acme.bucket"},
		"credentials": {set("storage.acme.secret", "another"), backends.Unauthenticated, "storage.acme.secret"},
		"protocol":    {set("storage.acme.url", strings.Replace(url, "http", "https", 1)), backends.InvalidArgument, "storage.acme.url"},
	} {
		s := open(t, url, tt.settings, nil)
		err := s.Probe(t.Context())
		if !errors.Is(err, tt.code) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), "another") {
			t.Errorf("%s: the secret is in the error: %v", name, err)
		}
	}
}

func TestOpen_RefusesWhatCannotWork(t *testing.T) {
	reg := new(backends.Registry)
	if err := reg.Register(acme.Factory()); err != nil {
		t.Fatal(err)
	}
	good := settings("http://127.0.0.1:1")
	good["storage.backend"] = "acme"
	for name, bad := range map[string]map[string]string{
		"no key": set("storage.acme.secret", ""), "two keys": set("storage.acme.credentials.file", "/etc/key.json"), "no URL for tokens": set("storage.acme.token.url", "x"),
		"no URL": set("storage.acme.url", "store"), "no bucket": set("storage.acme.bucket", "a/b"), "no certificates": set("storage.acme.ca.file", "/none"),
		"an unknown key": set("storage.acme.sekret", "x"), "small parts": set("storage.acme.part.size", "3"),
	} {
		props := maps.Clone(good)
		maps.Copy(props, bad)
		maps.DeleteFunc(props, func(_, value string) bool { return value == "" })
		if _, err := reg.Open(t.Context(), props, backends.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A redirect is no answer of the store: nothing is sent to where it points.
func TestRedirects_AreNotFollowed(t *testing.T) {
	_, url := serve(t)
	plan := fault.NewPlan(suite.Dialect{}, fault.Rule{Step: fault.Get, Do: fault.Redirect{URL: "http://192.0.2.1/"}})
	s := open(t, url, nil, plan)
	if _, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()}); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("got %v", err)
	}
	if n := len(plan.Log()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// TestCredentials_FileIsReadForEachToken: the key is replaced while the driver runs; errors name the file and show nothing of it.
func TestCredentials_FileIsReadForEachToken(t *testing.T) {
	store, url := serve(t)
	file := filepath.Join(t.TempDir(), "key.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"key_id": "key", "secret": "of yesterday"}`)
	s := open(t, url, map[string]string{"storage.acme.key.id": "", "storage.acme.secret": "", "storage.acme.credentials.file": file}, nil)
	for _, text := range []string{`{"key_id": "key", "secret": "of yesterday"}`, `{"key_id": "key"}`, `of yesterday`} {
		write(text)
		if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, backends.Unauthenticated) || !strings.Contains(err.Error(), "storage.acme.credentials.file") || strings.Contains(err.Error(), "yesterday") {
			t.Errorf("%s: %v", text, err)
		}
	}
	write(`{"key_id": "key", "secret": "secret"}`)
	if err := put(t, s, "k", []byte("x"), backends.PutOptions{}); err != nil {
		t.Errorf("with the new key: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "k"); err != nil {
		t.Errorf("with a token that still holds: %v", err)
	}
	store.ExpireTokens()
	if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, backends.Unauthenticated) || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
}
