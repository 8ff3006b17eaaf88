package azure

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

// operations by name, as far as they are one request.
func operate(ctx context.Context, d *Driver, name string) error {
	var err error
	switch name {
	case "get":
		var obj *backends.Object
		if obj, err = d.Get(ctx, "k", backends.GetOptions{Range: backends.Range{Offset: 5, Length: 5}}); err == nil {
			_ = obj.Body.Close()
		}
	case "get version":
		_, err = d.Get(ctx, "k", backends.GetOptions{Range: backends.All(), IfVersion: "0x1"})
	case "stat":
		_, err = d.Stat(ctx, "k")
	case "delete":
		err = d.Delete(ctx, "k")
	case "list":
		_, err = d.List(ctx, backends.ListOptions{})
	case "put":
		_, err = d.newUpload("k", backends.PutOptions{}).Single(ctx, part("abc"))
	case "create":
		_, err = d.newUpload("k", backends.PutOptions{IfAbsent: true}).Single(ctx, part("abc"))
	case "block":
		err = d.newUpload("k", backends.PutOptions{}).Part(ctx, part("abc"))
	case "commit":
		_, err = d.newUpload("k", backends.PutOptions{}).Commit(ctx, whole(1, 3))
	case "create commit":
		_, err = d.newUpload("k", backends.PutOptions{IfAbsent: true}).Commit(ctx, whole(1, 3))
	default:
		panic(name)
	}
	return err
}

func TestClassify_EveryAnswerHasItsCode(t *testing.T) {
	for _, tt := range []struct {
		op     string
		status int
		code   string
		want   backends.Code
		hint   string // in the text
	}{
		{"get", 404, "BlobNotFound", backends.NotFound, ""},
		{"stat", 404, "BlobNotFound", backends.NotFound, ""},
		{"stat", 404, "", backends.NotFound, ""},
		{"get", 404, "ContainerNotFound", backends.InvalidArgument, keyContainer},
		{"stat", 404, "ContainerNotFound", backends.InvalidArgument, `"box"`},
		{"delete", 404, "ContainerNotFound", backends.InvalidArgument, keyContainer},
		{"list", 404, "", backends.InvalidArgument, ""},
		{"put", 409, "ContainerBeingDeleted", backends.Unavailable, ""},
		{"create", 409, "BlobAlreadyExists", backends.Exists, ""},
		{"create", 412, "ConditionNotMet", backends.Exists, ""},
		{"create commit", 409, "BlobAlreadyExists", backends.Exists, ""},
		{"get version", 412, "ConditionNotMet", backends.Precondition, ""},
		{"get", 416, "InvalidRange", backends.InvalidRange, ""},
		{"get", 416, "", backends.InvalidRange, ""},
		{"get", 401, "NoAuthenticationInformation", backends.Unauthenticated, keySAS},
		{"get", 403, "AuthenticationFailed", backends.Unauthenticated, keyKey},
		{"get", 403, "AuthorizationFailure", backends.Denied, "permission r"},
		{"put", 403, "AuthorizationPermissionMismatch", backends.Denied, "permission w"},
		{"delete", 403, "AuthorizationPermissionMismatch", backends.Denied, "permission d"},
		{"list", 403, "", backends.Denied, "permission l"},
		{"stat", 403, "", backends.Denied, "permission r"},
		{"delete", 409, "BlobImmutableDueToPolicy", backends.Denied, "policy"},
		{"get", 503, "ServerBusy", backends.Throttled, ""},
		{"put", 503, "ServerBusy", backends.Throttled, ""},
		{"get", 429, "TooManyRequests", backends.Throttled, ""},
		{"get", 429, "", backends.Throttled, ""},
		{"get", 500, "InternalError", backends.Unavailable, ""},
		{"get", 500, "OperationTimedOut", backends.Unavailable, ""},
		{"get", 502, "", backends.Unavailable, ""},
		{"get", 504, "", backends.Unavailable, ""},
		{"get", 408, "", backends.Timeout, ""},
		{"block", 400, "Md5Mismatch", backends.Corrupt, ""},
		{"block", 400, "Crc64Mismatch", backends.Corrupt, ""},
		{"block", 409, "BlockCountExceedsLimit", backends.Exhausted, "100,000"},
		{"block", 400, "InvalidBlobOrBlock", backends.InvalidArgument, "another program"},
		{"put", 507, "", backends.Exhausted, ""},
		{"put", 409, "AccountFull", backends.Exhausted, ""},
		{"commit", 400, "InvalidBlockList", backends.Unavailable, ""},
		{"get", 409, "BlobArchived", backends.Unsupported, "archive tier"},
		{"block", 500, "FeatureNotSupported", backends.Unsupported, ""},
		{"list", 400, "InvalidQueryParameterValue", backends.InvalidArgument, ""},
		{"get", 301, "", backends.InvalidArgument, ""},
	} {
		t.Run(tt.op+" "+tt.code+" "+http.StatusText(tt.status), func(t *testing.T) {
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				return forge(req, tt.status, tt.code, "X-Ms-Retry-After-Ms", "1500"), nil
			}}
			d := forged(t, w, Options{MaxAttempts: 1})
			e := errorOf(t, operate(t.Context(), d, tt.op))
			if e.Code != tt.want || e.Status != tt.status || e.RequestID != "id-1" || e.RetryAfter != 1500*time.Millisecond || e.Attempts != 1 {
				t.Errorf("got %v %+v, want code %v", e, e, tt.want)
			}
			if e.Ambiguous != (tt.op == "put" && tt.want == backends.Unavailable) {
				t.Errorf("ambiguous: %v", e.Ambiguous)
			}
			if e.Restart != (tt.code == "InvalidBlockList") {
				t.Errorf("restart: %v", e.Restart)
			}
			text := e.Error()
			if !strings.Contains(text, tt.hint) || strings.Contains(text, "\n") || strings.Contains(text, plantedSecret) || strings.Contains(text, "RequestId:") {
				t.Errorf("text %q", text)
			}
			if tt.code != "" && tt.op != "stat" && !strings.Contains(text, "Something happened.") {
				t.Errorf("text %q does not have the service's message", text)
			}
		})
	}
}

func TestClassify_DeleteOfWhatIsNotThereIsSuccess(t *testing.T) {
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return forge(req, 404, "BlobNotFound"), nil
	}}
	if err := forged(t, w, Options{}).Delete(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

func TestClassify_ClockSkewByTheServersDate(t *testing.T) {
	for code, status := range map[string]int{"AuthenticationFailed": 403, "AuthorizationFailure": 403} {
		for off, want := range map[time.Duration]bool{time.Minute: false, -14 * time.Minute: false, -16 * time.Minute: true, time.Hour: true} {
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				return forge(req, status, code, "Date", time.Now().Add(off).UTC().Format(http.TimeFormat)), nil
			}}
			_, err := forged(t, w, Options{}).Stat(t.Context(), "k")
			if got := errors.Is(err, backends.ClockSkew); got != want {
				t.Errorf("%s, off by %s: %v, want clock skew: %v", code, off, err, want)
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
		"no such host":       {&net.DNSError{Err: "no such host", Name: "forged.invalid", IsNotFound: true}, backends.InvalidArgument, keyAccount, 1},
		"plain http":         {http.ErrSchemeMismatch, backends.InvalidArgument, keyEndpoint, 1},
		"connection refused": {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, backends.Timeout, "", 2},
		"anything else":      {errCut, backends.Unavailable, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				_, _ = loseRequest(req)
				return nil, tt.err
			}}
			d := forged(t, w, Options{MaxAttempts: 2})
			e := errorOf(t, operate(t.Context(), d, "get"))
			if e.Code != tt.want || e.Attempts != tt.attempts || len(w.log()) != tt.attempts || !strings.Contains(e.Error(), tt.hint) || strings.Contains(e.Error(), plantedSecret) {
				t.Errorf("got %v, %d attempts, %d on the wire", e, e.Attempts, len(w.log()))
			}
		})
	}
}

func TestNetwork_Certificates(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Ms-Error-Code", "BlobNotFound")
		rw.WriteHeader(404)
	}))
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
		if err := operate(t.Context(), forged(t, new(wire), o), "stat"); !errors.Is(err, backends.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Open(t.Context(), Options{Container: "c", Account: "a", CAFile: filepath.Join(t.TempDir(), "none")}, backends.Env{})
	if !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), keyCAFile) {
		t.Errorf("no such file: %v", err)
	}
}

func TestRetry_ByTheSDKAloneWithTheWholeBody(t *testing.T) {
	var bodies []string
	w := &wire{act: func(n int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		b := make([]byte, 10)
		k, _ := req.Body.Read(b)
		bodies = append(bodies, string(b[:k]))
		if n < 2 {
			return forge(req, []int{503, 500}[n], []string{"ServerBusy", "InternalError"}[n], "X-Ms-Retry-After-Ms", "1"), nil
		}
		return forge(req, 201, "", "Etag", `"0x8"`, "Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT"), nil
	}}
	d := forged(t, w, Options{MaxAttempts: 5})
	info, err := d.Put(t.Context(), "k", strings.NewReader("abc"), backends.PutOptions{Size: 3})
	if err != nil || info.Version != "0x8" || info.ModTime.Hour() != 10 {
		t.Fatalf("got %+v, %v", info, err)
	}
	if got := strings.Join(bodies, " "); got != "abc abc abc" {
		t.Errorf("bodies sent: %q", got)
	}
	for attempts, want := range map[int]int{1: 1, 3: 3} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return forge(req, 503, "ServerBusy", "X-Ms-Retry-After-Ms", "1"), nil
		}}
		e := errorOf(t, operate(t.Context(), forged(t, w, Options{MaxAttempts: attempts}), "get"))
		if len(w.log()) != want || e.Attempts != want {
			t.Errorf("%d attempts allowed: %d on the wire, %d reported", attempts, len(w.log()), e.Attempts)
		}
	}
}

func TestContext_EndsAWaitBetweenAttempts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		cancel()
		return forge(req, 503, "ServerBusy", "X-Ms-Retry-After-Ms", "3600000"), nil
	}}
	began := time.Now()
	if err := operate(ctx, forged(t, w, Options{RetryDelay: 2 * time.Hour}), "get"); !errors.Is(err, context.Canceled) || time.Since(began) > time.Minute {
		t.Errorf("got %v after %s", err, time.Since(began))
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

	release := make(chan struct{})
	entered := make(chan struct{})
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		close(entered)
		<-req.Context().Done()
		close(release)
		return nil, req.Context().Err()
	}}
	d = forged(t, w, Options{})
	done := make(chan error)
	go func() { done <- operate(t.Context(), d, "stat") }()
	<-entered
	_ = d.Close()
	<-release
	if err := <-done; !errors.Is(err, backends.Closed) {
		t.Errorf("call in flight: %v", err)
	}
}
