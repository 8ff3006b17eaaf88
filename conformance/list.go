package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tierkit/tierkit/backends"
)

func listCases() []Case {
	return []Case{
		{
			ID: "list/empty-prefix-namespace", Rule: "A place without objects lists as one empty last page and no error; the empty prefix lists everything.",
			Run: listEmpty,
		},
		{ID: "list/sorted-bytewise", Rule: "Keys come in ascending order of their UTF-8 bytes, not of UTF-16 units and not directory after directory.", Run: listSorted},
		{ID: "list/prefix", Rule: "A prefix is a text and not a path: \"ab\" lists \"abc\", and nothing outside of it.", Run: listPrefix},
		{ID: "list/page-sizes", Rule: "Whatever the Limit, it is kept, and the pages together are the listing.", Level: Driver, Run: listPages},
		{ID: "list/3000-keys", Rule: "A listing longer than any provider's page has each key exactly once.", Scale: Full, Run: listMany},
		{ID: "list/insert-before-token", Rule: "An object stored before the token's place does not disturb the pages that follow.", Level: Driver, Run: listInsertBefore},
		{ID: "list/insert-after-token", Rule: "An object stored behind the token's place may appear; every other key appears exactly once.", Level: Driver, Run: listInsertAfter},
		{ID: "list/delete-token-key", Rule: "The pages go on when the last key of a page was deleted meanwhile.", Level: Driver, Run: listDeleteToken},
		{ID: "list/after-put", Rule: "An object that was stored is in the next listing, of another client too.", Run: listAfterPut},
		{ID: "list/after-delete", Rule: "A deleted object is not in the next listing, of another client neither.", Run: listAfterDelete},
		{ID: "list/after-overwrite", Rule: "A replaced object is in the next listing once, with its new size.", Run: listAfterOverwrite},
		{ID: "list/hides-pending", Rule: "Uploads on their way, failed ones, and temporary names are never listed.", Run: listHidesPending},
		{ID: "list/cancel", Rule: "A listing ends with the error of its context, before the first page and between pages.", Run: listCancel},
		{ID: "list/stop", Rule: "A loop over the Store's listing that stops asks for no further page.", Level: Store, Run: listStop},
		{ID: "list/size-and-modtime", Rule: "Size, time and version in a listing are those of Stat; metadata is not told.", Run: listInfo},
		{ID: "list/bad-token", Rule: "A token that is not of this listing is InvalidArgument.", Level: Driver, Run: listBadToken},
	}
}

func listEmpty(t T, b *Bench) {
	c := b.Client()
	if b.Store() {
		if got := c.Keys(""); len(got) > 0 {
			t.Errorf("the listing of an empty place: got %q, want nothing", got)
		}
	} else {
		page, err := c.Driver().List(t.Context(), backends.ListOptions{})
		if err != nil || len(page.Infos) > 0 || page.Next != "" {
			t.Errorf("an empty place lists %+v, %v, want one empty last page", page, err)
		}
	}
	if got := c.Keys("no/such/dir/"); len(got) > 0 {
		t.Errorf("the listing of a prefix of nothing: got %q, want nothing", got)
	}
	c.Write("a/b", nil)
	c.Write("z", nil)
	if got := c.Keys(""); !slices.Equal(got, []string{"a/b", "z"}) {
		t.Errorf("the listing of the empty prefix: got %q, want a/b and z", got)
	}
}

// orderKeys are keys whose order differs from that of a walk through directories ("a-b/z" < "a.b" < "a/x" < "a0"), of UTF-16 units, and of a
// language.
func orderKeys() []string {
	keys := []string{
		"a-b/z", "a.b", "a/x", "a/x.y/1", "a0", "B", "b", "\u00e4", "z", "Z", "_", "~",
		"u/\ud7ff", "u/\uffee", "u/\U00010000", "u/\U0001F600",
	}
	slices.Sort(keys)
	return keys
}

func listSorted(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	keys := orderKeys()
	for _, i := range slices.Sorted(slices.Values([]int{3, 1, 2})) { // in an order that is not theirs
		for j := len(keys) - i; j >= 0; j -= 3 {
			c.Write(keys[j], nil)
		}
	}
	if got := other.Keys(""); !slices.Equal(got, keys) {
		t.Errorf("the listing is\n%q, want\n%q", got, keys)
	}
}

func listPrefix(t T, b *Bench) {
	c := b.Client()
	keys := []string{"ab", "abc/d", "abd", "ac/x", "ac/x2/y", "b"}
	for _, key := range keys {
		c.Write(key, nil)
	}
	for _, prefix := range []string{"", "a", "ab", "abc", "abc/", "abc/d", "ac/x", "ac/x2", "b", "c", "ab/", "ac//", "../", "/", "./", "a/../a", "B", "*", "a?"} {
		want := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		if got := c.Keys(prefix); !slices.Equal(got, want) {
			t.Errorf("the prefix %q lists %q, want %q", prefix, got, want)
		}
	}
}

// pages lists with a limit, and calls between after each page but the last one.
func pages(t T, c *Client, limit int, between func(page int)) []string {
	t.Helper()
	var keys []string
	token := ""
	for page := 1; ; page++ {
		p, err := c.Driver().List(t.Context(), backends.ListOptions{Prefix: "p/", Limit: limit, Token: token})
		if err != nil {
			t.Fatalf("page %d with Limit %d: got %v, want success", page, limit, err)
		}
		if limit > 0 && len(p.Infos) > limit {
			t.Errorf("page %d: got %d keys, want at most the Limit of %d", page, len(p.Infos), limit)
		}
		for _, i := range p.Infos {
			keys = append(keys, i.Key)
		}
		if p.Next == "" {
			return keys
		}
		if page > 10_000 || p.Next == token {
			t.Fatalf("got page %d of a listing, want its end: it does not go on", page)
		}
		if between != nil {
			between(page)
		}
		token = p.Next
	}
}

// numbered stores p/000, p/002, ... and returns the keys.
func numbered(c *Client, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("p/%03d", 2*i)
		c.Write(keys[i], nil)
	}
	return keys
}

func listPages(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	const n = 7
	keys := numbered(c, n)
	for _, limit := range []int{0, 1, 2, 3, n - 1, n, n + 1, 100_000} {
		if got := pages(t, other, limit, nil); !slices.Equal(got, keys) {
			t.Errorf("with Limit %d the pages are %q, want %q", limit, got, keys)
		}
	}
}

func listMany(t T, b *Bench) {
	c := b.Client()
	keys := many(c, 3000)
	if got := b.Client().Keys(""); !slices.Equal(got, keys) {
		t.Errorf("got %d keys listed, want the %d that were stored, in order", len(got), len(keys))
	}
}

func listInsertBefore(t T, b *Bench) {
	c := b.Client()
	keys := numbered(c, 6)
	if got := pages(t, c, 2, func(page int) { c.Write(fmt.Sprintf("p/%03d-", 2*page-2), nil) }); !slices.Equal(got, keys) {
		t.Errorf("the pages are %q, want %q", got, keys)
	}
}

func listInsertAfter(t T, b *Bench) {
	c := b.Client()
	keys := numbered(c, 6)
	got := pages(t, c, 2, func(page int) { c.Write(fmt.Sprintf("p/%03d", 4*page+1), nil) })
	got = slices.DeleteFunc(got, func(key string) bool { return !slices.Contains(keys, key) })
	if !slices.Equal(got, keys) {
		t.Errorf("of those that were there all the time the pages have %q, want %q", got, keys)
	}
}

func listDeleteToken(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	keys := numbered(c, 6)
	if got := pages(t, c, 2, func(page int) { other.Remove(keys[2*page-1]) }); !slices.Equal(got, keys) {
		t.Errorf("the pages are %q, want %q", got, keys)
	}
}

func listAfterPut(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for i := range 5 {
		key := fmt.Sprintf("d/%d", i)
		if c.Write(key, nil); !slices.Contains(other.Keys("d/"), key) {
			t.Errorf("%s: got a listing without it after its Put, want one with it", key)
		}
	}
}

func listAfterDelete(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for i := range 5 {
		c.Write(fmt.Sprintf("d/%d", i), nil)
	}
	for i := range 5 {
		key := fmt.Sprintf("d/%d", i)
		if c.Remove(key); slices.Contains(other.Keys("d/"), key) {
			t.Errorf("%s: got a listing with it after its Delete, want one without it", key)
		}
	}
}

func listAfterOverwrite(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for _, n := range []int{10, 1000, 0} {
		c.Write("d/k", b.Bytes(n))
		if infos := other.Infos("d/"); len(infos) != 1 || infos[0].Size != int64(n) {
			t.Errorf("the listing after a Put of %d bytes: got %+v, want one object of that size", n, infos)
		}
	}
}

func listHidesPending(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	p := b.part()
	c.Write("there", nil)
	body := newGate(t, b.Bytes(2*p+10), p+p/2)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Put(t.Context(), "dir/running", body, backends.PutOptions{Size: backends.SizeUnknown}); err != nil {
			t.Errorf("put: got %v, want success", err)
		}
	})
	b.Wait(body.reached, "the middle of the body")
	failed := readerFunc(func([]byte) (int, error) { return 0, errSource })
	if _, err := c.Put(t.Context(), "dir/failed", failed, backends.PutOptions{Size: 5}); !errors.Is(err, errSource) {
		t.Errorf("put of a source that fails: got %s, want the error of the source", shown(err))
	}
	if got := other.Keys(""); !slices.Equal(got, []string{"there"}) {
		t.Errorf("the listing while an upload runs: got %q, want there alone", got)
	}
	close(body.open)
	wg.Wait()
	if got := other.Keys(""); !slices.Equal(got, []string{"dir/running", "there"}) {
		t.Errorf("the listing after the upload: got %q, want dir/running and there", got)
	}
}

func listCancel(t T, b *Bench) {
	c := b.Client()
	numbered(c, 6)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mark := b.Mark()
	if err := c.Lists(ctx, "", func(backends.Info) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a listing with a dead context: %s, want context.Canceled", shown(err))
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests with a dead context: got %v, want none", log)
	}
	if b.Store() {
		return // its pages are as large as they can be
	}
	ctx, cancel = context.WithCancel(t.Context())
	page, err := c.Driver().List(ctx, backends.ListOptions{Prefix: "p/", Limit: 2})
	if err != nil || page.Next == "" {
		t.Fatalf("the first page of several: got %+v, %v, want one that is not the last", page, err)
	}
	cancel()
	if _, err = c.Driver().List(ctx, backends.ListOptions{Prefix: "p/", Limit: 2, Token: page.Next}); !errors.Is(err, context.Canceled) {
		t.Errorf("the second page with a dead context: %s, want context.Canceled", shown(err))
	}
}

func listStop(t T, b *Bench) {
	c := b.Client()
	numbered(c, 3)
	mark, n := b.Mark(), 0
	for _, err := range c.Store().List(t.Context(), "p/") {
		if err != nil {
			t.Fatalf("list: got %v, want success", err)
		}
		n++
		break
	}
	if log := b.Requests(mark); n != 1 || len(log) > 1 {
		t.Errorf("got %d keys with %d requests, want 1 key with at most 1: %v", n, len(log), log)
	}
}

func listInfo(t T, b *Bench) {
	c := b.Client()
	for i, n := range []int{0, 1, 5000, b.part() + 1} {
		if _, err := c.Put(t.Context(), fmt.Sprintf("k%d", i), plain(b.Bytes(n)), backends.PutOptions{Size: int64(n), Meta: map[string]string{"a": "b"}}); err != nil {
			t.Fatalf("put: got %v, want success", err)
		}
	}
	infos := c.Infos("k")
	if len(infos) != 4 {
		t.Errorf("got %d objects listed, want the 4 that were stored", len(infos))
	}
	for _, i := range infos {
		st := c.Info(i.Key)
		if i.Size != st.Size || !sameTime(i.ModTime, st.ModTime) || i.Version != "" && i.Version != st.Version || i.Meta != nil {
			t.Errorf("the listing: got %+v, want as Stat says, without metadata: %+v", i, st)
		}
	}
}

func listBadToken(t T, b *Bench) {
	c := b.Client()
	numbered(c, 3)
	for _, token := range []string{"x", "a", "a!", "a====", "\x00", "\xff", backends.AfterKey("other/key"), strings.Repeat("a", 5000), "../../etc"} {
		_, err := c.Driver().List(t.Context(), backends.ListOptions{Prefix: "p/", Token: token})
		c.Coded(fmt.Sprintf("list with the token %.20q", token), err, backends.InvalidArgument)
	}
}
