package testbed

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// SlowS3 is a server that thinks before it answers.
type SlowS3 struct {
	*S3

	hold atomic.Int64 // nanoseconds
	held atomic.Int64
}

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
	proxy := &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is part of what the client has signed
	}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hold := time.Duration(slow.hold.Load()); hold > 0 {
			slow.held.Add(1)
			timer := time.NewTimer(hold)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		tr.CloseIdleConnections()
	})
	slow.S3 = &S3{Name: s.Name + "-slow", Endpoint: srv.URL, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
	return slow
}
