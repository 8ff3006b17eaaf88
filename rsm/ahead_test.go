package rsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/internal/slowstore"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// distant is a rig whose store takes 60 ms to the first byte and has a rate for each connection. Sizes are a sixty-fourth of what they are in
// production, and so is the rate: chunks of 64 KiB, requests of 512 KiB, fetches of 16 KiB, a cache of 2 MiB.
type distant struct {
	*rig
	slow *slowstore.Driver
	g    gets
}

const (
	sixtyFourth  = 1 << 20 / 64
	distantFirst = 60 * time.Millisecond
	distantRate  = 50_000_000 / 64
)

func distantConfig() Config {
	c := Config{ChunkBytes: 4 * sixtyFourth, Compression: true, Encryption: true, RequestBytes: 32 * sixtyFourth, MemoryBudgetBytes: 64 << 20}
	c.Chunks.Max = AtMost(128 * sixtyFourth)
	return c
}

func newDistant(t testing.TB, c Config) *distant {
	t.Helper()
	d := &distant{rig: &rig{space: new(mem.Space), logs: new(bytes.Buffer)}}
	d.slow = slowstore.New(d.space.Client(mem.Options{}), slowstore.Options{FirstByte: distantFirst, BytesPerSecond: distantRate, Now: time.Now})
	d.driver = &stub{Driver: d.slow}
	d.Manager = manager(t, d.driver, c, d.logs)
	d.g.watch(d.rig)
	return d
}

// kafkaStart is the first n bytes of the same Kafka data.
func kafkaStart(n int) []byte { return kafkaSample()[:n:n] }

// It repeats, but never at the border of a chunk.
var kafkaSample = sync.OnceValue(func() []byte {
	unit := kafkaData(1, 1<<20+12_345)
	return bytes.Repeat(unit, 1+1024*sixtyFourth/len(unit))
})

// kafkaSegment copies a segment of n bytes of Kafka data, which compress to a fifth.
func (d *distant) kafkaSegment(t testing.TB, seed uint64, n int) (remotelog.SegmentMetadata, []byte) {
	t.Helper()
	md, data, _ := segmentOf(seed, 0)
	log := kafkaStart(n)
	md.SizeBytes, data.Log = int64(n), remotelog.Bytes(log)
	return d.mustCopy(t, md, data), log
}

// brokerReads reads md as a broker does that serves one consumer: a stream for each piece of size bytes, open-ended, which begins a little before
// the end of the last one and is closed when it has a batch more than the piece. It stops after upTo bytes.
func brokerReads(t testing.TB, m *Manager, md remotelog.SegmentMetadata, log []byte, upTo int64, piece, overlap int64, each func(took time.Duration)) {
	t.Helper()
	got := make([]byte, piece+overlap)
	for at := int64(0); at < upTo; {
		began := time.Now()
		rc, err := m.Fetch(t.Context(), md, at, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(rc, got)
		if err != nil && (err != io.ErrUnexpectedEOF || at+int64(n) != md.SizeBytes) {
			t.Fatalf("at %d: %d bytes, %v", at, n, err)
		}
		if err := rc.Close(); err != nil {
			t.Fatal(err)
		}
		each(time.Since(began))
		if !bytes.Equal(got[:n], log[at:at+int64(n)]) {
			t.Fatalf("at %d: wrong bytes", at)
		}
		if at += int64(n); at < upTo {
			at -= overlap
		}
	}
}

// ideal is how long it takes to read the same ranges of the same object with as many connections as were open at the peak.
func ideal(t testing.TB, d *slowstore.Driver, key string, ranges []backends.Range, connections int) time.Duration {
	t.Helper()
	began := time.Now()
	work := make(chan backends.Range)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for r := range work {
				obj, err := d.Get(context.Background(), key, backends.GetOptions{Range: r})
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := io.Copy(io.Discard, obj.Body); err != nil {
					t.Error(err)
				}
				_ = obj.Body.Close()
			}
		})
	}
	for _, r := range ranges {
		work <- r
	}
	close(work)
	all.Wait()
	return time.Since(began)
}

func (d *distant) logKey(t testing.TB) string {
	t.Helper()
	for _, key := range d.keys(t) {
		if strings.HasSuffix(key, ".log") {
			return key
		}
	}
	t.Fatal("no .log")
	return ""
}

func TestReadAhead_ASegmentOfABrokersReads(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprint("exact=", exact), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant(t, distantConfig())
				md, log := d.kafkaSegment(t, 1, 1024*sixtyFourth)
				d.slow.Reset()
				overlap := int64(20 << 10 / 64)
				if exact {
					overlap = 0
				}
				began := time.Now()
				brokerReads(t, d.Manager, md, log, md.SizeBytes, sixtyFourth, overlap, func(time.Duration) {})
				took := time.Since(began)
				peak := int(d.slow.Stats().Peak)
				n, read := len(d.g.ranges), d.g.bytes
				plan := ideal(t, d.slow, d.logKey(t), d.g.ranges, peak)
				t.Logf("256 chunks with %d requests, %d at a time, in %v; without pauses %v; %+v", n, peak, took, plan, d.ReadAhead())
				if n > 40 {
					t.Errorf("%d requests for 256 chunks, want at most 40", n)
				}
				if took > plan*13/10 {
					t.Errorf("%v, want at most 1.3 of %v", took, plan)
				}
				if stored := d.stored(t, md); read != stored {
					t.Errorf("%d bytes were read of an object of %d: some twice, or not", read, stored)
				}
				if s := d.ReadAhead(); s.WastedBytes != 0 || s.UsedBytes != s.LoadedBytes || s.UsedBytes < md.SizeBytes/4 {
					t.Errorf("%+v: all should be used, and be much of %d bytes", s, md.SizeBytes)
				}
			})
		})
	}
}

// running is how many loads run.
func (d *distant) running() int {
	d.chunks.mu.Lock()
	defer d.chunks.mu.Unlock()
	return len(d.chunks.loads)
}

// stored is the size of the .log object.
func (d *distant) stored(t testing.TB, md remotelog.SegmentMetadata) int64 {
	t.Helper()
	r, err := d.open(t.Context(), &md)
	if err != nil {
		t.Fatal(err)
	}
	defer r.release()
	return chunksIn(t, r).StoredSize()
}

func chunksIn(t testing.TB, r *reader) *chunking.Index {
	t.Helper()
	seg, _, err := r.segment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seg.Chunks
}

// next makes the segment that follows another one.
func (d *distant) next(t testing.TB, md remotelog.SegmentMetadata, seed uint64, n int) (remotelog.SegmentMetadata, []byte) {
	t.Helper()
	after, data, _ := segmentOf(seed, 0)
	log := kafkaStart(n)
	after.StartOffset, after.EndOffset = md.EndOffset+1, md.EndOffset+1000
	after.LeaderEpochs = []remotelog.LeaderEpoch{{Epoch: 4, StartOffset: after.StartOffset}}
	after.SizeBytes, data.Log = int64(n), remotelog.Bytes(log)
	return d.mustCopy(t, after, data), log
}

// chunksOf tells how many chunks of md each request was for.
func (d *distant) chunksOf(t testing.TB, md remotelog.SegmentMetadata, ranges []backends.Range) (counts []int) {
	t.Helper()
	r, err := d.open(t.Context(), &md)
	if err != nil {
		t.Fatal(err)
	}
	defer r.release()
	x := chunksIn(t, r)
	for _, want := range ranges {
		n := 0
		for i := range x.Chunks() {
			if c := x.Chunk(i); c.StoredStart >= want.Offset && c.StoredStart < want.Offset+want.Length {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

func (g *gets) all() []backends.Range {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.ranges)
}

// TestReadAhead_GoesOnInTheNextSegment: where the store does not list, a segment is known when it is asked for.
func TestReadAhead_GoesOnInTheNextSegment(t *testing.T) {
	for _, withIndex := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDistant(t, distantConfig())
			d.driver.list = func(context.Context, backends.ListOptions) (backends.Page, error) {
				return backends.Page{}, backends.Errorf(backends.Denied, "no")
			}
			md, log := d.kafkaSegment(t, 1, 128*sixtyFourth)
			after, afterLog := d.next(t, md, 2, 256*sixtyFourth)
			brokerReads(t, d.Manager, md, log, md.SizeBytes, sixtyFourth, 250, func(time.Duration) {})
			d.g.take()
			if withIndex {
				if _, err := readIndex(t.Context(), d.Manager, after, remotelog.OffsetIndex); err != nil {
					t.Fatal(err)
				}
				if n := len(d.g.all()); n != 3 {
					t.Errorf("%d requests for chunks after the index of the next segment was asked for, want 3", n)
				}
				time.Sleep(120 * time.Millisecond) // the other two indexes
			}
			fetches, first := 0, time.Duration(0)
			brokerReads(t, d.Manager, after, afterLog, 4*sixtyFourth, sixtyFourth, 250, func(took time.Duration) {
				if fetches++; fetches == 1 {
					first = took
				}
			})
			if got := d.chunksOf(t, after, d.g.all()); !slices.Equal(got, []int{8, 8, 8}) {
				t.Errorf("index %t: requests for %v chunks, want 8, 8 and 8 at once", withIndex, got)
			}
			if withIndex && first > 20*time.Millisecond {
				t.Errorf("the first fetch took %v, although its chunk was on the way when the index came", first)
			}
		})
	}
}

func TestReadAhead_ANewReaderInTheMiddleStartsSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, _ := d.kafkaSegment(t, 1, 256*sixtyFourth)
		for _, at := range []int64{100, 40, 200, 9, 150, 60} {
			if _, err := read(t.Context(), d.Manager, md, at*sixtyFourth, at*sixtyFourth+sixtyFourth-1); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.chunksOf(t, md, d.g.all()); !slices.Equal(got, []int{1, 1, 1, 1, 1, 1}) {
			t.Errorf("random reads made requests for %v chunks, want one each", got)
		}
		if s := d.ReadAhead(); s != (ReadAheadStats{}) {
			t.Errorf("%+v, want nothing", s)
		}
	})
}

// TestReadAhead_DepthFollowsTheReader: one that is slower than the store gets one request ahead, and each chunk is there when it comes to it.
func TestReadAhead_DepthFollowsTheReader(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Millisecond} { // between two pieces of 16 KiB
		synctest.Test(t, func(t *testing.T) {
			d := newDistant(t, distantConfig())
			md, log := d.kafkaSegment(t, 1, 288*sixtyFourth)
			depth, waits, fetches := int64(0), 0, 0
			brokerReads(t, d.Manager, md, log, 240*sixtyFourth, sixtyFourth, 250, func(took time.Duration) {
				if fetches++; fetches > 40 {
					depth = max(depth, d.ReadAhead().DepthBytes/d.Config().RequestBytes)
					if took > 0 {
						waits++
					}
				}
				time.Sleep(pause)
			})
			n := len(d.g.all())
			t.Logf("pause of %v: %d requests, up to %d ahead, %d of %d fetches waited", pause, n, depth, waits, fetches)
			switch {
			case pause == 0 && depth < 2:
				t.Errorf("at most %d requests ahead of a fast reader, want more", depth)
			case pause > 0 && (depth > 1 || waits > 0):
				t.Errorf("%d requests ahead of a slow reader, want 1; it waited %d times, want never", depth, waits)
			}
			if n > 15 {
				t.Errorf("%d requests for 60 chunks", n)
			}
		})
	}
}

// TestReadAhead_StopsWhenNobodyReads: what is on its way is waited for 2 seconds, nothing else is asked for, and no more comes than has
// been earned.
func TestReadAhead_StopsWhenNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, log := d.kafkaSegment(t, 1, 128*sixtyFourth)
		inner := d.driver.get
		var stall atomic.Bool
		var stalled, ended atomic.Int64
		d.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
			if !stall.Load() {
				return inner(ctx, key, o)
			}
			stalled.Add(1)
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		}
		fetches := 0
		brokerReads(t, d.Manager, md, log, 50*sixtyFourth, sixtyFourth, 250, func(time.Duration) {
			if fetches++; fetches == 30 {
				stall.Store(true) // some of what is needed further on is on its way already
			}
		})
		synctest.Wait()
		hang := stalled.Load()
		if hang == 0 || ended.Load() != 0 {
			t.Fatalf("%d requests hang, %d have ended: want some that hang", hang, ended.Load())
		}
		time.Sleep(scanIdle - time.Millisecond)
		if n := ended.Load(); n != 0 {
			t.Errorf("%d requests were given up at once", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if ended.Load() != hang || stalled.Load() != hang || d.running() != 0 {
			t.Errorf("%d of %d requests have ended %v after the last read, %d loads run", ended.Load(), stalled.Load(), scanIdle, d.running())
		}
		stall.Store(false)
		loaded := d.ReadAhead().LoadedBytes
		time.Sleep(time.Hour)
		if s := d.ReadAhead(); s.LoadedBytes != loaded || s.Readers != 0 || s.DepthBytes != 0 {
			t.Errorf("an hour later: %+v", s)
		}
		// Whoever comes back is known, and gets what was given up.
		brokerReads(t, d.Manager, md, log, 60*sixtyFourth, sixtyFourth, 250, func(time.Duration) {})
	})
}

// TestReadAhead_EndsWithAStreamThatNobodyWentOnFrom: a command that reads part of a segment and leaves.
func TestReadAhead_EndsWithAStreamThatNobodyWentOnFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, log := d.kafkaSegment(t, 1, 128*sixtyFourth)
		rc, err := d.Fetch(t.Context(), md, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 30*sixtyFourth)
		if _, err := io.ReadFull(rc, got); err != nil || !bytes.Equal(got, log[:len(got)]) {
			t.Fatal(err)
		}
		if d.running() == 0 {
			t.Error("nothing is on its way ahead of a stream that is read in order")
		}
		_ = rc.Close()
		synctest.Wait()
		if n := d.running(); n != 0 {
			t.Errorf("%d loads run although nobody wants them", n)
		}
		if _, read := d.g.take(); read > 5*int64(len(got)) {
			t.Errorf("%d bytes were read for %d", read, len(got))
		}
	})
}

// TestReadAhead_TakesOnlyWhatNobodyWants: while somebody waits for memory nothing is asked for ahead, and who waits gets what was on its way
// ahead.
func TestReadAhead_TakesOnlyWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, log := d.kafkaSegment(t, 1, 128*sixtyFourth)
		other, otherLog := d.kafkaSegment(t, 2, 8*sixtyFourth)
		brokerReads(t, d.Manager, md, log, 20*sixtyFourth, sixtyFourth, 250, func(time.Duration) {})
		if d.running() == 0 {
			t.Fatal("nothing is on its way")
		}
		if rc, err := d.Fetch(t.Context(), other, 0, 0); err != nil || rc.Close() != nil { // its manifest
			t.Fatal(err)
		}
		// All that is free, and what the caches have.
		var held []*membudget.Reservation
		for n := int64(8 << 20); n > 1000; n /= 2 {
			for r := d.budget.TryReserve(membudget.Fetch, n); r != nil; r = d.budget.TryReserve(membudget.Fetch, n) {
				held = append(held, r)
			}
		}
		guesses := d.running()
		done := make(chan error)
		go func() {
			got, err := read(t.Context(), d.Manager, other, 0, 100)
			if err == nil && !bytes.Equal(got, otherLog[:101]) {
				err = errors.New("wrong bytes")
			}
			done <- err
		}()
		synctest.Wait() // no time has passed: what makes way does so at once
		if n := d.running(); n >= guesses {
			t.Errorf("%d of %d loads ahead go on, although a fetch had to wait", n, guesses)
		}
		if err := <-done; err != nil {
			t.Errorf("a fetch beside what is loaded ahead: %v", err)
		}
		for _, r := range held {
			r.Release()
		}
	})
}

// TestReadAhead_ManyReadersHaveNothingAhead: 64 readers of 64 segments, whose chunks alone fill the cache: what is loaded ahead of one would drive
// out what another stands in, and each piece would be asked for several times.
func TestReadAhead_ManyReadersHaveNothingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 64
		d := newDistant(t, distantConfig())
		mds, log := make([]remotelog.SegmentMetadata, readers), kafkaStart(12*sixtyFourth)
		for i := range mds {
			md, data, _ := segmentOf(uint64(100+i), 0)
			md.SizeBytes, data.Log = int64(len(log)), remotelog.Bytes(log)
			mds[i] = d.mustCopy(t, md, data)
		}
		var all sync.WaitGroup
		var fetches atomic.Int64
		for _, md := range mds {
			all.Go(func() {
				brokerReads(t, d.Manager, md, log, md.SizeBytes, sixtyFourth, 250, func(time.Duration) { fetches.Add(1) })
			})
		}
		all.Wait()
		n, s := len(d.g.all()), d.ReadAhead()
		t.Logf("%d requests for %d fetches; %+v", n, fetches.Load(), s)
		if int64(n) > fetches.Load()*3/2 {
			t.Errorf("%d requests for %d fetches", n, fetches.Load())
		}
	})
}

// TestReadAhead_ScansShareWhatThereIs: each scan that was read from lately has as many chunks ahead as its share holds, and none where that is less than a
// chunk, however quick it is.
func TestReadAhead_ScansShareWhatThereIs(t *testing.T) {
	const chunk, most = 4 << 20, 64 << 20
	now := time.Unix(1_700_000_000, 0)
	quick := func(seen time.Time) *scan {
		return &scan{inOrder: true, chunk: chunk, request: 2, read: most, took: time.Second, pace: pace{seen: seen, bytes: 100 * most, busy: time.Second}}
	}
	for _, tc := range []struct {
		name    string
		others  int
		change  func(sc *scan) // of the others
		ceiling int64
		want    int
	}{
		{"alone", 0, nil, 0, 16},
		{"one of two", 1, nil, 0, 8},
		{"one of sixteen", 15, nil, 0, 1},
		{"one of seventeen", 16, nil, 0, 0},
		{"others rest", 16, func(sc *scan) { sc.pace.seen = now.Add(-scanIdle) }, 0, 16},
		{"others read here and there", 16, func(sc *scan) { sc.inOrder = false }, 0, 16},
		{"more of it was driven out", 1, nil, 3 * chunk, 3},
		{"more of it was driven out than its share", 7, nil, 3 * chunk, 2},
	} {
		c, sc := &chunkLoads{aheadMost: most, now: func() time.Time { return now }}, quick(now)
		sc.ceiling = tc.ceiling
		c.scans = append(c.scans, sc)
		for range tc.others {
			other := quick(now)
			if tc.change != nil {
				tc.change(other)
			}
			c.scans = append(c.scans, other)
		}
		if got := c.depth(sc, 0); got != tc.want {
			t.Errorf("%s: %d chunks ahead, want %d", tc.name, got, tc.want)
		}
	}
}
