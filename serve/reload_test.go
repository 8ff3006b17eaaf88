package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestToken_IsReadAgainWhenItsFileChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			t.Helper()
			next := file + ".new"
			if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, file); err != nil {
				t.Fatal(err)
			}
		}
		write(token + "\n")
		s := open(t, &fake{}, func(o *Options) { o.TokenFile = file })
		status := func(token string) int {
			r := request(t, t.Context(), "POST", "/v1/nothing", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			return serveRequest(s, r).Code
		}
		expect := func(when, good, bad string) {
			t.Helper()
			time.Sleep(lookEvery)
			synctest.Wait()
			if got := status(good); got != 404 {
				t.Errorf("%s: the token: %d, want that it is taken", when, got)
			}
			if got := status(bad); got != 403 {
				t.Errorf("%s: the other: %d, want 403", when, got)
			}
		}
		const next = "another-token-0123456789"
		expect("at first", token, next)
		write(next)
		expect("after a change", next, token)
		write("short")
		expect("after one that is no token", next, "short")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		expect("without the file", next, token)
		write(token)
		expect("after the first one came back", token, next)
	})
}

// A disk that does not answer holds the one who looks at the file, and no call.
func TestToken_AFileThatCannotBeReadForNowHoldsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		r := &reloaded[string]{what: "token", files: []string{t.TempDir()}, log: logger(t)}
		r.read = func() (string, error) { <-answers; return "new", nil }
		r.value.Store(new("old"))
		ctx, end := context.WithCancel(t.Context())
		go r.follow(ctx)
		time.Sleep(time.Minute)
		if got := r.get(); got != "old" {
			t.Errorf("%q, want what was known", got)
		}
		close(answers)
		synctest.Wait()
		if got := r.get(); got != "new" {
			t.Errorf("%q, once the disk answers", got)
		}
		end()
	})
}

func TestTLS_CertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := Config{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
		first, _ := certificate(t, "localhost")
		second, _ := certificate(t, "localhost")
		writePEM(t, first, c.CertFile, c.KeyFile)
		conf, err := c.TLSConfig(t.Context(), logger(t))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want tls.Certificate) {
			t.Helper()
			time.Sleep(lookEvery)
			synctest.Wait()
			got, err := conf.GetConfigForClient(nil)
			if err != nil || !bytes.Equal(got.Certificates[0].Certificate[0], want.Certificate[0]) {
				t.Errorf("%s: the other certificate is used, %v", when, err)
			}
		}
		expect("at first", first)
		key, err := os.ReadFile(c.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, second, c.CertFile, c.KeyFile)
		newKey, err := os.ReadFile(c.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.KeyFile, key, 0o600); err != nil { // half of the change
			t.Fatal(err)
		}
		expect("with a certificate of another key", first)
		if err := os.WriteFile(c.KeyFile, newKey, 0o600); err != nil {
			t.Fatal(err)
		}
		expect("after the change", second)
	})
}

// What is sent has a bound for all copies together, and a copy gets all of its room or none.
func TestSpool_HasABound(t *testing.T) {
	s := open(t, newBlocked(), func(o *Options) { o.DeriveLogDirs, o.SpoolBytes = false, 2500 })
	first, second, large := newSegment(t, "orders", 2000), newSegment(t, "orders", 2000), newSegment(t, "orders", 3000)
	if got := stateIn(t, ask(t, s, "POST", "/v1/copies", first.body)); got != "wants" {
		t.Fatalf("state %s", got)
	}
	want(t, ask(t, s, "POST", "/v1/copies", second.body), 503, KindThrottled)
	want(t, ask(t, s, "POST", "/v1/copies", large.body), 500, KindFailed)
	ask(t, s, "POST", "/v1/copies", first.body) // finds itself, and counts once
	ask(t, s, "DELETE", first.path(), nil)
	if got := finish(t, s, first); got["state"] != "cancelled" {
		t.Fatalf("%v", got)
	}
	if got := stateIn(t, ask(t, s, "POST", "/v1/copies", second.body)); got != "wants" {
		t.Errorf("after the first has ended: %s", got)
	}
}
