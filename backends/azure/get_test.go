package azure

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
)

func TestGet_RangeHeaders(t *testing.T) {
	for _, tt := range []struct {
		r    backends.Range
		want string
	}{
		{backends.All(), ""},
		{backends.Range{Offset: 0, Length: 1}, "bytes=0-0"},
		{backends.Range{Offset: 5, Length: 10}, "bytes=5-14"},
		{backends.Range{Offset: 5, Length: -1}, "bytes=5-"},
		{backends.Range{Offset: 7, Length: 1<<63 - 1}, fmt.Sprintf("bytes=7-%d", int64(maxObject-1))},
	} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return forge(req, 404, "BlobNotFound"), nil
		}}
		_, err := forged(t, w, Options{}).Get(t.Context(), "k", backends.GetOptions{Range: tt.r})
		if got := w.header(0, "X-Ms-Range") + w.header(0, "Range"); got != tt.want || backends.CodeOf(err) != backends.NotFound {
			t.Errorf("%+v: sent %q, want %q (%v)", tt.r, got, tt.want, err)
		}
	}
}

// TestGet_AnswersThatDoNotFit: a server that overlooks the range, or lies, is found out before the first byte.
func TestGet_AnswersThatDoNotFit(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		headers []string
		length  int64
		want    backends.Code
	}{
		"range overlooked": {200, nil, 100, backends.Unsupported},
		"other range":      {206, []string{"Content-Range", "bytes 0-4/100"}, 5, backends.Corrupt},
		"shorter":          {206, []string{"Content-Range", "bytes 5-8/100"}, 4, backends.Corrupt},
		"other length":     {206, []string{"Content-Range", "bytes 5-9/100"}, 4, backends.Corrupt},
		"no size":          {206, []string{"Content-Range", "bytes 5-9/*"}, 5, backends.Corrupt},
		"at the end":       {206, []string{"Content-Range", "bytes 5-4/5"}, 0, backends.InvalidRange},
	} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			resp := forge(req, tt.status, "", append(tt.headers, "Content-Length", fmt.Sprint(tt.length))...)
			resp.ContentLength = tt.length
			return resp, nil
		}}
		_, err := forged(t, w, Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 5, Length: 5}})
		if backends.CodeOf(err) != tt.want {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

// cutBody ends a body early, cleanly or with an error.
type cutBody struct {
	io.ReadCloser
	left int
	end  error
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, c.end
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// TestGet_BrokenBodiesAreResumedByTheStoreOnTheSameVersion also counts what goes over the wire: one GET each time, nothing else.
func TestGet_BrokenBodiesAreResumedByTheStoreOnTheSameVersion(t *testing.T) {
	for name, end := range map[string]error{"clean end": io.EOF, "error": errCut, "unexpected": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			w := new(wire)
			d := realBox(t, w, Options{})
			data := pattern(100_000)
			info := mustPut(t, d, "k", data)
			w.act = func(n int, req *http.Request, next http.RoundTripper) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if err == nil && n == 1 {
					resp.Body = &cutBody{resp.Body, 30_000, end}
				}
				return resp, err
			}
			s, err := backends.NewStore(d, backends.Options{})
			if err != nil {
				t.Fatal(err)
			}
			obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 10, Length: 50_000}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(obj.Body)
			if err != nil || !bytes.Equal(got, data[10:50_010]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			_ = obj.Body.Close()
			if got := w.log(); !slices.Equal(got, []string{"PUT", "GET", "GET"}) {
				t.Fatalf("requests %v", got)
			}
			if r, m := w.header(2, "X-Ms-Range")+w.header(2, "Range"), w.header(2, "If-Match"); r != "bytes=30010-50009" || strings.Trim(m, `"`) != info.Version {
				t.Errorf("resumed with %q if %q", r, m)
			}
		})
	}
}

// TestGet_ConnectionsAreUsedAgain: bodies read to their end give their connection back.
func TestGet_ConnectionsAreUsedAgain(t *testing.T) {
	w := new(wire)
	d := realBox(t, w, Options{MaxConns: 1}) // with a second connection needed it would hang
	mustPut(t, d, "k", pattern(10_000))
	for range 5 {
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 1, Length: 9000}})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(obj.Body, make([]byte, 9000)); err != nil {
			t.Fatal(n, err)
		}
		if _, err := d.Stat(t.Context(), "k"); err != nil { // although the body is still open
			t.Fatal(err)
		}
		_ = obj.Body.Close()
	}
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	_ = obj.Body.Close() // early
	if _, err := d.Stat(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
}

func TestList_PagesInByteOrder(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	var want []string
	for _, key := range []string{"a.b", "a-b/z", "a/x", "a/x.y/1", "a0", "b/\u00e4", "b/a b+%20", "B/1", "z", "p/1", "p/2"} {
		mustPut(t, d, key, []byte(key))
		want = append(want, key)
	}
	slices.Sort(want)
	for _, limit := range []int{0, 1, 2, 5} {
		var got []string
		for token := ""; ; {
			page, err := d.List(t.Context(), backends.ListOptions{Limit: limit, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Infos {
				stat, err := d.Stat(t.Context(), info.Key)
				stat.Meta = nil
				if diff := cmp.Diff(stat, info); err != nil || diff != "" {
					t.Errorf("stat and list differ: %v %s", err, diff)
				}
				got = append(got, info.Key)
			}
			if token = page.Next; token == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

func TestList_UndecodableAnswerIsCorrupt(t *testing.T) {
	w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		resp := forge(req, 200, "", "Content-Type", "application/xml")
		resp.Body = io.NopCloser(strings.NewReader("<EnumerationResults><Blobs><Blob><Name>x</Na"))
		return resp, nil
	}}
	_, err := forged(t, w, Options{}).List(t.Context(), backends.ListOptions{})
	if backends.CodeOf(err) != backends.Corrupt {
		t.Errorf("got %v", err)
	}
}

func TestDelete_SnapshotsGoToo(t *testing.T) {
	d := realBox(t, new(wire), Options{})
	mustPut(t, d, "k", []byte("x"))
	if _, err := d.client.NewBlobClient("k").CreateSnapshot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stat(t.Context(), "k"); backends.CodeOf(err) != backends.NotFound {
		t.Errorf("got %v", err)
	}
}
