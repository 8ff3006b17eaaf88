package parts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
)

func TestPut_AnswerOfTheCommitLost(t *testing.T) {
	const old = "old"
	tests := []struct {
		name      string
		stored    bool   // the store did it
		find      int    // how many Finds fail
		abort     error  // of every Abort
		before    string // another object is there
		committed bool   // the abort comes too late: only it shows the object
		ok        bool
		ambiguous bool
	}{
		{name: "it was stored", stored: true, ok: true},
		{name: "it was not", ok: false},
		{name: "it was not, an old one is there", before: old},
		{name: "it was stored over an old one", stored: true, before: old, ok: true},
		{name: "stored, first question fails", stored: true, find: 1, ok: true},
		{name: "stored, nobody can tell", stored: true, find: 2, ambiguous: true},
		{name: "not stored, nobody can tell", find: 2, ambiguous: true},
		{name: "not stored, abort fails", abort: errStore, ambiguous: true},
		{name: "stored between question and abort", committed: true, ok: true},
	}
	for _, tt := range tests {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cancelled=%v", tt.name, dead), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f, finds := new(target), 0
				if tt.before != "" {
					f.object = []byte(tt.before)
				}
				lost := func(ctx context.Context) error {
					if dead {
						cancel()
						return ctx.Err()
					}
					return errLost
				}
				var late []byte
				f.before = func(ctx context.Context, step string, _ int) error {
					switch {
					case step == "commit" && !tt.stored:
						return lost(ctx)
					case step == "find":
						if finds++; finds <= tt.find {
							return errStore
						}
					case step == "abort":
						if tt.committed {
							late = data(3 * part)
							f.mu.Lock()
							f.object, f.mine = late, true
							f.mu.Unlock()
						}
						return tt.abort
					}
					return nil
				}
				f.after = func(ctx context.Context, step string, _ int) error {
					if step == "commit" {
						return lost(ctx)
					}
					return nil
				}
				info, err := parts.Put(ctx, f, bytes.NewReader(data(3*part)), options(3*part))
				if tt.ok {
					if err != nil || info.Version != "found" {
						t.Errorf("got %+v, %v, want success", info, err)
					}
					return
				}
				e, coded := errors.AsType[*backends.Error](err)
				switch {
				case dead && !errors.Is(err, context.Canceled):
					t.Errorf("got %v, want context.Canceled", err)
				case !dead && (!coded || e.Ambiguous != tt.ambiguous || e.Code != backends.Unavailable):
					t.Errorf("got %v, want ambiguous=%v", err, tt.ambiguous)
				}
				if f.count("abort") == 0 {
					t.Errorf("requests: %v", f.calls)
				}
			})
		}
	}
}

func TestPut_AnswerOfASingleLost(t *testing.T) {
	exists := &backends.Error{Code: backends.Exists, Ambiguous: true, Attempts: 2}
	tests := []struct {
		name      string
		answer    error
		stored    bool
		old       bool
		finds     error
		code      backends.Code // Unknown: success
		ambiguous bool
	}{
		{"stored", errLost, true, false, nil, 0, false},
		{"not there", errLost, false, false, nil, backends.Unavailable, true}, // may still come
		{"an old one is there", errLost, false, true, nil, backends.Unavailable, true},
		{"nobody can tell", errLost, true, false, errStore, backends.Unavailable, true},
		{"refused", errStore, false, false, nil, backends.Unavailable, false},
		{"exists, and is ours", exists, true, false, nil, 0, false},
		{"exists, and is not", exists, false, true, nil, backends.Exists, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := new(target)
			if tt.old {
				f.object = []byte("old")
			}
			f.before = func(_ context.Context, step string, _ int) error {
				switch {
				case step == "single" && !tt.stored:
					return tt.answer
				case step == "find":
					return tt.finds
				}
				return nil
			}
			f.after = func(_ context.Context, step string, _ int) error {
				if step == "single" {
					return tt.answer
				}
				return nil
			}
			_, err := parts.Put(t.Context(), f, strings.NewReader("new"), options(3))
			e, _ := errors.AsType[*backends.Error](err)
			switch {
			case tt.code == 0 && err != nil:
				t.Errorf("got %v, want success", err)
			case tt.code != 0 && (e == nil || e.Code != tt.code || e.Ambiguous != tt.ambiguous):
				t.Errorf("got %v (ambiguous %v), want %v (ambiguous %v)", err, e != nil && e.Ambiguous, tt.code, tt.ambiguous)
			}
			if f.count("abort") > 0 {
				t.Error("a single put was aborted")
			}
		})
	}
}

// TestPut_RestartOnlyWhenNothingIsLeft: the Store sends the body again only then.
func TestPut_RestartOnlyWhenNothingIsLeft(t *testing.T) {
	f := &target{before: func(_ context.Context, step string, _ int) error {
		if step == "commit" {
			return &backends.Error{Code: backends.Unavailable, Restart: true, Status: 409}
		}
		return nil
	}}
	_, err := parts.Put(t.Context(), f, bytes.NewReader(data(3*part)), options(3*part))
	e, _ := errors.AsType[*backends.Error](err)
	if e == nil || !e.Restart || f.count("abort") != 1 || f.count("find") != 0 {
		t.Errorf("got %v, requests %v", err, f.calls)
	}
	f.nothingLeft(t)
}
