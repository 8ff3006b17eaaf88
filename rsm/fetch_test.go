package rsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// gets counts the requests for .log objects and the bytes that were read of them.
type gets struct {
	mu     sync.Mutex
	ranges []backends.Range
	bytes  int64
}

func (g *gets) watch(r *rig) {
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		obj, err := r.driver.Driver.Get(ctx, key, o)
		if err != nil || !strings.HasSuffix(key, ".log") {
			return obj, err
		}
		g.mu.Lock()
		g.ranges = append(g.ranges, o.Range)
		g.mu.Unlock()
		obj.Body = &counted{obj.Body, g}
		return obj, nil
	}
}

func (g *gets) take() (n int, read int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, read = len(g.ranges), g.bytes
	g.ranges, g.bytes = nil, 0
	return n, read
}

type counted struct {
	io.ReadCloser
	g *gets
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.g.mu.Lock()
	c.g.bytes += int64(n)
	c.g.mu.Unlock()
	return n, err
}

func TestFetch_IsLazyAndEarlyCloseIsCheap(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, log := segmentOf(30, 20_000)
	fin := r.mustCopy(t, md, data)
	var g gets
	g.watch(r)
	rc, err := r.Fetch(t.Context(), fin, 2500, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := g.take(); n != 0 {
		t.Errorf("%d requests for a stream that nobody read", n)
	}
	rc, err = r.Fetch(t.Context(), fin, 2500, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 300)
	if _, err := io.ReadFull(rc, got); err != nil || !bytes.Equal(got, log[2500:2800]) {
		t.Errorf("%q, %v", got, err)
	}
	_ = rc.Close()
	_ = rc.Close()
	if n, read := g.take(); n != 1 || read != 1000 {
		t.Errorf("%d requests and %d bytes for 300 bytes in one chunk, want 1 and 1000", n, read)
	}
	if _, err := rc.Read(got); !errors.Is(err, remotelog.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	// A broker comes back for the same position, and a little before.
	if again, err := read(t.Context(), r.Manager, fin, 2400, 2999); err != nil || !bytes.Equal(again, log[2400:3000]) {
		t.Error(err)
	}
	if n, _ := g.take(); n != 0 {
		t.Errorf("%d requests for a chunk that is in the cache", n)
	}
}

func TestFetch_NeighboursAreOneRequest(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Compression: true, Encryption: true})
	md, data, log := segmentOf(31, 20_000)
	fin := r.mustCopy(t, md, data)
	var g gets
	g.watch(r)
	if got, err := read(t.Context(), r.Manager, fin, 1500, 9_200); err != nil || !bytes.Equal(got, log[1500:9201]) {
		t.Fatal(err)
	}
	if n, _ := g.take(); n != 1 {
		t.Errorf("%d requests for a range of 9 chunks, want 1", n)
	}
	if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Fatal(err)
	}
	// Chunk 0; then the window is 2 and chunks 1 to 9 are there; the last ten come in runs of at least the window's half.
	if n, _ := g.take(); n > 6 {
		t.Errorf("%d requests for the other 11 chunks of an open-ended read in order, want few", n)
	}
	r.chunks.cache.DeleteFunc(func(k chunkKey) bool { return k.n != 4 })
	r.chunks.scans = nil // else this reads on where the last had ended, and more is loaded
	if got, err := read(t.Context(), r.Manager, fin, 2000, 6_999); err != nil || !bytes.Equal(got, log[2000:7000]) {
		t.Fatal(err)
	}
	if n, _ := g.take(); n != 2 {
		t.Errorf("%d requests for chunks 2, 3, 5, 6 around one that is there, want 2", n)
	}
}

func TestFetch_HundredReadersOfAChunkAreOneRequest(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
	md, data, log := segmentOf(32, 5_000)
	fin := r.mustCopy(t, md, data)
	var g gets
	g.watch(r)
	inner, gate := r.driver.get, make(chan struct{})
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		if strings.HasSuffix(key, ".log") {
			<-gate
		}
		return inner(ctx, key, o)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i == 0 {
				go cancel() // one leaves, perhaps the first: the others must not notice
			}
			got, err := read(ctx, r.Manager, fin, 2100, 2100+int64(i))
			if i == 0 && errors.Is(err, context.Canceled) {
				return
			}
			if err != nil || !bytes.Equal(got, log[2100:2101+i]) {
				t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	for r.chunks.cache.Stats().Misses < 99 { // the first reader may have left before it came so far
		runtime.Gosched()
	}
	close(gate)
	all.Wait()
	if n, _ := g.take(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestFetch_HundredReadersWhoAllLeaveEndTheRequest: 99 who leave do not, the last does.
func TestFetch_HundredReadersWhoAllLeaveEndTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
		md, data, log := segmentOf(34, 5_000)
		fin := r.mustCopy(t, md, data)
		inner, begun, ended := r.driver.Driver.Get, 0, 0
		hang := func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
			if !strings.HasSuffix(key, ".log") {
				return inner(ctx, key, o)
			}
			begun++
			<-ctx.Done()
			ended++
			return nil, ctx.Err()
		}
		r.driver.get = hang
		const readers = 100
		var all sync.WaitGroup
		var leave [readers]context.CancelFunc
		for i := range readers {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(t.Context())
			all.Go(func() {
				if got, err := read(ctx, r.Manager, fin, 2100, 2200); !errors.Is(err, context.Canceled) {
					t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		synctest.Wait()
		for _, cancel := range leave[:readers-1] {
			cancel()
			synctest.Wait()
		}
		if begun != 1 || ended != 0 {
			t.Errorf("one reader is left: %d requests begun, %d ended, want 1 and none", begun, ended)
		}
		leave[readers-1]()
		synctest.Wait()
		if begun != 1 || ended != 1 {
			t.Errorf("all have left: %d requests begun, %d ended, want 1 and 1", begun, ended)
		}
		all.Wait()
		r.driver.get = nil
		if got, err := read(t.Context(), r.Manager, fin, 2100, 2200); err != nil || !bytes.Equal(got, log[2100:2201]) {
			t.Errorf("who comes later: %d bytes, %v", len(got), err)
		}
		_ = r.Close() // in the bubble
	})
}

func TestFetch_CloseAndCancelEndAReadThatWaits(t *testing.T) {
	for _, how := range []string{"close", "cancel", "close of the manager"} {
		r := newRig(t, Config{ChunkBytes: 1000})
		md, data, _ := segmentOf(33, 5_000)
		fin := r.mustCopy(t, md, data)
		waits, ended := make(chan struct{}), make(chan struct{})
		r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
			if strings.HasSuffix(key, ".log") {
				close(waits)
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			}
			return r.driver.Driver.Get(ctx, key, o)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rc, err := r.Fetch(ctx, fin, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { _, err := rc.Read(make([]byte, 10)); done <- err }()
		<-waits
		want := context.Canceled
		switch how {
		case "close":
			go func() { _ = rc.Close() }()
		case "cancel":
			cancel()
		default:
			go func() { _ = r.Close() }()
			want = remotelog.ErrClosed
		}
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", how, err, want)
		}
		<-ended // the request too
		_ = rc.Close()
		cancel()
	}
}

// damage replaces an object by f of its bytes.
func (r *rig) damage(t testing.TB, suffix string, f func([]byte) []byte) {
	t.Helper()
	for _, key := range r.keys(t) {
		if !strings.HasSuffix(key, suffix) {
			continue
		}
		o, err := r.driver.Driver.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(o.Body)
		_ = o.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		b = f(b)
		if b == nil {
			err = r.driver.Driver.Delete(t.Context(), key)
		} else {
			_, err = r.driver.Driver.Put(t.Context(), key, bytes.NewReader(b), backends.PutOptions{Size: int64(len(b))})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFetch_DamagedObjectsAreCorruptNeverNotFound(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 0x10; return b }
	}
	gone := func([]byte) []byte { return nil }
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	for name, c := range map[string]struct {
		suffix string
		f      func([]byte) []byte
		log    error
		index  error
	}{
		".log flipped":     {".log", flip(1500), remotelog.ErrCorrupt, nil},
		".log cut":         {".log", cut(1600), remotelog.ErrCorrupt, nil},
		".log empty":       {".log", func([]byte) []byte { return []byte{} }, remotelog.ErrCorrupt, nil},
		".log gone":        {".log", gone, remotelog.ErrCorrupt, nil},
		".indexes flipped": {".indexes", flip(3), nil, remotelog.ErrCorrupt},
		".indexes cut":     {".indexes", cut(5), nil, remotelog.ErrCorrupt},
		".indexes gone":    {".indexes", gone, nil, remotelog.ErrCorrupt},
		"manifest gone":    {".rsm-manifest", gone, remotelog.ErrNotFound, remotelog.ErrNotFound},
		"manifest no JSON": {".rsm-manifest", func([]byte) []byte { return []byte("{") }, remotelog.ErrCorrupt, remotelog.ErrCorrupt},
	} {
		for how, conf := range transforms(1000) {
			for _, warm := range []bool{false, true} { // is the manifest in the cache?
				r := newRig(t, conf)
				md, data, log := segmentOf(34, 5_000)
				fin := r.mustCopy(t, md, data)
				if warm {
					if rc, err := r.Fetch(t.Context(), fin, 0, 0); err != nil || rc.Close() != nil {
						t.Fatal(err)
					}
				}
				r.damage(t, c.suffix, c.f)
				got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd)
				if warm && strings.HasPrefix(name, "manifest") {
					c := c // the cached manifest is as good as new
					c.log, c.index = nil, nil
				} else if !errors.Is(err, c.log) || c.log == nil && !bytes.Equal(got, log) {
					t.Errorf("%s, %s, warm %t: log: %v, want %v", name, how, warm, err, c.log)
				}
				if errors.Is(c.log, remotelog.ErrCorrupt) && (errors.Is(err, remotelog.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, backends.NotFound)) {
					t.Errorf("%s, %s: %v matches NotFound", name, how, err)
				}
				if warm && strings.HasPrefix(name, "manifest") {
					continue
				}
				if _, err := readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex); !errors.Is(err, c.index) {
					t.Errorf("%s, %s, warm %t: index: %v, want %v", name, how, warm, err, c.index)
				}
			}
		}
	}
}

func TestFetch_ADamagedChunkDoesNotHideThoseBeforeIt(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Encryption: true})
	md, data, log := segmentOf(35, 8_000)
	fin := r.mustCopy(t, md, data)
	r.damage(t, ".log", func(b []byte) []byte { b[5*1028+100] ^= 1; return b })
	rc, err := r.Fetch(t.Context(), fin, 0, 7_999)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	got, err := io.ReadAll(rc)
	if !errors.Is(err, remotelog.ErrCorrupt) || !errors.Is(err, chunking.ErrChecksum) || !bytes.Equal(got, log[:5000]) {
		t.Errorf("%d bytes, %v; want the 5000 before the damage and ErrCorrupt", len(got), err)
	}
	if _, again := rc.Read(make([]byte, 1)); !errors.Is(again, remotelog.ErrCorrupt) {
		t.Errorf("the next Read: %v, want the same error", again)
	}
	if got, err := read(t.Context(), r.Manager, fin, 6_000, 7_999); err != nil || !bytes.Equal(got, log[6000:]) {
		t.Errorf("behind the damage: %d bytes, %v", len(got), err)
	}
}

func TestFetch_AStaleManifestIsAskedForAgain(t *testing.T) {
	for name, conf := range transforms(1000) {
		r := newRig(t, conf)
		md, data, _ := segmentOf(36, 5_000)
		fin := r.mustCopy(t, md, data)
		if rc, err := r.Fetch(t.Context(), fin, 0, 0); err != nil || rc.Close() != nil {
			t.Fatal(err)
		}
		if rc, err := r.FetchIndex(t.Context(), fin, remotelog.TimestampIndex); err != nil || rc.Close() != nil {
			t.Fatal(err)
		}
		r.indexes.cache.DeleteFunc(func(indexKey) bool { return true })
		// Another process copies the same id again: other bytes under another manifest.
		elsewhere := &rig{driver: &stub{Driver: r.driver.Driver}}
		elsewhere.Manager = manager(t, unclosable{elsewhere.driver}, conf, io.Discard)
		_, other, log := segmentOf(37, 5_000)
		elsewhere.mustCopy(t, md, other)
		if got, err := read(t.Context(), r.Manager, fin, 100, remotelog.ToEnd); err != nil || !bytes.Equal(got, log[100:]) {
			t.Errorf("%s: %d bytes, %v; want those of the second copy", name, len(got), err)
		}
		if got, err := readIndex(t.Context(), r.Manager, fin, remotelog.TimestampIndex); err != nil || !bytes.Equal(got, other.TimeIndex.(remotelog.Bytes)) {
			t.Errorf("%s: index %q, %v", name, got, err)
		}
	}
}

// unclosable keeps a driver open that two managers share.
type unclosable struct{ backends.Driver }

func (unclosable) Close() error { return nil }

func TestFetch_AStreamNeverMixesTwoCopies(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Encryption: true})
	md, data, log := segmentOf(38, 9_000)
	fin := r.mustCopy(t, md, data)
	rc, err := r.Fetch(t.Context(), fin, 0, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	first := make([]byte, 500)
	if _, err := io.ReadFull(rc, first); err != nil {
		t.Fatal(err)
	}
	_, other, _ := segmentOf(39, 9_000)
	r.mustCopy(t, md, other)
	rest, err := io.ReadAll(rc)
	if err == nil || errors.Is(err, remotelog.ErrCorrupt) || errors.Is(err, remotelog.ErrNotFound) || !bytes.Equal(rest, log[500:500+len(rest)]) {
		t.Errorf("%d bytes more, %v; want bytes of the first copy and then an error that does not accuse the data", len(rest), err)
	}
}

func TestFetch_OtherErrorsOfTheStoreKeepTheirMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		err       *backends.Error
		kind      error
		retriable bool
	}{
		"denied":         {backends.Errorf(backends.Denied, "403"), nil, false},
		"missing bucket": {backends.Errorf(backends.InvalidArgument, "no such bucket"), remotelog.ErrInvalidArgument, false},
		"throttled":      {backends.Errorf(backends.Throttled, "slow down"), nil, true},
		"unavailable":    {backends.Errorf(backends.Unavailable, "503"), nil, true},
	} {
		for _, suffix := range []string{".rsm-manifest", ".log", ".indexes"} {
			r := newRig(t, Config{ChunkBytes: 1000})
			md, data, log := segmentOf(40, 3_000)
			fin := r.mustCopy(t, md, data)
			r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
				if strings.HasSuffix(key, suffix) {
					return nil, c.err
				}
				return r.driver.Driver.Get(ctx, key, o)
			}
			_, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd)
			if suffix == ".indexes" {
				_, err = readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex)
			}
			if !errors.Is(err, c.err.Code) || errors.Is(err, remotelog.ErrNotFound) || errors.Is(err, remotelog.ErrCorrupt) ||
				c.kind != nil && !errors.Is(err, c.kind) || remotelog.Retriable(err) != c.retriable {
				t.Errorf("%s at %s: %v (retriable %t)", name, suffix, err, remotelog.Retriable(err))
			}
			r.driver.get = nil
			if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
				t.Errorf("%s at %s: the error was kept: %v", name, suffix, err)
			}
		}
	}
}

func TestFetch_ALoadThatStallsEndsAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{ChunkBytes: 1000}
		c.Chunks.Timeout, c.Indexes.Timeout, c.Manifests.Timeout = 3*time.Second, 2*time.Second, time.Second
		r := newRig(t, c)
		md, data, _ := segmentOf(41, 3_000)
		fin := r.mustCopy(t, md, data)
		stall := ""
		r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
			if strings.HasSuffix(key, stall) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return r.driver.Driver.Get(ctx, key, o)
		}
		for _, s := range []struct {
			suffix string
			after  time.Duration
		}{{".rsm-manifest", time.Second}, {".log", 3 * time.Second}, {".indexes", 2 * time.Second}} {
			stall = s.suffix
			began := time.Now()
			_, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd)
			if s.suffix == ".indexes" {
				_, err = readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex)
			}
			if took := time.Since(began); !remotelog.Retriable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || took != s.after {
				t.Errorf("%s: %v after %v, want a retriable error after %v", s.suffix, err, took, s.after)
			}
		}
		r.driver.get = nil
	})
}

func TestFetch_CacheSwitchedOffKeepsAChunkWhileAStreamStandsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{ChunkBytes: 1000, Compression: true}
		c.Chunks.Max = AtMost(0)
		r := newRig(t, c)
		md, data, log := segmentOf(42, 4_000)
		fin := r.mustCopy(t, md, data)
		var g gets
		g.watch(r)
		rc, err := r.Fetch(t.Context(), fin, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for piece := make([]byte, 100); len(got) < 1500; {
			n, err := rc.Read(piece)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, piece[:n]...)
		}
		if n, _ := g.take(); n != 2 || !bytes.Equal(got, log[:1500]) {
			t.Errorf("%d requests for 15 reads in two chunks, want 2", n)
		}
		if s := r.chunks.cache.Stats(); s.Entries != 1 {
			t.Errorf("%d chunks are kept, want the one that the stream stands in", s.Entries)
		}
		_ = rc.Close()
		time.Sleep(scanIdle - time.Millisecond)
		if s := r.chunks.cache.Stats(); s.Entries != 1 {
			t.Errorf("%d chunks are kept just after Close, want the one that the reader may come back to", s.Entries)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if s := r.chunks.cache.Stats(); s.Entries != 0 || len(r.chunks.standing) != 0 {
			t.Errorf("%d chunks are kept long after Close", s.Entries)
		}
	})
}

func TestFetch_StreamsHoldOnlyTheirManifestBetweenReads(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 64 << 10, Compression: true, Encryption: true, MemoryBudgetBytes: 64 << 20})
	md, data, log := segmentOf(43, 1<<20)
	fin := r.mustCopy(t, md, data)
	var open []io.ReadCloser
	for i := range 50 {
		rc, err := r.Fetch(t.Context(), fin, int64(i)*20_000, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(rc, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		open = append(open, rc)
	}
	// All of the class but the manifests and what a load needs can be had, although 50 streams are open.
	all := r.budget.Ceiling(membudget.Fetch) - r.manifests.cache.Stats().Bytes
	res, err := r.budget.Reserve(t.Context(), membudget.Fetch, all)
	if err != nil {
		t.Fatal(err)
	}
	res.Release()
	for i, rc := range open {
		rest, err := io.ReadAll(rc)
		if err != nil || !bytes.Equal(rest, log[i*20_000+100:]) {
			t.Errorf("stream %d: %d bytes, %v", i, len(rest), err)
		}
		_ = rc.Close()
	}
}

func TestFetch_ManyStreamsInTheSmallestBudget(t *testing.T) {
	c := Config{ChunkBytes: 16 << 10, Compression: true, Encryption: true}
	c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, c).Store())
	r := newRig(t, c)
	var mds []remotelog.SegmentMetadata
	var logs [][]byte
	for i := range 4 {
		md, data, log := segmentOf(uint64(50+i), 400_000)
		mds, logs = append(mds, r.mustCopy(t, md, data)), append(logs, log)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if i == 5 {
				md, data, _ := segmentOf(99, 300_000)
				if _, err := r.Copy(context.Background(), md, data); err != nil {
					t.Errorf("copy beside them: %v", err)
				}
				return
			}
			at := int64(i * 1000)
			got, err := read(context.Background(), r.Manager, mds[i%4], at, remotelog.ToEnd)
			if err != nil || !bytes.Equal(got, logs[i%4][at:]) {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	all.Wait()
	if s := r.budget.Stats(); s.PeakBytes > s.Limit-s.Fixed {
		t.Errorf("peak %d bytes, the limit is %d of which %d are codecs", s.PeakBytes, s.Limit, s.Fixed)
	}
}

func TestFetch_ASegmentAboveTheBudgetIsToldApartFromDamage(t *testing.T) {
	big := newRig(t, Config{ChunkBytes: 8 << 20})
	md, data, _ := segmentOf(60, 8<<20)
	fin := big.mustCopy(t, md, data)
	c := Config{ChunkBytes: 1000}
	c.MemoryBudgetBytes = MinBudgetBytes(c, big.Store())
	small := manager(t, unclosable{big.driver.Driver}, c, io.Discard)
	_, err := read(t.Context(), small, fin, 0, 10)
	if !errors.Is(err, membudget.ErrTooLarge) || errors.Is(err, remotelog.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), keyMemoryBudget) {
		t.Errorf("%v, want ErrTooLarge naming %s", err, keyMemoryBudget)
	}
}

func TestFetch_ReadsOfOneChunkAllocateNothing(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1 << 20, Compression: true, Encryption: true})
	md, data, _ := segmentOf(90, 1<<20)
	fin := r.mustCopy(t, md, data)
	rc, err := r.Fetch(t.Context(), fin, 0, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	p := make([]byte, 1000)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := io.ReadFull(rc, p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each Read, want none", n)
	}
}

func TestFetch_ChunksThatAreThereAllocateNothing(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 4 << 10, Compression: true, Encryption: true})
	md, data, _ := segmentOf(94, 4<<20)
	fin := r.mustCopy(t, md, data)
	if _, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil {
		t.Fatal(err)
	}
	rc, err := r.Fetch(t.Context(), fin, 0, remotelog.ToEnd)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	p := make([]byte, 5<<10) // at least one chunk further each time
	if n := testing.AllocsPerRun(700, func() {
		if _, err := io.ReadFull(rc, p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each chunk, want none", n)
	}
}

func TestFetch_AMissingObjectIsNamedByTheKeyWhereItShouldBe(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(23, 2000)
	md = r.mustCopy(t, md, data)
	key := manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits) + "." + string(manifest.LogSuffix)
	if err := r.driver.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	_, err := read(t.Context(), r.Manager, md, 0, remotelog.ToEnd)
	if !errors.Is(err, remotelog.ErrCorrupt) || !strings.Contains(err.Error(), `get "`+key+`"`) {
		t.Errorf("%v, want it to name %s", err, key)
	}
}
