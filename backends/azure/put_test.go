package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
	"github.com/tierkit/tierkit/membudget"
)

func part(text string) parts.Part { return parts.Part{Number: 1, Bytes: []byte(text)} }

func whole(n int, size int64) parts.Whole { return parts.Whole{Parts: n, Size: size} }

const block = 256 << 10

func TestPut_SmallBodiesAreOneRequest(t *testing.T) {
	for _, tt := range []struct {
		size int
		want []string
	}{
		{0, []string{"PUT"}},
		{1000, []string{"PUT"}},
		{block, []string{"PUT"}},
		{block + 1, []string{"PUT block", "PUT block", "PUT blocklist"}},
		{3 * block, []string{"PUT block", "PUT block", "PUT block", "PUT blocklist"}},
	} {
		for _, known := range []bool{true, false} {
			w := new(wire)
			d := realBox(t, w, Options{BlockBytes: block})
			opts := backends.PutOptions{Size: backends.SizeUnknown}
			if known {
				opts.Size = int64(tt.size)
			}
			data := pattern(tt.size)
			if _, err := d.Put(t.Context(), "k", iotest.HalfReader(bytes.NewReader(data)), opts); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.log()); diff != "" {
				t.Errorf("%d bytes, known %v: %s", tt.size, known, diff)
			}
			if !bytes.Equal(mustGet(t, d, "k"), data) {
				t.Errorf("%d bytes: other bytes came back", tt.size)
			}
		}
	}
}

func TestPut_BlocksGoInParallelWithinTheMemoryGiven(t *testing.T) {
	d := realBox(t, new(wire), Options{BlockBytes: block, Concurrency: 3})
	least, want := d.PutMemory(backends.SizeUnknown)
	if least != membudget.Capacity(block) || want != 4*least {
		t.Errorf("memory %d to %d", least, want)
	}
	if small, _ := d.PutMemory(1000); small > membudget.Capacity(1000) {
		t.Errorf("1000 bytes need %d", small)
	}
}

func TestPut_BlockIDsAreThisUploadsAndOfTheJavaLength(t *testing.T) {
	d := forged(t, new(wire), Options{})
	seen := map[string]bool{}
	for range 3 {
		u := d.newUpload("k", backends.PutOptions{})
		for _, n := range []int{1, 2, 255, 256, 50_000} {
			id := u.blockID(n)
			raw, err := base64.StdEncoding.DecodeString(id)
			if err != nil || len(raw) != 36 || len(id) != 48 || seen[id] {
				t.Errorf("id %q of block %d: %d bytes, %v, seen %v", id, n, len(raw), err, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestPut_ChecksumsGoWithEachRequest(t *testing.T) {
	if got := crc64.Checksum([]byte("123456789"), crcTable()); got != 0xAE8B14860A799888 { // the check value of CRC-64/NVME
		t.Errorf("CRC-64 of the check text: %x", got)
	}
	for _, tt := range []struct{ checksum, endpoint, md5, crc string }{
		{"", "http://127.0.0.1:1/devstoreaccount1", "kAFQmDzST7DWlj99KOF/cg==", ""},
		{"auto", "https://account.blob.core.windows.net", "", "6/rBP7vK5QU="},
		{"auto", "https://account.blob.core.chinacloudapi.cn", "", "6/rBP7vK5QU="},
		{"md5", "https://account.blob.core.windows.net", "kAFQmDzST7DWlj99KOF/cg==", ""},
		{"crc64", "http://127.0.0.1:1/devstoreaccount1", "", "6/rBP7vK5QU="},
		{"none", "https://account.blob.core.windows.net", "", ""},
	} {
		for _, op := range []string{"put", "block"} {
			w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
				return forge(req, 201, ""), nil
			}}
			d := forged(t, w, Options{Endpoint: tt.endpoint, Checksum: tt.checksum})
			if err := operate(t.Context(), d, op); err != nil {
				t.Fatal(err)
			}
			if md5, crc := w.header(0, "Content-Md5"), w.header(0, "X-Ms-Content-Crc64"); md5 != tt.md5 || crc != tt.crc {
				t.Errorf("%+v %s: sent %q %q", tt, op, md5, crc)
			}
		}
	}
}

// TestPut_LostAnswersAreResolved: what the service did is found out, not guessed.
func TestPut_LostAnswersAreResolved(t *testing.T) {
	for name, tt := range map[string]struct {
		size     int
		commit   string // the request that makes the object
		ifAbsent bool
		attempts int
		lose     func(req *http.Request, next http.RoundTripper) (*http.Response, error)
		want     backends.Code // Unknown: success
		doubt    bool
	}{
		"single, done":                {100, "PUT", false, 1, loseAnswer, backends.Unknown, false},
		"blocks, done":                {block * 2, "PUT blocklist", false, 1, loseAnswer, backends.Unknown, false},
		"single, done, tried again":   {100, "PUT", true, 3, loseAnswer, backends.Unknown, false},
		"blocks, done, tried again":   {block * 2, "PUT blocklist", true, 3, loseAnswer, backends.Unknown, false},
		"blocks, repeated, no absent": {block * 2, "PUT blocklist", false, 3, loseAnswer, backends.Unknown, false},
		"single, never came":          {100, "PUT", false, 1, func(req *http.Request, _ http.RoundTripper) (*http.Response, error) { return loseRequest(req) }, backends.Unavailable, true},
		"blocks, never came":          {block * 2, "PUT blocklist", false, 1, func(req *http.Request, _ http.RoundTripper) (*http.Response, error) { return loseRequest(req) }, backends.Unavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			lost := false
			w := new(wire)
			w.act = func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if !lost && strings.TrimSpace(req.Method+" "+req.URL.Query().Get("comp")) == tt.commit {
					lost = true
					return tt.lose(req, next)
				}
				return next.RoundTrip(req)
			}
			d := realBox(t, w, Options{BlockBytes: block, MaxAttempts: tt.attempts})
			data := pattern(tt.size)
			info, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(tt.size), IfAbsent: tt.ifAbsent, Meta: map[string]string{"a": "b"}})
			if !lost {
				t.Fatal("nothing was lost")
			}
			if tt.want != backends.Unknown {
				if e := errorOf(t, err); e.Code != tt.want || e.Ambiguous != tt.doubt {
					t.Errorf("got %v", e)
				}
				if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
					t.Errorf("stat: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stat, err := d.Stat(t.Context(), "k")
			if diff := cmp.Diff(stat, info); err != nil || diff != "" {
				t.Errorf("put and stat differ: %v %s", err, diff)
			}
			if !bytes.Equal(mustGet(t, d, "k"), data) {
				t.Error("other bytes came back")
			}
		})
	}
}

// TestPut_AnotherWritersObjectIsNotMine: the answer was lost, and what is there now is somebody else's.
func TestPut_AnotherWritersObjectIsNotMine(t *testing.T) {
	w := new(wire)
	d := realBox(t, w, Options{MaxAttempts: 1})
	other := realBox(t, new(wire), Options{Container: d.o.Container})
	w.act = func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if n == 0 {
			mustPut(t, other, "k", []byte("xyz")) // as long as ours
			return loseRequest(req)
		}
		return next.RoundTrip(req)
	}
	_, err := d.Put(t.Context(), "k", strings.NewReader("abc"), backends.PutOptions{Size: 3})
	if e := errorOf(t, err); e.Code != backends.Unavailable || !e.Ambiguous {
		t.Errorf("got %v", e)
	}
	if got := mustGet(t, d, "k"); string(got) != "xyz" {
		t.Errorf("left is %q", got)
	}
}

// TestPut_TwoWritersOfOneKeyNeverMix: the first commit drops the other's blocks; the Store sends a body that can be rewound once more.
func TestPut_TwoWritersOfOneKeyNeverMix(t *testing.T) {
	d := realBox(t, new(wire), Options{BlockBytes: block, Concurrency: 1})
	mine, theirs := pattern(3*block), bytes.Repeat([]byte("t"), 2*block+5)
	body := &interrupted{data: mine, at: 2*block + 10, do: func() { mustPut(t, d, "k", theirs) }}
	_, err := d.Put(t.Context(), "k", body, backends.PutOptions{Size: int64(len(mine))})
	if e := errorOf(t, err); e.Code != backends.Unavailable || !e.Restart || e.Ambiguous || !strings.Contains(e.Error(), "InvalidBlockList") {
		t.Errorf("got %v, restart %v", e, e.Restart)
	}
	if !bytes.Equal(mustGet(t, d, "k"), theirs) {
		t.Error("the other writer's object is damaged")
	}

	s, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	body = &interrupted{data: mine, at: 2*block + 10, do: func() { mustPut(t, d, "k", theirs) }}
	if _, err := s.Put(t.Context(), "k", body, backends.PutOptions{Size: int64(len(mine))}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustGet(t, d, "k"), mine) || body.rewound != 1 {
		t.Errorf("rewound %d times, other bytes came back", body.rewound)
	}
}

// interrupted is a body in the middle of which something else happens, once.
type interrupted struct {
	data    []byte
	off, at int
	do      func()
	rewound int
}

func (b *interrupted) Read(p []byte) (int, error) {
	if b.off >= b.at && b.do != nil {
		b.do()
		b.do = nil
	}
	if b.off == len(b.data) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 64<<10)], b.data[b.off:])
	b.off += n
	return n, nil
}

func (b *interrupted) Rewind() error { b.off = 0; b.rewound++; return nil }

func TestPut_FailedUploadIsSeenByNobodyButListUploads(t *testing.T) {
	d := realBox(t, new(wire), Options{BlockBytes: block})
	broken := io.MultiReader(bytes.NewReader(pattern(2*block+5)), iotest.ErrReader(errCut))
	if _, err := d.Put(t.Context(), "a/b", broken, backends.PutOptions{Size: 10 * block}); !errors.Is(err, errCut) {
		t.Fatalf("got %v", err)
	}
	mustPut(t, d, "a/c", []byte("x"))
	if _, err := d.Stat(t.Context(), "a/b"); !errors.Is(err, backends.NotFound) {
		t.Errorf("stat: %v", err)
	}
	page, err := d.List(t.Context(), backends.ListOptions{})
	if err != nil || len(page.Infos) != 1 || page.Infos[0].Key != "a/c" {
		t.Errorf("list: %+v, %v", page, err)
	}
	ups, err := d.ListUploads(t.Context(), "a/")
	if err != nil || len(ups) != 1 || ups[0].Key != "a/b" || ups[0].Bytes != 2*block || ups[0].Started.IsZero() {
		t.Fatalf("uploads: %+v, %v", ups, err)
	}
	if other, err := d.ListUploads(t.Context(), "b"); err != nil || len(other) > 0 {
		t.Errorf("of another prefix: %+v, %v", other, err)
	}
	if err := d.AbortUpload(t.Context(), ups[0]); !errors.Is(err, backends.Unsupported) || !strings.Contains(err.Error(), "week") {
		t.Errorf("abort: %v", err)
	}
	if err := d.AbortUpload(t.Context(), backends.Upload{Key: "none", ID: uncommitted}); err != nil {
		t.Errorf("abort of what is gone: %v", err)
	}
	mustPut(t, d, "a/b", pattern(3*block)) // the leftovers do not stand in its way
	if ups, err := d.ListUploads(t.Context(), ""); err != nil || len(ups) > 0 {
		t.Errorf("after the next upload: %+v, %v", ups, err)
	}
}

func TestPut_CancelledWhileBlocksAreSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := new(wire)
	w.act = func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if n == 1 {
			cancel()
		}
		return next.RoundTrip(req)
	}
	d := realBox(t, w, Options{BlockBytes: block})
	_, err := d.Put(ctx, "k", bytes.NewReader(pattern(5*block)), backends.PutOptions{Size: 5 * block})
	if !errors.Is(err, context.Canceled) || slices.Contains(w.log(), "PUT blocklist") {
		t.Errorf("got %v, requests %v", err, w.log())
	}
}

func TestMeta_NamesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-z0-9_-]{1,20}`).Draw(t, "key")
		name := encodeName(key)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || name[0] >= '0' && name[0] <= '9' {
			t.Fatalf("%q becomes %q, which is no identifier", key, name)
		}
		if got := decodeName(http.CanonicalHeaderKey(name)); got != key {
			t.Fatalf("%q becomes %q becomes %q", key, name, got)
		}
	})
	for _, foreign := range []string{"a_b", "_", "_x", "plain", "a_"} {
		if got := decodeName(foreign); got != foreign {
			t.Errorf("a foreign %q becomes %q", foreign, got)
		}
	}
	d := realBox(t, new(wire), Options{})
	meta := map[string]string{"token": "x y", "a-b_c": "1", "9nine": "", "_": "u"}
	if _, err := d.Put(t.Context(), "k", strings.NewReader("x"), backends.PutOptions{Size: 1, Meta: meta}); err != nil {
		t.Fatal(err)
	}
	delete(meta, "9nine") // Azurite drops values that are empty
	stat, err := d.Stat(t.Context(), "k")
	delete(stat.Meta, "9nine")
	if diff := cmp.Diff(meta, stat.Meta); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	full := map[string]string{"k": strings.Repeat("v", backends.MaxMetaBytes-1)}
	if got := newToken(full); got != "" {
		t.Errorf("metadata that is full got the token %s", got)
	}
}

func TestKeys_ThatAzureWouldChangeAreRefused(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	for _, key := range []string{`a\b`, "a.", "a./b", "a/..", strings.Repeat("a/", 254) + "a"} {
		if _, err := d.Put(t.Context(), key, strings.NewReader(""), backends.PutOptions{}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("put %.20q: %v", key, err)
		}
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("stat %.20q: %v", key, err)
		}
	}
	for i, key := range []string{"/a", "a//b", "a/", "a b+%20?#&", "\u00e4/\u4e2d", strings.Repeat("a/", 253) + "a", "x/y", "x/y/z", strings.Repeat("k", 1000)} {
		data := []byte(fmt.Sprint(i))
		mustPut(t, d, key, data)
		if got := mustGet(t, d, key); !bytes.Equal(got, data) {
			t.Errorf("key %.20q: got %q", key, got)
		}
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: key, Limit: 1})
		if err != nil || len(page.Infos) != 1 || page.Infos[0].Key != key {
			t.Errorf("list %.20q: %+v, %v", key, page.Infos, err)
		}
	}
}
