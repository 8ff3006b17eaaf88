package flight

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type result struct {
	value int
	err   error
}

// callers starts n callers of key and returns a channel with their results.
func callers(g *Group[string, int], ctx context.Context, n int, load func(context.Context) (int, error)) <-chan result {
	out := make(chan result, n)
	for range n {
		go func() {
			v, err := g.Do(ctx, "k", load)
			out <- result{v, err}
		}()
	}
	return out
}

func TestDo_HundredCallersShareOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads, shares atomic.Int32
		g := New[string](Options[int]{Share: func(v, n int) { shares.Add(int32(n)) }})
		out := callers(g, t.Context(), 100, func(context.Context) (int, error) {
			loads.Add(1)
			time.Sleep(time.Second)
			return 7, nil
		})
		for range 100 {
			if r := <-out; r != (result{7, nil}) {
				t.Fatalf("got %v, want 7", r)
			}
		}
		if loads.Load() != 1 || shares.Load() != 100 {
			t.Errorf("got %d loads and %d shares, want 1 and 100", loads.Load(), shares.Load())
		}
		if len(g.calls)+len(g.cancels) != 0 {
			t.Errorf("%d calls and %d cancels are left in the group", len(g.calls), len(g.cancels))
		}
	})
}

func TestDo_FirstCallerLeavesOthersGetTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared int
		g := New[string](Options[int]{Share: func(v, n int) { shared = n }})
		load := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Second):
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		firstCtx, leave := context.WithCancel(t.Context())
		first := callers(g, firstCtx, 1, load)
		synctest.Wait()
		others := callers(g, t.Context(), 3, load)
		synctest.Wait()
		leave()
		if r := <-first; !errors.Is(r.err, context.Canceled) {
			t.Errorf("first: got %v, want context.Canceled", r)
		}
		for range 3 {
			if r := <-others; r != (result{7, nil}) {
				t.Errorf("other: got %v, want 7", r)
			}
		}
		if shared != 3 {
			t.Errorf("got %d shares, want one for each caller that stayed: 3", shared)
		}
	})
}

func TestDo_LastCallerLeavingCancelsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{})
		start := time.Now()
		ended := make(chan error, 1)
		slowToStop := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			time.Sleep(time.Minute) // what is on the wire takes its time
			return 0, ctx.Err()
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		out := callers(g, ctx, 10, slowToStop)
		for range 10 {
			if r := <-out; !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the caller's own deadline", r)
			}
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("load ended with %v after %v, want context.Canceled after 1s", err, time.Since(start))
		}
		v, err := g.Do(t.Context(), "k", func(context.Context) (int, error) { return 8, nil })
		if v != 8 || err != nil || time.Since(start) != time.Second {
			t.Errorf("after the last one left: got %d, %v after %v, want a load of its own at once", v, err, time.Since(start))
		}
		g.Close()
	})
}

func TestDo_EndedCallersContextStartsNothing(t *testing.T) {
	g := New[string](Options[int]{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Do(ctx, "k", func(context.Context) (int, error) {
		t.Error("load was started")
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	g.Close()
}

func TestDo_ErrorsAreSharedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{Share: func(v, n int) { t.Errorf("Share was called for an error: %d, %d", v, n) }})
		boom := errors.New("boom")
		var loads atomic.Int32
		load := func(context.Context) (int, error) {
			loads.Add(1)
			time.Sleep(time.Second)
			return 9, boom
		}
		for round := range int32(2) {
			out := callers(g, t.Context(), 5, load)
			for range 5 {
				if r := <-out; r != (result{0, boom}) {
					t.Errorf("got %v, want 0 and boom", r)
				}
			}
			if loads.Load() != round+1 {
				t.Errorf("round %d: got %d loads", round, loads.Load())
			}
		}
	})
}

func TestDo_PanicAndGoexitBecomeErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{})
		boom := errors.New("boom")
		for name, end := range map[string]func(){"panic": func() { panic(boom) }, "Goexit": runtime.Goexit} {
			out := callers(g, t.Context(), 20, func(context.Context) (int, error) {
				time.Sleep(time.Second)
				end()
				return 1, nil
			})
			for range 20 {
				var p *PanicError
				if r := <-out; !errors.As(r.err, &p) || r.value != 0 || len(p.Stack) == 0 {
					t.Errorf("%s: got %v, want a PanicError with a stack", name, r)
				} else if name == "panic" && !errors.Is(r.err, boom) {
					t.Errorf("the value of the panic is not in the chain of %v", r.err)
				}
			}
		}
		g.Close()
	})
}

func TestDo_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{Timeout: time.Minute})
		start := time.Now()
		_, err := g.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want ErrTimeout (not the caller's deadline) after 1m", err, time.Since(start))
		}
	})
}

func TestDo_LoadKeepsValuesOfItsFirstCaller(t *testing.T) {
	type key struct{}
	g := New[string](Options[int]{})
	ctx := context.WithValue(t.Context(), key{}, 5)
	v, err := g.Do(ctx, "k", func(ctx context.Context) (int, error) { return ctx.Value(key{}).(int), nil })
	if v != 5 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	g.Close()
}

func TestForget_LaterCallersLoadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{})
		value := func(v int) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Second):
					return v, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
		}
		early := callers(g, t.Context(), 2, value(1))
		synctest.Wait()
		g.Forget(func(k string) bool { return k == "other" })
		early2 := callers(g, t.Context(), 1, value(9))
		synctest.Wait()
		g.Forget(func(k string) bool { return k == "k" })
		late := callers(g, t.Context(), 2, value(2))
		for _, want := range []struct {
			out   <-chan result
			value int
		}{{early, 1}, {early, 1}, {early2, 1}, {late, 2}, {late, 2}} {
			if r := <-want.out; r != (result{want.value, nil}) {
				t.Errorf("got %v, want %d", r, want.value)
			}
		}
		g.Close()
	})
}

func TestClose_CancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[string](Options[int]{})
		var ended atomic.Bool
		out := callers(g, t.Context(), 4, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended.Store(true)
			return 0, ctx.Err()
		})
		synctest.Wait()
		g.Close()
		g.Close()
		if !ended.Load() {
			t.Error("Close returned while a load was running")
		}
		for range 4 {
			if r := <-out; !errors.Is(r.err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", r)
			}
		}
		if _, err := g.Do(t.Context(), "k", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
}

// Every share is given to exactly one caller, whatever leaves when: each value counts what Share gave and callers took.
func TestDo_SharesBalanceUnderCancellation(t *testing.T) {
	type value struct{ shares atomic.Int64 }
	var lost atomic.Int64
	g := New[int](Options[*value]{Share: func(v *value, n int) { v.shares.Store(int64(n)) }})
	var wg sync.WaitGroup
	var all sync.Map
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for range i % 7 {
					runtime.Gosched()
				}
				cancel()
			}()
			v, err := g.Do(ctx, i%5, func(ctx context.Context) (*value, error) {
				runtime.Gosched()
				v := new(value)
				all.Store(v, true)
				return v, nil
			})
			if err == nil && v.shares.Add(-1) < 0 {
				lost.Add(1)
			}
		})
	}
	wg.Wait()
	g.Close()
	all.Range(func(k, _ any) bool {
		if n := k.(*value).shares.Load(); n != 0 {
			t.Errorf("a value has %d shares left", n)
		}
		return true
	})
	if lost.Load() != 0 {
		t.Errorf("%d callers got a value without a share", lost.Load())
	}
}
