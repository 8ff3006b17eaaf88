package rsm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// crowded is a rig whose budget is enough for a few operations at a time.
func crowded(t *testing.T) *rig {
	c := Config{ChunkBytes: 64 << 10, Compression: true, Encryption: true}
	c.Chunks.Timeout = time.Hour // what hangs goes on hanging
	c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, c).Store()) + 512<<10
	return newRig(t, c)
}

// endlessCopies lets n goroutines copy one segment after the other until stop; it returns when all have begun.
func endlessCopies(ctx context.Context, t *testing.T, r *rig, n int) (copied *atomic.Int64, wait func()) {
	t.Helper()
	var all sync.WaitGroup
	copied = new(atomic.Int64)
	for range n {
		_, data, _ := segmentOf(500, 256<<10)
		all.Go(func() {
			for ctx.Err() == nil {
				md, _, _ := segmentOf(500, 0)
				md.ID, md.SizeBytes = remotelog.NewUUID(), 256<<10
				_, err := r.Copy(ctx, md, data)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				copied.Add(1)
			}
		})
	}
	return copied, all.Wait
}

// TestFairness_AFetchFinishesBesideCopiesThatHang: the store takes no more uploads, and copies hold all that copies may.
func TestFairness_AFetchFinishesBesideCopiesThatHang(t *testing.T) {
	r := crowded(t)
	md, data, log := segmentOf(501, 1<<20)
	fin := r.mustCopy(t, md, data)
	r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
	r.driver.put = func(ctx context.Context, _ string, body io.Reader, _ backends.PutOptions) (backends.Info, error) {
		_, _ = io.ReadFull(body, make([]byte, 1000)) // a little, as a socket buffer takes
		<-ctx.Done()
		return backends.Info{}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, wait := endlessCopies(ctx, t, r, 16)
	for s := r.budget.Stats(); s.CopyWaiters == 0; s = r.budget.Stats() { // some hang, the others wait for memory
		runtime.Gosched()
	}
	for range 3 {
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
			t.Errorf("a fetch beside copies that hang: %d bytes, %v", len(got), err)
		}
		r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
	}
	if s := r.budget.Stats(); s.CopyWaiters == 0 {
		t.Errorf("%+v: the copies did not hang", s)
	}
	cancel()
	wait()
}

// TestFairness_ACopyFinishesBesideFetchesThatHang is the other way round.
func TestFairness_ACopyFinishesBesideFetchesThatHang(t *testing.T) {
	r := crowded(t)
	md, data, _ := segmentOf(502, 4<<20)
	fin := r.mustCopy(t, md, data)
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		if !strings.HasSuffix(key, ".log") {
			return r.driver.Driver.Get(ctx, key, o)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			at := int64(i) * 64 << 10
			if _, err := read(ctx, r.Manager, fin, at, at+100); !errors.Is(err, context.Canceled) && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	for s := r.budget.Stats(); s.FetchWaiters == 0; s = r.budget.Stats() {
		runtime.Gosched()
	}
	for i := range 3 {
		md, data, _ := segmentOf(uint64(503+i), 1<<20)
		if _, err := r.Copy(t.Context(), md, data); err != nil {
			t.Errorf("a copy beside fetches that hang: %v", err)
		}
	}
	if s := r.budget.Stats(); s.FetchWaiters == 0 {
		t.Errorf("%+v: the fetches did not hang", s)
	}
	cancel()
	all.Wait()
}

// TestFairness_AFetchBesideEndlessCopies: each fetch is served although 16 copies come back for ever, and so is each copy beside 16 readers.
func TestFairness_AFetchBesideEndlessCopies(t *testing.T) {
	r := crowded(t)
	md, data, log := segmentOf(506, 1<<20)
	fin := r.mustCopy(t, md, data)
	ctx, cancel := context.WithCancel(t.Context())
	copied, wait := endlessCopies(ctx, t, r, 16)
	for range 8 {
		r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	for before := copied.Load(); copied.Load() < before+16; {
		runtime.Gosched()
	}
	cancel()
	wait()
}

// TestFetch_WithoutACacheNoMoreThanAskedAndAChunk: plain data and no cache: a broker's reads move what they ask for, and the rest of one chunk.
func TestFetch_WithoutACacheNoMoreThanAskedAndAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := distantConfig()
		c.Compression, c.Encryption, c.Chunks.Max = false, false, AtMost(0)
		d := newDistant(t, c)
		md, log := d.kafkaSegment(t, 1, 64*sixtyFourth)
		fetches := int64(0)
		const overlap = 20 << 10 / 16
		brokerReads(t, d.Manager, md, log, md.SizeBytes, sixtyFourth, overlap, func(time.Duration) {
			fetches++
			time.Sleep(time.Second)
		})
		asked := md.SizeBytes + (fetches-1)*overlap
		if _, moved := d.g.take(); moved > asked+int64(c.ChunkBytes) {
			t.Errorf("%d bytes were moved for %d that were asked for in %d fetches, want at most a chunk more", moved, asked, fetches)
		}
		// And a reader that leaves in the middle of a chunk has moved that chunk.
		if _, err := read(t.Context(), d.Manager, md, 10*sixtyFourth+5, 10*sixtyFourth+100); err != nil {
			t.Fatal(err)
		}
		if n, moved := d.g.take(); n != 1 || moved > 96+int64(c.ChunkBytes) {
			t.Errorf("%d requests moved %d bytes for 96", n, moved)
		}
	})
}
