package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// running is a server that answers on a port.
type running struct {
	*Server
	url  string
	stop context.CancelFunc
	done chan error
}

func start(t testing.TB, s *Server, change ...func(*Listeners)) *running {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ls := Listeners{API: l}
	for _, f := range change {
		f(&ls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Server: s, url: "http://" + l.Addr().String(), stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Serve(ctx, ls) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	})
	return r
}

// client is one without connections of other tests.
func client(t testing.TB, c *tls.Config) *http.Client {
	tr := &http.Transport{TLSClientConfig: c}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// reply is an answer that was read as far as it came.
type reply struct {
	status, protocol int
	length           int64
	body             []byte
}

func send(t testing.TB, c *http.Client, method, url string, body any) (reply, error) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.ProtoMajor, resp.ContentLength, got}, err
}

func TestHTTP_ABrokenStreamEndsShortOfItsLengthAndItsConnection(t *testing.T) {
	fails := true
	f := &fake{fetch: func(context.Context, remotelog.SegmentMetadata, int64, int64) (io.ReadCloser, error) {
		half := io.Reader(bytes.NewReader(make([]byte, 1<<20)))
		if fails {
			half = io.MultiReader(io.LimitReader(half, 600_000), &failing{errors.New("the store broke")})
		}
		return io.NopCloser(half), nil
	}}
	r := start(t, open(t, f))
	c := client(t, nil)
	seg := someSegment(1 << 20)
	got, err := send(t, c, "POST", r.url+"/v1/fetch", seg.fetch(0, 1<<20-1))
	if !errors.Is(err, io.ErrUnexpectedEOF) || got.length != 1<<20 || len(got.body) >= 1<<20 {
		t.Errorf("%d bytes of %d, %v: want io.ErrUnexpectedEOF", len(got.body), got.length, err)
	}
	fails = false
	seg = someSegment(1 << 20)
	if got, err = send(t, c, "POST", r.url+"/v1/fetch", seg.fetch(0, 1<<20-1)); err != nil || len(got.body) != 1<<20 {
		t.Errorf("the next call: %d bytes, %v", len(got.body), err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestHTTP_AClientThatLeavesEndsTheCall(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	f := &fake{fetch: func(ctx context.Context, _ remotelog.SegmentMetadata, _, _ int64) (io.ReadCloser, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}}
	r := start(t, open(t, f))
	ctx, cancel := context.WithCancel(t.Context())
	req := request(t, ctx, "POST", "/", someSegment(10).fetch(0, 9))
	req.RequestURI = ""
	req.URL.Scheme, req.URL.Host, req.URL.Path = "http", strings.TrimPrefix(r.url, "http://"), "/v1/fetch"
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := client(t, nil).Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("answer %d", resp.StatusCode)
	}
	<-ended
}

func TestHTTP_EveryCallNeedsTheToken(t *testing.T) {
	s := open(t, &fake{}, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "some_metric 1\n") })
	})
	id := remotelog.NewUUID().String()
	for _, path := range []string{
		"POST /v1/copies", "GET /v1/copies/" + id, "PUT /v1/copies/" + id + "/files/log", "DELETE /v1/copies/" + id, "POST /v1/fetch",
		"POST /v1/index/offset", "POST /v1/delete", "GET /v1/ready", "GET /metrics", "GET /", "GET /v2/health", "POST /v1/health",
	} {
		method, p, _ := strings.Cut(path, " ")
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "x", "bearer " + token, "Basic " + token, token} {
			r := httptest.NewRequestWithContext(t.Context(), method, p, nil)
			if auth != "" {
				r.Header.Set("Authorization", auth)
			}
			w := serveRequest(s, r)
			if w.Code != http.StatusForbidden || kindIn(t, w) != KindForbidden || w.Header().Get("Tierkit-Protocol") != "1" {
				t.Errorf("%s with %q: %d %s", path, auth, w.Code, w.Body)
			}
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/health", nil)
	if w := serveRequest(s, r); w.Code != 200 || w.Body.String() != `{"protocol":1}` {
		t.Errorf("health without a token: %d %s", w.Code, w.Body)
	}
	if w := ask(t, s, "GET", "/v1/health", nil); !strings.Contains(w.Body.String(), `"brokerId":1,"deletes":"/`) {
		t.Errorf("health: %s", w.Body)
	}
	want(t, ask(t, s, "GET", "/v1/fetch", nil), 404, KindUnknownPath)
	want(t, ask(t, s, "GET", "/v1/copies/x", nil), 404, KindUnknownPath)
	if w := ask(t, s, "GET", "/metrics", nil); w.Body.String() != "some_metric 1\n" {
		t.Errorf("metrics: %s", w.Body)
	}
	// The second address has three paths, without a token.
	for path, status := range map[string]int{"/metrics": 200, "/v1/health": 200, "/v1/ready": 503, "/v1/copies/" + id: 404, "/v1/fetch": 404} {
		w := httptest.NewRecorder()
		s.MetricsHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if w.Code != status {
			t.Errorf("second address, %s: %d, want %d", path, w.Code, status)
		}
	}
}

func TestHTTP_BodiesAreBounded(t *testing.T) {
	s := open(t, &fake{})
	r := request(t, t.Context(), "POST", "/v1/fetch", nil)
	r.ContentLength = -1
	want(t, serveRequest(s, r), http.StatusLengthRequired, KindInvalidArgument)
	r = request(t, t.Context(), "POST", "/v1/fetch", nil)
	r.ContentLength = maxJSON + 1
	want(t, serveRequest(s, r), http.StatusRequestEntityTooLarge, KindInvalidArgument)
	r = request(t, t.Context(), "POST", "/v1/fetch", []byte("{}"))
	r.ContentLength = 100
	want(t, serveRequest(s, r), http.StatusRequestTimeout, KindTimeout)
}

func TestHTTP_OnlyVersionOneOfTheProtocol(t *testing.T) {
	cert, pool := certificate(t, "localhost")
	r := start(t, open(t, &fake{}), func(l *Listeners) {
		l.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	})
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	got, err := send(t, &http.Client{Transport: tr}, "GET", strings.Replace(r.url, "http:", "https:", 1)+"/v1/health", nil)
	if err != nil || got.protocol != 1 {
		t.Errorf("HTTP/%d, %v: want HTTP/1.1", got.protocol, err)
	}
}

// A disk that hangs holds what reads from it, whatever is cancelled.
func TestClose_HasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		hang := func() error { <-answers; return io.ErrUnexpectedEOF }
		s, err := Open(t.Context(), Options{Token: token, StateDir: t.TempDir(), DeriveLogDirs: true, Logger: logger(t), Segments: &fake{
			copy: func(context.Context, remotelog.SegmentMetadata, remotelog.SegmentData) (remotelog.CustomMetadata, error) {
				return nil, hang()
			},
			delete: func(context.Context, remotelog.SegmentMetadata) error { return hang() },
			index: func(context.Context, remotelog.SegmentMetadata, remotelog.IndexType) (io.ReadCloser, error) {
				return nil, hang()
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, Listeners{API: newPipes(), Ending: Drain, StopTimeout: time.Second}) }()
		seg, gone, ordered := newSegment(t, "orders", 100), someSegment(10), someSegment(10)
		ask(t, s, "POST", "/v1/copies", seg.body)
		ask(t, s, "POST", "/v1/delete", map[string]any{"segment": gone.wire()})
		ask(t, s, "POST", "/v1/delete", map[string]any{"segment": ordered.wire(), "journal": true})
		go ask(t, s, "POST", "/v1/index/offset", map[string]any{"segment": gone.wire()})
		synctest.Wait()
		began := time.Now()
		end()
		if err := <-served; err == nil || !strings.Contains(err.Error(), "1 calls did not end") || time.Since(began) > closeTime {
			t.Errorf("Serve: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		err = s.Close()
		if err == nil || time.Since(began) != closeTime {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		for _, want := range []string{"copies of " + seg.md.ID.String(), "deletes of " + gone.md.ID.String(), "orders to delete of " + ordered.md.ID.String(), "1 calls"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
		}
		if _, err := durable.Lock(s.state.dir); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("another daemon: %v, want ErrLocked", err)
		}
		close(answers)
		synctest.Wait()
		if err := s.state.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTLS_ClientsNeedACertificateWhereThatIsSet(t *testing.T) {
	dir := t.TempDir()
	server, serverPool := certificate(t, "localhost")
	mine, _ := certificate(t, "broker")
	other, _ := certificate(t, "stranger")
	c := Config{
		CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"), ClientCAFile: filepath.Join(dir, "ca.pem"),
	}
	writePEM(t, server, c.CertFile, c.KeyFile)
	writePEM(t, mine, c.ClientCAFile, "")
	conf, err := c.TLSConfig(t.Context(), logger(t))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, open(t, &fake{}), func(l *Listeners) { l.TLS = conf })
	url := strings.Replace(r.url, "http:", "https:", 1) + "/v1/health"
	for name, tc := range map[string]struct {
		certs []tls.Certificate
		ok    bool
	}{"none": {}, "ours": {[]tls.Certificate{mine}, true}, "a stranger's": {[]tls.Certificate{other}, false}} {
		_, err := send(t, client(t, &tls.Config{RootCAs: serverPool, ServerName: "localhost", Certificates: tc.certs, MinVersion: tls.VersionTLS12}), "GET", url, nil)
		if (err == nil) != tc.ok {
			t.Errorf("certificate %s: %v", name, err)
		}
	}
	if got, err := send(t, client(t, nil), "GET", r.url+"/v1/health", nil); err == nil && got.status == 200 {
		t.Error("plain HTTP was answered")
	}
	for name, bad := range map[string]Config{
		"no file": {CertFile: "none", KeyFile: "none"}, "no key": {CertFile: c.CertFile, KeyFile: c.CertFile},
		"no certificate of clients": {CertFile: c.CertFile, KeyFile: c.KeyFile, ClientCAFile: c.KeyFile},
	} {
		if _, err := bad.TLSConfig(t.Context(), logger(t)); err == nil || !strings.Contains(err.Error(), "tierkit.tls.") {
			t.Errorf("%s: %v, want the name of a setting", name, err)
		}
	}
}

func TestServe_AStopLetsRunningCopiesFinish(t *testing.T) {
	b := newBlocked()
	log := &testWriter{t: t}
	s := open(t, b, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	r := start(t, s, func(l *Listeners) { l.StopTimeout = time.Minute })
	c := client(t, nil)
	seg := newSegment(t, "orders", 1000)
	if _, err := send(t, c, "POST", r.url+"/v1/copies", seg.body); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for !stopping(s) {
		runtime.Gosched()
	}
	if got, err := send(t, c, "POST", r.url+"/v1/copies", newSegment(t, "orders", 10).body); err != nil || got.status != 503 {
		t.Errorf("a new copy: %+v, %v, want closed", got, err)
	}
	if got, err := send(t, c, "GET", r.url+"/v1/ready", nil); err != nil || got.status != 503 || !strings.Contains(string(got.body), "stops") {
		t.Errorf("ready: %+v, %v", got, err)
	}
	close(b.letGo)
	heardDone(t, r.url, seg)
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if _, ended, ok := strings.Cut(log.String(), "stopping"); !ok || !strings.Contains(ended, "copiesRunning=1") || !strings.Contains(ended, "stopped") {
		t.Errorf("the log does not tell of it:\n%s", log)
	}
	if _, err := send(t, c, "GET", r.url+"/v1/health", nil); err == nil {
		t.Error("it answers after its end")
	}
}

func stopping(s *Server) bool {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	return s.copies.stopping
}

func TestServe_AStopCancelsWhatTakesTooLong(t *testing.T) {
	b := newBlocked()
	s := open(t, b)
	r := start(t, s, func(l *Listeners) { l.Ending = Cancel })
	seg := newSegment(t, "orders", 1000)
	if _, err := send(t, client(t, nil), "POST", r.url+"/v1/copies", seg.body); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if e, err := os.ReadDir(s.state.copies); err != nil || len(e) != 0 {
		t.Errorf("noted copies: %v, %v", e, err)
	}
}

// BenchmarkFetch is what a plug-in's window costs beside the work of the storage manager: chunks in the cache, over loopback.
func BenchmarkFetch(b *testing.B) {
	for _, window := range []int64{1<<20 + 64<<10, 4 << 20} {
		b.Run(fmt.Sprintf("window=%dKiB", window>>10), func(b *testing.B) {
			const size = 64 << 20
			m := manager(b, new(mem.Space), rsm.Config{MemoryBudgetBytes: 512 << 20})
			seg := newSegment(b, "orders", size)
			data := remotelog.SegmentData{
				Log: remotelog.Bytes(seg.log), OffsetIndex: remotelog.Bytes{}, TimeIndex: remotelog.Bytes{}, ProducerSnapshot: remotelog.Bytes{},
				LeaderEpochs: []byte("0\n1\n0 0\n"),
			}
			if _, err := m.Copy(b.Context(), seg.md, data); err != nil {
				b.Fatal(err)
			}
			r := start(b, open(b, m, func(o *Options) { o.Logger = nil }))
			c := client(b, nil)
			buf := make([]byte, 256<<10)
			b.SetBytes(window)
			b.ReportAllocs()
			i := int64(0)
			for b.Loop() {
				from := i * window % (size - window)
				i++
				fetchWindow(b, c, r.url, seg, from, window, buf)
			}
		})
	}
}

func fetchWindow(b *testing.B, c *http.Client, url string, seg *stored, from, window int64, buf []byte) {
	req := request(b, b.Context(), "POST", "/v1/fetch", seg.fetch(from, from+window-1))
	req.RequestURI, req.URL.Scheme, req.URL.Host = "", "http", strings.TrimPrefix(url, "http://")
	resp, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buf)
	_ = resp.Body.Close()
	if err != nil || n != window {
		b.Fatalf("%d bytes, %v", n, err)
	}
}

// A client that sends a byte before each silence that would end a copy does not keep it alive.
func TestSpool_AFileHasToComeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{}, func(o *Options) { o.DeriveLogDirs = false })
		seg := newSegment(t, "orders", 1000)
		ask(t, s, "POST", "/v1/copies", seg.body)
		r := request(t, t.Context(), "PUT", seg.path()+"/files/log", nil)
		r.Body, r.ContentLength = io.NopCloser(&slowReader{data: string(seg.log), every: silence - time.Second}), 1000
		began := time.Now()
		w := serveRequest(s, r)
		if took := time.Since(began); took > 3*answerTime || w.Code == 204 {
			t.Errorf("%d after %v", w.Code, took)
		}
		time.Sleep(2 * silence)
		w = ask(t, s, "GET", seg.path(), nil)
		if got := stateIn(t, w); got != "cancelled" {
			t.Errorf("the copy is %s", got)
		}
	})
}
