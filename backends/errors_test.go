package backends_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func TestStore_ErrorsAreWrappedOnce(t *testing.T) {
	inner := &backends.Error{Code: backends.Throttled, Status: 503, RequestID: "id-1", RetryAfter: time.Second, Attempts: 4, Err: errProvider}
	tests := []struct {
		name string
		err  error
		code backends.Code
		text string
	}{
		{"own type", inner, backends.Throttled, `mock stat "k": throttled: provider's own error (status 503, request id id-1, 4 attempts)`},
		{"wrapped", fmt.Errorf("at commit: %w", inner), backends.Throttled,
			`mock stat "k": throttled: at commit: throttled: provider's own error (status 503, request id id-1, 4 attempts)`},
		{"joined with a failed clean-up", errors.Join(&backends.Error{Code: backends.Denied, Err: errProvider}, errors.New("abort failed")), backends.Denied,
			`mock stat "k": access denied: provider's own error; abort failed`},
		{"two in one chain", &backends.Error{Code: backends.Corrupt, Err: inner}, backends.Corrupt,
			`mock stat "k": corrupt: throttled: provider's own error (status 503, request id id-1, 4 attempts)`},
		{"missing bucket", &backends.Error{Code: backends.InvalidArgument, Err: &iofs.PathError{Op: "open", Path: "/b", Err: syscall.ENOENT}}, backends.InvalidArgument,
			`mock stat "k": invalid argument: open /b: no such file or directory`},
		{"code alone", backends.NotFound, backends.NotFound, `mock stat "k": not found`},
		{"code in a chain", fmt.Errorf("%w: %w", backends.NotFound, errProvider), backends.NotFound, `mock stat "k": not found: provider's own error`},
		{"unknown", errProvider, backends.Unknown, `mock stat "k": unknown error: provider's own error`},
		{"attempt's deadline", fmt.Errorf("attempt: %w", context.DeadlineExceeded), backends.Timeout, `mock stat "k": timed out: attempt: context deadline exceeded`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obs := &observed{}
			s := newStore(t, &mock{stat: func(context.Context, string) (backends.Info, error) { return backends.Info{}, tt.err }}, backends.Options{Observer: obs})
			_, err := s.Stat(t.Context(), "k")
			e, ok := errors.AsType[*backends.Error](err)
			if !ok || e.Code != tt.code || e.Op != backends.OpStat || e.Driver != "mock" || e.Key != "k" || !errors.Is(err, tt.code) {
				t.Fatalf("got %#v", err)
			}
			if n := countErrors(err); n != 1 {
				t.Errorf("%d *Error in the chain", n)
			}
			if err.Error() != tt.text {
				t.Errorf("got  %s\nwant %s", err, tt.text)
			}
			if errors.Is(tt.err, errProvider) && !errors.Is(err, errProvider) {
				t.Error("the provider's error is lost")
			}
			if errors.Is(err, iofs.ErrNotExist) != (tt.code == backends.NotFound) {
				t.Error("fs.ErrNotExist is wrong")
			}
			for _, c := range backends.Codes() {
				if errors.Is(err, c) != (c == tt.code) {
					t.Errorf("code %v: errors.Is is wrong", c)
				}
			}
			if ev := obs.last(t); ev.Op != backends.OpStat || ev.Code != tt.code || ev.Err.Error() != err.Error() || ev.Key != "k" {
				t.Errorf("observed %+v", ev)
			}
		})
	}
}

func TestError_TemporaryAndCodes(t *testing.T) {
	for _, c := range backends.Codes() {
		want := c == backends.Throttled || c == backends.Unavailable || c == backends.Timeout
		if (&backends.Error{Code: c}).Temporary() != want || c.Temporary() != want {
			t.Errorf("%v: temporary is not %v", c, want)
		}
	}
	numbers := map[backends.Code]uint8{backends.Unknown: 0, backends.NotFound: 1, backends.Corrupt: 7, backends.Unavailable: 13, backends.Internal: 17}
	for c, n := range numbers {
		if uint8(c) != n {
			t.Errorf("%v has number %d, was %d", c, c, n)
		}
	}
	if backends.Code(200).Error() != "error code 200" || backends.Code(200).Label() != "code_200" || backends.Throttled.Label() != "throttled" {
		t.Error("texts are wrong")
	}
	seen := map[string]bool{}
	for _, c := range backends.Codes() {
		if seen[c.Label()] || seen[c.Error()] {
			t.Errorf("%v has a text of another", c)
		}
		seen[c.Label()], seen[c.Error()] = true, true
	}
}

func TestStore_ContextErrorsHaveNoCode(t *testing.T) {
	cause := errors.New("operator lost patience")
	for name, dead := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			return ctx, func() {}
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadlineCause(ctx, time.Unix(1, 0), cause)
		},
	} {
		called := false
		d := &mock{stat: func(ctx context.Context, _ string) (backends.Info, error) {
			called = true
			return backends.Info{}, &backends.Error{Code: backends.Unavailable, Err: errors.Join(ctx.Err(), errors.New("abort failed"))}
		}}
		s := newStore(t, d, backends.Options{})
		ctx, cancel := dead(t.Context())
		_, err := s.Stat(ctx, "k")
		if called {
			t.Errorf("%s: a dead context reached the driver", name)
		}
		checkContextError(t, name+" on entry", ctx, err, cause)
		cancel()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &mock{stat: func(ctx context.Context, _ string) (backends.Info, error) {
		cancel(cause)
		<-ctx.Done()
		return backends.Info{}, &backends.Error{Code: backends.Unavailable, Err: errors.Join(ctx.Err(), errProvider)}
	}}
	_, err := newStore(t, d, backends.Options{}).Stat(ctx, "k")
	checkContextError(t, "in the driver", ctx, err, cause)
	if !errors.Is(err, errProvider) {
		t.Error("what the driver said is lost")
	}
	d.stat = func(context.Context, string) (backends.Info, error) { return backends.Info{}, backends.NotFound }
	live, stop := context.WithCancel(t.Context())
	s := newStore(t, &mock{stat: func(context.Context, string) (backends.Info, error) {
		stop()
		return backends.Info{}, backends.NotFound
	}}, backends.Options{})
	if _, err := s.Stat(live, "k"); !errors.Is(err, backends.NotFound) {
		t.Errorf("an answer that came before the end is lost: %v", err)
	}
}

func checkContextError(t *testing.T, name string, ctx context.Context, err, cause error) {
	t.Helper()
	if !errors.Is(err, ctx.Err()) || !errors.Is(err, cause) {
		t.Errorf("%s: got %v, want %v because of %v", name, err, ctx.Err(), cause)
	}
	if countErrors(err) != 0 || errors.Is(err, backends.Unavailable) && backends.CodeOf(err) != backends.Unknown {
		t.Errorf("%s: has a code: %#v", name, err)
	}
}

func TestStore_MaskHidesThePrefixEverywhere(t *testing.T) {
	const secret = "team x/prod-7/"
	var logs bytes.Buffer
	env := backends.Env{Log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	cause := &url.Error{Op: "Get", URL: "https://h/bucket/team%20x/prod-7/t/0.log?x=team+x%2Fprod-7%2F", Err: errors.New("refused")}
	var driverLog *slog.Logger
	var reg backends.Registry
	err := reg.Register(backends.Factory{Name: "mock", Open: func(_ context.Context, _ *backends.Config, env backends.Env) (backends.Driver, error) {
		driverLog = env.Log
		return &mock{props: backends.Properties{FlatKeys: true}, stat: func(context.Context, string) (backends.Info, error) {
			return backends.Info{}, &backends.Error{Code: backends.Unavailable, Err: cause}
		}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	obs := &observed{}
	s, err := reg.Open(t.Context(), map[string]string{"storage.backend": "mock"}, backends.Options{Env: env, Mask: secret, Observer: obs})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Stat(t.Context(), secret+"t/0.log")
	want := `mock stat "<prefix>/t/0.log": unavailable: Get "https://h/bucket/<prefix>/t/0.log?x=<prefix>/": refused`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	driverLog.With("key", secret+"a").WithGroup("g").Info("put "+secret+"b", "err", cause, slog.Group("in", "x", secret), "n", 1)
	_, bodyErr := s.Put(t.Context(), secret+"k", iotest.ErrReader(fmt.Errorf("open /data/%s: no", secret)), backends.PutOptions{Size: 1})
	for _, text := range []string{logs.String(), fmt.Sprint(obs.events), fmt.Sprint(bodyErr)} {
		if strings.Contains(text, "prod-7") {
			t.Errorf("shows the prefix: %s", text)
		}
	}
	if !strings.Contains(logs.String(), "n=1") || !strings.Contains(logs.String(), "refused") {
		t.Errorf("the log lost something: %s", logs.String())
	}
	_, err = newStore(t, &mock{stat: func(context.Context, string) (backends.Info, error) { return backends.Info{}, errors.New("cannot t/x") }},
		backends.Options{Mask: "t/"}).Stat(t.Context(), "t/x")
	if want := `mock stat "<prefix>/x": unknown error: cannot <prefix>/x`; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStore_BodyErrorsAreTheCallers(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"coded":    func(err error) error { return &backends.Error{Code: backends.Unavailable, Err: err} },
	} {
		d := &mock{put: func(_ context.Context, _ string, body io.Reader, _ backends.PutOptions) (backends.Info, error) {
			_, err := io.Copy(io.Discard, body)
			return backends.Info{}, wrap(err)
		}}
		_, err := newStore(t, d, backends.Options{}).Put(t.Context(), "k", iotest.ErrReader(errSource), backends.PutOptions{Size: 5})
		if !errors.Is(err, errSource) || countErrors(err) != 0 {
			t.Errorf("%s: got %#v", name, err)
		}
	}
}
