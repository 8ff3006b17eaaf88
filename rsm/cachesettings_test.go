package rsm

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// requests counts what is asked of the store, by the end of the key.
type requests struct {
	mu sync.Mutex
	n  map[string]int
}

func (q *requests) watch(r *rig) {
	q.n = map[string]int{}
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		q.mu.Lock()
		q.n[key[strings.LastIndex(key, "."):]]++
		q.mu.Unlock()
		return r.driver.Driver.Get(ctx, key, o)
	}
}

// want checks and forgets what was asked for since the last time.
func (q *requests) want(t *testing.T, when string, manifests, indexes, logs int) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if m, i, l := q.n[".rsm-manifest"], q.n[".indexes"], q.n[".log"]; m != manifests || i != indexes || l != logs {
		t.Errorf("%s: %d manifests, %d indexes and %d chunks were asked for, want %d, %d, %d", when, m, i, l, manifests, indexes, logs)
	}
	clear(q.n)
}

// Each setting of the caches that Aiven's plug-in has does what it says. Names and defaults are those of the settings table.
func TestCaches_SettingsMeanWhatTheySay(t *testing.T) {
	const class = "io.aiven.kafka.tieredstorage.fetch.cache."
	use := func(t *testing.T, r *rig, md remotelog.SegmentMetadata) {
		t.Helper()
		if _, err := read(t.Context(), r.Manager, md, 0, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := readIndex(t.Context(), r.Manager, md, remotelog.OffsetIndex); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // written to disk
	}
	cases := map[string]struct {
		props map[string]string
		check func(t *testing.T, r *rig, q *requests, a, b remotelog.SegmentMetadata)
	}{
		"the defaults": {nil, func(t *testing.T, r *rig, q *requests, a, _ remotelog.SegmentMetadata) {
			use(t, r, a)
			q.want(t, "first", 1, 1, 1)
			for range 7 {
				time.Sleep(9 * time.Minute) // everything is used within its ten minutes, and the manifest within its hour
				use(t, r, a)
			}
			q.want(t, "an hour of use, and a little more", 1, 0, 0)
			time.Sleep(10 * time.Minute)
			use(t, r, a)
			q.want(t, "ten minutes later", 0, 1, 1)
		}},
		"retention": {map[string]string{
			"fetch.chunk.cache.retention.ms": "1000", "fetch.indexes.cache.retention.ms": "2000", "fetch.manifest.cache.retention.ms": "3000",
		}, func(t *testing.T, r *rig, q *requests, a, _ remotelog.SegmentMetadata) {
			use(t, r, a)
			q.want(t, "first", 1, 1, 1)
			time.Sleep(1100 * time.Millisecond)
			use(t, r, a)
			q.want(t, "after 1.1 s", 0, 0, 1)
			time.Sleep(2 * time.Second)
			use(t, r, a)
			q.want(t, "after 3.1 s", 1, 1, 1)
		}},
		"no end": {map[string]string{
			"fetch.chunk.cache.retention.ms": "-1", "fetch.indexes.cache.retention.ms": "-1", "fetch.manifest.cache.retention.ms": "-1",
			"fetch.chunk.cache.size": "-1", "fetch.indexes.cache.size": "-1", "fetch.manifest.cache.size": "-1",
		}, func(t *testing.T, r *rig, q *requests, a, b remotelog.SegmentMetadata) {
			use(t, r, a)
			use(t, r, b)
			q.want(t, "first", 2, 2, 2)
			time.Sleep(1000 * time.Hour)
			use(t, r, a)
			use(t, r, b)
			q.want(t, "weeks later", 0, 0, 0)
		}},
		"room for one": {map[string]string{
			"fetch.chunk.cache.size": "1000", "fetch.indexes.cache.size": "4096", "fetch.manifest.cache.size": "1",
		}, func(t *testing.T, r *rig, q *requests, a, b remotelog.SegmentMetadata) {
			use(t, r, a)
			use(t, r, a)
			q.want(t, "the first", 1, 1, 1)
			use(t, r, b)
			use(t, r, a)
			q.want(t, "in turn", 2, 2, 2)
		}},
		"none": {map[string]string{
			"fetch.chunk.cache.size": "0", "fetch.indexes.cache.size": "0", "fetch.manifest.cache.size": "0",
		}, func(t *testing.T, r *rig, q *requests, a, _ remotelog.SegmentMetadata) {
			use(t, r, a)
			q.want(t, "first", 2, 1, 1) // the manifest by each of the two calls
			time.Sleep(time.Minute)
			use(t, r, a)
			q.want(t, "again", 2, 1, 1)
		}},
		"on disk": {map[string]string{
			"fetch.chunk.cache.class": class + "DiskChunkCache", "fetch.chunk.cache.size": "1000000", "fetch.chunk.cache.path": "DIR",
			"fetch.chunk.cache.retention.ms": "60000",
		}, func(t *testing.T, r *rig, q *requests, a, _ remotelog.SegmentMetadata) {
			use(t, r, a)
			q.want(t, "first", 1, 1, 1)
			r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
			time.Sleep(59 * time.Second)
			use(t, r, a)
			q.want(t, "from disk", 0, 0, 0)
			r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
			time.Sleep(time.Minute)
			use(t, r, a)
			q.want(t, "after the retention", 0, 0, 1)
		}},
		"room for one on disk": {map[string]string{
			"fetch.chunk.cache.class": class + "DiskChunkCache", "fetch.chunk.cache.size": "4096", "fetch.chunk.cache.path": "DIR",
		}, func(t *testing.T, r *rig, q *requests, a, b remotelog.SegmentMetadata) {
			use(t, r, a)
			use(t, r, b)
			q.want(t, "first", 2, 2, 2)
			r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
			use(t, r, b)
			q.want(t, "the last", 0, 0, 0)
			use(t, r, a)
			q.want(t, "the one before", 0, 0, 1)
			if s := r.CacheStats().Disk; s.Bytes > 4096 || s.Evicted == 0 {
				t.Errorf("%+v", s)
			}
		}},
		"no room on disk": {map[string]string{
			"fetch.chunk.cache.class": class + "DiskChunkCache", "fetch.chunk.cache.size": "0", "fetch.chunk.cache.path": "DIR",
		}, func(t *testing.T, r *rig, q *requests, a, _ remotelog.SegmentMetadata) {
			use(t, r, a)
			use(t, r, a)
			q.want(t, "in memory all the same", 1, 1, 1)
			if r.disk != nil {
				t.Error("there is a disk cache")
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				props := map[string]string{"chunk.size": "1000"}
				for k, v := range c.props {
					props[k] = strings.Replace(v, "DIR", t.TempDir(), 1)
				}
				conf, err := ParseConfig(props)
				if err != nil {
					t.Fatal(err)
				}
				r := newRig(t, conf)
				md, data, _ := segmentOf(700, 900)
				a := r.mustCopy(t, md, data)
				md, data, _ = segmentOf(701, 900)
				b := r.mustCopy(t, md, data)
				var q requests
				q.watch(r)
				c.check(t, r, &q, a, b)
				_ = r.Close() // in the bubble
			})
		})
	}
}

// The caches of manifests and indexes are bounded in bytes, whatever their settings say.
func TestCaches_ManifestsAndIndexesAreBoundedByBytes(t *testing.T) {
	c := Config{ChunkBytes: 10}
	c.Manifests.Max, c.Indexes.Max = AtMost(-1), AtMost(-1)
	c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, Config{}).Store())
	r := newRig(t, c)
	limit := r.budget.Stats().Limit
	for seed := range uint64(300) {
		md, data, _ := segmentOf(800+seed, 5_000)
		fin := r.mustCopy(t, md, data)
		if _, err := readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex); err != nil {
			t.Fatal(err)
		}
		s := r.CacheStats()
		if s.Manifests.Bytes > limit/manifestShare || s.Indexes.Bytes > limit/2 {
			t.Fatalf("after %d segments manifests have %d bytes and indexes %d of a budget of %d", seed+1, s.Manifests.Bytes, s.Indexes.Bytes, limit)
		}
	}
	if s := r.CacheStats(); s.Manifests.Evicted+s.Manifests.Reclaimed == 0 {
		t.Errorf("%+v: the test did not reach what it is for", s.Manifests)
	}
}
