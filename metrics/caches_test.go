package metrics_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/cache/disk"
	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/rsm"
)

func TestCaches_ShowEachCache(t *testing.T) {
	memory := func(n uint64) cache.Stats {
		return cache.Stats{
			Entries: int(n), Bytes: int64(n + 1), PinnedBytes: int64(n + 2), MaxBytes: int64(n + 3), Hits: n + 4, Misses: n + 5, FailedLoads: n + 6,
			Evicted: n + 7, Reclaimed: n + 8, Expired: n + 9, Deleted: n + 10,
		}
	}
	stats := rsm.CacheStats{Chunks: memory(100), Indexes: memory(200), Manifests: memory(300), Disk: disk.Stats{
		Entries: 1, Bytes: 2, MaxBytes: 3, QueueBytes: 4, Hits: 5, Misses: 6, Written: 7, WrittenBytes: 8, Evicted: 9, Expired: 10, Deleted: 11,
		Damaged: 12, Dropped: 13, Bypassed: 14, ReadErrors: 15, WriteErrors: 16,
	}}
	want := map[string]float64{
		"tierkit_cache_entries{cache=disk}": 1, "tierkit_cache_bytes{cache=disk}": 2, "tierkit_cache_limit_bytes{cache=disk}": 3,
		"tierkit_cache_disk_queue_bytes{}": 4, "tierkit_cache_hits_total{cache=disk}": 5, "tierkit_cache_misses_total{cache=disk}": 6,
		"tierkit_cache_disk_written_total{}": 7, "tierkit_cache_disk_written_bytes_total{}": 8,
		"tierkit_cache_removed_total{cache=disk,cause=evicted}": 9, "tierkit_cache_removed_total{cache=disk,cause=expired}": 10,
		"tierkit_cache_removed_total{cache=disk,cause=deleted}": 11, "tierkit_cache_removed_total{cache=disk,cause=damaged}": 12,
		"tierkit_cache_disk_unwritten_total{cause=dropped}": 13, "tierkit_cache_disk_unwritten_total{cause=bypassed}": 14,
		"tierkit_cache_disk_errors_total{access=read}": 15, "tierkit_cache_disk_errors_total{access=write}": 16,
		"tierkit_cache_disk_bypassed{}": 0,
	}
	for name, n := range map[string]float64{"chunks": 100, "indexes": 200, "manifests": 300} {
		l := "{cache=" + name
		for family, more := range map[string]float64{
			"entries": 0, "bytes": 1, "pinned_bytes": 2, "limit_bytes": 3, "hits_total": 4, "misses_total": 5, "failed_loads_total": 6,
		} {
			want["tierkit_cache_"+family+l+"}"] = n + more
		}
		for cause, more := range map[string]float64{"evicted": 7, "reclaimed": 8, "expired": 9, "deleted": 10} {
			want["tierkit_cache_removed_total"+l+",cause="+cause+"}"] = n + more
		}
	}
	reg := registry(t, metrics.NewCaches(func() rsm.CacheStats { return stats }))
	if diff := cmp.Diff(want, series(t, reg)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	for _, change := range []func(){func() { stats.Disk.Suspended = true }, func() { stats.Disk.Suspended, stats.DiskBroken = false, true }} {
		change()
		if got := series(t, reg)["tierkit_cache_disk_bypassed{}"]; got != 1 {
			t.Errorf("bypassed = %v, want 1: %+v", got, stats)
		}
	}
}
