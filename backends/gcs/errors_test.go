package gcs

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// operate runs an operation by its name.
func operate(ctx context.Context, d *Driver, name string) error {
	var err error
	switch name {
	case "get":
		var obj *backends.Object
		if obj, err = d.Get(ctx, "k", backends.GetOptions{Range: backends.Range{Offset: 5, Length: 5}}); err == nil {
			_ = obj.Body.Close()
		}
	case "get version":
		_, err = d.Get(ctx, "k", backends.GetOptions{Range: backends.All(), IfVersion: "7"})
	case "stat":
		_, err = d.Stat(ctx, "k")
	case "delete":
		err = d.Delete(ctx, "k")
	case "list":
		_, err = d.List(ctx, backends.ListOptions{})
	case "put":
		_, err = d.Put(ctx, "k", strings.NewReader("abc"), backends.PutOptions{Size: 3})
	case "create":
		_, err = d.Put(ctx, "k", strings.NewReader("abc"), backends.PutOptions{Size: 3, IfAbsent: true})
	default:
		panic(name)
	}
	return err
}

// main is the request that an operation is about; others look whether bucket or object are there.
func isMain(op string, req *http.Request) bool {
	kind := map[string]string{
		"get": "GET media", "get version": "GET media", "stat": "GET object", "delete": "DELETE object", "list": "GET list", "put": "POST multipart", "create": "POST multipart",
	}[op]
	return describeRequest(req) == kind
}

func TestClassify_EveryAnswerHasItsCode(t *testing.T) {
	for _, tt := range []struct {
		op     string
		status int
		reason string
		want   backends.Code
		hint   string // in the text
	}{
		{"get", 404, "notFound", backends.NotFound, ""},
		{"stat", 404, "notFound", backends.NotFound, ""},
		{"stat", 404, "", backends.NotFound, ""},
		{"list", 404, "notFound", backends.InvalidArgument, keyBucket},
		{"create", 412, "conditionNotMet", backends.Exists, ""},
		{"get version", 412, "conditionNotMet", backends.Precondition, ""},
		{"get version", 304, "", backends.Precondition, ""},
		{"get", 416, "requestedRangeNotSatisfiable", backends.InvalidRange, ""},
		{"get", 416, "", backends.InvalidRange, ""},
		{"get", 401, "authError", backends.Unauthenticated, keyPath},
		{"get", 401, "", backends.Unauthenticated, keyJSON},
		{"get", 403, "forbidden", backends.Denied, "storage.objects.get"},
		{"stat", 403, "", backends.Denied, "storage.objects.get"},
		{"put", 403, "forbidden", backends.Denied, "storage.objects.create"},
		{"delete", 403, "forbidden", backends.Denied, "storage.objects.delete"},
		{"list", 403, "forbidden", backends.Denied, "storage.objects.list"},
		{"delete", 403, "retentionPolicyNotMet", backends.Denied, "policy"},
		{"get", 403, "rateLimitExceeded", backends.Throttled, ""},
		{"get", 403, "userRateLimitExceeded", backends.Throttled, ""},
		{"get", 429, "rateLimitExceeded", backends.Throttled, ""},
		{"put", 429, "", backends.Throttled, ""},
		{"put", 403, "quotaExceeded", backends.Exhausted, ""},
		{"get", 500, "backendError", backends.Unavailable, ""},
		{"put", 503, "backendError", backends.Unavailable, ""},
		{"get", 502, "", backends.Unavailable, ""},
		{"get", 504, "", backends.Unavailable, ""},
		{"get", 408, "", backends.Timeout, ""},
		{"put", 410, "", backends.Unavailable, ""},
		{"put", 409, "conflict", backends.Unavailable, ""},
		{"get", 501, "notImplemented", backends.Unsupported, ""},
		{"put", 400, "invalid", backends.InvalidArgument, ""},
		{"get", 400, "userProjectMissing", backends.InvalidArgument, ""},
		{"get", 301, "", backends.InvalidArgument, ""},
	} {
		t.Run(tt.op+" "+tt.reason+" "+http.StatusText(tt.status), func(t *testing.T) {
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				switch {
				case isMain(tt.op, req):
					return forge(req, tt.status, tt.reason, "Retry-After", "2"), nil
				case describeRequest(req) == "GET list":
					return reply(req, 200, `{"kind":"storage#objects"}`), nil
				}
				return forge(req, 404, "notFound"), nil
			}}
			d := forged(t, w, Options{MaxAttempts: 1})
			e := errorOf(t, operate(t.Context(), d, tt.op))
			if e.Code != tt.want || e.Status != tt.status || e.RequestID != "id-1" || e.RetryAfter != 2*time.Second || e.Attempts != 1 {
				t.Errorf("got %v %+v, want code %v", e, e, tt.want)
			}
			restart := tt.status == 410 || tt.status == 409
			if e.Ambiguous != (tt.op == "put" && tt.want == backends.Unavailable && !restart) || e.Restart != restart {
				t.Errorf("ambiguous: %v, restart: %v", e.Ambiguous, e.Restart)
			}
			text := e.Error()
			if !strings.Contains(text, tt.hint) || strings.Contains(text, "\n") || strings.Contains(text, "forged.invalid") {
				t.Errorf("text %q", text)
			}
			if tt.reason != "" && !strings.Contains(text, tt.reason+": Something happened.") {
				t.Errorf("text %q does not have the service's message", text)
			}
		})
	}
}

// TestClassify_AMissingBucketIsNoMissingObject: the service answers 404 notFound to both.
func TestClassify_AMissingBucketIsNoMissingObject(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	gone := realBox(t, new(wire), Options{Bucket: "none-such"})
	for _, op := range []string{"get", "get version", "stat", "delete", "put", "create", "list"} {
		err := operate(t.Context(), gone, op)
		if !errors.Is(err, backends.InvalidArgument) || errors.Is(err, backends.NotFound) || !strings.Contains(err.Error(), keyBucket) {
			t.Errorf("%s without the bucket: %v", op, err)
		}
	}
	for op, want := range map[string]error{"get": backends.NotFound, "stat": backends.NotFound, "delete": nil} {
		if err := operate(t.Context(), d, op); !errors.Is(err, want) {
			t.Errorf("%s without the object: %v", op, err)
		}
	}
	if err := d.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if err := gone.Probe(t.Context()); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("probe without the bucket: %v", err)
	}
}

func TestRetry_IsBounded(t *testing.T) {
	for _, op := range []string{"get", "stat", "delete", "list", "put"} {
		for _, attempts := range []int{1, 3} {
			w := &wire{act: func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if isMain(op, req) {
					return forge(req, 503, "backendError"), nil
				}
				return forge(req, 404, "notFound"), nil // what a put looks for after its failure
			}}
			e := errorOf(t, operate(t.Context(), forged(t, w, Options{MaxAttempts: attempts}), op))
			n := 0
			for _, r := range w.log() {
				if r != "GET object" || op == "stat" {
					n++
				}
			}
			if n != attempts || e.Attempts != attempts || e.Code != backends.Unavailable {
				t.Errorf("%s, %d attempts allowed: %d on the wire, %d reported, %v", op, attempts, n, e.Attempts, e)
			}
		}
	}
}

func TestNetwork_MistakesAreFastAndNameTheSetting(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		want     backends.Code
		hint     string
		attempts int
	}{
		"no such host":  {&net.DNSError{Err: "no such host", Name: "forged.invalid", IsNotFound: true}, backends.InvalidArgument, keyEndpoint, 1},
		"plain http":    {http.ErrSchemeMismatch, backends.InvalidArgument, keyEndpoint, 1},
		"timeout":       {os.ErrDeadlineExceeded, backends.Timeout, "", 2},
		"anything else": {errCut, backends.Unavailable, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{act: func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				_, _ = loseRequest(req, next)
				return nil, tt.err
			}}
			e := errorOf(t, operate(t.Context(), forged(t, w, Options{MaxAttempts: 2}), "get"))
			if e.Code != tt.want || e.Attempts != tt.attempts || len(w.log()) != tt.attempts || !strings.Contains(e.Error(), tt.hint) {
				t.Errorf("got %v, %d attempts, %d on the wire", e, e.Attempts, len(w.log()))
			}
		})
	}
}

func TestNetwork_Certificates(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(403) }))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	w := new(wire)
	e := errorOf(t, operate(t.Context(), forged(t, w, Options{Endpoint: srv.URL}), "stat"))
	if e.Code != backends.InvalidArgument || !strings.Contains(e.Error(), keyCAFile) || len(w.log()) != 1 {
		t.Errorf("unknown authority: %v after %d requests", e, len(w.log()))
	}
	for name, o := range map[string]Options{"ca file": {Endpoint: srv.URL, CAFile: ca}, "not checked": {Endpoint: srv.URL, SkipVerify: true}} {
		if err := operate(t.Context(), forged(t, new(wire), o), "stat"); !errors.Is(err, backends.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestContext_EndsAWaitBetweenAttempts(t *testing.T) {
	for _, op := range []string{"get", "put"} {
		ctx, cancel := context.WithCancel(t.Context())
		w := &wire{act: func(n int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			if describeRequest(req) == "GET object" { // what a put looks for after its failure
				return forge(req, 404, "notFound"), nil
			}
			if n == 2 {
				cancel()
			}
			return forge(req, 503, "backendError"), nil
		}}
		if err := operate(ctx, forged(t, w, Options{MaxAttempts: 100}), op); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", op, err)
		}
		cancel()
	}
}

func TestList_UndecodableAnswerIsCorrupt(t *testing.T) {
	for _, body := range []string{`{"items":[{"name":`, `<html>`, `{"items":"none"}`} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return reply(req, 200, body), nil
		}}
		if err := operate(t.Context(), forged(t, w, Options{MaxAttempts: 1}), "list"); backends.CodeOf(err) != backends.Corrupt && backends.CodeOf(err) != backends.Unavailable {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

func TestClose_EndsCallsAndBodies(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	mustPut(t, d, "k", pattern(4<<20))
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	if _, err := obj.Body.Read(make([]byte, 10)); !errors.Is(err, backends.Closed) {
		t.Errorf("read: %v", err)
	}
	_ = obj.Body.Close()

	entered := make(chan struct{})
	w := &wire{act: func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if n == 0 {
			close(entered)
		}
		<-req.Context().Done()
		_, _ = loseRequest(req, next)
		return nil, req.Context().Err()
	}}
	d = forged(t, w, Options{})
	done := make(chan error)
	go func() { done <- operate(t.Context(), d, "put") }()
	<-entered
	_ = d.Close()
	if err := <-done; !errors.Is(err, backends.Closed) {
		t.Errorf("call in flight: %v", err)
	}
}
