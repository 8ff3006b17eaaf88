package backends_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
)

func TestDeleteMany_InBulks(t *testing.T) {
	var calls [][]string
	d := &richMock{mock: mock{props: backends.Properties{MaxBulkDelete: 2}}}
	d.deleteMany = func(_ context.Context, keys []string) error {
		calls = append(calls, slices.Clone(keys))
		return nil
	}
	s := newStore(t, d, backends.Options{Prefix: "p/"})
	if err := s.DeleteMany(t.Context(), nil); err != nil || calls != nil {
		t.Errorf("no keys: %v, %v", err, calls)
	}
	if err := s.DeleteMany(t.Context(), []string{"c", "a", "b", "a", "d", "e"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"p/a", "p/b"}, {"p/c", "p/d"}, {"p/e"}}, calls); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteMany_NamesExactlyWhatIsLeft(t *testing.T) {
	d := &richMock{mock: mock{props: backends.Properties{MaxBulkDelete: 2}}}
	d.deleteMany = func(_ context.Context, keys []string) error {
		switch keys[0] {
		case "a": // one of two
			return &backends.Error{Code: backends.Unknown, Err: &backends.BulkDeleteError{Failed: map[string]error{"b": &backends.Error{Code: backends.Throttled, Err: errProvider}}}}
		case "c": // the whole request
			return backends.Errorf(backends.Denied, "no")
		}
		return nil
	}
	err := newStore(t, d, backends.Options{}).DeleteMany(t.Context(), []string{"a", "b", "c", "d", "e"})
	checkBulk(t, err, map[string]backends.Code{"b": backends.Throttled, "c": backends.Denied, "d": backends.Denied})
	if !errors.Is(err, backends.Denied) || errors.Is(err, backends.Throttled) {
		t.Errorf("code of the whole: %v", err)
	}
	if countErrors(err) != 1 {
		t.Errorf("%d *Error in the chain of %v", countErrors(err), err)
	}
}

func checkBulk(t *testing.T, err error, want map[string]backends.Code) {
	t.Helper()
	bulk, ok := errors.AsType[*backends.BulkDeleteError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	got := map[string]backends.Code{}
	for key, e := range bulk.Failed {
		got[key] = backends.CodeOf(e)
		if be, ok := errors.AsType[*backends.Error](e); ok && (be.Key != key || be.Op != backends.OpDelete && be.Op != backends.OpDeleteMany) {
			t.Errorf("%s: error says %q %s", key, be.Key, be.Op)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeleteMany_WithoutBulks(t *testing.T) {
	var mu sync.Mutex
	inside, most := 0, 0
	gone := map[string]bool{}
	d := &mock{delete: func(_ context.Context, key string) error {
		mu.Lock()
		inside++
		most = max(most, inside)
		gone[key] = true
		mu.Unlock()
		defer func() { mu.Lock(); inside--; mu.Unlock() }()
		if key == "k050" {
			return backends.Errorf(backends.Denied, "no")
		}
		return nil
	}}
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	err := newStore(t, d, backends.Options{}).DeleteMany(t.Context(), keys)
	checkBulk(t, err, map[string]backends.Code{"k050": backends.Denied})
	if len(gone) != 100 || most > 16 {
		t.Errorf("%d tried, %d at a time", len(gone), most)
	}
}

func TestDeleteMany_Cancelled(t *testing.T) {
	for _, bulk := range []int{0, 1} {
		ctx, cancel := context.WithCancel(t.Context())
		d := &richMock{mock: mock{props: backends.Properties{MaxBulkDelete: bulk}}}
		d.delete = func(ctx context.Context, key string) error {
			if key == "b" {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		d.deleteMany = func(ctx context.Context, keys []string) error { return d.delete(ctx, keys[0]) }
		err := newStore(t, d, backends.Options{}).DeleteMany(ctx, []string{"a", "b"})
		if !errors.Is(err, context.Canceled) || countErrors(err) != 0 {
			t.Errorf("bulk %d: %#v", bulk, err)
		}
		left, ok := errors.AsType[*backends.BulkDeleteError](err)
		if !ok || left.Failed["b"] == nil {
			t.Errorf("bulk %d: what is left is not named: %v", bulk, err)
		}
	}
}
