package rsm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// hung makes the reads of .log objects hang as a read does that waits in the kernel: the end of the context does not end them.
func hung(r *rig) (hanging *atomic.Bool, release func()) {
	hanging, gate, inner := new(atomic.Bool), make(chan struct{}), r.driver.Driver.Get
	hanging.Store(true)
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		if hanging.Load() && strings.HasSuffix(key, ".log") {
			<-gate
		}
		return inner(ctx, key, o)
	}
	return hanging, func() { close(gate) }
}

// A load that hangs does not hold up who waits for it longer than the timeout, and who asks next is not sent to wait for it.
func TestFetch_ALoadThatHangsHasAnEndForItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{ChunkBytes: 1000})
		md, data, log := segmentOf(700, 5_000)
		fin := r.mustCopy(t, md, data)
		hanging, release := hung(r)
		began := time.Now()
		_, err := read(t.Context(), r.Manager, fin, 1000, 1999)
		if took := time.Since(began); err == nil || took != r.Config().Chunks.Timeout {
			t.Errorf("a read that hangs: %v after %v, want an error after %v", err, took, r.Config().Chunks.Timeout)
		}
		hanging.Store(false)
		wantLog(t, r, fin, log, 1000, 1999)
		wantLog(t, r, fin, log, 0, remotelog.ToEnd)
		release()
		synctest.Wait()
		wantLog(t, r, fin, log, 0, remotelog.ToEnd)
	})
}

func TestClose_EndsWhateverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{ChunkBytes: 1000})
		md, data, _ := segmentOf(701, 5_000)
		fin := r.mustCopy(t, md, data)
		_, release := hung(r)
		fetched := make(chan error, 1)
		go func() {
			_, err := read(t.Context(), r.Manager, fin, 1000, 1999)
			fetched <- err
		}()
		synctest.Wait()
		began := time.Now()
		err := r.Close()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "1 loads of chunks") || took != closeLoads {
			t.Errorf("Close: %v after %v, want what was left after %v", err, took, closeLoads)
		}
		if err := <-fetched; !errors.Is(err, remotelog.ErrClosed) {
			t.Errorf("the fetch: %v, want ErrClosed", err)
		}
		release()
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
}

// A call that nothing can end, as one that reads a file of a disk that hangs.
func TestClose_SaysWhichCallsItLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{ChunkBytes: 1000})
		_, done, err := r.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), "1 calls did not end") || time.Since(began) != closeCalls {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		done()
		if err := r.Close(); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
}
