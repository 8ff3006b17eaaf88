package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// How long is waited for an answer that comes, and for one that should not.
const patient, hasty = time.Minute, 100 * time.Millisecond

// behind starts a server with a proxy in front and returns a client of the proxy.
func behind(t *testing.T, h http.Handler, plan *Plan, secure bool) (*Proxy, func(patience time.Duration, method, body string) (int, string, error)) {
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
	transports := map[time.Duration]*http.Transport{}
	for _, patience := range []time.Duration{patient, hasty} {
		conf := &tls.Config{InsecureSkipVerify: true}
		tr := &http.Transport{ResponseHeaderTimeout: patience, TLSClientConfig: conf, TLSHandshakeTimeout: patience}
		t.Cleanup(tr.CloseIdleConnections)
		transports[patience] = tr
	}
	return p, func(patience time.Duration, method, body string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+p.Addr()+"/k", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "" {
			req.Body = nil
		}
		resp, err := (&http.Client{Transport: transports[patience]}).Do(req)
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
			patience := patient
			if tt.err == timeout {
				patience = hasty
			}
			status, got, err := send(patience, tt.method, tt.body)
			ok := errors.Is(err, tt.err)
			if tt.err == timeout {
				ok = isTimeout(err)
			}
			if status != tt.status || got != tt.got && tt.got != "" || !ok {
				t.Errorf("got %d %q %v, want %d %q %v\n%s", status, got, err, tt.status, tt.got, tt.err, plan)
			}
			for patience == hasty && plan.Check() != nil {
				runtime.Gosched() // until the request has come to the proxy
			}
			if err := plan.Check(); err != nil {
				t.Error(err)
			}
			if status, _, err := send(patient, "GET", ""); status != 200 || err != nil {
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
		link    Link
		secure  bool
		ok      bool
		timeout bool
	}{
		"through":          {Link{}, false, true, false},
		"through, TLS":     {Link{}, true, true, false},
		"handshake cut":    {Link{DownAfter: 100}, true, false, false},
		"request cut":      {Link{UpAfter: 20}, false, false, false},
		"answer cut":       {Link{DownAfter: 20}, false, false, false},
		"silent":           {Link{Silent: true}, false, false, true},
		"silent, TLS":      {Link{Silent: true}, true, false, true},
		"one way":          {Link{Half: true}, false, false, true},
		"request stops":    {Link{UpStop: 20}, false, false, true},
		"answer stops":     {Link{DownStop: 20}, false, false, true},
		"slow but through": {Link{PerSec: 50_000}, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, send := behind(t, &shelf{data: []byte("old")}, nil, tt.secure)
			p.SetLink(tt.link)
			patience := patient
			if tt.timeout {
				patience = hasty
			}
			_, got, err := send(patience, "GET", "")
			if tt.ok && (got != "old" || err != nil) || !tt.ok && (err == nil || isTimeout(err) != tt.timeout) {
				t.Errorf("got %q, %v", got, err)
			}
			p.SetLink(Link{})
			if _, got, err := send(patient, "GET", ""); got != "old" || err != nil {
				t.Errorf("the next connection: %q, %v", got, err)
			}
		})
	}
}

func TestProxy_RefusesAndCuts(t *testing.T) {
	p, send := behind(t, &shelf{data: []byte("old")}, nil, false)
	if _, _, err := send(patient, "GET", ""); err != nil {
		t.Fatal(err)
	}
	p.CutAll()
	p.Refuse(true)
	if _, _, err := send(patient, "PUT", "x"); err == nil {
		t.Error("a refused connection gave an answer")
	}
	p.Refuse(false)
	if _, _, err := send(patient, "GET", ""); err != nil {
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
