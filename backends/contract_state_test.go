package backends_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
)

func ifAbsentRace(t *testing.T, p place) {
	clients := []backends.Driver{p(t), p(t), p(t), p(t)}
	for round := range 5 {
		key := fmt.Sprintf("dir%d/k", round)
		errs := make([]error, 16)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				body := strings.NewReader(fmt.Sprintf("%02d", i))
				_, errs[i] = clients[i%4].Put(t.Context(), key, body, backends.PutOptions{Size: 2, IfAbsent: true})
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("%d and %d both created it", winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, backends.Exists):
				t.Errorf("%d: got %v, want Exists", i, err)
			}
		}
		if got := mustGet(t, clients[0], key, backends.All()); winner < 0 || string(got) != fmt.Sprintf("%02d", winner) {
			t.Errorf("content %q, winner %d", got, winner)
		}
		untouched := &countingReader{r: strings.NewReader("zz")}
		if _, err := clients[1].Put(t.Context(), key, untouched, backends.PutOptions{Size: 2, IfAbsent: true}); !errors.Is(err, backends.Exists) || untouched.n > 0 {
			t.Errorf("got %v after %d bytes, want Exists before the first", err, untouched.n)
		}
		if err := clients[2].Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, err := clients[3].Put(t.Context(), key, strings.NewReader("zz"), backends.PutOptions{Size: 2, IfAbsent: true}); err != nil {
			t.Errorf("after delete: %v", err)
		}
	}
	if ups := pending(t, clients[0]); len(ups) > 0 {
		t.Errorf("left behind: %+v", ups)
	}
}

type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func deleteOnlyThat(t *testing.T, p place) {
	d := p(t)
	all := []string{"a/b/c", "a/b/d", "a/bc", "ab"}
	for _, key := range all {
		mustPut(t, d, key, []byte(key))
	}
	for i, key := range all {
		for range 2 {
			if err := d.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if got := keysOf(t, d, ""); !slices.Equal(got, all[i+1:]) {
			t.Errorf("after deleting %s: %q", key, got)
		}
	}
}

// treeKeys are keys whose order differs from that of a naive walk: "a.b" < "a/x" < "a0".
func treeKeys() []string {
	keys := []string{"a.b", "a-b/z", "a/x", "a/x.y/1", "a0", "b/\U0001F600", "b/\uffee", "b/\u00e4", "b/a b+%20", "B/1", "z"}
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("many/%03d", i))
	}
	slices.Sort(keys)
	return keys
}

func listPages(t *testing.T, p place) {
	d, other := p(t), p(t)
	if page, err := d.List(t.Context(), backends.ListOptions{}); err != nil || len(page.Infos) > 0 || page.Next != "" {
		t.Fatalf("empty store: %+v, %v", page, err)
	}
	keys := treeKeys()
	for _, key := range keys {
		mustPut(t, d, key, []byte(key))
	}
	for _, limit := range []int{0, 1, 2, 3, len(keys) - 1, len(keys), len(keys) + 1} {
		var got []string
		for token := ""; ; {
			page, err := other.List(t.Context(), backends.ListOptions{Limit: limit, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			if limit > 0 && len(page.Infos) > limit {
				t.Fatalf("%d infos, limit %d", len(page.Infos), limit)
			}
			for _, info := range page.Infos {
				got = append(got, info.Key)
				stat, err := d.Stat(t.Context(), info.Key)
				if err != nil || stat.Size != info.Size || !stat.ModTime.Equal(info.ModTime) || info.Meta != nil {
					t.Fatalf("list says %+v, stat %+v, %v", info, stat, err)
				}
			}
			if token = page.Next; token == "" {
				break
			}
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	page, err := d.List(t.Context(), backends.ListOptions{Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), keys[19]); err != nil { // the one that the token names
		t.Fatal(err)
	}
	page, err = d.List(t.Context(), backends.ListOptions{Token: page.Next, Limit: 1000})
	if err != nil || len(page.Infos) != len(keys)-20 || page.Infos[0].Key != keys[20] {
		t.Errorf("after the token's key was deleted: %d infos, %v", len(page.Infos), err)
	}
}

func listPrefix(t *testing.T, p place) {
	d := p(t)
	keys := treeKeys()
	for _, key := range keys {
		mustPut(t, d, key, nil)
	}
	for _, prefix := range []string{"", "a", "a/", "a/x", "a/x.", "a-", "b", "b/", "many/", "many/05", "many/999", "zz", "no/such/dir/", "a/../b/", "../", "/", "//", "./"} {
		want := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		if diff := cmp.Diff(want, keysOf(t, d, prefix)); diff != "" {
			t.Errorf("prefix %q: %s", prefix, diff)
		}
	}
}

func listBadToken(t *testing.T, p place) {
	d := p(t)
	for _, token := range []string{"x", "a", "a!", "a====", "axyz", backends.AfterKey("other/key"), strings.Repeat("a", 5000)} {
		if _, err := d.List(t.Context(), backends.ListOptions{Prefix: "mine/", Token: token}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("token %.20q: got %v, want InvalidArgument", token, err)
		}
	}
}

func deadOnEntry(t *testing.T, p place) {
	d := p(t)
	mustPut(t, d, "k", []byte("x"))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, err := range callAll(ctx, d) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", name, err)
		}
	}
	if got := mustGet(t, d, "k", backends.All()); string(got) != "x" {
		t.Errorf("got %q", got)
	}
}

// callAll calls every method that takes a context.
func callAll(ctx context.Context, d backends.Driver) map[string]error {
	out := map[string]error{}
	_, out["put"] = d.Put(ctx, "k", strings.NewReader("y"), backends.PutOptions{Size: 1})
	obj, err := d.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
	if err == nil {
		_ = obj.Body.Close()
	}
	out["get"] = err
	_, out["stat"] = d.Stat(ctx, "k")
	out["delete"] = d.Delete(ctx, "k")
	_, out["list"] = d.List(ctx, backends.ListOptions{})
	if b, ok := d.(backends.BulkDeleter); ok {
		out["delete_many"] = b.DeleteMany(ctx, []string{"k"})
	}
	if u, ok := d.(backends.UploadLister); ok {
		_, out["uploads"] = u.ListUploads(ctx, "")
		out["abort"] = u.AbortUpload(ctx, backends.Upload{ID: "x"})
	}
	if b, ok := d.(backends.Prober); ok {
		out["probe"] = b.Probe(ctx)
	}
	return out
}

func cancelInTheMiddle(t *testing.T, p place) {
	d := p(t)
	mustPut(t, d, "k", []byte("old"))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := d.Put(ctx, "k", readerFunc(func(b []byte) (int, error) {
		if n++; n == 10 {
			cancel()
		}
		return copy(b, make([]byte, 64<<10)), nil
	}), backends.PutOptions{Size: backends.SizeUnknown})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("put: got %v", err)
	}
	if got := mustGet(t, d, "k", backends.All()); string(got) != "old" {
		t.Errorf("got %d bytes, want the old ones", len(got))
	}
	if ups := pending(t, d); len(ups) > 0 {
		t.Errorf("left behind: %+v", ups)
	}
	mustPut(t, d, "k", make([]byte, 1<<20))
	ctx, cancel = context.WithCancel(t.Context())
	obj, err := d.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	if _, err := io.ReadFull(obj.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(obj.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("read: got %v", err)
	}
}

func closeAfter(t *testing.T, p place) {
	d, other := p(t), p(t)
	mustPut(t, d, "k", []byte("x"))
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range callAll(t.Context(), d) {
		if !errors.Is(err, backends.Closed) {
			t.Errorf("%s: got %v, want Closed", name, err)
		}
	}
	if got := mustGet(t, other, "k", backends.All()); string(got) != "x" {
		t.Errorf("another client reads %q", got)
	}
}

// concurrentMix: writers that delete what they wrote prune directories under the feet of writers in the same ones.
func concurrentMix(t *testing.T, p place) {
	clients := []backends.Driver{p(t), p(t)}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			d := clients[g%2]
			key := fmt.Sprintf("x/y/z/%d", g)
			for i := range 100 {
				data := random(uint64(g*1000+i), 1+i*37)
				if _, err := d.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data)), IfAbsent: i%2 == 0}); err != nil {
					t.Errorf("put %s: %v", key, err)
					return
				}
				obj, err := clients[(g+1)%2].Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
				if err != nil {
					t.Errorf("get %s: %v", key, err)
					return
				}
				got, err := io.ReadAll(obj.Body)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("read %s: %d bytes, %v", key, len(got), err)
				}
				_ = obj.Body.Close()
				if err := d.Delete(t.Context(), key); err != nil {
					t.Errorf("delete %s: %v", key, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if ups, keys := pending(t, clients[0]), keysOf(t, clients[0], ""); len(ups)+len(keys) > 0 {
		t.Errorf("left behind: %v %v", ups, keys)
	}
}
