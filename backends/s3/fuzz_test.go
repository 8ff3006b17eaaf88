package s3

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

// FuzzErrorBody: the body of an answer may be XML of S3's, of somebody else's, or anything. Whatever it says, the error has a code that its status allows.
func FuzzErrorBody(f *testing.F) {
	d, w := forged(f, nil, nil)
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		code := 400 + int(status)%200
		w.do, w.log = func(*http.Request) answer { return answer{status: code, body: strings.NewReader(body)} }, nil
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err == nil {
			_ = obj.Body.Close()
			t.Fatalf("status %d is no answer to read", code)
		}
		e, ok := errors.AsType[*backends.Error](err)
		if !ok || e.Status != code || len(w.log) > 3 {
			t.Fatalf("status %d: got %v after requests %v", code, err, w.log)
		}
		if code >= 500 && e.Code == backends.NotFound && !strings.Contains(body, "NoSuchKey") {
			t.Fatalf("status %d is no absent object: %v", code, err)
		}
	})
}

// FuzzListing: a listing is decoded, or refused as a whole; every key of it is one that the Store takes, and sizes are not negative.
func FuzzListing(f *testing.F) {
	d, w := forged(f, nil, nil)
	f.Fuzz(func(t *testing.T, body string) {
		w.do, w.log = func(*http.Request) answer { return answer{status: 200, body: strings.NewReader(body)} }, nil
		page, err := d.List(t.Context(), backends.ListOptions{})
		if err != nil && len(page.Infos) > 0 || len(w.log) > 3 {
			t.Fatalf("%d keys and %v after requests %v", len(page.Infos), err, w.log)
		}
		for _, i := range page.Infos {
			if i.Size < 0 || i.Key == "" {
				t.Fatalf("listed %+v", i)
			}
		}
	})
}
