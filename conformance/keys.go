package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/backends"
)

func keysCases() []Case {
	return []Case{
		{ID: "keys/kafka-shape", Rule: "Keys as tiered storage makes them work, with topic names of 249 characters too.", Run: keysKafka},
		{ID: "keys/unicode", Rule: "Keys are bytes of UTF-8: what looks alike stays apart, nothing is normalised.", Run: keysUnicode},
		{ID: "keys/space-plus-percent", Rule: "Spaces, plus and percent signs in keys are themselves, not escapes.", Run: keysPercent},
		{ID: "keys/url-special", Rule: "Characters that mean something in URLs, XML and shells are themselves.", Run: keysSpecial},
		{ID: "keys/control-chars", Rule: "A control character is kept, or refused with InvalidArgument; it is never changed.", Run: keysControl},
		{ID: "keys/backslash", Rule: "A backslash is kept, or refused with InvalidArgument; it is no slash.", Run: keysBackslash},
		{ID: "keys/double-slash", Rule: "Empty segments are kept or refused where FlatKeys is true, never dropped, and are InvalidArgument of the Store where it is false.", Level: Store, Run: keysDoubleSlash},
		{
			ID: "keys/dot-segments", Rule: "The segments . and .. are kept or refused where FlatKeys is true, never resolved, and are InvalidArgument of the Store where it is false; nothing " +
				"appears elsewhere.", Level: Store, Run: keysDots,
		},
		{ID: "keys/trailing-slash", Rule: "A slash at the end is kept or refused where FlatKeys is true, never dropped, and InvalidArgument of the Store where it is false.", Level: Store, Run: keysTrailingSlash},
		{ID: "keys/trailing-dot", Rule: "A dot at the end of a key or segment is kept, or InvalidArgument; it is never dropped.", Run: keysTrailingDot},
		{ID: "keys/trailing-space", Rule: "A space at either end of a key or segment is kept, or InvalidArgument; it is never dropped.", Run: keysTrailingSpace},
		{ID: "keys/case", Rule: "Keys that differ in case are different.", Run: keysCase},
		{ID: "keys/windows-reserved", Rule: "Names that other systems reserve are names like any others.", Run: keysWindows},
		{ID: "keys/max-length", Rule: "A key of MaxKeyBytes works, one more byte is InvalidArgument before a request; so with the segment's bound.", Level: Store, Run: keysMax},
		{ID: "keys/invalid-utf8", Rule: "A key that is not valid UTF-8 is InvalidArgument of the Store, before a request.", Level: Store, Run: keysInvalid},
		{ID: "keys/nul", Rule: "A key with a NUL is InvalidArgument of the Store, before a request.", Level: Store, Run: keysNUL},
		{ID: "keys/empty", Rule: "The empty key is InvalidArgument of the Store, before a request.", Level: Store, Run: keysEmpty},
		{ID: "keys/prefix-of-another", Rule: "Where FlatKeys is true, a key and others below it are objects side by side.", Needs: flatKeys, Run: keysNested},
		{ID: "keys/not-below-an-object", Rule: "Where FlatKeys is false, a key below an object, or above one, fails and changes neither.", Needs: notFlatKeys, Run: keysNotNested},
		{ID: "keys/looks-like-temp", Rule: "Keys that look like temporary names of a driver work, but for those below .tierkit, which are InvalidArgument of the Store.", Run: keysTemp},
	}
}

func flatKeys(p backends.Properties) string { return unless(p.FlatKeys, "FlatKeys is false") }

func notFlatKeys(p backends.Properties) string { return unless(!p.FlatKeys, "FlatKeys is true") }

// roundTrip stores each key with bytes of its own and looks at all of them from another client.
func roundTrip(t T, b *Bench, keys []string) {
	t.Helper()
	c, other := b.Client(), b.Client()
	stored := map[string][]byte{}
	for i, key := range keys {
		stored[key] = fmt.Appendf(nil, "%d of %q", i, key)
		c.Write(key, stored[key])
	}
	look(t, other, stored)
	for _, key := range keys {
		other.Remove(key)
	}
	if got := c.Keys(""); len(got) > 0 {
		t.Errorf("after everything was deleted: got %q, want nothing", got)
	}
}

// look checks that exactly these are there.
func look(t T, c *Client, stored map[string][]byte) {
	t.Helper()
	for key, data := range stored {
		c.Holds(key, data)
		if i := c.Info(key); i.Key != key {
			t.Errorf("Stat of %q: got the key %q, want the same", key, i.Key)
		}
	}
	if got, want := c.Keys(""), slices.Sorted(maps.Keys(stored)); !slices.Equal(got, want) {
		t.Errorf("the listing is %q, want %q", got, want)
	}
}

// keptOrRefused stores what the driver and the store take, and sees that the rest is refused.
func keptOrRefused(t T, b *Bench, keys []string) {
	t.Helper()
	c, other := b.Client(), b.Client()
	stored := map[string][]byte{}
	for _, key := range keys {
		data := fmt.Appendf(nil, "bytes of %q", key)
		_, err := c.Put(t.Context(), key, plain(data), backends.PutOptions{Size: int64(len(data))})
		switch {
		case err == nil:
			stored[key] = data
		case !errors.Is(err, backends.InvalidArgument):
			t.Errorf("put %q: %s, want success or invalid_argument", key, shown(err))
		}
	}
	look(t, other, stored)
}

// refusedAll checks that no method takes the keys, or does a request for them.
func refusedAll(_ T, b *Bench, keys []string) {
	c := b.Client()
	c.Write("stays", []byte("x"))
	mark := b.Mark()
	ctx := b.t.ctx
	for _, key := range keys {
		_, err := c.Put(ctx, key, plain(nil), backends.PutOptions{})
		c.Coded(fmt.Sprintf("put %.80q", key), err, backends.InvalidArgument)
		obj, err := c.Get(ctx, key, backends.GetOptions{Range: backends.All()})
		if err == nil {
			_ = obj.Body.Close() // should not be there
		}
		c.Coded(fmt.Sprintf("get %.80q", key), err, backends.InvalidArgument)
		_, err = c.Stat(ctx, key)
		c.Coded(fmt.Sprintf("stat %.80q", key), err, backends.InvalidArgument)
		c.Coded(fmt.Sprintf("delete %.80q", key), c.Delete(ctx, key), backends.InvalidArgument)
		c.Coded(fmt.Sprintf("DeleteMany %.80q", key), c.DeleteMany(ctx, []string{"stays", key}), backends.InvalidArgument)
	}
	if log := b.Requests(mark); len(log) > 0 {
		b.t.Errorf("requests for keys that cannot be: got %v, want none", log)
	}
	if got := c.Keys(""); !slices.Equal(got, []string{"stays"}) {
		b.t.Errorf("the listing: got %q, want the key stays alone", got)
	}
	c.Remove("stays")
}

func keysKafka(t T, b *Bench) {
	topic := strings.Repeat("t", 249)
	keys := []string{}
	for _, dir := range []string{"payments-AAAAAAAAAAAAAAAAAAAAAQ/0", "a.b_c-zY3lvbmdvZGF0YXNvdXJjZQ/17", topic + "-AAAAAAAAAAAAAAAAAAAAAQ/999"} {
		for _, end := range []string{"log", "indexes", "rsm-manifest"} {
			key := dir + "/00000000000000000000-4nQ4vQ5-R1uK0Yk0fZ8t_A." + end
			if n := b.Properties().MaxSegmentBytes; n == 0 || len(topic)+23 <= n || !strings.HasPrefix(key, topic) {
				keys = append(keys, key)
			}
		}
	}
	roundTrip(t, b, keys)
}

func keysUnicode(t T, b *Bench) {
	roundTrip(t, b, []string{
		"n/\u00e9", "n/e\u0301", // NFC and NFD
		"n/\u212b", "n/\u00c5", "n/A\u030a", "emoji/\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u05e2\u05d1\u05e8\u05d9\u05ea/\u0627\u0644", "\u4e2d\u6587/\u65e5\u672c\u8a9e",
		"\ufb01", "fi", "\u00df", "\u1e9e", "zero\u200bwidth", "nb\u00a0sp", "\ufeffbom", "\ufffd", "bidi\u202e",
	})
}

func keysPercent(t T, b *Bench) {
	roundTrip(t, b, []string{"a b", "a+b", "a%20b", "a%2Fb", "a%2fb", "%", "%%", "%zz", "100% of it", "+", "a%2Bb", "%25", "%E4", "a  b", "d/%2e%2e/x"})
}

func keysSpecial(t T, b *Bench) {
	keys := []string{}
	for _, r := range "?#&=;:@!$'()*,[]{}^`\"<>|~" {
		keys = append(keys, "y/"+string(r), "x"+string(r)+"x", string(r)+string(r))
	}
	keys = append(keys, "a?b#c&d=e;f:g@h", "?prefix=x&list-type=2", "z/?uploads", "<a>&lt;&gt;", "a;b", "$(x)`y`", "-", "--all", "*")
	slices.Sort(keys)
	roundTrip(t, b, slices.Compact(keys))
}

func keysControl(t T, b *Bench) {
	var keys []string
	for c := byte(1); c <= 0x20; c++ {
		keys = append(keys, fmt.Sprintf("c/%c", c), fmt.Sprintf("x%cx", c))
	}
	keptOrRefused(t, b, append(keys, "d\x7f", "\u0085", "\u2028", "a\r\nb"))
}

func keysBackslash(t T, b *Bench) {
	keptOrRefused(t, b, []string{"back\\slash", "a\\..\\b", "\\", "c\\"})
}

func keysDoubleSlash(t T, b *Bench) {
	keys := []string{"a//b", "a///b", "//a", "/a", "//"}
	if b.Properties().FlatKeys {
		keptOrRefused(t, b, append(keys, "b/c"))
		return
	}
	refusedAll(t, b, keys)
}

func keysDots(t T, b *Bench) {
	keys := []string{".", "..", "a/../b", "./a", "../a", "a/.", "a/..", "../../../../tmp/tierkit-conformance"}
	harmless := []string{"...", "a/...", ".a", "a/.b", "n..b", "%2e%2e", "d/%2e%2e/x", "..a"}
	if b.Properties().FlatKeys {
		keptOrRefused(t, b, append(keys, harmless...))
		return
	}
	refusedAll(t, b, keys)
	roundTrip(t, b, harmless)
}

func keysTrailingSlash(t T, b *Bench) {
	if b.Properties().FlatKeys {
		keptOrRefused(t, b, []string{"a/", "b/c/", "d"})
		return
	}
	refusedAll(t, b, []string{"a/", "a/b/", "/"})
}

func keysTrailingDot(t T, b *Bench) {
	keptOrRefused(t, b, []string{"a.", "a..", "a", "d./x", "e/x", "x/..."})
}

func keysTrailingSpace(t T, b *Bench) {
	keptOrRefused(t, b, []string{"a ", "a  ", " a", "a", "d /x", "e/x", "f/ x", " ", "t\u00a0"})
}

func keysCase(t T, b *Bench) {
	roundTrip(t, b, []string{"A", "a", "dir/X", "Dir/x", "dir/x", "\u00c4", "\u00e4"})
}

func keysWindows(t T, b *Bench) {
	roundTrip(t, b, []string{"CON", "NUL", "aux.txt", "com1", "LPT9.log", "d/PRN", "a:b", "a::$DATA", "desktop.ini", "Thumbs.db", "~$x", "index.html"})
}

// longKey is n bytes in segments that every store takes.
func longKey(n int, fill string) string {
	var s strings.Builder
	for s.Len() < n {
		seg := strings.Repeat(fill, 200/len(fill))
		s.WriteString(seg + "/")
	}
	key := s.String()[:n]
	if strings.HasSuffix(key, "/") {
		key = key[:n-1] + "e"
	}
	return key
}

func keysMax(t T, b *Bench) {
	c := b.Client()
	n := b.MaxKeyBytes()
	if n <= 0 {
		t.Fatalf("Properties.MaxKeyBytes: got %d, want more than 0", b.Properties().MaxKeyBytes)
	}
	key := longKey(n, "k")
	c.Write(key, []byte("longest"))
	c.Holds(key, []byte("longest"))
	if got := c.Keys(key[:n-1]); !slices.Equal(got, []string{key}) {
		t.Errorf("the listing of the longest key: got %d keys, want it alone", len(got))
	}
	mark := b.Mark()
	_, err := c.Put(t.Context(), longKey(n+1, "k"), plain(nil), backends.PutOptions{})
	c.Coded("put of a key with one byte more", err, backends.InvalidArgument)
	if most := b.Properties().MaxSegmentBytes; most > 0 {
		_, err := c.Put(t.Context(), "d/"+strings.Repeat("s", most+1), plain(nil), backends.PutOptions{})
		c.Coded("put of a segment with one byte more", err, backends.InvalidArgument)
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests for keys that are too long: got %v, want none", log)
	}
	seg := "d/" + strings.Repeat("s", 255)
	if most := b.Properties().MaxSegmentBytes; most == 0 || most >= 255 {
		c.Write(seg, []byte("segment"))
		c.Holds(seg, []byte("segment"))
	}
}

func keysInvalid(t T, b *Bench) {
	refusedAll(t, b, []string{"\xff", "a/\xc3", "a\xc0\xafb", "\xed\xa0\x80", "x\xf4\x90\x80\x80"})
}

func keysNUL(t T, b *Bench) { refusedAll(t, b, []string{"\x00", "a\x00", "a\x00/b", "a/\x00b"}) }

func keysEmpty(t T, b *Bench) { refusedAll(t, b, []string{""}) }

func keysNested(t T, b *Bench) { roundTrip(t, b, []string{"a", "a/b", "a/b/c", "a/b/d", "ab"}) }

func keysNotNested(t T, b *Bench) {
	c := b.Client()
	c.Write("a/b", []byte("first"))
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		if _, err := c.Put(t.Context(), key, plain([]byte("x")), backends.PutOptions{Size: 1}); err == nil {
			t.Errorf("put %q beside a/b: got no error, want one, as Properties.FlatKeys is false", key)
		}
	}
	look(t, c, map[string][]byte{"a/b": []byte("first")})
}

func keysTemp(t T, b *Bench) {
	if b.Store() {
		c := b.ClientWith(ClientOptions{NoPrefix: true})
		for _, key := range []string{".tierkit", ".tierkit/x", ".tierkit/tmp/x", ".TierKit/x"} {
			_, err := c.Put(t.Context(), key, plain(nil), backends.PutOptions{})
			c.Coded("put "+key, err, backends.InvalidArgument)
			c.Coded("delete "+key, c.Delete(t.Context(), key), backends.InvalidArgument)
		}
	}
	keptOrRefused(t, b, []string{".tmp/x", "x.tmp", "~x", ".x.swp", "d/.tierkit/tmp/x", "tmp/x", ".tierkit2/x", ".upload-1", ".minio.sys2/x", ".uploads2/x"})
}
