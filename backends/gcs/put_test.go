package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

const chunk = 256 << 10

func TestPut_BodiesThatFitAChunkAreOneRequest(t *testing.T) {
	for _, tt := range []struct {
		size           int
		known, unknown []string
	}{
		{0, []string{"POST multipart"}, []string{"POST multipart"}},
		{1000, []string{"POST multipart"}, []string{"POST multipart"}},
		{chunk - 1, []string{"POST multipart"}, []string{"POST multipart"}},
		{chunk, []string{"POST multipart"}, []string{"POST resumable", "POST chunk", "POST chunk"}},
		{chunk + 1, []string{"POST resumable", "POST chunk", "POST chunk"}, []string{"POST resumable", "POST chunk", "POST chunk"}},
		{2*chunk + 5, []string{"POST resumable", "POST chunk", "POST chunk", "POST chunk"}, []string{"POST resumable", "POST chunk", "POST chunk", "POST chunk"}},
	} {
		for _, known := range []bool{true, false} {
			w := new(wire)
			d := realBox(t, w, Options{ChunkBytes: chunk})
			opts, want := backends.PutOptions{Size: backends.SizeUnknown}, tt.unknown
			if known {
				opts.Size, want = int64(tt.size), tt.known
			}
			data := pattern(tt.size)
			info, err := d.Put(t.Context(), "k", iotest.HalfReader(bytes.NewReader(data)), opts)
			if err != nil {
				t.Fatalf("%d bytes, known %v: %v", tt.size, known, err)
			}
			if diff := cmp.Diff(want, w.log()); diff != "" {
				t.Errorf("%d bytes, known %v: %s", tt.size, known, diff)
			}
			if !bytes.Equal(mustGet(t, d, "k"), data) || info.Size != int64(tt.size) {
				t.Errorf("%d bytes: other bytes came back", tt.size)
			}
		}
	}
}

// TestPut_MemoryIsThatOfItsNeed: the least is enough, and comes back, so that the Store may send a body twice on one reservation.
func TestPut_MemoryIsThatOfItsNeed(t *testing.T) {
	d := realBox(t, new(wire), Options{ChunkBytes: 4 * chunk})
	for size, buffer := range map[int64]int64{0: chunk, 1000: chunk, chunk: 2 * chunk, 4 * chunk: 5 * chunk, 4*chunk + 1: 4 * chunk, backends.SizeUnknown: 4 * chunk} {
		least, want := d.PutMemory(size)
		if least != buffer+membudget.Capacity(copyBytes) || want != least {
			t.Errorf("size %d needs %d to %d", size, least, want)
		}
	}
	least, _ := d.PutMemory(5 * chunk)
	b, err := membudget.New(64<<20, membudget.Needs{Copy: least, Fetch: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.Reserve(t.Context(), membudget.Copy, least)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Release()
	for range 2 {
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(5*chunk)), backends.PutOptions{Size: 5 * chunk, Memory: res}); err != nil {
			t.Fatal(err)
		}
	}
	if got := res.Unused(); got != least {
		t.Errorf("%d bytes are unused after, want all %d", got, least)
	}
	tight := res.Split(least - 1)
	defer tight.Release()
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(pattern(5*chunk)), backends.PutOptions{Size: 5 * chunk, Memory: tight}); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("too little memory: %v", err)
	}
}

// TestPut_ABodyThatFailsCommitsNothing: to close the SDK's Writer would.
func TestPut_ABodyThatFailsCommitsNothing(t *testing.T) {
	sum := crc32.Checksum([]byte("other"), castagnoli())
	for _, size := range []int{10, chunk + 10, 3*chunk + 10} {
		data := pattern(size)
		for name, tt := range map[string]struct {
			body io.Reader
			opts backends.PutOptions
			want error
		}{
			"error":          {io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errCut)), backends.PutOptions{Size: backends.SizeUnknown}, errCut},
			"short":          {bytes.NewReader(data), backends.PutOptions{Size: int64(size) + 1}, backends.SizeMismatch},
			"long":           {bytes.NewReader(data), backends.PutOptions{Size: int64(size) - 1}, backends.SizeMismatch},
			"other checksum": {bytes.NewReader(data), backends.PutOptions{Size: int64(size), CRC32C: &sum}, backends.Corrupt},
			"no progress":    {io.MultiReader(bytes.NewReader(data), readerFunc(func([]byte) (int, error) { return 0, nil })), backends.PutOptions{Size: backends.SizeUnknown}, io.ErrNoProgress},
		} {
			w := new(wire)
			d := realBox(t, w, Options{ChunkBytes: chunk})
			if _, err := d.Put(t.Context(), "k", tt.body, tt.opts); !errors.Is(err, tt.want) {
				t.Errorf("%s after %d bytes: %v", name, size, err)
			}
			for i, what := range w.log() {
				if r := w.request(i).Header.Get("Content-Range"); what == "POST multipart" || what == "POST chunk" && !strings.HasSuffix(r, "/*") {
					t.Errorf("%s after %d bytes: sent %s %s", name, size, what, r)
				}
			}
			if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
				t.Errorf("%s after %d bytes: stat %v", name, size, err)
			}
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestPut_LostAnswersAreResolved: what the service did is found out, not guessed.
func TestPut_LostAnswersAreResolved(t *testing.T) {
	for name, tt := range map[string]struct {
		size     int
		ifAbsent bool
		attempts int
		lose     func(*http.Request, http.RoundTripper) (*http.Response, error)
		want     backends.Code // Unknown: success
	}{
		"single, done":                   {100, false, 1, loseAnswer, backends.Unknown},
		"single, done, tried again":      {100, false, 3, loseAnswer, backends.Unknown},
		"single, absent, tried again":    {100, true, 3, loseAnswer, backends.Unknown},
		"single, absent, done":           {100, true, 1, loseAnswer, backends.Unknown},
		"chunks, done":                   {2*chunk + 9, false, 1, loseAnswer, backends.Unknown},
		"chunks, absent, done":           {2*chunk + 9, true, 1, loseAnswer, backends.Unknown},
		"single, never came":             {100, false, 1, loseRequest, backends.Unavailable},
		"single, never came at first":    {100, false, 2, loseRequest, backends.Unknown},
		"chunks, the last never came":    {2*chunk + 9, false, 1, loseRequest, backends.Unavailable},
		"chunks, never came, tried once": {2*chunk + 9, false, 2, loseRequest, backends.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			lost := false
			w := new(wire)
			w.act = func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				last := describeRequest(req) == "POST multipart" || strings.Contains(req.Header.Get("Content-Range"), fmt.Sprintf("/%d", tt.size))
				if !lost && last {
					lost = true
					return tt.lose(req, next)
				}
				return next.RoundTrip(req)
			}
			d := realBox(t, w, Options{ChunkBytes: chunk, MaxAttempts: tt.attempts})
			data := pattern(tt.size)
			info, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(tt.size), IfAbsent: tt.ifAbsent, Meta: map[string]string{"a": "b"}})
			if !lost {
				t.Fatal("nothing was lost")
			}
			if tt.want != backends.Unknown {
				e := errorOf(t, err)
				if e.Code != tt.want || !e.Ambiguous || strings.Contains(err.Error(), "upload_id") {
					t.Errorf("got %v", err)
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
	for _, ifAbsent := range []bool{false, true} {
		w := new(wire)
		d := realBox(t, w, Options{MaxAttempts: 2})
		other := realBox(t, new(wire), Options{Bucket: d.o.Bucket})
		first := true
		w.act = func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if describeRequest(req) != "POST multipart" {
				return next.RoundTrip(req)
			}
			if first {
				first = false
				mustPut(t, other, "k", []byte("xyz")) // as long as ours
				return loseRequest(req, next)
			}
			if ifAbsent {
				return next.RoundTrip(req)
			}
			return loseRequest(req, next)
		}
		_, err := d.Put(t.Context(), "k", strings.NewReader("abc"), backends.PutOptions{Size: 3, IfAbsent: ifAbsent})
		e := errorOf(t, err)
		if ifAbsent && (e.Code != backends.Exists || e.Ambiguous) || !ifAbsent && (e.Code != backends.Unavailable || !e.Ambiguous) {
			t.Errorf("if absent %v: got %v", ifAbsent, e)
		}
		if got := mustGet(t, d, "k"); string(got) != "xyz" {
			t.Errorf("left is %q", got)
		}
	}
}

// TestPut_WhatTheStoreSaysItHasIsCompared, and a damaged object removed, by its generation.
func TestPut_WhatTheStoreSaysItHasIsCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		want   backends.Code
	}{
		"other checksum": {`{"name":"k","size":"3","crc32c":"AAAAAA==","generation":"42"}`, backends.Corrupt},
		"other size":     {fmt.Sprintf(`{"name":"k","size":"4","crc32c":%q,"generation":"42"}`, crcText("abc")), backends.Corrupt},
		"the same":       {fmt.Sprintf(`{"name":"k","size":"3","crc32c":%q,"generation":"42"}`, crcText("abc")), backends.Unknown},
	} {
		deleted := ""
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			if req.Method == http.MethodDelete {
				deleted = req.URL.Query().Get("ifGenerationMatch")
				return reply(req, 204, ""), nil
			}
			return reply(req, 200, tt.object), nil
		}}
		_, err := forged(t, w, Options{MaxAttempts: 1}).Put(t.Context(), "k", strings.NewReader("abc"), backends.PutOptions{Size: 3})
		if backends.CodeOf(err) != tt.want || (err == nil) != (tt.want == backends.Unknown) {
			t.Errorf("%s: %v", name, err)
		}
		if want := map[bool]string{true: "", false: "42"}[tt.want == backends.Unknown]; deleted != want {
			t.Errorf("%s: deleted generation %q, want %q", name, deleted, want)
		}
	}
}

func crcText(s string) string {
	sum := crc32.Checksum([]byte(s), castagnoli())
	return base64Of([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// TestPut_AttemptsAreCountedAnewAfterProgress: an upload of many chunks may meet more faults than one request.
func TestPut_AttemptsAreCountedAnewAfterProgress(t *testing.T) {
	failures := map[string]int{}
	w := new(wire)
	w.act = func(_ int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r := req.Header.Get("Content-Range"); r != "" && failures[r] < 2 {
			failures[r]++
			return loseRequest(req, next)
		}
		return next.RoundTrip(req)
	}
	d := realBox(t, w, Options{ChunkBytes: chunk, MaxAttempts: 3})
	data := pattern(3*chunk + 1)
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustGet(t, d, "k"), data) {
		t.Error("other bytes came back")
	}
	if len(failures) != 4 {
		t.Errorf("faults in %v", failures)
	}
}

func TestPut_CancelledWhileChunksAreSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := new(wire)
	w.act = func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if n == 2 {
			cancel()
		}
		return next.RoundTrip(req)
	}
	d := realBox(t, w, Options{ChunkBytes: chunk})
	_, err := d.Put(ctx, "k", bytes.NewReader(pattern(5*chunk)), backends.PutOptions{Size: 5 * chunk})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
		t.Errorf("stat: %v", err)
	}
}

func TestPut_SettingsGoWithIt(t *testing.T) {
	var meta string
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		b, _ := io.ReadAll(req.Body)
		meta = string(b)
		return reply(req, 200, fmt.Sprintf(`{"name":"k","size":"3","crc32c":%q,"generation":"42"}`, crcText("abc"))), nil
	}}
	d := forged(t, w, Options{StorageClass: "NEARLINE", UserProject: "payer"})
	sum := crc32.Checksum([]byte("abc"), castagnoli())
	info, err := d.Put(t.Context(), "k", strings.NewReader("abc"), backends.PutOptions{Size: 3, Meta: map[string]string{"a-b": "c"}, CRC32C: &sum})
	if err != nil || info.Version != "42" {
		t.Fatalf("%+v %v", info, err)
	}
	for _, want := range []string{`"storageClass":"NEARLINE"`, `"a-b":"c"`, `"contentType":"application/octet-stream"`, `"crc32c":"` + crcText("abc") + `"`, metaToken} {
		if !strings.Contains(meta, want) {
			t.Errorf("%s is not in %s", want, meta)
		}
	}
	if got := w.request(0).URL.Query().Get("userProject"); got != "payer" {
		t.Errorf("user project %q", got)
	}
	if got := w.request(0).UserAgent(); !strings.HasPrefix(got, "tierkit ") {
		t.Errorf("user agent %q", got)
	}
}

func TestKeys(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	for _, key := range []string{"a\nb", "a\rb", ".", "..", ".well-known/acme-challenge/x"} {
		if _, err := d.Put(t.Context(), key, strings.NewReader(""), backends.PutOptions{}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("put %q: %v", key, err)
		}
	}
	for i, key := range []string{"/a", "a//b", "a/", "a b+%20?#&", "\u00e4/\u4e2d", "x/y", "x/y/z", "a.", `a\b`, strings.Repeat("k", 1000)} {
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

func TestList_MoreThanOneRequestHolds(t *testing.T) {
	w := new(wire)
	d := realBox(t, w, Options{})
	var want []string
	for i := range 1500 {
		key := fmt.Sprintf("p/%04d", i)
		mustPut(t, d, key, nil)
		want = append(want, key)
	}
	before := len(w.log())
	var got []string
	pages := 0
	for token := ""; ; pages++ {
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: "p/", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page.Infos {
			got = append(got, info.Key)
		}
		if token = page.Next; token == "" {
			break
		}
	}
	if !slices.Equal(got, want) || pages != 1 || len(w.log())-before != 2 {
		t.Errorf("%d keys on %d pages with %d requests", len(got), pages+1, len(w.log())-before)
	}
}
