package backends_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/internal/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit)) }

// place opens drivers over one namespace: each call is another client.
type place func(t *testing.T) backends.Driver

func places(t *testing.T) map[string]place {
	t.Helper()
	space, dir, fast := new(mem.Space), t.TempDir(), t.TempDir()
	open := func(root string, noSync bool) place {
		return func(t *testing.T) backends.Driver {
			t.Helper()
			d, err := fs.Open(t.Context(), fs.Options{Root: root, NoSync: noSync})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	return map[string]place{
		"mem":          func(*testing.T) backends.Driver { return space.Client(mem.Options{}) },
		"fs":           open(dir, false),
		"fs-no-sync":   open(fast, true),
		"s3-minio":     bucket(testbed.MinIO, "crc32c"),
		"s3-minio-tls": bucket(testbed.MinIOTLS, "auto"),
		"s3-seaweedfs": bucket(testbed.SeaweedFS, "auto"),
		"s3-versitygw": bucket(testbed.VersityGW, "crc32c"),
		"azure":        blobs(),
		"gcs":          objects(),
	}
}

// bucket is a place in a bucket of its own.
func bucket(server func(testing.TB) *testbed.S3, checksum string) place {
	name := ""
	return func(t *testing.T) backends.Driver {
		t.Helper()
		srv := server(t)
		if name == "" {
			name = srv.Bucket(t)
		}
		d, err := s3.Open(t.Context(), s3.Options{
			Bucket: name, Endpoint: srv.Endpoint, CAFile: srv.CAFile, Checksum: checksum, PartBytes: 5 << 20,
			Credentials: s3.Credentials{AccessKey: backends.NewSecret(srv.AccessKey), SecretKey: backends.NewSecret(srv.SecretKey)},
		}, backends.Env{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
}

// contract is one rule that every driver keeps; the suite has more of them.
type contract struct {
	name string
	run  func(t *testing.T, p place)
}

func TestContract(t *testing.T) {
	for _, c := range contracts() {
		t.Run(c.name, func(t *testing.T) {
			for name, p := range places(t) {
				if slices.Contains(deviations()[name], c.name) {
					continue
				}
				t.Run(name, func(t *testing.T) { c.run(t, p) })
			}
		})
	}
}

// deviations are what servers do differently, of which nothing can be made by a driver. SeaweedFS lists directory after directory, so that "a/x"
// comes before "a-b": keys of segments never differ like that. Versity S3 Gateway keeps objects in directories that come and go with them, and refuses a
// put when the directory goes in between.
func deviations() map[string][]string {
	return map[string][]string{
		"s3-seaweedfs": {"list/order-and-pages", "list/prefix-is-text"},
		"s3-versitygw": {"conc/mixed"},
		"azure":        {"list/order-and-pages"},
	}
}

func contracts() []contract {
	return []contract{
		{"put/read-after-write", putReadAfterWrite},
		{"put/sizes-and-sources", putSources},
		{"put/failed-put-keeps-old", failedPut},
		{"put/panic", putPanic},
		{"get/ranges", getRanges},
		{"get/missing", getMissing},
		{"get/close", getClose},
		{"get/if-version", getIfVersion},
		{"get/old-version-stays-readable", readerInFlight},
		{"ifabsent/race", ifAbsentRace},
		{"delete/only-that-key", deleteOnlyThat},
		{"list/order-and-pages", listPages},
		{"list/prefix-is-text", listPrefix},
		{"list/bad-token", listBadToken},
		{"ctx/dead-on-entry", deadOnEntry},
		{"ctx/cancel-in-the-middle", cancelInTheMiddle},
		{"close/after", closeAfter},
		{"conc/mixed", concurrentMix},
	}
}

func mustPut(t *testing.T, d backends.Driver, key string, data []byte) backends.Info {
	t.Helper()
	info, err := d.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info
}

func mustGet(t *testing.T, d backends.Driver, key string, r backends.Range) []byte {
	t.Helper()
	obj, err := d.Get(t.Context(), key, backends.GetOptions{Range: r})
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	data, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	if int64(len(data)) != obj.Length {
		t.Fatalf("read %q: %d bytes, Length says %d", key, len(data), obj.Length)
	}
	if err := obj.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func keysOf(t *testing.T, d backends.Driver, prefix string) []string {
	t.Helper()
	keys := []string{}
	for token := ""; ; {
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: prefix, Token: token})
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		for _, i := range page.Infos {
			keys = append(keys, i.Key)
		}
		if token = page.Next; token == "" {
			return keys
		}
	}
}

func pending(t *testing.T, d backends.Driver) []backends.Upload {
	t.Helper()
	l, ok := d.(backends.UploadLister)
	if !ok || d.Properties().PendingExpires > 0 { // the store drops them by itself
		return nil
	}
	ups, err := l.ListUploads(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return ups
}

func random(seed uint64, n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(out)
	return out
}

func putReadAfterWrite(t *testing.T, p place) {
	d, other := p(t), p(t)
	meta := map[string]string{"token": "abc-1"}
	for _, n := range []int{0, 1, 4095, 256<<10 - 1, 256 << 10, 256<<10 + 1, 1 << 20} {
		data := random(uint64(n), n)
		for _, size := range []int64{int64(n), backends.SizeUnknown} {
			sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
			info, err := d.Put(t.Context(), "a/b", bytes.NewReader(data), backends.PutOptions{Size: size, Meta: meta, CRC32C: &sum})
			if err != nil {
				t.Fatalf("%d bytes, size %d: %v", n, size, err)
			}
			stat, err := other.Stat(t.Context(), "a/b")
			if err != nil {
				t.Fatal(err)
			}
			if info.ModTime.IsZero() { // the store does not tell after a put
				stat.ModTime = info.ModTime
			}
			if diff := cmp.Diff(info, stat, cmpopts.IgnoreFields(backends.Info{}, "Meta"), cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("put and stat differ: %s", diff)
			}
			if d.Properties().UserMeta && !cmp.Equal(stat.Meta, meta) {
				t.Errorf("meta: got %v", stat.Meta)
			}
			if info.Size != int64(n) || info.Key != "a/b" || info.Version == "" {
				t.Errorf("info: %+v", info)
			}
			if !bytes.Equal(mustGet(t, other, "a/b", backends.All()), data) {
				t.Errorf("%d bytes: other bytes came back", n)
			}
		}
	}
}

// guarded is a body that fails the test when it is used against the rules.
type guarded struct {
	t      *testing.T
	r      io.Reader
	mu     sync.Mutex
	isOver bool
}

func (g *guarded) Read(p []byte) (int, error) {
	if !g.mu.TryLock() {
		g.t.Error("two reads at the same time")
		return 0, io.EOF
	}
	defer g.mu.Unlock()
	if g.isOver {
		g.t.Error("read after put returned")
	}
	return g.r.Read(p)
}

func (g *guarded) Close() error { g.t.Error("body was closed"); return nil }

func (g *guarded) over() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isOver = true
}

var errSource = errors.New("the source broke")

func putSources(t *testing.T, p place) {
	d := p(t)
	data := random(1, 600<<10)
	wrong := crc32.Checksum(data, crc32.IEEETable)
	size := int64(len(data))
	tests := []struct {
		name string
		body io.Reader
		opts backends.PutOptions
		want error // nil: the bytes are stored
	}{
		{"one byte at a time", iotest.OneByteReader(bytes.NewReader(data)), backends.PutOptions{Size: size}, nil},
		{"halves", iotest.HalfReader(bytes.NewReader(data)), backends.PutOptions{Size: size}, nil},
		{"data with EOF", iotest.DataErrReader(bytes.NewReader(data)), backends.PutOptions{Size: backends.SizeUnknown}, nil},
		{"error at 0", iotest.ErrReader(errSource), backends.PutOptions{Size: size}, errSource},
		{"error later", io.MultiReader(bytes.NewReader(data[:300<<10]), iotest.ErrReader(errSource)), backends.PutOptions{Size: size}, errSource},
		{"error at the end", io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errSource)), backends.PutOptions{Size: size}, errSource},
		{"short", bytes.NewReader(data[:size-1]), backends.PutOptions{Size: size}, backends.SizeMismatch},
		{"long", bytes.NewReader(data), backends.PutOptions{Size: size - 1}, backends.SizeMismatch},
		{"forgot the size", bytes.NewReader(data), backends.PutOptions{}, backends.SizeMismatch},
		{"other checksum", bytes.NewReader(data), backends.PutOptions{Size: size, CRC32C: &wrong}, backends.Corrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := &guarded{t: t, r: tt.body}
			_, err := d.Put(t.Context(), "k", body, tt.opts)
			body.over()
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if ups := pending(t, d); len(ups) > 0 {
				t.Errorf("left behind: %+v", ups)
			}
			if tt.want != nil {
				if keys := keysOf(t, d, ""); len(keys) > 0 {
					t.Errorf("a failed put left %q", keys)
				}
				return
			}
			if !bytes.Equal(mustGet(t, d, "k", backends.All()), data) {
				t.Error("other bytes came back")
			}
			if err := d.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func failedPut(t *testing.T, p place) {
	d := p(t)
	mustPut(t, d, "k", []byte("old"))
	_, err := d.Put(t.Context(), "k", io.MultiReader(strings.NewReader("new"), iotest.ErrReader(errSource)), backends.PutOptions{Size: 10})
	if !errors.Is(err, errSource) {
		t.Fatalf("got %v", err)
	}
	if got := mustGet(t, d, "k", backends.All()); string(got) != "old" {
		t.Errorf("got %q, want old", got)
	}
}

func putPanic(t *testing.T, p place) {
	d := p(t)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v, want boom", r)
			}
		}()
		_, err := d.Put(t.Context(), "k", readerFunc(func([]byte) (int, error) { panic("boom") }), backends.PutOptions{Size: 5})
		t.Errorf("put returned %v", err)
	}()
	if ups, keys := pending(t, d), keysOf(t, d, ""); len(ups)+len(keys) > 0 {
		t.Errorf("left behind: %v %v", ups, keys)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func getRanges(t *testing.T, p place) {
	d := p(t)
	data := random(2, 700<<10)
	size := int64(len(data))
	mustPut(t, d, "k", data)
	mustPut(t, d, "empty", nil)
	tests := []struct {
		key         string
		r           backends.Range
		off, length int64 // length < 0: InvalidRange
	}{
		{"k", backends.All(), 0, size},
		{"k", backends.Range{Offset: 0, Length: -42}, 0, size},
		{"k", backends.Range{Offset: 5, Length: 1}, 5, 1},
		{"k", backends.Range{Offset: 256<<10 - 7, Length: 1000}, 256<<10 - 7, 1000},
		{"k", backends.Range{Offset: size - 1, Length: 1}, size - 1, 1},
		{"k", backends.Range{Offset: 10, Length: 512 << 10}, 10, 512 << 10},
		{"k", backends.Range{Offset: 10, Length: -1}, 10, size - 10},
		{"k", backends.Range{Offset: size - 3, Length: 100}, size - 3, 3},
		{"k", backends.Range{Offset: 7, Length: math.MaxInt64}, 7, size - 7},
		{"k", backends.Range{Offset: size, Length: 1}, 0, -1},
		{"k", backends.Range{Offset: size, Length: -1}, 0, -1},
		{"k", backends.Range{Offset: size + 1, Length: -1}, 0, -1},
		{"k", backends.Range{Offset: math.MaxInt64, Length: math.MaxInt64}, 0, -1},
		{"empty", backends.All(), 0, 0},
		{"empty", backends.Range{Offset: 0, Length: 5}, 0, -1},
		{"empty", backends.Range{Offset: 1, Length: -1}, 0, -1},
	}
	for _, tt := range tests {
		obj, err := d.Get(t.Context(), tt.key, backends.GetOptions{Range: tt.r})
		if tt.length < 0 {
			if !errors.Is(err, backends.InvalidRange) {
				t.Errorf("%s %+v: got %v, want InvalidRange", tt.key, tt.r, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %+v: %v", tt.key, tt.r, err)
			continue
		}
		if obj.Offset != tt.off || obj.Length != tt.length {
			t.Errorf("%s %+v: got %d at %d, want %d at %d", tt.key, tt.r, obj.Length, obj.Offset, tt.length, tt.off)
		}
		want := []byte{}
		if tt.key == "k" {
			want = data[tt.off : tt.off+tt.length]
		}
		if tt.length > 4096 { // TestReader reads byte by byte
			got, err := io.ReadAll(obj.Body)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s %+v: %d bytes, %v", tt.key, tt.r, len(got), err)
			}
		} else if err := iotest.TestReader(obj.Body, want); err != nil {
			t.Errorf("%s %+v: %v", tt.key, tt.r, err)
		}
		_ = obj.Body.Close()
	}
}

func getMissing(t *testing.T, p place) {
	d := p(t)
	mustPut(t, d, "a/b", []byte("x"))
	keys := []string{"z", "a/b2"}
	if !d.Properties().FlatKeys {
		keys = append(keys, "a", "a/b/c", "a/b/c/d")
	}
	for _, key := range keys {
		for _, r := range []backends.Range{backends.All(), {Offset: 3, Length: 4}} {
			_, err := d.Get(t.Context(), key, backends.GetOptions{Range: r})
			if !errors.Is(err, backends.NotFound) || !errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("get %q: got %v, want NotFound", key, err)
			}
		}
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, backends.NotFound) {
			t.Errorf("stat %q: got %v, want NotFound", key, err)
		}
		if err := d.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if got := keysOf(t, d, ""); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("left are %q", got)
	}
}

func getClose(t *testing.T, p place) {
	d := p(t)
	mustPut(t, d, "k", random(3, 100<<10))
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(obj.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := obj.Body.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if n, err := obj.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, backends.Closed) {
		t.Errorf("read after close: %d, %v", n, err)
	}
}

func getIfVersion(t *testing.T, p place) {
	d := p(t)
	seen := map[string]bool{}
	for i := range 50 { // the same size each time, as fast as it goes: times of the kernel's clock would be the same
		info := mustPut(t, d, "k", []byte(fmt.Sprintf("%04d", i)))
		if seen[info.Version] {
			t.Fatalf("version %s came twice", info.Version)
		}
		seen[info.Version] = true
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: info.Version})
		if err != nil {
			t.Fatal(err)
		}
		_ = obj.Body.Close()
	}
	for v := range seen {
		_, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: v})
		if err != nil && !errors.Is(err, backends.Precondition) {
			t.Errorf("got %v, want Precondition", err)
		}
	}
	if _, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: "other"}); !errors.Is(err, backends.Precondition) {
		t.Errorf("got %v, want Precondition", err)
	}
}

func readerInFlight(t *testing.T, p place) {
	d := p(t)
	old := random(4, 300<<10)
	mustPut(t, d, "k", old)
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	mustPut(t, d, "k", random(5, 300<<10))
	if err := d.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(obj.Body)
	broken := d.Properties().HTTP && errors.Is(err, io.ErrUnexpectedEOF) && bytes.Equal(got, old[:len(got)]) // allowed, a mix is not
	if !broken && (err != nil || !bytes.Equal(got, old)) {
		t.Errorf("got %d bytes, %v, want the old ones", len(got), err)
	}
}
