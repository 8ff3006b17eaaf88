package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/remotelog"
)

func TestReady_WhenTheStoreWasUsableOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var probes atomic.Int64
		away.Store(true)
		s := open(t, &fake{}, func(o *Options) {
			o.Probe = func(context.Context) error {
				if probes.Add(1); away.Load() {
					return errors.New("nobody\nanswers")
				}
				return nil
			}
		})
		for _, reason := range []string{"not probed yet", "nobody; answers"} {
			if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), reason) || s.Stats().Ready {
				t.Errorf("ready: %d %s, want %q", w.Code, w.Body, reason)
			}
			if err := s.Check(t.Context()); err == nil {
				t.Error("the store is away and the check says nothing")
			}
		}
		time.Sleep(10 * time.Minute)
		if n := probes.Load(); n < 20 || n > 40 {
			t.Errorf("%d probes in ten minutes", n)
		}
		away.Store(false)
		time.Sleep(probeLast + time.Second)
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 200 || w.Body.String() != `{"ready":true,"reasons":[]}` || !s.Stats().Ready {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
		n := probes.Load()
		time.Sleep(10 * time.Minute)
		if probes.Load() != n {
			t.Error("a store that was usable is probed on")
		}
	})
}

// storeCalls are calls that ask the store.
var storeCalls = map[string]func(t *testing.T, s *Server, seg *stored){
	"copy": func(t *testing.T, s *Server, _ *stored) {
		ask(t, s, "POST", "/v1/copies", newSegment(t, "orders", 10).body)
	},
	"fetch": func(t *testing.T, s *Server, seg *stored) {
		ask(t, s, "PUT", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 0})
	},
	"index": func(t *testing.T, s *Server, seg *stored) {
		ask(t, s, "PUT", "/v1/index/offset", map[string]any{"segment": seg.wire()})
	},
	"delete": func(t *testing.T, s *Server, seg *stored) {
		ask(t, s, "POST", "/v1/delete", map[string]any{"segment": seg.wire(), "waitMs": 400})
	},
}

// unserved are Segments of a store of which each call gets an error; a fetch does when it is read.
func unserved(err error) *fake {
	return &fake{
		copy: func(context.Context, remotelog.SegmentMetadata, remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			return nil, err
		},
		fetch: func(context.Context, remotelog.SegmentMetadata, int64, int64) (io.ReadCloser, error) {
			return io.NopCloser(iotest.ErrReader(err)), nil
		},
		index: func(context.Context, remotelog.SegmentMetadata, remotelog.IndexType) (io.ReadCloser, error) {
			return nil, err
		},
		delete: func(context.Context, remotelog.SegmentMetadata) error { return err },
	}
}

// prober answers probes of the store.
type prober struct {
	away   atomic.Bool
	probes atomic.Int64
}

func (p *prober) probe(context.Context) error {
	if p.probes.Add(1); p.away.Load() {
		return errors.New("nobody answers")
	}
	return nil
}

// A store that goes away later is found out by the calls.
func TestReady_NotWhileTheStoreIsAwayAgain(t *testing.T) {
	for name, call := range storeCalls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(prober)
				s := open(t, unserved(&backends.Error{Code: backends.Unavailable}), func(o *Options) { o.Probe = p.probe })
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if n := p.probes.Load(); n != 1 || !s.Stats().Ready {
					t.Fatalf("%d probes, ready: %v, before any call", n, s.Stats().Ready)
				}
				p.away.Store(true)
				call(t, s, newSegment(t, "orders", 10))
				synctest.Wait()
				if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "nobody answers") || s.Stats().Ready {
					t.Errorf("ready: %d %s", w.Code, w.Body)
				}
				p.away.Store(false)
				time.Sleep(probeFirst)
				synctest.Wait()
				if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 200 || !s.Stats().Ready {
					t.Errorf("once it is back: %d %s", w.Code, w.Body)
				}
			})
		})
	}
}

// What calls say of a store that is there costs it a probe every ten seconds at most, and nothing where they say nothing about the store.
func TestReady_AStoreThatIsThereIsSeldomProbed(t *testing.T) {
	for err, want := range map[error]int64{
		&backends.Error{Code: backends.Unavailable}: 7, &backends.Error{Code: backends.Denied}: 7, &backends.Error{Code: backends.Timeout}: 7,
		fmt.Errorf("%w: %w", remotelog.ErrInvalidArgument, &backends.Error{Code: backends.InvalidArgument}): 7, remotelog.ErrInvalidArgument: 1,
		&backends.Error{Code: backends.Throttled}: 1, remotelog.ErrCorrupt: 1, remotelog.ErrNotFound: 1, context.Canceled: 1,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(prober)
				s := open(t, unserved(err), func(o *Options) { o.Probe = p.probe })
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 60 {
					time.Sleep(time.Second)
					storeCalls["copy"](t, s, nil)
				}
				synctest.Wait()
				if n := p.probes.Load(); n != want || !s.Stats().Ready {
					t.Errorf("%d probes in a minute, want %d; ready: %v", n, want, s.Stats().Ready)
				}
			})
		})
	}
}

func TestReady_AProbeThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{}, func(o *Options) {
			o.Probe = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		})
		began := time.Now()
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer within") || time.Since(began) != probeTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Nobody has to delete or copy anything for it to be known.
func TestReady_NotWhileTheStateDirectoryCannotBeWritten(t *testing.T) {
	for _, kind := range []string{"deletes", "copies", "spool"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, &fake{})
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(stateDir(s.o.StateDir, 1), kind)
				ready := func(after time.Duration) *httptest.ResponseRecorder {
					time.Sleep(after)
					synctest.Wait()
					return ask(t, s, "GET", "/v1/ready", nil)
				}
				if w := ready(stateEvery); w.Code != 200 {
					t.Fatalf("ready: %d %s", w.Code, w.Body)
				}
				if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil { // no directory any more
					t.Fatal(err)
				}
				if w := ready(stateEvery); w.Code != 503 || s.Stats().Ready || !strings.Contains(w.Body.String(), dir) || !strings.Contains(w.Body.String(), "make it a directory") {
					t.Errorf("ready: %d %s, want which directory and what to do", w.Code, w.Body)
				}
				if err := os.Remove(dir); err != nil {
					t.Fatal(err)
				}
				if w := ready(keepTrouble + stateEvery); w.Code != 200 || !s.Stats().Ready {
					t.Errorf("once it can be written: %d %s", w.Code, w.Body)
				}
			})
		})
	}
}

func TestReady_NotWhileTheDiskOfTheStateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{})
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.health.trying(s.now().Add(-time.Minute))
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "has not answered for 1m0s") {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
	})
}

// Files that are sent are what fills a disk.
func TestReady_NotAfterASpoolThatCouldNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, newBlocked(), func(o *Options) { o.DeriveLogDirs = false })
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		seg := newSegment(t, "orders", 1000)
		ask(t, s, "POST", "/v1/copies", seg.body)
		if err := errors.Join(os.RemoveAll(s.state.spool), os.WriteFile(s.state.spool, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		want(t, ask(t, s, "PUT", seg.path()+"/files/log", seg.log), 500, KindFailed)
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), s.state.spool) {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
	})
}

// Somebody removes the state directory while the daemon runs, and its lock with it.
func TestState_ALockThatWasRemovedIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{})
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := os.RemoveAll(s.o.StateDir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lockEvery)
		synctest.Wait()
		if _, err := durable.Lock(s.state.dir); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("another daemon: %v, want ErrLocked", err)
		}
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 200 {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
	})
}

// Another daemon of the broker was faster: two of them would undo each other's work.
func TestState_ADaemonWhosePlaceAnotherOneTookEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{copy: func(ctx context.Context, _ remotelog.SegmentMetadata, _ remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		seg := newSegment(t, "orders", 100)
		ask(t, s, "POST", "/v1/copies", seg.body)
		synctest.Wait()
		if err := os.RemoveAll(s.o.StateDir); err != nil {
			t.Fatal(err)
		}
		next := open(t, &fake{}, func(o *Options) { o.StateDir = s.o.StateDir })
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), Listeners{API: newPipes()}) }()
		time.Sleep(lockEvery + lastCalls)
		synctest.Wait()
		if got := finish(t, s, seg); got["state"] != "cancelled" {
			t.Errorf("the copy that ran: %v", got)
		}
		want(t, ask(t, s, "POST", "/v1/copies", newSegment(t, "orders", 100).body), 503, KindClosed)
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), keyStateDir) {
				t.Errorf("Serve: %v, want an error that says why", err)
			}
		default:
			t.Error("Serve goes on")
		}
		if got := next.state.dir; got != s.state.dir || next.ctx.Err() != nil {
			t.Errorf("the one that is there is not as it was")
		}
	})
}

func TestState_AdviceFitsTheError(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{syscall.ENOSPC, "make room"}, {syscall.EDQUOT, "make room"}, {syscall.EROFS, "repair"}, {errDiskHangs, "repair"}, {syscall.EACCES, "may write"}, {syscall.ENOTDIR, "a directory"},
	} {
		if got := stateAdvice(&os.PathError{Op: "open", Path: "x", Err: tc.err}); !strings.Contains(got, tc.want) || !strings.Contains(got, keyStateDir) {
			t.Errorf("%v: %s", tc.err, got)
		}
	}
}

func TestDelete_AsksAreAnsweredWithinHalfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		fails := errors.New("the store said no")
		f := &fake{}
		seg := someSegment(10)
		s := open(t, f)
		f.delete = func(context.Context, remotelog.SegmentMetadata) error {
			if begun.Add(1) == 1 {
				time.Sleep(time.Second)
				return fails
			}
			return nil
		}
		q := map[string]any{"segment": seg.wire(), "waitMs": 10_000}
		for range 2 {
			at := time.Now()
			if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "running" || time.Since(at) != maxWait {
				t.Errorf("%s after %v", got, time.Since(at))
			}
		}
		time.Sleep(10 * time.Second) // it ended meanwhile: the result waits for the next call
		want(t, ask(t, s, "POST", "/v1/delete", q), 500, KindFailed)
		if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "done" || begun.Load() != 2 {
			t.Errorf("%s after %d deletes", got, begun.Load())
		}
	})
}

func TestDelete_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &fake{delete: func(ctx context.Context, _ remotelog.SegmentMetadata) error { <-ctx.Done(); return ctx.Err() }})
		seg := someSegment(10)
		q := map[string]any{"segment": seg.wire(), "waitMs": 450}
		began := time.Now()
		for {
			w := ask(t, s, "POST", "/v1/delete", q)
			if w.Code == 200 {
				continue
			}
			want(t, w, 504, KindTimeout)
			break
		}
		if took := time.Since(began); took > deleteTime+time.Second {
			t.Errorf("took %v", took)
		}
	})
}
