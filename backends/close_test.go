package backends_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
)

func TestClose_RefusesLaterCalls(t *testing.T) {
	closed := 0
	d := &mock{close: func() error { closed++; return nil }}
	s, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if closed != 1 {
		t.Errorf("the driver was closed %d times", closed)
	}
	ctx := t.Context()
	_, put := s.Put(ctx, "k", nil, backends.PutOptions{})
	_, get := s.Get(ctx, "k", backends.GetOptions{Range: backends.All()})
	_, none := s.Get(ctx, "k", backends.GetOptions{})
	_, stat := s.Stat(ctx, "k")
	_, ups := s.Uploads(ctx, "")
	var list error
	for _, err := range s.List(ctx, "") {
		list = err
	}
	for name, err := range map[string]error{
		"put": put, "get": get, "get nothing": none, "stat": stat, "delete": s.Delete(ctx, "k"), "delete many": s.DeleteMany(ctx, []string{"a", "b"}),
		"list": list, "uploads": ups, "abort": s.AbortUpload(ctx, backends.Upload{}), "probe": s.Probe(ctx),
	} {
		if !errors.Is(err, backends.Closed) || countErrors(err) != 1 {
			t.Errorf("%s: got %v, want Closed", name, err)
		}
	}
}

func TestClose_EndsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inFlight atomic.Bool
		inFlight.Store(true)
		d := &mock{
			stat: func(ctx context.Context, _ string) (backends.Info, error) {
				<-ctx.Done()
				inFlight.Store(false)
				return backends.Info{}, ctx.Err()
			},
			get: func(_ context.Context, _ string, o backends.GetOptions) (*backends.Object, error) {
				obj, err := objectOf("0123456789", o.Range, nil, "")
				obj.Body = &blockingBody{make(chan struct{})}
				return obj, err
			},
		}
		d.close = func() error {
			if inFlight.Load() {
				t.Error("the driver was closed while a call was in it")
			}
			return nil
		}
		s, err := backends.NewStore(d, backends.Options{Limits: backends.Limits{Writes: 1}})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 2)
		go func() {
			_, err := s.Stat(t.Context(), "k")
			errs <- err
		}()
		go func() {
			_, err := obj.Body.Read(make([]byte, 1))
			errs <- err
		}()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, backends.Closed) {
				t.Errorf("got %v, want Closed", err)
			}
		}
		if err := obj.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClose_IsBoundedWhenACallDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := backends.NewStore(new(mem.Space).Client(mem.Options{}), backends.Options{})
		if err != nil {
			t.Fatal(err)
		}
		release, done := make(chan struct{}), make(chan error)
		go func() {
			_, err := s.Put(t.Context(), "k", readerFunc(func([]byte) (int, error) { <-release; return 0, io.EOF }), backends.PutOptions{})
			done <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := s.Close(); !errors.Is(err, backends.Timeout) || time.Since(began) != 35*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		close(release)
		if err := <-done; !errors.Is(err, backends.Closed) {
			t.Errorf("put: %v", err)
		}
	})
}

func TestClose_ReportsTheDriversError(t *testing.T) {
	s, err := backends.NewStore(&mock{close: func() error { return errProvider }}, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); !errors.Is(err, errProvider) || err.Error() != "mock close: unknown error: provider's own error" {
			t.Errorf("got %v", err)
		}
	}
}

func TestLimits_OperationsHaveSlotsByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var mu sync.Mutex
		inside, most := map[string]int{}, map[string]int{}
		pass := func(kind string) {
			mu.Lock()
			inside[kind]++
			most[kind] = max(most[kind], inside[kind])
			mu.Unlock()
			<-gate
			mu.Lock()
			inside[kind]--
			mu.Unlock()
		}
		d := &mock{
			stat:   func(context.Context, string) (backends.Info, error) { pass("read"); return backends.Info{}, nil },
			delete: func(context.Context, string) error { pass("write"); return nil },
		}
		s := newStore(t, d, backends.Options{Limits: backends.Limits{Reads: 2, Writes: 1}})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { _, _ = s.Stat(t.Context(), "k") })
			wg.Go(func() { _ = s.Delete(t.Context(), "k") })
		}
		synctest.Wait()
		if inside["read"] != 2 || inside["write"] != 1 {
			t.Errorf("inside are %v", inside)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Delete(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || countErrors(err) != 0 {
			t.Errorf("waiting for a slot: %v", err)
		}
		if err := s.SetLimits(backends.Limits{Reads: 4}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if inside["read"] != 4 || inside["write"] != 6 {
			t.Errorf("after the limits changed inside are %v", inside)
		}
		close(gate)
		wg.Wait()
		if most["read"] != 4 {
			t.Errorf("at most %v were inside", most)
		}
	})
}

func TestLimits_AGetHoldsItsSlotUntilTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, new(mem.Space).Client(mem.Options{}), backends.Options{Limits: backends.Limits{Reads: 1}})
		if _, err := s.Put(t.Context(), "k", strings.NewReader("hello"), backends.PutOptions{Size: 5}); err != nil {
			t.Fatal(err)
		}
		get := func() *backends.Object {
			obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			if err != nil {
				t.Fatal(err)
			}
			return obj
		}
		for name, end := range map[string]func(*backends.Object){
			"closed": func(o *backends.Object) { _ = o.Body.Close() },
			"read":   func(o *backends.Object) { _, _ = io.ReadFull(o.Body, make([]byte, 5)) },
		} {
			obj := get()
			free := make(chan struct{})
			go func() {
				_, _ = s.Stat(t.Context(), "k")
				close(free)
			}()
			synctest.Wait()
			select {
			case <-free:
				t.Errorf("%s: the slot is free while the stream is open", name)
			default:
			}
			end(obj)
			<-free
			_ = obj.Body.Close()
		}
	})
}

func TestLimits_BytesPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, size = 1 << 20, 10 << 20
		s := newStore(t, new(mem.Space).Client(mem.Options{}), backends.Options{Limits: backends.Limits{UploadBytesPerSecond: rate, DownloadBytesPerSecond: 2 * rate}})
		body := strings.NewReader(strings.Repeat("x", size))
		took := func(f func() error) time.Duration {
			began := time.Now()
			if err := f(); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		near := func(name string, got, want time.Duration) {
			if got < want-time.Second || got > want+time.Second {
				t.Errorf("%s took %s, want about %s", name, got, want)
			}
		}
		near("upload", took(func() error {
			_, err := s.Put(t.Context(), "k", body, backends.PutOptions{Size: size})
			return err
		}), 10*time.Second)
		download := func() error {
			obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			if err != nil {
				return err
			}
			defer obj.Body.Close()
			_, err = io.ReadFull(obj.Body, make([]byte, size))
			return err
		}
		near("download", took(download), 5*time.Second)
		if err := s.SetLimits(backends.Limits{DownloadBytesPerSecond: 10 * rate}); err != nil {
			t.Fatal(err)
		}
		near("faster download", took(download), time.Second)
		if err := s.SetLimits(backends.Limits{UploadBytesPerSecond: 1000}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		body.Reset(strings.Repeat("x", size))
		if _, err := s.Put(ctx, "k", body, backends.PutOptions{Size: size}); !errors.Is(err, context.DeadlineExceeded) || countErrors(err) != 0 {
			t.Errorf("waiting for the rate: %v", err)
		}
	})
}
