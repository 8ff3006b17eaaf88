package testbed

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// SlowS3 is a server that thinks before it answers, and that can be out of reach.
type SlowS3 struct {
	*S3

	hold atomic.Int64 // nanoseconds
	trap atomic.Pointer[trap]
	held atomic.Int64
	away atomic.Bool
	puts atomic.Int64 // held now
	gets atomic.Int64
}

// trap holds some requests until it opens.
type trap struct {
	meant func(r *http.Request) bool
	open  chan struct{}
}

// Catch holds each request from now on that is meant, until release lets all of them go. One whose client leaves before never reaches the server.
func (s *SlowS3) Catch(meant func(r *http.Request) bool) (release func()) {
	tr := &trap{meant, make(chan struct{})}
	s.trap.Store(tr)
	return sync.OnceFunc(func() {
		s.trap.CompareAndSwap(tr, nil)
		close(tr.open)
	})
}

// Holds is how many requests that store something and that read something are held now.
func (s *SlowS3) Holds() (puts, gets int) { return int(s.puts.Load()), int(s.gets.Load()) }

// Away says whether from now on each request's connection is closed without an answer, as if the server were not there.
func (s *SlowS3) Away(yes bool) { s.away.Store(yes) }

// Hold says how long each request from now on is held, before the server sees it.
func (s *SlowS3) Hold(d time.Duration) { s.hold.Store(int64(d)) }

// Held is how many requests were held so far.
func (s *SlowS3) Held() int { return int(s.held.Load()) }

// Slow returns the same server behind a proxy that holds each request for a time. It ends with t.
func (s *S3) Slow(t testing.TB) *SlowS3 {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	slow := &SlowS3{}
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	proxy := &httputil.ReverseProxy{Transport: tr, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Rewrite: func(r *httputil.ProxyRequest) { // clients leave as they like
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is part of what the client has signed
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.away.Load() {
			panic(http.ErrAbortHandler)
		}
		if slow.think(r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		tr.CloseIdleConnections()
	})
	slow.S3 = &S3{Name: s.Name + "-slow", Endpoint: srv.URL, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
	return slow
}

// think holds a request. False: its client has left.
func (s *SlowS3) think(r *http.Request) bool {
	hold, tr := time.Duration(s.hold.Load()), s.trap.Load()
	caught := tr != nil && tr.meant(r)
	if hold == 0 && !caught {
		return true
	}
	s.held.Add(1)
	switch r.Method {
	case http.MethodPut:
		s.puts.Add(1)
		defer s.puts.Add(-1)
	case http.MethodGet:
		s.gets.Add(1)
		defer s.gets.Add(-1)
	}
	if caught {
		return tr.wait(r)
	}
	timer := time.NewTimer(hold)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// wait takes the body first: that a client has left is seen only behind that.
func (tr *trap) wait(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	select {
	case <-tr.open:
		return r.Context().Err() == nil
	case <-r.Context().Done():
		return false
	}
}
