package backends_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/membudget"
)

func TestStore_InvalidKeysNeverReachTheDriver(t *testing.T) {
	touched := func(what string) { t.Errorf("%s reached the driver", what) }
	d := &mock{props: backends.Properties{MaxKeyBytes: 20}}
	d.put = func(context.Context, string, io.Reader, backends.PutOptions) (backends.Info, error) {
		touched("put")
		return backends.Info{}, nil
	}
	d.get = func(context.Context, string, backends.GetOptions) (*backends.Object, error) {
		touched("get")
		return nil, nil
	}
	d.stat = func(context.Context, string) (backends.Info, error) { touched("stat"); return backends.Info{}, nil }
	d.delete = func(context.Context, string) error { touched("delete"); return nil }
	bad := []string{
		"", "a\x00b", "\xff", strings.Repeat("k", 21), ".tierkit", ".tierkit/tmp/x", ".TierKit/x", // in every store
		"/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "../a", // where keys are not flat
	}
	for _, flat := range []bool{false, true} {
		d.props.FlatKeys = flat
		s := newStore(t, d, backends.Options{})
		for _, key := range bad[:map[bool]int{false: len(bad), true: 7}[flat]] {
			_, put := s.Put(t.Context(), key, strings.NewReader("x"), backends.PutOptions{Size: 1})
			_, get := s.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
			_, stat := s.Stat(t.Context(), key)
			for op, err := range map[string]error{
				"put": put, "get": get, "stat": stat, "delete": s.Delete(t.Context(), key), "delete many": s.DeleteMany(t.Context(), []string{"ok", key}),
			} {
				if !errors.Is(err, backends.InvalidArgument) || countErrors(err) != 1 {
					t.Errorf("flat %v, %s %q: got %v, want InvalidArgument", flat, op, key, err)
				}
			}
		}
	}
	d.props.FlatKeys = true
	d.stat = nil
	s := newStore(t, d, backends.Options{})
	for _, key := range []string{"/a", "a/", "a//b", "..", "\u00e4 +%20", "\x01", ".tierkitty/x", "a/.tierkit/x", strings.Repeat("k", 20)} {
		if _, err := s.Stat(t.Context(), key); err != nil {
			t.Errorf("flat key %q: %v", key, err)
		}
	}
	if _, err := newStore(t, d, backends.Options{Prefix: "0123456789"}).Stat(t.Context(), "0123456789x"); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("the prefix does not count for the length: %v", err)
	}
	for _, prefix := range []string{".tierkit/", "\xff", strings.Repeat("p", 20)} {
		if _, err := backends.NewStore(d, backends.Options{Prefix: prefix}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("prefix %q: got %v", prefix, err)
		}
	}
}

func TestStore_InvalidOptions(t *testing.T) {
	d := &mock{props: backends.Properties{MaxObjectBytes: 100}}
	d.put = func(context.Context, string, io.Reader, backends.PutOptions) (backends.Info, error) {
		t.Error("reached the driver")
		return backends.Info{}, nil
	}
	s := newStore(t, d, backends.Options{})
	for name, tt := range map[string]struct {
		opts backends.PutOptions
		want backends.Code
	}{
		"negative size": {backends.PutOptions{Size: -2}, backends.InvalidArgument},
		"too large":     {backends.PutOptions{Size: 101}, backends.InvalidArgument},
		"if absent":     {backends.PutOptions{IfAbsent: true}, backends.Unsupported},
		"meta key":      {backends.PutOptions{Meta: map[string]string{"Upper": "x"}}, backends.InvalidArgument},
		"meta value":    {backends.PutOptions{Meta: map[string]string{"k": "\u00e4"}}, backends.InvalidArgument},
		"meta size":     {backends.PutOptions{Meta: map[string]string{"k": strings.Repeat("x", 2048)}}, backends.InvalidArgument},
	} {
		body := &countingReader{r: strings.NewReader("x")}
		if _, err := s.Put(t.Context(), "k", body, tt.opts); !errors.Is(err, tt.want) || body.n > 0 {
			t.Errorf("%s: got %v after %d bytes, want %v", name, err, body.n, tt.want)
		}
	}
	if _, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: -1, Length: 1}}); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("negative offset: %v", err)
	}
	if _, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: "v"}); !errors.Is(err, backends.Unsupported) {
		t.Errorf("version without versions: %v", err)
	}
	if _, err := backends.NewStore(d, backends.Options{Limits: backends.Limits{Reads: -1}}); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("negative limit: %v", err)
	}
}

func TestStore_PrefixGoesOnAndOff(t *testing.T) {
	d := new(mem.Space).Client(mem.Options{})
	s := newStore(t, d, backends.Options{Prefix: "ns/"})
	ctx := t.Context()
	mustPut(t, d, "other/k", nil)
	mustPut(t, d, "ns", nil)
	info, err := s.Put(ctx, "a", strings.NewReader("xyz"), backends.PutOptions{Size: 3})
	if err != nil || info.Key != "a" {
		t.Fatalf("put: %+v, %v", info, err)
	}
	if got := mustGet(t, d, "ns/a", backends.All()); string(got) != "xyz" {
		t.Errorf("driver has %q", got)
	}
	obj, err := s.Get(ctx, "a", backends.GetOptions{Range: backends.Range{Offset: 1, Length: 1}})
	if err != nil || obj.Info.Key != "a" || obj.Info.Size != 3 || obj.Offset != 1 || obj.Length != 1 {
		t.Fatalf("get: %+v, %v", obj, err)
	}
	if got, err := io.ReadAll(obj.Body); string(got) != "y" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if info, err := s.Stat(ctx, "a"); err != nil || info.Key != "a" {
		t.Errorf("stat: %+v, %v", info, err)
	}
	if _, err := s.Put(ctx, "b", nil, backends.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for info, err := range s.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if diff := cmp.Diff([]string{"a", "b"}, keys); diff != "" {
		t.Error(diff)
	}
	if err := s.DeleteMany(ctx, []string{"a", "b", "b", "none"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ns", "other/k"}, keysOf(t, d, "")); diff != "" {
		t.Error(diff)
	}
}

func TestStore_PutBodyIsGuarded(t *testing.T) {
	var kept io.Reader
	d := &mock{put: func(_ context.Context, _ string, body io.Reader, _ backends.PutOptions) (backends.Info, error) {
		if _, ok := body.(io.Seeker); ok {
			t.Error("the driver sees the body's type")
		}
		kept = body
		_, err := io.Copy(io.Discard, body)
		return backends.Info{}, err
	}}
	obs := &observed{}
	s := newStore(t, d, backends.Options{Observer: obs})
	if _, err := s.Put(t.Context(), "k", strings.NewReader("hello"), backends.PutOptions{Size: 5}); err != nil {
		t.Fatal(err)
	}
	if ev := obs.last(t); ev.Bytes != 5 || ev.Attempts != 1 {
		t.Errorf("observed %+v", ev)
	}
	if n, err := kept.Read(make([]byte, 1)); n != 0 || !errors.Is(err, backends.Internal) {
		t.Errorf("read after put: %d, %v", n, err)
	}
}

// rewinding is a body that can be sent again.
type rewinding struct {
	*strings.Reader
	rewinds int
	err     error
}

func (r *rewinding) Rewind() error {
	r.rewinds++
	_, _ = r.Seek(0, io.SeekStart)
	return r.err
}

func TestStore_PutIsSentAgainOnceWhenTheCommitAsksForIt(t *testing.T) {
	lost := &backends.Error{Code: backends.Unavailable, Restart: true, Err: errProvider}
	tests := []struct {
		name      string
		errs      []error // of the first, second, ... Put
		rewindErr error
		plain     bool // no Rewinder
		puts      int
		ok        bool
	}{
		{"once", []error{lost, nil}, nil, false, 2, true},
		{"twice is too often", []error{lost, lost}, nil, false, 2, false},
		{"not without a rewinder", []error{lost}, nil, true, 1, false},
		{"not when rewinding fails", []error{lost}, errSource, false, 1, false},
		{"not when ambiguous", []error{&backends.Error{Code: backends.Unavailable, Restart: true, Ambiguous: true}}, nil, false, 1, false},
		{"not for other errors", []error{&backends.Error{Code: backends.Unavailable}}, nil, false, 1, false},
		{"not for other codes", []error{&backends.Error{Code: backends.Denied, Restart: true}}, nil, false, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			puts := 0
			d := &mock{put: func(_ context.Context, _ string, body io.Reader, _ backends.PutOptions) (backends.Info, error) {
				puts++
				if data, err := io.ReadAll(body); string(data) != "hello" || err != nil {
					t.Errorf("put %d got %q, %v", puts, data, err)
				}
				return backends.Info{}, tt.errs[puts-1]
			}}
			obs := &observed{}
			body := io.Reader(&rewinding{Reader: strings.NewReader("hello"), err: tt.rewindErr})
			if tt.plain {
				body = strings.NewReader("hello")
			}
			_, err := newStore(t, d, backends.Options{Observer: obs}).Put(t.Context(), "k", body, backends.PutOptions{Size: 5})
			if puts != tt.puts || (err == nil) != tt.ok {
				t.Errorf("%d puts, %v", puts, err)
			}
			if tt.rewindErr != nil && !errors.Is(err, tt.rewindErr) {
				t.Errorf("the rewind's error is lost: %v", err)
			}
			if ev := obs.last(t); ev.Attempts != tt.puts {
				t.Errorf("observed %d attempts", ev.Attempts)
			}
		})
	}
}

func TestStore_MemoryOfAPut(t *testing.T) {
	budget, err := membudget.New(64<<20, membudget.Needs{Copy: 1 << 20, Fetch: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var got *membudget.Reservation
	least := int64(1 << 20)
	d := &richMock{memory: func(int64) (int64, int64) { return least, 3 << 20 }}
	d.put = func(_ context.Context, _ string, _ io.Reader, o backends.PutOptions) (backends.Info, error) {
		got = o.Memory
		if got != nil && got.Size() < least {
			t.Errorf("%d bytes reserved", got.Size())
		}
		return backends.Info{}, nil
	}
	s := newStore(t, d, backends.Options{})
	if _, err := s.Put(t.Context(), "k", nil, backends.PutOptions{}); err != nil || got != nil {
		t.Errorf("without a budget: %v, %v", got, err)
	}
	s.UseBudget(budget)
	if _, err := s.Put(t.Context(), "k", nil, backends.PutOptions{}); err != nil || got == nil {
		t.Errorf("with a budget: %v, %v", got, err)
	}
	own, err := budget.Reserve(t.Context(), membudget.Copy, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Release()
	if _, err := s.Put(t.Context(), "k", nil, backends.PutOptions{Memory: own}); err != nil || got != own || own.Size() != 1<<20 {
		t.Errorf("own memory: %v, %v", got, err)
	}
	least = 1 << 40
	if _, err := s.Put(t.Context(), "k", nil, backends.PutOptions{}); !errors.Is(err, backends.InvalidArgument) || !errors.Is(err, membudget.ErrTooLarge) {
		t.Errorf("more than the budget: %v", err)
	}
}

func TestStore_WaitsForMemoryWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, err := membudget.New(8<<20, membudget.Needs{Copy: 1 << 20, Fetch: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		d := &richMock{memory: func(int64) (int64, int64) { return 1 << 20, 1 << 20 }}
		s := newStore(t, d, backends.Options{Limits: backends.Limits{Writes: 1}})
		s.UseBudget(budget)
		all, err := budget.Reserve(t.Context(), membudget.Copy, budget.Ceiling(membudget.Copy))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for _, ctx := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := s.Put(ctx, "k", nil, backends.PutOptions{})
				errs <- err
			}()
			synctest.Wait()
		}
		if err := s.Delete(t.Context(), "k"); err != nil { // takes the only slot
			t.Errorf("delete: %v", err)
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) || countErrors(err) != 0 {
			t.Errorf("cancelled while it waits: %v", err)
		}
		all.Release()
		if err := <-errs; err != nil {
			t.Errorf("after the memory came: %v", err)
		}
	})
}

func TestStore_FallbacksAndCapabilities(t *testing.T) {
	ctx := t.Context()
	poor := &mock{list: func(_ context.Context, o backends.ListOptions) (backends.Page, error) {
		return backends.Page{}, map[bool]error{true: backends.Denied, false: nil}[o.Limit == 1]
	}}
	s := newStore(t, poor, backends.Options{})
	if _, err := s.Uploads(ctx, ""); !errors.Is(err, backends.Unsupported) {
		t.Errorf("uploads: %v", err)
	}
	if err := s.AbortUpload(ctx, backends.Upload{Key: "k"}); !errors.Is(err, backends.Unsupported) {
		t.Errorf("abort: %v", err)
	}
	if err := s.Probe(ctx); !errors.Is(err, backends.Denied) {
		t.Errorf("probe: %v", err)
	}
	if a, b := s.PutMemory(100); a != 0 || b != 0 {
		t.Errorf("memory: %d, %d", a, b)
	}
	var aborted backends.Upload
	rich := &richMock{
		uploads: func(_ context.Context, prefix string) ([]backends.Upload, error) {
			return []backends.Upload{{Key: prefix + "x", ID: "1"}, {ID: "2"}}, nil
		},
		abort:  func(_ context.Context, u backends.Upload) error { aborted = u; return nil },
		probe:  func(context.Context) error { return backends.Errorf(backends.Denied, "no permission to list") },
		memory: func(size int64) (int64, int64) { return size, 2 * size },
	}
	s = newStore(t, rich, backends.Options{Prefix: "ns/"})
	ups, err := s.Uploads(ctx, "a/")
	if diff := cmp.Diff([]backends.Upload{{Key: "a/x", ID: "1"}, {ID: "2"}}, ups); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, u := range ups {
		if err := s.AbortUpload(ctx, u); err != nil {
			t.Error(err)
		}
		if want := map[string]string{"1": "ns/a/x", "2": ""}[u.ID]; aborted.Key != want || aborted.ID != u.ID {
			t.Errorf("aborted %+v", aborted)
		}
	}
	if err := s.Probe(ctx); err == nil || err.Error() != "mock probe: access denied: no permission to list" {
		t.Errorf("probe: %v", err)
	}
	if a, b := s.PutMemory(100); a != 100 || b != 200 {
		t.Errorf("memory: %d, %d", a, b)
	}
	if s.Driver() != backends.Driver(rich) || s.Properties().Name != "mock" {
		t.Error("the driver is another one")
	}
}
