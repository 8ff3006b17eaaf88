package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/membudget"
)

// servers are the places where everything has to hold.
func servers() map[string]func(testing.TB) *testbed.S3 {
	return map[string]func(testing.TB) *testbed.S3{
		"minio": testbed.MinIO, "minio-tls": testbed.MinIOTLS, "seaweedfs": testbed.SeaweedFS, "versitygw": testbed.VersityGW,
	}
}

// at returns the options of a driver on a server.
func at(srv *testbed.S3, bucket string) Options {
	return Options{
		Bucket: bucket, Endpoint: srv.Endpoint, CAFile: srv.CAFile, PartBytes: minPart,
		Credentials: Credentials{AccessKey: backends.NewSecret(srv.AccessKey), SecretKey: backends.NewSecret(srv.SecretKey)},
	}
}

func mustOpen(t *testing.T, o Options, env backends.Env) *Driver {
	t.Helper()
	d, err := Open(t.Context(), o, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func random(n int) []byte {
	out := make([]byte, n)
	x := uint64(n) | 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = byte(x)
	}
	return out
}

// readAll is io.ReadAll for what has about n bytes. That one moves to ever larger slices, which under the race detector takes longer than all that a
// test does with a server.
func readAll(r io.Reader, n int) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, n+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// faults stands between driver and server: before may answer in the server's place, after may lose its answer.
type faults struct {
	next   http.RoundTripper
	before func(r *http.Request) error
	after  func(r *http.Request) error

	mu  sync.Mutex
	log []string
}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	f.next = next
	return f
}

func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.log = append(f.log, r.Method+" "+operation(r))
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := f.next.RoundTrip(r)
	if err == nil && f.after != nil {
		if lost := f.after(r); lost != nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return nil, lost
		}
	}
	return resp, err
}

func (f *faults) count(request string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.log {
		if r == request {
			n++
		}
	}
	return n
}

func (f *faults) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

func TestPut_PartsOnServers(t *testing.T) {
	contents := map[int][]byte{}
	for _, n := range []int{minPart, minPart + 1, 2*minPart + 77} {
		contents[n] = random(n)
	}
	for name, server := range servers() {
		for _, checksum := range []string{"auto", "crc32c", "md5", "none"} {
			t.Run(name+"/"+checksum, func(t *testing.T) {
				srv := server(t)
				bucket := srv.Bucket(t)
				o, f := at(srv, bucket), new(faults)
				o.Checksum = checksum
				d := mustOpen(t, o, backends.Env{WrapTransport: f.wrap})
				for n, data := range contents {
					for _, size := range []int64{int64(n), backends.SizeUnknown} {
						f.reset()
						info, err := d.Put(t.Context(), "dir/k", bytes.NewReader(data), backends.PutOptions{Size: size, Meta: map[string]string{"a": "b"}})
						if err != nil {
							t.Fatal(err)
						}
						wantParts := (n + minPart - 1) / minPart
						if wantParts == 1 {
							wantParts = 0
						}
						if got := f.count("PUT part"); got != wantParts || (wantParts == 0) != (len(f.log) == 1) {
							t.Errorf("%d bytes: requests %v", n, f.log)
						}
						stat, err := d.Stat(t.Context(), "dir/k")
						if err != nil || stat.Size != int64(n) || stat.Version != info.Version || stat.Meta["a"] != "b" || len(stat.Meta) != 1 {
							t.Errorf("stat %+v, put said %+v, %v", stat, info, err)
						}
						obj, err := srv.Client(t).GetObject(t.Context(), bucket, "dir/k", minio.GetObjectOptions{})
						if err != nil {
							t.Fatal(err)
						}
						got, err := readAll(obj, n)
						if err != nil || !bytes.Equal(got, data) {
							t.Errorf("seen from outside: %d bytes, %v", len(got), err)
						}
						_ = obj.Close()
						r, err := d.Get(t.Context(), "dir/k", backends.GetOptions{Range: backends.Range{Offset: minPart - 3, Length: 6}})
						if err != nil {
							t.Fatal(err)
						}
						got, err = io.ReadAll(r.Body)
						_ = r.Body.Close()
						if want := data[minPart-3 : min(n, minPart+3)]; err != nil || !bytes.Equal(got, want) || r.Info.Size != int64(n) {
							t.Errorf("over the border of a part: %x, want %x, %v", got, want, err)
						}
					}
				}
				if ids := srv.Uploads(t, bucket, "dir/k"); len(ids) > 0 {
					t.Errorf("unfinished uploads: %v", ids)
				}
			})
		}
	}
}

// TestPut_SmallObjectIsOneRequest: what a manifest costs.
func TestPut_SmallObjectIsOneRequest(t *testing.T) {
	srv := testbed.MinIO(t)
	f := new(faults)
	d := mustOpen(t, at(srv, srv.Bucket(t)), backends.Env{WrapTransport: f.wrap})
	least, want := d.PutMemory(1000)
	if least != 4096 || want != 4096 {
		t.Fatalf("memory of 1000 bytes: %d, %d", least, want)
	}
	b, err := membudget.New(2*least, membudget.Needs{Copy: least, Fetch: least})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reserve(t.Context(), membudget.Copy, least)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if _, err := d.Put(t.Context(), "m", bytes.NewReader(random(1000)), backends.PutOptions{Size: 1000, Memory: r}); err != nil {
		t.Fatal(err)
	}
	if len(f.log) != 1 || r.Unused() != least {
		t.Errorf("requests %v, %d bytes unused of %d", f.log, r.Unused(), least)
	}
}

var errCut = &netError{}

// netError is a connection that broke.
type netError struct{}

func (*netError) Error() string { return "the connection broke" }
func (*netError) Unwrap() error { return syscall.ECONNRESET }

// TestPut_FaultAtEveryRequest lets each request of an upload in parts fail, before it reaches the server or behind it, once or for good. Whatever happens, from
// outside there is the whole object or none, and no unfinished upload.
func TestPut_FaultAtEveryRequest(t *testing.T) {
	for _, server := range []func(testing.TB) *testbed.S3{testbed.MinIO, testbed.SeaweedFS, testbed.VersityGW} {
		srv := server(t)
		bucket := srv.Bucket(t)
		data := random(2*minPart + 5)
		for _, lost := range []bool{false, true} {
			for _, forGood := range []bool{false, true} {
				for _, op := range []string{"POST uploads", "PUT part", "POST uploadId"} {
					key := fmt.Sprintf("%s-%v-%v", strings.ReplaceAll(op, " ", "-"), lost, forGood)
					t.Run(srv.Name+"/"+key, func(t *testing.T) {
						var hit atomic.Int64
						fail := func(r *http.Request) error {
							if r.Method+" "+operation(r) == op && (hit.Add(1) == 1 || forGood) {
								return errCut
							}
							return nil
						}
						f := new(faults)
						if lost {
							f.after = fail
						} else {
							f.before = fail
						}
						o := at(srv, bucket)
						o.MaxAttempts = 2
						d := mustOpen(t, o, backends.Env{WrapTransport: f.wrap})
						_, err := d.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
						there := slices.Contains(srv.Objects(t, bucket), key)
						committed := op == "POST uploadId" && lost // the server did it, whatever the answers
						if want := !forGood || committed; want != (err == nil) || want != there {
							t.Errorf("got %v, object there: %v, want success %v; requests %v", err, there, want, f.log)
						}
						if e, ok := errors.AsType[*backends.Error](err); ok && (e.Code != backends.Unavailable || e.Ambiguous) {
							t.Errorf("got %v, want Unavailable and no doubt", err)
						}
						if ids := srv.Uploads(t, bucket, key); len(ids) > 0 {
							t.Errorf("unfinished uploads %v; requests %v", ids, f.log)
						}
					})
				}
			}
		}
	}
}

func TestPut_FailureLeavesNothing(t *testing.T) {
	errBody := errors.New("the source broke")
	for _, server := range []func(testing.TB) *testbed.S3{testbed.MinIO, testbed.SeaweedFS, testbed.VersityGW} {
		srv := server(t)
		bucket := srv.Bucket(t)
		d := mustOpen(t, at(srv, bucket), backends.Env{})
		long := random(3 * minPart)
		for name, body := range map[string]io.Reader{
			"short":  bytes.NewReader(long[:2*minPart+1]),
			"long":   io.MultiReader(bytes.NewReader(long), strings.NewReader("x")),
			"broken": io.MultiReader(bytes.NewReader(long[:2*minPart+1]), readerFunc(func([]byte) (int, error) { return 0, errBody })),
		} {
			want := error(backends.SizeMismatch)
			if name == "broken" {
				want = errBody
			}
			if _, err := d.Put(t.Context(), name, body, backends.PutOptions{Size: int64(len(long))}); !errors.Is(err, want) {
				t.Errorf("%s: got %v", name, err)
			}
			if ids := srv.Uploads(t, bucket, name); len(ids) > 0 {
				t.Errorf("%s: unfinished uploads %v", name, ids)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(bytes.NewReader(long[:2*minPart+1]), readerFunc(func(p []byte) (int, error) { cancel(); return copy(p, "x"), nil }))
		if _, err := d.Put(ctx, "cancelled", body, backends.PutOptions{Size: int64(len(long))}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if ids := srv.Uploads(t, bucket, "cancelled"); len(ids) > 0 {
			t.Errorf("unfinished uploads %v", ids)
		}
		if keys := srv.Objects(t, bucket); len(keys) > 0 {
			t.Errorf("objects %v", keys)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestPut_AnswerOfASinglePutLost: the object is there, and Put says so.
func TestPut_AnswerOfASinglePutLost(t *testing.T) {
	srv := testbed.MinIO(t)
	for _, ifAbsent := range []bool{false, true} {
		f := &faults{after: func(r *http.Request) error {
			if r.Method == http.MethodPut {
				return errCut
			}
			return nil
		}}
		o := at(srv, srv.Bucket(t))
		o.MaxAttempts = 2
		d := mustOpen(t, o, backends.Env{WrapTransport: f.wrap})
		info, err := d.Put(t.Context(), "k", strings.NewReader("mine"), backends.PutOptions{Size: 4, IfAbsent: ifAbsent})
		if err != nil || info.Size != 4 || info.Version == "" {
			t.Errorf("ifAbsent=%v: %+v, %v; requests %v", ifAbsent, info, err, f.log)
		}
	}
}

func TestPut_IfAbsentInParts(t *testing.T) {
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	d := mustOpen(t, at(srv, bucket), backends.Env{})
	data := random(minPart + 1)
	var done sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		done.Go(func() {
			_, errs[i] = d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(len(data)), IfAbsent: true})
		})
	}
	done.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, backends.Exists):
			t.Errorf("got %v, want Exists", err)
		}
	}
	if won != 1 {
		t.Errorf("%d creators won", won)
	}
	if ids := srv.Uploads(t, bucket, "k"); len(ids) > 0 {
		t.Errorf("unfinished uploads %v", ids)
	}
}

func TestUploads_FoundAndAborted(t *testing.T) {
	for _, server := range servers() {
		srv := server(t)
		bucket := srv.Bucket(t)
		d := mustOpen(t, at(srv, bucket), backends.Env{})
		core := minio.Core{Client: srv.Client(t)}
		const key = "dir/left over"
		id, err := core.NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ups, err := d.ListUploads(t.Context(), key)
		if err != nil || len(ups) != 1 || ups[0].Key != key || ups[0].ID != id || ups[0].Started.IsZero() {
			t.Fatalf("%s: got %+v, %v", srv.Name, ups, err)
		}
		if !strings.HasPrefix(srv.Name, "minio") { // MinIO takes the prefix for a whole key
			if byPrefix, err := d.ListUploads(t.Context(), "di"); err != nil || !slices.Equal(byPrefix, ups) {
				t.Errorf("%s: by prefix %+v, %v", srv.Name, byPrefix, err)
			}
		}
		if page, err := d.List(t.Context(), backends.ListOptions{}); err != nil || len(page.Infos) > 0 {
			t.Errorf("listed %+v, %v", page, err)
		}
		for range 2 { // one that is gone is success
			if err := d.AbortUpload(t.Context(), ups[0]); err != nil {
				t.Errorf("%s: %v", srv.Name, err)
			}
		}
		if ids := srv.Uploads(t, bucket, key); len(ids) > 0 {
			t.Errorf("%s: still there %v", srv.Name, ids)
		}
		if err := d.AbortUpload(t.Context(), backends.Upload{ID: "x"}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("without a key: %v", err)
		}
	}
}

func TestDeleteMany_OnServers(t *testing.T) {
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) {
			srv := server(t)
			bucket, f := srv.Bucket(t), new(faults)
			d := mustOpen(t, at(srv, bucket), backends.Env{WrapTransport: f.wrap})
			keys := []string{"a", "dir/b c", "dir/\u00e4+%&<>", "never/there"}
			for _, key := range keys[:3] {
				if _, err := d.Put(t.Context(), key, strings.NewReader("x"), backends.PutOptions{Size: 1}); err != nil {
					t.Fatal(err)
				}
			}
			f.reset()
			if err := d.DeleteMany(t.Context(), keys); err != nil {
				t.Fatal(err)
			}
			if got := srv.Objects(t, bucket); len(got) > 0 || len(f.log) != 1 {
				t.Errorf("left %q, requests %v", got, f.log)
			}
		})
	}
}

func TestDeleteMany_PartialFailure(t *testing.T) {
	d, w := forged(t, nil, func(r *http.Request) answer {
		if operation(r) == "delete" {
			return answer{status: 200, body: strings.NewReader(`<DeleteResult><Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error>` +
				`<Error><Key>c</Key><Code>NoSuchKey</Code></Error><Error><Key>d</Key><Code>InternalError</Code></Error></DeleteResult>`)}
		}
		return answer{status: 204}
	})
	err := d.DeleteMany(t.Context(), []string{"a", "b", "c", "d", "control\x01character"})
	bulk, ok := errors.AsType[*backends.BulkDeleteError](err)
	if !ok || len(bulk.Failed) != 2 || !errors.Is(bulk.Failed["b"], backends.Denied) || !strings.Contains(bulk.Failed["b"].Error(), "s3:DeleteObject") || !errors.Is(bulk.Failed["d"], backends.Unavailable) {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(w.requests(), ", "); got != "DELETE object, POST delete" {
		t.Errorf("requests: %s", got)
	}
}

// TestTLS_CertificateOfAnotherAuthority: clear, at once, and naming the settings.
func TestTLS_CertificateOfAnotherAuthority(t *testing.T) {
	srv := testbed.MinIOTLS(t)
	o, f := at(srv, srv.Bucket(t)), new(faults)
	o.CAFile, o.MaxAttempts = "", 5
	d := mustOpen(t, o, backends.Env{WrapTransport: f.wrap})
	_, err := d.List(t.Context(), backends.ListOptions{})
	if !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), keyCAFile) || len(f.log) != 1 {
		t.Errorf("got %v after %d requests", err, len(f.log))
	}
	o.SkipVerify = true
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); err != nil {
		t.Errorf("without checking: %v", err)
	}
	o.CAFile, o.SkipVerify = srv.CAFile, false
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); err != nil {
		t.Errorf("with %s: %v", keyCAFile, err)
	}
	t.Setenv("AWS_CA_BUNDLE", srv.CAFile)
	o.CAFile = ""
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); err != nil {
		t.Errorf("with AWS_CA_BUNDLE: %v", err)
	}
	o.Endpoint = strings.Replace(srv.Endpoint, "https:", "http:", 1)
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); err == nil || backends.CodeOf(err) == backends.NotFound {
		t.Errorf("plain HTTP to a TLS server: %v", err)
	}
	o = at(testbed.MinIO(t), "b")
	o.Endpoint = strings.Replace(o.Endpoint, "http:", "https:", 1)
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), keyEndpoint) {
		t.Errorf("TLS to a plain server: %v", err)
	}
}

func TestSSEC_OverTLS(t *testing.T) {
	srv := testbed.MinIOTLS(t)
	bucket := srv.Bucket(t)
	o := at(srv, bucket)
	o.SSE, o.CustomerKey = "customer", random(32)
	d := mustOpen(t, o, backends.Env{})
	for _, n := range []int{1000, minPart + 1} {
		data := random(n)
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(n)}); err != nil {
			t.Fatal(err)
		}
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(obj.Body)
		_ = obj.Body.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
	}
	without := at(srv, bucket)
	if _, err := mustOpen(t, without, backends.Env{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.All()}); err == nil {
		t.Error("read without the key")
	}
	if _, err := parseCustomerKey("customer", backends.NewSecret(base64.StdEncoding.EncodeToString(make([]byte, 31)))); err == nil {
		t.Error("a key of 31 bytes was taken")
	}
}

// TestGet_ConnectionsAreUsedAgain: one connection for many reads that end, and none left by one that does not.
func TestGet_ConnectionsAreUsedAgain(t *testing.T) {
	srv := testbed.MinIO(t)
	d := mustOpen(t, at(srv, srv.Bucket(t)), backends.Env{})
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(random(1<<20)), backends.PutOptions{Size: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	var fresh atomic.Int64
	ctx := traced(t.Context(), &fresh)
	for i := range 20 {
		obj, err := d.Get(ctx, "k", backends.GetOptions{Range: backends.Range{Offset: int64(i), Length: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(obj.Body); err != nil {
			t.Fatal(err)
		}
		_ = obj.Body.Close()
	}
	if n := fresh.Load(); n > 3 { // net/http gives one up whose writer it does not hear of within 50 ms
		t.Errorf("%d connections for 20 reads one after the other", n)
	}
	obj, err := d.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	_ = obj.Body.Close() // early: goleak and the next line see what stays
	if _, err := obj.Body.Read(make([]byte, 1)); !errors.Is(err, backends.Closed) {
		t.Errorf("read after close: %v", err)
	}
}

func TestGet_CloseUnblocksRead(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	d, _ := forged(t, nil, func(r *http.Request) answer {
		return answer{status: 200, header: http.Header{"Content-Length": {"10"}, "Etag": {`"e"`}}, body: readerFunc(func([]byte) (int, error) {
			select {
			case <-r.Context().Done():
				return 0, r.Context().Err()
			case <-block:
				return 0, io.EOF
			}
		})}
	})
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := obj.Body.Read(make([]byte, 5))
		result <- err
	}()
	_ = obj.Body.Close()
	if err := <-result; !errors.Is(err, backends.Closed) {
		t.Errorf("got %v, want Closed", err)
	}
}
