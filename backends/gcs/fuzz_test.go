package gcs

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/api/googleapi"

	"github.com/tierkit/tierkit/backends"
)

// FuzzCredentials: a file of credentials may hold anything. Its error shows nothing of it.
func FuzzCredentials(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &source{client: new(http.Client)}
		creds, err := s.parse(text)
		if (creds == nil) == (err == nil) {
			t.Fatalf("got %v and %v", creds, err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return r == '"' || r <= ' ' }) {
			if len(word) > 24 && err != nil && strings.Contains(err.Error(), word) {
				t.Fatalf("%q shows %q", err, word)
			}
		}
	})
}

// FuzzErrorBody: the body of an error of a download may be JSON, text, or anything. It is one line with a code in the end.
func FuzzErrorBody(f *testing.F) {
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		code := 300 + int(status)%300
		ge := decoded(&googleapi.Error{Code: code, Body: body})
		e := &backends.Error{Code: codeOf(ge, stepGet)}
		describe(e, ge)
		if e.Status != code || e.Code == backends.Unknown || e.Err == nil || strings.Contains(e.Error(), "\n") {
			t.Fatalf("status %d: got %v %q", code, e.Code, e.Error())
		}
	})
}
