package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// behind starts a server with a proxy in front and returns a client of the proxy.
func behind(t *testing.T, h http.Handler, plan *Plan, secure bool) (*Proxy, func(method, body string) (int, string, error)) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	start, scheme := srv.Start, "http"
	if secure {
		start, scheme = srv.StartTLS, "https"
	}
	start()
	t.Cleanup(srv.Close)
	p, err := NewProxy(t.Context(), srv.Listener.Addr().String(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	conf := &tls.Config{InsecureSkipVerify: true}
	tr := &http.Transport{ResponseHeaderTimeout: 100 * time.Millisecond, TLSClientConfig: conf, TLSHandshakeTimeout: 100 * time.Millisecond}
	t.Cleanup(tr.CloseIdleConnections)
	return p, func(method, body string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+p.Addr()+"/k", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "" {
			req.Body = nil
		}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data), err
	}
}

func TestProxy_DoesToConnectionsWhatThePlanSays(t *testing.T) {
	timeout := errors.New("a timeout")
	for name, tt := range map[string]struct {
		method, body string
		do           Action
		status       int
		got          string
		err          error
	}{
		"untouched put":   {"PUT", "new", CloseIdle{}, 204, "", nil},
		"untouched get":   {"GET", "", CloseIdle{}, 200, "old", nil},
		"untouched head":  {"HEAD", "", CloseIdle{}, 200, "", nil},
		"forged":          {"PUT", "new", Status{Kind: Internal}, 503, "internal of put", nil},
		"drop request":    {"PUT", "new", DropRequest{}, 0, "", syscall.ECONNRESET},
		"drop response":   {"GET", "", DropResponse{}, 0, "", syscall.ECONNRESET},
		"reset answer":    {"GET", "", Reset{Of: Response, After: 1}, 200, "", syscall.ECONNRESET},
		"truncated":       {"GET", "", Truncate{After: 1}, 200, "o", io.ErrUnexpectedEOF},
		"silent":          {"GET", "", StallHeaders{}, 0, "", timeout},
		"request stalled": {"PUT", "new", StallBody{Of: Request, After: 1}, 0, "", timeout},
	} {
		t.Run(name, func(t *testing.T) {
			plan := NewPlan(plain{}, Rule{Do: tt.do})
			_, send := behind(t, &shelf{data: []byte("old")}, plan, false)
			status, got, err := send(tt.method, tt.body)
			ok := errors.Is(err, tt.err)
			if tt.err == timeout {
				ok = isTimeout(err)
			}
			if status != tt.status || got != tt.got && tt.got != "" || !ok {
				t.Errorf("got %d %q %v, want %d %q %v\n%s", status, got, err, tt.status, tt.got, tt.err, plan)
			}
			if err := plan.Check(); err != nil {
				t.Error(err)
			}
			if status, _, err := send("GET", ""); status != 200 || err != nil {
				t.Errorf("the next request: %d, %v", status, err)
			}
		})
	}
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func TestProxy_Links(t *testing.T) {
	for name, tt := range map[string]struct {
		link   Link
		secure bool
		ok     bool
		want   func(error) bool
	}{
		"through":          {Link{}, false, true, nil},
		"through, TLS":     {Link{}, true, true, nil},
		"handshake cut":    {Link{DownAfter: 100}, true, false, func(err error) bool { return !isTimeout(err) }},
		"request cut":      {Link{UpAfter: 20}, false, false, func(err error) bool { return !isTimeout(err) }},
		"answer cut":       {Link{DownAfter: 20}, false, false, func(err error) bool { return !isTimeout(err) }},
		"silent":           {Link{Silent: true}, false, false, isTimeout},
		"silent, TLS":      {Link{Silent: true}, true, false, isTimeout},
		"one way":          {Link{Half: true}, false, false, isTimeout},
		"request stops":    {Link{UpStop: 20}, false, false, isTimeout},
		"answer stops":     {Link{DownStop: 20}, false, false, isTimeout},
		"slow but through": {Link{PerSec: 50_000}, false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, send := behind(t, &shelf{data: []byte("old")}, nil, tt.secure)
			p.SetLink(tt.link)
			_, got, err := send("GET", "")
			if tt.ok && (got != "old" || err != nil) || !tt.ok && (err == nil || !tt.want(err)) {
				t.Errorf("got %q, %v", got, err)
			}
			p.SetLink(Link{})
			if _, got, err := send("GET", ""); got != "old" || err != nil {
				t.Errorf("the next connection: %q, %v", got, err)
			}
		})
	}
}

func TestProxy_RefusesAndCuts(t *testing.T) {
	p, send := behind(t, &shelf{data: []byte("old")}, nil, false)
	if _, _, err := send("GET", ""); err != nil {
		t.Fatal(err)
	}
	p.CutAll()
	p.Refuse(true)
	if _, _, err := send("PUT", "x"); err == nil {
		t.Error("a refused connection gave an answer")
	}
	p.Refuse(false)
	if _, _, err := send("GET", ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if p.Connections() != 2 {
		t.Errorf("%d connections", p.Connections())
	}
}

func TestUnanswered_ConnectingNeverEnds(t *testing.T) {
	addr, end, err := Unanswered(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = c.Close()
		t.Fatal("connected")
	}
	if !isTimeout(err) {
		t.Errorf("got %v", err)
	}
}
