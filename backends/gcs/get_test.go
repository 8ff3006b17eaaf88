package gcs

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

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

// TestGet_BrokenBodiesAreResumedByTheStoreOnTheSameVersion, not by the SDK, which would do it without a bound. Also counts what goes over the wire.
func TestGet_BrokenBodiesAreResumedByTheStoreOnTheSameVersion(t *testing.T) {
	for _, r := range []backends.Range{backends.All(), {Offset: 10, Length: 50_000}} {
		for name, end := range map[string]error{"clean end": io.EOF, "error": errCut, "unexpected": io.ErrUnexpectedEOF} {
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
			obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: r})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(obj.Body)
			if err != nil || !bytes.Equal(got, data[obj.Offset:obj.Offset+obj.Length]) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			_ = obj.Body.Close()
			if got := w.log(); !slices.Equal(got, []string{"POST multipart", "GET media", "GET media"}) {
				t.Fatalf("%s: requests %v", name, got)
			}
			again := w.request(2)
			want := map[bool]string{true: "bytes=30000-99999", false: "bytes=30010-50009"}[r.Length < 0]
			if r, g := again.Header.Get("Range"), again.URL.Query().Get("ifGenerationMatch"); r != want || g != info.Version {
				t.Errorf("%s: resumed with %q if %q", name, r, g)
			}
			if enc := again.Header.Get("Accept-Encoding"); enc != "gzip" {
				t.Errorf("accepts %q: the service might decompress", enc)
			}
		}
	}
}

// TestGet_WholeObjectsAreCheckedAgainstTheirChecksum before the last byte goes out.
func TestGet_WholeObjectsAreCheckedAgainstTheirChecksum(t *testing.T) {
	for sum, want := range map[string]backends.Code{crcText("0123456789"): backends.Unknown, crcText("other"): backends.Corrupt} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return reply(req, 200, "0123456789", "X-Goog-Hash", "crc32c="+sum, "X-Goog-Generation", "7"), nil
		}}
		obj, err := forged(t, w, Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(obj.Body)
		if backends.CodeOf(err) != want || want == backends.Unknown && string(got) != "0123456789" || obj.Info.Version != "7" {
			t.Errorf("%q, %v, want %v", got, err, want)
		}
		if want == backends.Corrupt && len(got) == 10 {
			t.Error("all bytes went out before it was said that they are wrong")
		}
		_ = obj.Body.Close()
	}
}

// TestGet_AnswersThatDoNotFit: a server that overlooks the range, or lies, is found out before the first byte.
func TestGet_AnswersThatDoNotFit(t *testing.T) {
	for name, tt := range map[string]struct {
		r       backends.Range
		status  int
		body    string
		headers []string
	}{
		"range overlooked":        {backends.Range{Offset: 5, Length: 5}, 200, "0123456789", nil},
		"range overlooked, first": {backends.Range{Offset: 0, Length: 5}, 200, "0123456789", nil},
		"other range":             {backends.Range{Offset: 5, Length: 5}, 206, "01234", []string{"Content-Range", "bytes 0-4/100"}},
		"shorter":                 {backends.Range{Offset: 5, Length: 5}, 206, "0123", []string{"Content-Range", "bytes 5-8/100"}},
		"no range in the answer":  {backends.Range{Offset: 5, Length: 5}, 206, "01234", nil},
	} {
		w := &wire{act: func(_ int, req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return reply(req, tt.status, tt.body, append(tt.headers, "X-Goog-Generation", "7")...), nil
		}}
		obj, err := forged(t, w, Options{MaxAttempts: 1}).Get(t.Context(), "k", backends.GetOptions{Range: tt.r})
		if err == nil {
			_ = obj.Body.Close()
			t.Errorf("%s: accepted", name)
		}
		if errors := backends.CodeOf(err); errors.Temporary() || errors == backends.NotFound {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestGet_ConnectionsAreUsedAgain: bodies read to their end give their connection back.
func TestGet_ConnectionsAreUsedAgain(t *testing.T) {
	d := realBox(t, new(wire), Options{MaxConns: 1}) // with a second connection needed it would hang
	mustPut(t, d, "k", pattern(10_000))
	for _, r := range []backends.Range{backends.All(), {Offset: 1, Length: 9000}} {
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: r})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(obj.Body, make([]byte, obj.Length)); err != nil {
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
