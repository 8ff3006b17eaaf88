package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

func deleteCases() []Case {
	return []Case{
		{ID: "delete/removes", Rule: "After Delete, Get and Stat are NotFound and List omits the key, for every client.", Run: deleteRemoves},
		{ID: "delete/idempotent", Rule: "Delete of a key that is not there is success: never stored, deleted before, or deleted at the same time.", Run: deleteIdempotent},
		{ID: "delete/only-that-key", Rule: "Delete touches no other key: not its siblings, not those that begin with it, not those above it.", Run: deleteOnlyThat},
		{ID: "delete/then-put", Rule: "A key can be stored again after Delete, and nothing of the old object is left.", Run: deleteThenPut},
		{ID: "delete/during-read", Rule: "A read that is open when the object is deleted delivers its bytes or fails; it does not end early as if that were all.", Run: deleteDuringRead},
		{
			ID: "bulk/all", Rule: "DeleteMany removes every named key and no other, with one request for MaxBulkDelete keys where the store can.",
			Run: bulkAll, Needs: bulk,
		},
		{ID: "bulk/with-missing", Rule: "Keys that are not there are success in DeleteMany, and the same call twice is.", Run: bulkMissing, Needs: bulk},
		{ID: "bulk/empty-list", Rule: "DeleteMany of nothing is nil, without a request.", Run: bulkEmpty, Needs: bulk},
		{ID: "bulk/duplicates", Rule: "A key named three times is deleted, and is no error.", Level: Store, Run: bulkDuplicates},
		{ID: "bulk/over-limit", Rule: "The Store splits more keys than MaxBulkDelete into calls; a driver may refuse them, but only with InvalidArgument.", Run: bulkOverLimit, Needs: bulk},
		{ID: "bulk/hostile-keys", Rule: "DeleteMany takes keys with any character of XML and URLs.", Level: Store, Run: bulkHostile},
		{
			ID: "bulk/partial-failure", Rule: "When some keys of a bulk delete fail, the error names exactly those, each with its reason.", Needs: bulk,
			Uses: []Facility{UsesBulkForger}, Run: bulkPartial,
		},
		{
			ID: "bulk/cancel-midway", Rule: "DeleteMany that is cancelled returns the context's error and claims no key as deleted that is still there.",
			Level: Store, Run: bulkCancel,
		},
	}
}

func bulk(p backends.Properties) string { return unless(p.MaxBulkDelete > 0, "MaxBulkDelete is 0") }

func deleteRemoves(_ T, b *Bench) {
	c, other := b.Client(), b.Client()
	for _, n := range []int{0, 1000, b.part() + 1} {
		c.Write("a/b", b.Bytes(n))
		c.Remove("a/b")
		c.Lacks("a/b")
		other.Lacks("a/b")
	}
}

func deleteIdempotent(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	c.Remove("never/stored")
	c.Write("k", []byte("x"))
	c.Remove("k")
	c.Remove("k")
	other.Remove("k")
	c.Write("k", []byte("x"))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := []*Client{c, other}[i%2].Delete(t.Context(), "k"); err != nil {
				t.Errorf("one of 16 deletes at the same time: got %v, want success", err)
			}
		})
	}
	wg.Wait()
	c.Lacks("k")
}

func deleteOnlyThat(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	all := []string{"a/b/c", "a/b/d", "a/bc", "ab", "abc"}
	for _, key := range all {
		c.Write(key, []byte(key))
	}
	for _, key := range []string{"a/b", "a"} { // above those that are there
		c.Remove(key)
	}
	for i, key := range all {
		c.Remove(key)
		if got := other.Keys(""); !slices.Equal(got, all[i+1:]) {
			t.Fatalf("after Delete of %q these are left: %q, want %q", key, got, all[i+1:])
		}
	}
}

func deleteThenPut(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	c.Write("k", b.Bytes(5000))
	c.Remove("k")
	data := b.Bytes(100)
	c.Write("k", data)
	other.Holds("k", data)
	if infos := other.Infos("k"); len(infos) != 1 || infos[0].Size != 100 {
		t.Errorf("the listing: got %+v, want the one new object of 100 bytes", infos)
	}
}

func deleteDuringRead(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	data := b.Bytes(6 << 20)
	c.Write("k", data)
	obj := c.Open("k", backends.All())
	defer obj.Body.Close()
	got := make([]byte, 1000)
	if _, err := io.ReadFull(obj.Body, got); err != nil {
		t.Fatalf("read: got %v, want success", err)
	}
	other.Remove("k")
	rest, err := readWhole(obj)
	if got = append(got, rest...); err == nil && len(got) != len(data) {
		t.Errorf("the stream: got an end without an error after %d of %d bytes, want an error or all of them", len(got), len(data))
	} else if string(got) != string(data[:len(got)]) {
		t.Errorf("the stream: got bytes that were not stored there, want those of the object that was opened")
	}
}

// many stores n small objects.
func many(c *Client, n int) []string {
	keys := make([]string, n)
	work := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for key := range work {
				if _, err := c.Put(c.t.ctx, key, plain([]byte("x")), backends.PutOptions{Size: 1}); err != nil {
					c.t.Errorf("put %s: got %v, want success", key, err)
				}
			}
		})
	}
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%05d", i)
		work <- keys[i]
	}
	close(work)
	wg.Wait()
	return keys
}

func bulkAll(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	keys := many(c, 50)
	c.Write("nany", []byte("x"))
	c.Write("man", []byte("x"))
	mark := b.Mark()
	if err := c.DeleteMany(t.Context(), keys[:40]); err != nil {
		t.Errorf("DeleteMany: got %v, want success", err)
	}
	if got, limit := len(b.Requests(mark)), (40+b.Properties().MaxBulkDelete-1)/b.Properties().MaxBulkDelete; got > limit {
		t.Errorf("%d requests for 40 keys, want %d", got, limit)
	}
	want := slices.Concat([]string{"man"}, keys[40:], []string{"nany"})
	if got := other.Keys(""); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

func bulkMissing(t T, b *Bench) {
	c := b.Client()
	keys := append(many(c, 3), "no-such-key", "many/zz", "a/b/c")
	for range 2 {
		if err := c.DeleteMany(t.Context(), keys); err != nil {
			t.Errorf("DeleteMany: got %v, want success", err)
		}
	}
	if got := c.Keys(""); len(got) > 0 {
		t.Errorf("left: got %q, want nothing", got)
	}
}

func bulkEmpty(t T, b *Bench) {
	c := b.Client()
	c.Write("k", []byte("x"))
	mark := b.Mark()
	for _, keys := range [][]string{nil, {}} {
		if err := c.DeleteMany(t.Context(), keys); err != nil {
			t.Errorf("DeleteMany of nothing: got %v, want success", err)
		}
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests for nothing: got %v, want none", log)
	}
	c.Holds("k", []byte("x"))
}

func bulkDuplicates(t T, b *Bench) {
	c := b.Client()
	keys := many(c, 2)
	if err := c.DeleteMany(t.Context(), []string{keys[0], keys[1], keys[0], keys[0]}); err != nil {
		t.Errorf("DeleteMany with a key three times: got %v, want success", err)
	}
	if got := c.Keys(""); len(got) > 0 {
		t.Errorf("left: got %q, want nothing", got)
	}
}

// bulkOverLimit names many keys that are not there: storing that many would take long.
func bulkOverLimit(t T, b *Bench) {
	c := b.Client()
	most := b.Properties().MaxBulkDelete
	keys := many(c, 20)
	for i := len(keys); i < 2*most+1; i++ {
		keys = append(keys, fmt.Sprintf("none/%05d", i))
	}
	keys[0], keys[len(keys)-1] = keys[len(keys)-1], keys[0] // one that is there in the last call
	err := c.DeleteMany(t.Context(), keys)
	if !b.Store() && errors.Is(err, backends.InvalidArgument) {
		return // the contract: at most MaxBulkDelete a call
	}
	if err != nil {
		t.Errorf("DeleteMany of %d keys, %d a call: got %v, want success", len(keys), most, err)
	}
	if got := c.Keys(""); len(got) > 0 {
		t.Errorf("left: got %q, want nothing", got)
	}
}

// BulkForger is a Dialect that can forge the answer to a bulk delete of which some keys, full ones, could not be deleted.
type BulkForger interface {
	BulkFailed(keys []string) *http.Response
}

func bulkPartial(t T, b *Bench) {
	forger, ok := b.r.h.Dialect.(BulkForger)
	if !ok {
		t.Fatalf("the dialect forges no answers to bulk deletes")
	}
	bad := []string{"many/00001", "many/<&>"}
	var forged atomic.Int64
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if b.r.h.Dialect.Step(r) != fault.Bulk {
				return next.RoundTrip(r)
			}
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body) // it is answered here
				_ = r.Body.Close()                 // as it must be
			}
			forged.Add(1)
			resp := forger.BulkFailed([]string{b.Prefix() + bad[0], b.Prefix() + bad[1]})
			resp.Request = r
			return resp, nil
		})
	})
	c := b.Client()
	err := c.DeleteMany(t.Context(), append(many(c, 3), bad[1]))
	failed, ok := errors.AsType[*backends.BulkDeleteError](err)
	if !ok || forged.Load() == 0 {
		t.Fatalf("DeleteMany of which two keys fail: got %s, with %d requests, want a BulkDeleteError", shown(err), forged.Load())
	}
	for _, key := range bad {
		if failed.Failed[key] == nil {
			t.Errorf("keys that failed: got %[2]v, want %[1]q among them", key, failed.Failed)
		}
	}
	if len(failed.Failed) != len(bad) {
		t.Errorf("%d keys are told to have failed, want %d: %v", len(failed.Failed), len(bad), failed.Failed)
	}
}

func bulkHostile(t T, b *Bench) {
	c := b.Client()
	keys := []string{"<a>&amp;\"'", "]]>", "a&b=c?d#e", "100%", "%2F", "+ +", "\u00e4\u20ac\U0001F600", "a;b:c@d,e$f", "<Key>x</Key>"}
	for _, key := range keys {
		c.Write(key, []byte("x"))
	}
	c.Write("stays", []byte("x"))
	if err := c.DeleteMany(t.Context(), keys); err != nil {
		t.Errorf("DeleteMany: got %v, want success", err)
	}
	if got := c.Keys(""); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("left: got %q, want nothing", got)
	}
}

func bulkCancel(t T, b *Bench) {
	c := b.Client()
	keys := many(c, 30)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.DeleteMany(ctx, keys)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("DeleteMany with a dead context: %s, want context.Canceled", shown(err))
	}
	failed, ok := errors.AsType[*backends.BulkDeleteError](err)
	if !ok {
		t.Fatalf("DeleteMany with a dead context: got %v, want an error that names keys", err)
	}
	for _, key := range c.Keys("") {
		if failed.Failed[key] == nil {
			t.Errorf("%q: got a key that is still there and not among those that failed, want one or the other", key)
		}
	}
}
