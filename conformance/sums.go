package conformance

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// sumModes looks at the headers of requests that carry data, in each mode of checksums.
func sumModes(t T, b *Bench) {
	var mu sync.Mutex
	var seen []http.Header
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if slices.Contains(dataSteps(), b.Harness().Dialect.Step(r)) {
				mu.Lock()
				seen = append(seen, r.Header.Clone())
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	modes := b.Harness().Knobs.Checksums
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		mu.Lock()
		seen = nil
		mu.Unlock()
		c := b.ClientWith(ClientOptions{Override: modes[name].Override})
		for _, n := range []int{1000, 2*b.part() + 10} {
			data := b.Bytes(n)
			c.Write("k", data)
			c.Holds("k", data)
		}
		if len(seen) < 2 {
			t.Errorf("%s: got %d requests with data, want 2 at least", name, len(seen))
		}
		for _, h := range seen {
			if got := checksums(h); got != modes[name].Header {
				t.Errorf("%s: a request with data has %q, want %q: %v", name, got, modes[name].Header, h)
			}
			if strings.Contains(h.Get("Content-Encoding"), "aws-chunked") || h.Get("X-Amz-Trailer") != "" || h.Get("Trailer") != "" || strings.Contains(h.Get("X-Amz-Content-Sha256"), "STREAMING") {
				t.Errorf("%s: got data with an encoding or a trailer of its own, which many servers do not know, want none: %v", name, h)
			}
		}
	}
}

// checksums are the headers of a request that carry a checksum of its body, sorted, with a comma in between.
func checksums(h http.Header) string {
	var out []string
	for name := range h {
		lower := strings.ToLower(name)
		if strings.HasSuffix(lower, "-algorithm") || strings.HasSuffix(lower, "-type") {
			continue // words about them
		}
		for _, kind := range []string{"checksum", "crc32", "crc64", "md5", "x-goog-hash"} {
			if strings.Contains(lower, kind) {
				out = append(out, name)
				break
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
