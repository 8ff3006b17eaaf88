package backends_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
)

func TestGet_LengthZeroIsAnsweredWithoutTheDriver(t *testing.T) {
	d := &mock{get: func(context.Context, string, backends.GetOptions) (*backends.Object, error) {
		t.Error("reached the driver")
		return nil, backends.NotFound
	}}
	obj, err := newStore(t, d, backends.Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 7}})
	if err != nil || obj.Length != 0 || obj.Offset != 7 || obj.Info.Size != backends.SizeUnknown || obj.Info.Key != "k" {
		t.Fatalf("got %+v, %v", obj, err)
	}
	if data, err := io.ReadAll(obj.Body); len(data) > 0 || err != nil || obj.Body.Close() != nil {
		t.Errorf("read %q, %v", data, err)
	}
}

func TestGet_DriverThatGivesAnotherRange(t *testing.T) {
	closed := 0
	for name, obj := range map[string]backends.Object{
		"whole object": {Info: backends.Info{Size: 100}, Offset: 0, Length: 100},
		"too long":     {Info: backends.Info{Size: 100}, Offset: 10, Length: 6},
		"too short":    {Info: backends.Info{Size: 100}, Offset: 10, Length: 4},
		"not there":    {Info: backends.Info{Size: 5}, Offset: 10, Length: 5},
	} {
		d := &mock{get: func(context.Context, string, backends.GetOptions) (*backends.Object, error) {
			o := obj
			o.Body = &stream{Reader: strings.NewReader(strings.Repeat("x", 100)), closed: func() { closed++ }}
			return &o, nil
		}}
		if _, err := newStore(t, d, backends.Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 10, Length: 5}}); !errors.Is(err, backends.Internal) {
			t.Errorf("%s: got %v, want Internal", name, err)
		}
	}
	if closed != 4 {
		t.Errorf("%d of 4 bodies closed", closed)
	}
}

// step is what one Get of a driver does: how many bytes come, and then which error; or an error of Get itself.
type step struct {
	bytes  int
	err    error // of the body; nil: to the end of the range
	getErr error
}

// scripted plays one step for each Get, the last one again and again.
type scripted struct {
	data    string
	steps   []step
	version func(n int) string
	asked   []backends.GetOptions
	open    int
}

func (s *scripted) get(_ context.Context, _ string, o backends.GetOptions) (*backends.Object, error) {
	st := s.steps[min(len(s.asked), len(s.steps)-1)]
	s.asked = append(s.asked, o)
	if st.getErr != nil {
		return nil, st.getErr
	}
	version := "v1"
	if s.version != nil {
		version = s.version(len(s.asked))
	}
	obj, err := objectOf(s.data, o.Range, nil, version)
	if err != nil {
		return nil, err
	}
	body := obj.Body.(*stream)
	if st.err != nil {
		body.Reader = io.MultiReader(io.LimitReader(body.Reader, int64(st.bytes)), iotest.ErrReader(st.err))
	}
	s.open++
	once := false
	body.closed = func() {
		if !once {
			s.open--
		}
		once = true
	}
	return obj, nil
}

func unavailable() error { return &backends.Error{Code: backends.Unavailable, Err: errProvider} }

func TestGet_Resume(t *testing.T) {
	data := strings.Repeat("0123456789", 100)
	down := unavailable()
	tests := []struct {
		name  string
		steps []step
		asked []backends.Range
		want  error // nil: every byte
		n     int   // bytes before the error
	}{
		{"no trouble", []step{{}}, []backends.Range{{Offset: 10, Length: 900}}, nil, 900},
		{"breaks before the first byte", []step{{0, down, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 10, Length: 900}}, nil, 900},
		{"breaks in the middle", []step{{400, down, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}}, nil, 900},
		{"breaks before the last byte", []step{{899, down, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 909, Length: 1}}, nil, 900},
		{"clean EOF too early", []step{{400, io.EOF, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}}, nil, 900},
		{"unexpected EOF", []step{{400, io.ErrUnexpectedEOF, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}}, nil, 900},
		{"timeout", []step{{400, &backends.Error{Code: backends.Timeout}, nil}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}}, nil, 900},
		{"opening again fails at first", []step{{400, down, nil}, {getErr: down}, {}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}, {Offset: 410, Length: 500}}, nil, 900},
		{"three times without progress", []step{{400, down, nil}, {0, down, nil}}, nil, backends.Unavailable, 400},
		{"always too short", []step{{400, io.EOF, nil}, {0, io.EOF, nil}}, nil, io.ErrUnexpectedEOF, 400},
		{"corrupt is final", []step{{400, &backends.Error{Code: backends.Corrupt}, nil}}, []backends.Range{{Offset: 10, Length: 900}}, backends.Corrupt, 400},
		{"an unknown error is final", []step{{400, errProvider, nil}}, []backends.Range{{Offset: 10, Length: 900}}, errProvider, 400},
		{"object is gone", []step{{400, down, nil}, {getErr: backends.NotFound}}, []backends.Range{{Offset: 10, Length: 900}, {Offset: 410, Length: 500}}, backends.NotFound, 400},
	}
	for _, tt := range tests {
		for _, reader := range []string{"as it comes", "data with error"} {
			t.Run(tt.name+"/"+reader, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &scripted{data: data, steps: tt.steps}
					obs := &observed{}
					d := &mock{props: backends.Properties{Versions: true}, get: func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
						obj, err := s.get(ctx, key, o)
						if b, ok := bodyOf(obj); ok && reader == "data with error" {
							b.Reader = iotest.DataErrReader(b.Reader)
						}
						return obj, err
					}}
					store := newStore(t, d, backends.Options{Observer: obs})
					obj, err := store.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: 10, Length: 900}})
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(obj.Body)
					if !errors.Is(err, tt.want) || len(got) != tt.n || string(got) != data[10:10+len(got)] {
						t.Fatalf("%d bytes, %v; want %d, %v", len(got), err, tt.n, tt.want)
					}
					if err != nil && (countErrors(err) != 1 || !strings.HasPrefix(err.Error(), `mock read "k": `)) {
						t.Errorf("error is %v", err)
					}
					if _, again := obj.Body.Read(make([]byte, 1)); err != nil && again != err || err == nil && again != io.EOF { // the very same
						t.Errorf("the end does not stay: %v", again)
					}
					for i, o := range s.asked[1:] {
						if o.IfVersion != "v1" {
							t.Errorf("resume %d asks for version %q", i, o.IfVersion)
						}
						if tt.asked != nil && o.Range != tt.asked[i+1] {
							t.Errorf("resume %d asks for %+v", i, o.Range)
						}
					}
					if tt.asked == nil && len(s.asked) != 4 || tt.asked != nil && len(s.asked) != len(tt.asked) {
						t.Errorf("%d gets", len(s.asked))
					}
					if err := obj.Body.Close(); err != nil || s.open != 0 {
						t.Errorf("close: %v, %d bodies open", err, s.open)
					}
					ev := obs.last(t)
					if ev.Op != backends.OpRead || ev.Bytes != int64(tt.n) || ev.Resumes != len(s.asked)-1 || ev.Attempts != len(s.asked) || !errors.Is(ev.Err, tt.want) {
						t.Errorf("observed %+v", ev)
					}
				})
			})
		}
	}
}

func bodyOf(o *backends.Object) (*stream, bool) {
	if o == nil {
		return nil, false
	}
	b, ok := o.Body.(*stream)
	return b, ok
}

func TestGet_ResumeIsBounded(t *testing.T) {
	tests := []struct {
		name    string
		size    int
		perGet  int
		gets    int // 0: reads to the end
		wantErr bool
	}{
		{"a byte each time", 1000, 1, 21, true},
		{"a MiB each time", 64 << 20, 1 << 20, 64, false}, // more than 20, but it gets somewhere
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{data: strings.Repeat("x", tt.size), steps: []step{{tt.perGet, unavailable(), nil}}}
				store := newStore(t, &mock{get: s.get}, backends.Options{})
				obj, err := store.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, obj.Body)
				if (err != nil) != tt.wantErr || len(s.asked) != tt.gets {
					t.Errorf("%d bytes, %d gets, %v", n, len(s.asked), err)
				}
				_ = obj.Body.Close()
			})
		})
	}
}

func TestGet_ReplacedWhileRead(t *testing.T) {
	for _, versions := range []bool{true, false} {
		s := &scripted{data: "0123456789", steps: []step{{3, unavailable(), nil}, {}}, version: func(n int) string { return fmt.Sprint(n) }}
		store := newStore(t, &mock{props: backends.Properties{Versions: versions}, get: s.get}, backends.Options{})
		obj, err := store.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(obj.Body); string(got) != "012" || !errors.Is(err, backends.Precondition) || !errors.Is(err, errProvider) {
			t.Errorf("versions %v: %q, %v", versions, got, err)
		}
		if s.open != 0 {
			t.Errorf("%d bodies open after the end", s.open)
		}
	}
}

func TestGet_StreamEndsAtLength(t *testing.T) {
	d := &mock{get: func(_ context.Context, _ string, o backends.GetOptions) (*backends.Object, error) {
		return objectOf("0123456789", o.Range, strings.NewReader("0123456789 and more"), "")
	}}
	obj, err := newStore(t, d, backends.Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(obj.Body, []byte("0123456789")); err != nil {
		t.Error(err)
	}
	if err := obj.Body.Close(); err != nil {
		t.Error(err)
	}
	if _, err := obj.Body.Read(make([]byte, 1)); !errors.Is(err, backends.Closed) {
		t.Errorf("after close: %v", err)
	}
}

// blockingBody blocks in Read until it is closed.
type blockingBody struct{ done chan struct{} }

func (b *blockingBody) Read([]byte) (int, error) {
	<-b.done
	return 0, unavailable()
}

func (b *blockingBody) Close() error {
	select {
	case <-b.done:
	default:
		close(b.done)
	}
	return nil
}

func TestGet_CloseUnblocksRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &mock{get: func(_ context.Context, _ string, o backends.GetOptions) (*backends.Object, error) {
			obj, err := objectOf("0123456789", o.Range, nil, "")
			obj.Body = &blockingBody{make(chan struct{})}
			return obj, err
		}}
		obj, err := newStore(t, d, backends.Options{}).Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error)
		go func() {
			_, err := obj.Body.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := obj.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-read; !errors.Is(err, backends.Closed) || countErrors(err) != 1 {
			t.Errorf("read: %v", err)
		}
	})
}

func TestGet_ContextEndsTheStream(t *testing.T) {
	cause := errors.New("enough")
	for name, broken := range map[string]error{"while it reads": nil, "while it resumes": unavailable()} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{data: strings.Repeat("x", 100), steps: []step{{50, broken, nil}, {getErr: unavailable()}}}
			store := newStore(t, &mock{get: s.get}, backends.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			obj, err := store.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(obj.Body, make([]byte, 50)); err != nil {
				t.Fatal(err)
			}
			cancel(cause)
			_, err = obj.Body.Read(make([]byte, 1))
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || countErrors(err) != 0 {
				t.Errorf("got %#v", err)
			}
			if s.open != 0 || len(s.asked) != 1 {
				t.Errorf("%d bodies open, %d gets", s.open, len(s.asked))
			}
		})
	}
}

func TestList_PagesWhenTheyAreNeeded(t *testing.T) {
	var tokens []string
	d := &mock{list: func(_ context.Context, o backends.ListOptions) (backends.Page, error) {
		tokens = append(tokens, o.Token)
		switch o.Token {
		case "":
			return backends.Page{Infos: []backends.Info{{Key: ".tierkit/x"}, {Key: "a"}, {Key: "b"}}, Next: "1"}, nil
		case "1":
			return backends.Page{Next: "2"}, nil
		}
		return backends.Page{Infos: []backends.Info{{Key: "c"}}}, backends.Denied
	}}
	s := newStore(t, d, backends.Options{})
	for info, err := range s.List(t.Context(), "") {
		if err != nil || info.Key != "a" {
			t.Errorf("got %+v, %v", info, err)
		}
		break
	}
	if diff := cmp.Diff([]string{""}, tokens); diff != "" {
		t.Errorf("one key needs one page: %s", diff)
	}
	tokens = nil
	var keys []string
	var last error
	for info, err := range s.List(t.Context(), "") {
		if last != nil {
			t.Error("goes on after an error")
		}
		keys, last = append(keys, info.Key), err
	}
	if diff := cmp.Diff([]string{"a", "b", ""}, keys); diff != "" || !errors.Is(last, backends.Denied) {
		t.Error(diff, last)
	}
	if diff := cmp.Diff([]string{"", "1", "2"}, tokens); diff != "" {
		t.Error(diff)
	}
}

func TestList_DriverThatBreaksTheOrder(t *testing.T) {
	for name, page := range map[string]func(o backends.ListOptions) backends.Page{
		"descending": func(backends.ListOptions) backends.Page {
			return backends.Page{Infos: []backends.Info{{Key: "pb"}, {Key: "pa"}}}
		},
		"twice": func(backends.ListOptions) backends.Page {
			return backends.Page{Infos: []backends.Info{{Key: "pa"}, {Key: "pa"}}}
		},
		"beside the prefix": func(backends.ListOptions) backends.Page { return backends.Page{Infos: []backends.Info{{Key: "qa"}}} },
		"same token":        func(backends.ListOptions) backends.Page { return backends.Page{Next: "t"} },
		"same page": func(o backends.ListOptions) backends.Page {
			return backends.Page{Infos: []backends.Info{{Key: "pa"}}, Next: o.Token + "x"}
		},
	} {
		s := newStore(t, &mock{list: func(_ context.Context, o backends.ListOptions) (backends.Page, error) { return page(o), nil }}, backends.Options{})
		var last error
		for _, err := range s.List(t.Context(), "p") {
			last = err
		}
		if !errors.Is(last, backends.Internal) {
			t.Errorf("%s: got %v, want Internal", name, last)
		}
	}
}

func TestAfterKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "\u00e4", strings.Repeat("k", 1024)} {
		if got, err := backends.ParseAfterKey(backends.AfterKey(key), key[:0]); got != key || err != nil {
			t.Errorf("%q: %q, %v", key, got, err)
		}
	}
	if got, err := backends.ParseAfterKey("", "p"); got != "" || err != nil {
		t.Errorf("first page: %q, %v", got, err)
	}
}

func FuzzKeysAndTokens(f *testing.F) {
	for _, s := range []string{"a/b", "", "..", "a//b", ".tierkit/x", "\xff", "a\x00", "/", backends.AfterKey("x")} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fsLike := backends.CheckKey(backends.Properties{MaxKeyBytes: 100}, s)
		flat := backends.CheckKey(backends.Properties{MaxKeyBytes: 100, FlatKeys: true}, s)
		if flat != nil && fsLike == nil {
			t.Errorf("%q: refused as a flat key only", s)
		}
		if fsLike == nil && (strings.HasPrefix(s, "/") || strings.Contains("/"+s+"/", "/../") || len(s) == 0 || len(s) > 100 || backends.IsReserved(s)) {
			t.Errorf("%q: accepted", s)
		}
		if key, err := backends.ParseAfterKey(s, ""); err == nil && s != "" && backends.AfterKey(key) != s {
			t.Errorf("token %q stands for %q, whose token is another", s, key)
		}
		r := backends.Range{Offset: int64(len(s)), Length: int64(bytes.Count([]byte(s), []byte("a"))) - 1}
		if off, n, err := r.Resolve(50); err == nil && (off < 0 || n < 0 || off+n > 50) {
			t.Errorf("%+v resolves to %d at %d", r, n, off)
		}
	})
}
