package rsm

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// Streams that take turns in memory for one chunk loaded it anew for each Read: each had dropped what the one before was about to read.
func TestFetch_ManyStreamsInLittleMemoryLoadEachChunkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := smallest(t, Config{ChunkBytes: 1 << 20, Compression: true, Encryption: true})
		const streams, size = 8, 9 << 18
		mds, logs := segments(t, r, streams, size)
		var g gets
		g.watch(r)
		var all sync.WaitGroup
		for i, md := range mds {
			all.Go(func() {
				rc, err := r.Fetch(t.Context(), md, 0, remotelog.ToEnd)
				if err != nil {
					t.Error(err)
					return
				}
				defer rc.Close()
				var got bytes.Buffer
				if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, rc, make([]byte, 32<<10)); err != nil || !bytes.Equal(got.Bytes(), logs[i]) {
					t.Errorf("stream %d: %d bytes, %v", i, got.Len(), err)
				}
			})
		}
		all.Wait()
		if n, _ := g.take(); n > streams*3 {
			t.Errorf("%d requests for %d chunks", n, streams*3)
		}
		_ = r.Close() // in the bubble
	})
}

// A chunk that was waited for is kept from others for a moment only, however its reader goes on.
func TestFetch_ALeaseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		reads int // that follow the first
		pause time.Duration
		most  time.Duration // that another stream waits
	}{
		"the reader pauses":    {0, 0, leaseTurn},
		"the reader is slow":   {100, leaseTurn - time.Millisecond, leaseTurns * leaseTurn},
		"the reader goes away": {3, time.Millisecond, 2*leaseTurn + 3*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := smallest(t, Config{ChunkBytes: 4 << 20, Compression: true, Encryption: true})
				mds, logs := segments(t, r, 2, 5<<20)
				first, err := r.Fetch(t.Context(), mds[0], 0, remotelog.ToEnd)
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				buf := make([]byte, 1000)
				if _, err := io.ReadFull(first, buf); err != nil {
					t.Fatal(err)
				}
				var all sync.WaitGroup
				all.Go(func() {
					for range c.reads {
						time.Sleep(c.pause)
						if _, err := io.ReadFull(first, buf); err != nil {
							t.Error(err)
						}
					}
				})
				began := time.Now()
				if got, err := read(t.Context(), r.Manager, mds[1], 0, 100); err != nil || !bytes.Equal(got, logs[1][:101]) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				if took := time.Since(began); took == 0 || took > c.most {
					t.Errorf("the other stream waited for %v, want some time and at most %v", took, c.most)
				}
				all.Wait()
				_ = first.Close()
				_ = r.Close() // in the bubble
			})
		})
	}
}
