package rsm

import (
	"bytes"
	"context"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// TestSoak lets readers of all kinds, copies and deletes run against each other in little memory, over a store whose requests yield and
// sometimes fail. What is read is right or an error that says why; nothing hangs; nothing is held in the end (the rig sees to that).
func TestSoak_ReadersCopiesAndDeletesInLittleMemory(t *testing.T) {
	for seed := range uint64(4) {
		c := Config{ChunkBytes: 8 << 10, Compression: true, Encryption: seed%2 == 0}
		if seed == 3 {
			c.Chunks.Max = AtMost(0)
		}
		if seed%2 == 1 {
			c = withDisk(c, t.TempDir())
			c.Disk.MaxBytes = 200 << 10
		}
		c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, Config{}).Store()) + int64(seed)*(100<<10)
		r := newRig(t, c)
		type seg struct {
			md   remotelog.SegmentMetadata
			data remotelog.SegmentData
			log  []byte
		}
		var stable, volatile []seg
		for i := range 3 {
			md, data, log := segmentOf(300+10*seed+uint64(i), 50_000+i*77_777)
			stable = append(stable, seg{r.mustCopy(t, md, data), data, log})
			md, data, log = segmentOf(400+10*seed+uint64(i), 60_000)
			volatile = append(volatile, seg{md, data, log})
		}
		var mu sync.Mutex
		rnd := mathrand.New(mathrand.NewPCG(seed, 3))
		draw := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n)
		}
		var calm atomic.Bool
		r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
			if calm.Load() {
				return r.driver.Driver.Get(ctx, key, o)
			}
			for range draw(20) {
				runtime.Gosched()
			}
			if draw(40) == 0 {
				return nil, errBoom
			}
			obj, err := r.driver.Driver.Get(ctx, key, o)
			if err == nil && draw(30) == 0 {
				obj.Body = &breaks{obj.Body, draw(10_000)}
			}
			return obj, err
		}
		reader := func() {
			s := stable[draw(len(stable))]
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if draw(8) == 0 {
				go cancel()
			}
			start := int64(draw(len(s.log)))
			end := start + int64(draw(40_000))
			if draw(2) == 0 {
				end = remotelog.ToEnd
			}
			rc, err := r.Fetch(ctx, s.md, start, end)
			if err != nil {
				if !excused(err) {
					t.Errorf("seed %d: Fetch: %v", seed, err)
				}
				return
			}
			defer rc.Close()
			var src io.Reader = rc
			early := draw(3) == 0
			if early {
				src = io.LimitReader(rc, int64(1+draw(20_000)))
			}
			got, err := io.ReadAll(src)
			want := s.log[start : min(end, int64(len(s.log)-1))+1]
			switch {
			case err != nil && !excused(err):
				t.Errorf("seed %d: read: %v", seed, err)
			case err == nil && !early && len(got) != len(want), !bytes.HasPrefix(want, got):
				t.Errorf("seed %d: %d..%d: %d bytes of %d, or wrong ones", seed, start, end, len(got), len(want))
			}
		}
		writer := func() {
			s := volatile[draw(len(volatile))]
			switch draw(3) {
			case 0:
				if err := r.Delete(context.Background(), finished(s.md, nil)); err != nil {
					t.Errorf("seed %d: delete: %v", seed, err)
				}
			case 1:
				if _, err := r.Copy(context.Background(), s.md, s.data); err != nil {
					t.Errorf("seed %d: copy: %v", seed, err)
				}
			default: // it may be gone, or go, at any moment; what is read is right all the same
				got, err := read(context.Background(), r.Manager, finished(s.md, nil), 0, remotelog.ToEnd)
				if err == nil && !bytes.Equal(got, s.log) || !bytes.HasPrefix(s.log, got) {
					t.Errorf("seed %d: %d bytes of %d, or wrong ones", seed, len(got), len(s.log))
				}
			}
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for range 25 {
					if i < 7 {
						reader()
					} else {
						writer()
					}
				}
			})
		}
		all.Wait()
		calm.Store(true) // what was asked for ahead of readers may still be on its way
		for _, s := range stable {
			if got, err := read(t.Context(), r.Manager, s.md, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, s.log) {
				t.Errorf("seed %d: in the end: %d bytes, %v", seed, len(got), err)
			}
		}
	}
}

// excused says that an error is one that the test itself brought about.
func excused(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, backends.Unavailable)
}

// breaks is a body that breaks after n bytes.
type breaks struct {
	io.ReadCloser
	n int
}

func (b *breaks) Read(p []byte) (int, error) {
	if b.n <= 0 {
		return 0, errBoom
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.n)])
	b.n -= n
	return n, err
}

func TestFetch_TheWindowWidensWhileAStreamIsReadInOrder(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, log := segmentOf(91, 2_000_000)
	fin := r.mustCopy(t, md, data)
	var g gets
	g.watch(r)
	if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Fatal(err)
	}
	n, bytes := g.take()
	if n > 25 || bytes != 2_000_000 {
		t.Errorf("%d requests and %d bytes for 2000 chunks, want about 12 requests and each byte once", n, bytes)
	}
	ahead := newRig(t, Config{ChunkBytes: 1000, PrefetchBytes: 5000})
	fin = ahead.mustCopy(t, md, data)
	g = gets{}
	g.watch(ahead)
	if _, err := read(t.Context(), ahead.Manager, fin, 0, 0); err != nil {
		t.Fatal(err)
	}
	rc, err := ahead.Fetch(t.Context(), fin, 10_000, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(rc, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = rc.Close()
	if want := (backends.Range{Offset: 10_000, Length: 6000}); !slices.Contains(g.ranges, want) {
		t.Errorf("a new stream asked for %v, want a chunk and 5000 bytes ahead", g.ranges)
	}
}
