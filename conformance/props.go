package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tierkit/tierkit/backends"
)

func propsCases() []Case {
	return append(putLimitsCases(), []Case{
		{ID: "props/truth", Rule: "Each field of Properties is so: what is declared works, what is not is refused.", Run: propsTruth},
		{ID: "props/truth-of-segments", Rule: "MaxSegmentBytes is so: a name of that many bytes between slashes works, or of any number where it is 0.", Run: propsSegments},
		{ID: "probe/diagnoses", Rule: "Probe of a store that can be used is nil, and leaves nothing; credentials that may not write are Denied.", Run: probeDiagnoses},
		{ID: "sum/declared-mismatch", Rule: "A body whose CRC-32C is not the announced one is Corrupt, and nothing becomes visible.", Run: sumMismatch},
	}...)
}

func sumMismatch(t T, b *Bench) {
	c := b.Client()
	for i, n := range []int{0, 100, 2*b.part() + 10} {
		data := b.Bytes(n)
		for _, size := range b.ways(i, n) {
			_, err := c.Put(t.Context(), "k", plain(data), backends.PutOptions{Size: size, CRC32C: castagnoli(append(data[:n:n], 'x'))})
			c.Coded(fmt.Sprintf("put of %d bytes, Size %d, with another checksum", n, size), err, backends.Corrupt)
			c.Lacks("k")
			if _, err = c.Put(t.Context(), "k", plain(data), backends.PutOptions{Size: size, CRC32C: castagnoli(data)}); err != nil {
				t.Errorf("put of %d bytes, Size %d, with their checksum: got %v, want success", n, size, err)
			}
			c.Holds("k", data)
			c.Remove("k")
		}
	}
}

func propsTruth(t T, b *Bench) {
	c := b.Client()
	p := c.Raw().Properties()
	if p != b.Properties() || c.Raw().Properties() != p {
		t.Errorf("the properties of another client: got %+v, want those of the first, always: %+v", p, b.Properties())
	}
	if f := b.r.h.Factory; p.Name == "" || f != nil && p.Name != f.Name {
		t.Errorf("Properties.Name: got %q, want that of the factory", p.Name)
	}
	truthOfKeys(t, b, c, p)
	truthOfParts(t, b, p)
	truthOfIfAbsent(t, c, p, b.Store())
	truthOfFlatKeys(t, c, p)
	truthOfVersions(t, c, p, b.Store())
	truthOfMeta(t, c, p)
	truthOfBulk(t, c, p)
	if n := len(b.Requests(0)); p.HTTP != (n > 0) {
		t.Errorf("Properties.HTTP is %t: got %d requests through Env.WrapTransport, want some exactly where it is true", p.HTTP, n)
	}
}

func truthOfKeys(t T, b *Bench, c *Client, p backends.Properties) {
	n := b.MaxKeyBytes()
	if n <= 0 {
		t.Errorf("Properties.MaxKeyBytes: got %d, want more than 0", p.MaxKeyBytes)
		return
	}
	put := func(key string) error {
		_, err := c.Put(t.Context(), key, plain([]byte("x")), backends.PutOptions{Size: 1})
		return err
	}
	if err := put(longKey(n, "k")); err != nil {
		t.Errorf("Properties.MaxKeyBytes is %d, a key of that many: got %v, want success", p.MaxKeyBytes, err)
	}
}

func propsSegments(t T, b *Bench) {
	c := b.Client()
	most := b.Properties().MaxSegmentBytes
	if most == 0 {
		most = min(b.MaxKeyBytes()-2, 600)
	}
	if _, err := c.Put(t.Context(), "s/"+strings.Repeat("s", most), plain([]byte("x")), backends.PutOptions{Size: 1}); err != nil {
		t.Errorf("Properties.MaxSegmentBytes is %d, a segment of %d: got %v, want success", b.Properties().MaxSegmentBytes, most, err)
	}
}

// sizes notes how large the bodies of requests are.
func (b *Bench) sizes() (read func() []int64) {
	var mu sync.Mutex
	var all []int64
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.ContentLength >= int64(b.part()/2) {
				mu.Lock()
				all = append(all, r.ContentLength)
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	return func() []int64 { mu.Lock(); defer mu.Unlock(); return all }
}

func truthOfParts(t T, b *Bench, p backends.Properties) {
	if p.MaxObjectBytes <= 0 || p.MinPartBytes < 0 || p.MaxBulkDelete < 0 || p.PendingExpires < 0 {
		t.Errorf("got properties below zero, or no MaxObjectBytes, want neither: %+v", p)
	}
	sizes := b.sizes()
	c := b.Client()
	const n = 11<<20 + 5
	body := io.MultiReader(zeros(n-1), readerFunc(func(buf []byte) (int, error) { return copy(buf, "x"), io.EOF }))
	_, err := c.Put(t.Context(), "parts", body, backends.PutOptions{Size: n})
	if (err == nil) != (p.MaxObjectBytes >= n) {
		t.Errorf("Properties.MaxObjectBytes is %d, a Put of %d bytes: got %s, want success exactly up to that size", p.MaxObjectBytes, n, shown(err))
	}
	broken := io.MultiReader(zeros(n-1), readerFunc(func([]byte) (int, error) { return 0, errSource }))
	if _, err := c.Put(t.Context(), "pending", broken, backends.PutOptions{Size: n}); !errors.Is(err, errSource) {
		t.Errorf("put of a source that fails: got %s, want the error of the source", shown(err))
	}
	if _, ok := c.Raw().(backends.UploadLister); ok {
		ups, err := c.Uploads(t.Context(), "pending")
		if err != nil || len(ups) > 0 && p.PendingExpires == 0 {
			t.Errorf("Properties.PendingExpires is %s, pending after a failed Put is %+v, %v, want nothing", p.PendingExpires, ups, err)
		}
	}
	if !p.HTTP {
		if p.MinPartBytes > 0 {
			t.Logf("parts of a driver without HTTP cannot be seen")
		}
		return
	}
	all := sizes()
	switch {
	case p.MinPartBytes == 0 && (p.MaxParts != 0 || p.MaxPartBytes != 0):
		t.Errorf("Properties.MinPartBytes is 0 (no parts): got MaxParts %d and MaxPartBytes %d, want 0", p.MaxParts, p.MaxPartBytes)
	case p.MinPartBytes == 0: // pieces of a stream may be any number of requests
	case len(all) < 3:
		t.Errorf("Properties.MinPartBytes is %d, a body of %d bytes: got %d requests, want 3 at least", p.MinPartBytes, n, len(all))
	case p.MaxParts < 3 || p.MaxPartBytes < p.MinPartBytes:
		t.Errorf("got MaxParts %d and MaxPartBytes %d, want what allows the parts in which %d bytes went out: %v", p.MaxParts, p.MaxPartBytes, n, all)
	case all[0] < p.MinPartBytes || all[0] > p.MaxPartBytes:
		t.Errorf("a part: got %d bytes, want %d to %d, as Properties say", all[0], p.MinPartBytes, p.MaxPartBytes)
	}
	if p.MaxParts > 0 && p.MaxPartBytes > 0 && float64(p.MaxParts)*float64(p.MaxPartBytes) < float64(p.MaxObjectBytes) {
		t.Errorf("got %d parts of %d bytes at most, want enough for the MaxObjectBytes of %d", p.MaxParts, p.MaxPartBytes, p.MaxObjectBytes)
	}
}

func truthOfIfAbsent(t T, c *Client, p backends.Properties, store bool) {
	put := func() error {
		_, err := c.Put(t.Context(), "absent", plain([]byte("x")), backends.PutOptions{Size: 1, IfAbsent: true})
		return err
	}
	first, second := put(), put()
	if p.IfAbsent && (first != nil || !errors.Is(second, backends.Exists)) {
		t.Errorf("Properties.IfAbsent is true: got %s for the first Put and %s for the second, want success and exists", shown(first), shown(second))
	}
	if !p.IfAbsent && store && !errors.Is(first, backends.Unsupported) {
		t.Errorf("Properties.IfAbsent is false: %s, want unsupported and not silence", shown(first))
	}
	if !p.IfAbsent && errors.Is(second, backends.Exists) {
		t.Errorf("Properties.IfAbsent is false: got a second Put that was refused as exists, want true if the driver can do that")
	}
}

func truthOfFlatKeys(t T, c *Client, p backends.Properties) {
	c.Write("flat/x", []byte("below"))
	_, err := c.Put(t.Context(), "flat", plain([]byte("above")), backends.PutOptions{Size: 5})
	if p.FlatKeys != (err == nil) {
		t.Errorf("Properties.FlatKeys is %t: a key above another one: got %s, want success exactly where it is true", p.FlatKeys, shown(err))
	}
	c.Holds("flat/x", []byte("below"))
	if err == nil {
		c.Holds("flat", []byte("above"))
	}
}

func truthOfVersions(t T, c *Client, p backends.Properties, store bool) {
	first := c.Write("v", []byte("1"))
	second := c.Write("v", []byte("2"))
	if (first.Version != "") != p.Versions || p.Versions && first.Version == second.Version {
		t.Errorf("Properties.Versions is %t: got the versions %q and %q for two objects, want two different ones where it is true, else none", p.Versions, first.Version, second.Version)
	}
	obj, err := c.Get(t.Context(), "v", backends.GetOptions{Range: backends.All(), IfVersion: "no-such-version"})
	if err == nil {
		_ = obj.Body.Close() // should not be there
	}
	if want := map[bool]backends.Code{true: backends.Precondition, false: backends.Unsupported}[p.Versions]; !errors.Is(err, want) && (p.Versions || store) {
		t.Errorf("Properties.Versions is %t: a Get with a version that never was: %s, want %s", p.Versions, shown(err), want.Label())
	}
}

func truthOfMeta(t T, c *Client, p backends.Properties) {
	if _, err := c.Put(t.Context(), "meta", plain([]byte("x")), backends.PutOptions{Size: 1, Meta: map[string]string{"a": "b"}}); err != nil {
		t.Errorf("put with metadata: got %v, want success", err)
		return
	}
	if meta := c.Info("meta").Meta; p.UserMeta != (meta["a"] == "b") || !p.UserMeta && len(meta) > 0 {
		t.Errorf("Properties.UserMeta is %t: got the metadata %v, want those that were stored where it is true, else none", p.UserMeta, meta)
	}
}

func truthOfBulk(t T, c *Client, p backends.Properties) {
	_, can := c.Raw().(backends.BulkDeleter)
	if can != (p.MaxBulkDelete > 0) {
		t.Errorf("got Properties.MaxBulkDelete %d and a driver with DeleteMany: %t, want both or neither", p.MaxBulkDelete, can)
		return
	}
	if !can {
		return
	}
	keys := make([]string, p.MaxBulkDelete)
	for i := range keys {
		keys[i] = fmt.Sprintf("bulk/%07d", i)
	}
	if err := c.DeleteMany(t.Context(), keys); err != nil {
		t.Errorf("Properties.MaxBulkDelete is %d, that many keys: got %v, want success", len(keys), err)
	}
}

func probeDiagnoses(t T, b *Bench) {
	c := b.Client()
	_, can := c.Raw().(backends.Prober)
	if !can && !b.Store() {
		return // the Store lists a key instead
	}
	if err := c.Probe(t.Context()); err != nil {
		t.Errorf("probe of a store that can be used: got %v, want success", err)
	}
	if got := c.Keys(""); len(got) > 0 {
		t.Errorf("left by Probe: got %q, want nothing", got)
	}
	if can {
		b.probes(t, "credentials that may only read", b.r.h.Knobs.ReadOnly, backends.Denied)
	}
}

// probes wants a code from Open or from Probe.
func (b *Bench) probes(t T, what string, over map[string]string, want backends.Code) {
	t.Helper()
	if over == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*b.Prompt())
	defer cancel()
	c, err := b.Open(ctx, ClientOptions{Override: over})
	if err == nil {
		err = c.Probe(ctx)
	}
	if !errors.Is(err, want) {
		t.Errorf("probe with %s: %s, want %s", what, shown(err), want.Label())
	}
}
