package conformance

import (
	"errors"
	"maps"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func statCases() []Case {
	return []Case{
		{ID: "stat/basic", Rule: "Stat tells key, size, version and metadata as Put got them, and no body is transferred.", Run: statBasic},
		{ID: "stat/missing", Rule: "Stat of a missing key is NotFound, and names the key.", Run: statMissing},
		{ID: "stat/dir-like", Rule: "A key is a name and no path: \"a\" and \"a/\" are missing when only \"a/b\" is there.", Run: statDirLike},
		{ID: "stat/modtime", Rule: "ModTime is the time of the store's last change, and does not go back when an object is replaced.", Run: statModTime},
	}
}

func statBasic(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	meta := map[string]string{"token": "abc-1"}
	for _, n := range []int{0, 1, 50_000} {
		info, err := c.Put(t.Context(), "a/b", plain(b.Bytes(n)), backends.PutOptions{Size: int64(n), Meta: meta})
		if err != nil {
			t.Fatalf("put: got %v, want success", err)
		}
		mark := b.Mark()
		st := other.Info("a/b")
		if st.Key != "a/b" || st.Size != int64(n) || st.Version != info.Version || st.ModTime.IsZero() {
			t.Errorf("got %+v from Stat, want what Put said, and a time: %+v", st, info)
		}
		if b.Properties().UserMeta && !maps.Equal(st.Meta, meta) {
			t.Errorf("Stat: got the metadata %v, want %v", st.Meta, meta)
		}
		for _, r := range b.Requests(mark) {
			if r.Got >= 10_000 {
				t.Errorf("Stat: got a request that fetched the body, want none: %s", r)
			}
		}
	}
}

func statMissing(t T, b *Bench) {
	c := b.Client()
	c.Write("a/b", []byte("x"))
	for _, key := range []string{"no-such-key", "a/b2", "a/b/c", "A/b"} {
		_, err := c.Stat(t.Context(), key)
		c.Missing("stat "+key, err)
		if e, ok := errors.AsType[*backends.Error](err); b.Store() && (!ok || e.Key != "<prefix>/"+key || e.Op != backends.OpStat) {
			t.Errorf("stat %s: got the error %v, want one that names the key", key, err)
		}
	}
}

func statDirLike(t T, b *Bench) {
	c := b.Client()
	c.Write("a/b/c", []byte("x"))
	keys := []string{"a", "a/b"}
	if b.Properties().FlatKeys {
		keys = append(keys, "a/", "a/b/", "a/b/c/")
	}
	for _, key := range keys {
		_, err := c.Stat(t.Context(), key)
		c.Missing("stat "+key, err)
		obj, err := c.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
		if err == nil {
			_ = obj.Body.Close() // should not be there
		}
		c.Missing("get "+key, err)
		c.Remove(key)
	}
	c.Holds("a/b/c", []byte("x"))
}

func statModTime(t T, b *Bench) {
	c := b.Client()
	const skew = 5 * time.Minute // between the store's clock and this one
	before := b.Now()
	c.Write("k", []byte("1"))
	first := c.Info("k").ModTime
	if first.Before(before.Add(-skew)) || first.After(b.Now().Add(skew)) {
		t.Errorf("the time of an object that was just stored: got %s, want one within 5 minutes of now", first)
	}
	pause(t.Context(), 1100*time.Millisecond) // some stores count seconds
	c.Write("k", []byte("2"))
	if second := c.Info("k").ModTime; !second.After(first) {
		t.Errorf("got the time %s, and %s for what was stored there a second later, want a later one", first, second)
	}
}
