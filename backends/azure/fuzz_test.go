package azure

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzDecodeName: names of metadata come from whoever wrote the blob. A name that encodeName made comes back as it was; any other one is
// taken in lower case, and two different names never become one key that was encoded.
func FuzzDecodeName(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string) {
		key := decodeName(name)
		if lower := strings.ToLower(name); key != lower && encodeName(key) != lower {
			t.Fatalf("%q becomes %q, which is neither itself nor what it encodes", name, key)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "" && name != "" {
			if got := decodeName(http.CanonicalHeaderKey(encodeName(name))); got != name {
				t.Fatalf("%q comes back as %q", name, got)
			}
		}
	})
}

// FuzzMessageOf: bodies of errors may hold anything. What is taken of them is one bounded line.
func FuzzMessageOf(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		if got := messageOf(body); len(got) > 1000 {
			t.Fatalf("a message of %d bytes", len(got))
		}
	})
}
