package s3

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit)) }

// answer is what a forged server says.
type answer struct {
	status int
	header http.Header
	body   io.Reader
	err    error
}

func xmlError(status int, code string) answer {
	return answer{status: status, body: strings.NewReader("<Error><Code>" + code + "</Code><Message>forged</Message><RequestId>req-1</RequestId></Error>")}
}

// wire stands in for the network: do answers every request, log remembers them.
type wire struct {
	do func(r *http.Request) answer

	mu  sync.Mutex
	log []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.log = append(w.log, r.Method+" "+operation(r))
	w.mu.Unlock()
	if r.Body != nil {
		n, _ := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if n != r.ContentLength {
			return nil, fmt.Errorf("a body of %d bytes, announced are %d", n, r.ContentLength)
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a := w.do(r)
	if a.err != nil {
		return nil, a.err
	}
	h := a.header
	if h == nil {
		h = http.Header{}
	}
	h.Set("X-Amz-Request-Id", "req-1")
	if a.body == nil {
		a.body = strings.NewReader("")
	}
	length := int64(-1)
	switch b := a.body.(type) {
	case *strings.Reader:
		length = int64(b.Len())
	case *bytes.Reader:
		length = int64(b.Len())
	}
	if n := h.Get("Content-Length"); n != "" {
		_, _ = fmt.Sscan(n, &length)
	} else if length >= 0 {
		h.Set("Content-Length", fmt.Sprint(length))
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: h, Body: io.NopCloser(a.body), ContentLength: length,
		Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// operation names a request by its query.
func operation(r *http.Request) string {
	q := r.URL.Query()
	for _, name := range []string{"uploads", "uploadId", "delete", "list-type"} {
		if q.Has(name) {
			if name == "uploadId" && q.Has("partNumber") {
				return "part"
			}
			return name
		}
	}
	if strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 0 {
		return "bucket"
	}
	return "object"
}

func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.log...)
}

// forged opens a driver over a forged network; retries end at once.
func forged(t testing.TB, edit func(o *Options), do func(r *http.Request) answer) (*Driver, *wire) {
	t.Helper()
	w := &wire{do: do}
	o := Options{
		Bucket: "bucket", Region: "eu-north-1", Endpoint: "http://store.invalid", MaxAttempts: 1, PartBytes: minPart,
		Credentials: Credentials{AccessKey: backends.NewSecret("id"), SecretKey: backends.NewSecret("planted-secret")},
	}
	if edit != nil {
		edit(&o)
	}
	d, err := Open(t.Context(), o, backends.Env{WrapTransport: func(http.RoundTripper) http.RoundTripper { return w }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, w
}

// calls is every operation of the driver, by name.
func calls() map[string]func(ctx context.Context, d *Driver) error {
	return map[string]func(ctx context.Context, d *Driver) error{
		"put": func(ctx context.Context, d *Driver) error {
			_, err := d.Put(ctx, "k", strings.NewReader("x"), backends.PutOptions{Size: 1})
			return err
		},
		"get": func(ctx context.Context, d *Driver) error {
			o, err := d.Get(ctx, "k", backends.GetOptions{Range: backends.Range{Offset: 3, Length: 4}})
			if err == nil {
				_ = o.Body.Close()
			}
			return err
		},
		"stat":        func(ctx context.Context, d *Driver) error { _, err := d.Stat(ctx, "k"); return err },
		"delete":      func(ctx context.Context, d *Driver) error { return d.Delete(ctx, "k") },
		"delete_many": func(ctx context.Context, d *Driver) error { return d.DeleteMany(ctx, []string{"k"}) },
		"list":        func(ctx context.Context, d *Driver) error { _, err := d.List(ctx, backends.ListOptions{}); return err },
		"uploads":     func(ctx context.Context, d *Driver) error { _, err := d.ListUploads(ctx, ""); return err },
		"abort": func(ctx context.Context, d *Driver) error {
			return d.AbortUpload(ctx, backends.Upload{Key: "k", ID: "u"})
		},
	}
}

func TestClassify_Answers(t *testing.T) {
	const all = "put get stat delete delete_many list uploads abort"
	bodies := "put get delete delete_many list uploads abort" // a HEAD has none
	tests := []struct {
		name   string
		answer answer
		calls  string
		want   backends.Code
		text   string
	}{
		{"no such key", xmlError(404, "NoSuchKey"), "get", backends.NotFound, ""},
		{"no such bucket", xmlError(404, "NoSuchBucket"), "put get delete delete_many list uploads", backends.InvalidArgument, keyBucket},
		{"head of nothing in no bucket", answer{status: 404}, "stat", backends.InvalidArgument, keyBucket},
		{"precondition", xmlError(412, "PreconditionFailed"), "get", backends.Precondition, ""},
		{"conflict", xmlError(409, "ConditionalRequestConflict"), "put", backends.Unavailable, ""},
		{"range", xmlError(416, "InvalidRange"), "get", backends.InvalidRange, ""},
		{"denied", xmlError(403, "AccessDenied"), bodies, backends.Denied, "s3:"},
		{"head denied", answer{status: 403}, "stat", backends.Denied, "s3:GetObject"},
		{"put denied", xmlError(403, "AccessDenied"), "put", backends.Denied, "s3:PutObject"},
		{"list denied", xmlError(403, "AccessDenied"), "list", backends.Denied, "s3:ListBucket"},
		{"delete denied", xmlError(403, "AccessDenied"), "delete delete_many", backends.Denied, "s3:DeleteObject"},
		{"uploads denied", xmlError(403, "AccessDenied"), "uploads", backends.Denied, "s3:ListBucketMultipartUploads"},
		{"abort denied", xmlError(403, "AccessDenied"), "abort", backends.Denied, "s3:AbortMultipartUpload"},
		{"unknown key", xmlError(403, "InvalidAccessKeyId"), bodies, backends.Unauthenticated, keyAccessKey},
		{"wrong secret", xmlError(403, "SignatureDoesNotMatch"), bodies, backends.Unauthenticated, keyAccessKey},
		{"expired", xmlError(400, "ExpiredToken"), bodies, backends.Unauthenticated, ""},
		{"401", answer{status: 401}, all, backends.Unauthenticated, ""},
		{"clock", xmlError(403, "RequestTimeTooSkewed"), bodies, backends.ClockSkew, "clock"},
		{"slow down", xmlError(503, "SlowDown"), bodies, backends.Throttled, ""},
		{"429", answer{status: 429}, all, backends.Throttled, ""},
		{"500", xmlError(500, "InternalError"), bodies, backends.Unavailable, ""},
		{"502 of a proxy", answer{status: 502, body: strings.NewReader("<html>bad gateway</html>")}, all, backends.Unavailable, ""},
		{"503", answer{status: 503}, all, backends.Unavailable, ""},
		{"504", answer{status: 504}, all, backends.Unavailable, ""},
		{"request timeout", xmlError(400, "RequestTimeout"), "put", backends.Timeout, ""},
		{"bad digest", xmlError(400, "BadDigest"), "put", backends.Corrupt, ""},
		{"bad digest of MinIO", xmlError(400, "XAmzContentChecksumMismatch"), "put", backends.Corrupt, ""},
		{"no XML", answer{status: 200, body: strings.NewReader("<ListBucketResult><Contents>oops")}, "list", backends.Corrupt, ""},
		{"quota", xmlError(403, "QuotaExceeded"), "put", backends.Exhausted, ""},
		{"disk full", xmlError(507, "XMinioStorageFull"), "put", backends.Exhausted, ""},
		{"archived", xmlError(403, "InvalidObjectState"), "get", backends.Unsupported, "archive tier"},
		{"not implemented", xmlError(501, "NotImplemented"), bodies, backends.Unsupported, ""},
		{"storage class", xmlError(400, "InvalidStorageClass"), "put", backends.InvalidArgument, keyStorageClass},
		{"other region", answer{status: 301, header: http.Header{"X-Amz-Bucket-Region": {"us-west-2"}}, body: xmlError(301, "PermanentRedirect").body}, "put", backends.InvalidArgument, "us-west-2"},
		{"wrong region", xmlError(400, "AuthorizationHeaderMalformed"), "get", backends.InvalidArgument, keyRegion},
		{"teapot", xmlError(418, "Teapot"), bodies, backends.Unknown, ""},
		{"404 of a proxy", answer{status: 404, body: strings.NewReader("<html>no such page</html>")}, "list put", backends.Unknown, ""},
		{"cut off", answer{err: io.ErrUnexpectedEOF}, all, backends.Unavailable, ""},
		{"reset", answer{err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, all, backends.Unavailable, ""},
		{"refused", answer{err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, all, backends.Unavailable, keyEndpoint},
		{"broken pipe", answer{err: os.NewSyscallError("write", syscall.EPIPE)}, all, backends.Unavailable, ""},
		{"name server fails", answer{err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}, all, backends.Unavailable, ""},
		{"no such host", answer{err: &net.DNSError{Err: "no such host", IsNotFound: true}}, all, backends.Unavailable, keyEndpoint},
		{"certificate", answer{err: x509Error()}, all, backends.InvalidArgument, keyCAFile},
		{"plain text", answer{err: http.ErrSchemeMismatch}, all, backends.InvalidArgument, keyEndpoint},
		{"time-out of the network", answer{err: os.ErrDeadlineExceeded}, all, backends.Timeout, ""},
	}
	for _, tt := range tests {
		for name := range strings.FieldsSeq(tt.calls) {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				raw := []byte(nil)
				if tt.answer.body != nil {
					raw, _ = io.ReadAll(tt.answer.body)
					tt.answer.body = bytes.NewReader(raw)
				}
				d, w := forged(t, nil, func(*http.Request) answer {
					a := tt.answer
					if raw != nil {
						a.body = bytes.NewReader(raw)
					}
					return a
				})
				err := calls()[name](t.Context(), d)
				e, ok := errors.AsType[*backends.Error](err)
				if !ok || e.Code != tt.want {
					t.Fatalf("got %v (code %v), want code %v; requests %v", err, backends.CodeOf(err), tt.want, w.requests())
				}
				if tt.answer.err == nil && (e.Status != tt.answer.status || e.RequestID != "req-1") {
					t.Errorf("status %d, request id %q, want %d and req-1", e.Status, e.RequestID, tt.answer.status)
				}
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v does not name %s", err, tt.text)
				}
				if strings.Contains(err.Error(), "planted-secret") {
					t.Errorf("the secret is in %v", err)
				}
				if errors.Is(err, backends.NotFound) != (tt.want == backends.NotFound) {
					t.Errorf("NotFound: %v", err)
				}
			})
		}
	}
}

func x509Error() error {
	return &url.Error{Op: "Put", URL: "https://store.invalid", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}
}

// TestStat_MissingKeyInABucketThatIsThere: the 404 of a HEAD is NotFound only after the bucket was asked for.
func TestStat_MissingKeyInABucketThatIsThere(t *testing.T) {
	for _, bucketStatus := range []int{200, 403, 500} {
		d, w := forged(t, nil, func(r *http.Request) answer {
			if operation(r) == "bucket" {
				return answer{status: bucketStatus}
			}
			return answer{status: 404}
		})
		if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
			t.Errorf("bucket answers %d: got %v", bucketStatus, err)
		}
		if got := strings.Join(w.requests(), ", "); got != "HEAD object, HEAD bucket" {
			t.Errorf("requests: %s", got)
		}
	}
}

func TestRetries_OneOwnerAndABound(t *testing.T) {
	fast := func(o *Options) { o.MaxAttempts = 3 }
	for name, want := range map[string]int{"put": 3 + 3, "get": 3, "list": 3, "delete": 3} { // a put that failed asks three times what is there
		d, w := forged(t, fast, func(*http.Request) answer { return answer{status: 503} })
		err := calls()[name](t.Context(), d)
		e, _ := errors.AsType[*backends.Error](err)
		if e == nil || e.Code != backends.Unavailable || e.Attempts != 3 || len(w.requests()) != want {
			t.Errorf("%s: %v, %d requests, want %d", name, err, len(w.requests()), want)
		}
	}
	for _, a := range []answer{xmlError(403, "AccessDenied"), xmlError(404, "NoSuchBucket"), xmlError(403, "InvalidAccessKeyId"), {err: x509Error()}} {
		raw := []byte{}
		if a.body != nil {
			raw, _ = io.ReadAll(a.body)
		}
		d, w := forged(t, func(o *Options) { o.MaxAttempts = 5 }, func(*http.Request) answer {
			return answer{status: a.status, err: a.err, body: bytes.NewReader(raw)}
		})
		if err := calls()["get"](t.Context(), d); err == nil || len(w.requests()) != 1 {
			t.Errorf("%v: %d requests, want 1", err, len(w.requests()))
		}
	}
}

func TestThrottled_TellsWhenToComeBack(t *testing.T) {
	d, _ := forged(t, nil, func(*http.Request) answer {
		return answer{status: 503, header: http.Header{"Retry-After": {"7"}}, body: xmlError(503, "SlowDown").body}
	})
	e, _ := errors.AsType[*backends.Error](calls()["list"](t.Context(), d))
	if e == nil || e.RetryAfter != 7*time.Second {
		t.Errorf("got %+v", e)
	}
}

func TestContext_EndOfTheCallersIsNoTimeout(t *testing.T) {
	for name, do := range calls() {
		ctx, cancel := context.WithCancel(t.Context())
		d, _ := forged(t, nil, func(*http.Request) answer {
			cancel()
			return answer{err: context.Canceled}
		})
		if err := do(ctx, d); !errors.Is(err, context.Canceled) || backends.CodeOf(err) != backends.Unknown {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTimeouts_OfOurs(t *testing.T) {
	for name, edit := range map[string]func(o *Options){
		"call":    func(o *Options) { o.CallTimeout = 20 * time.Millisecond },
		"attempt": func(o *Options) { o.AttemptTimeout = 20 * time.Millisecond },
	} {
		w := &hanging{}
		o := Options{Bucket: "b", Region: "r", Endpoint: "http://store.invalid", MaxAttempts: 1, Credentials: Credentials{AccessKey: backends.NewSecret("i"), SecretKey: backends.NewSecret("s")}}
		edit(&o)
		d, err := Open(t.Context(), o, backends.Env{WrapTransport: func(http.RoundTripper) http.RoundTripper { return w }})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.List(t.Context(), backends.ListOptions{}); !errors.Is(err, backends.Timeout) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want Timeout", name, err)
		}
	}
}

// hanging is a network that never answers.
type hanging struct{}

func (*hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestClose_EndsCallsInFlight(t *testing.T) {
	started := make(chan struct{})
	d, _ := forged(t, nil, func(r *http.Request) answer {
		close(started)
		<-r.Context().Done()
		return answer{err: r.Context().Err()}
	})
	go func() {
		<-started
		_ = d.Close()
	}()
	if _, err := d.List(t.Context(), backends.ListOptions{}); !errors.Is(err, backends.Closed) {
		t.Errorf("got %v, want Closed", err)
	}
	for name, do := range calls() {
		if err := do(t.Context(), d); !errors.Is(err, backends.Closed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
}

func TestGet_AnswersThatLie(t *testing.T) {
	data := "0123456789"
	h := func(contentRange, length string) http.Header {
		out := http.Header{"Etag": {`"v"`}}
		if contentRange != "" {
			out.Set("Content-Range", contentRange)
		}
		if length != "" {
			out.Set("Content-Length", length)
		}
		return out
	}
	tests := []struct {
		name string
		r    backends.Range
		a    answer
		want backends.Code // of Get, or of the read
	}{
		{"range overlooked", backends.Range{Offset: 2, Length: 3}, answer{status: 200, header: h("", ""), body: strings.NewReader(data)}, backends.Unsupported},
		{"another range", backends.Range{Offset: 2, Length: 3}, answer{status: 206, header: h("bytes 0-2/10", ""), body: strings.NewReader("012")}, backends.Corrupt},
		{"a shorter range", backends.Range{Offset: 2, Length: 3}, answer{status: 206, header: h("bytes 2-3/10", ""), body: strings.NewReader("23")}, backends.Corrupt},
		{"range and length differ", backends.Range{Offset: 2, Length: 3}, answer{status: 206, header: h("bytes 2-4/10", ""), body: strings.NewReader("2345")}, backends.Corrupt},
		{"no total", backends.Range{Offset: 2, Length: 3}, answer{status: 206, header: h("bytes 2-4/*", ""), body: strings.NewReader("234")}, backends.Unsupported},
		{"clean but early end", backends.All(), answer{status: 200, header: h("", "10"), body: strings.NewReader("01234")}, backends.Unavailable},
		{"broken body", backends.All(), answer{status: 200, header: h("", "10"), body: io.MultiReader(strings.NewReader("01"), iotest.ErrReader(syscall.ECONNRESET))}, backends.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, w := forged(t, nil, func(*http.Request) answer { return tt.a })
			obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: tt.r})
			if err == nil {
				_, err = io.ReadAll(obj.Body)
				_ = obj.Body.Close()
				if errors.Is(err, io.ErrUnexpectedEOF) && tt.want == backends.Unavailable {
					return
				}
			}
			if backends.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if len(w.requests()) != 1 {
				t.Errorf("requests: %v", w.requests())
			}
		})
	}
}

func TestRangeHeader(t *testing.T) {
	for _, tt := range []struct {
		off, length int64
		want        string
	}{{0, -1, ""}, {0, 1, "bytes=0-0"}, {5, -1, "bytes=5-"}, {5, 10, "bytes=5-14"}, {7, 1<<63 - 1, "bytes=7-"}, {1<<63 - 1, 1, "bytes=9223372036854775807-9223372036854775807"}} {
		got := ""
		if h := rangeHeader(backends.Range{Offset: tt.off, Length: tt.length}); h != nil {
			got = *h
		}
		if got != tt.want {
			t.Errorf("%d+%d: %q, want %q", tt.off, tt.length, got, tt.want)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-5/6", "bytes */10", "bytes 0-9/*", "bytes 9-0/10", "bytes -1-9/10", "bytes 0-+9/10", "bytes 0-99999999999999999999/10", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, size, ok := parseContentRange(s)
		if ok && (first < 0 || first > last || last >= size) {
			t.Errorf("%q: %d-%d/%d", s, first, last, size)
		}
	})
}
