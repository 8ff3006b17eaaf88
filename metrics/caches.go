package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/rsm"
)

// The values of the labels cache, cause and access.
const (
	cacheChunks    = "chunks"
	cacheDisk      = "disk"
	cacheIndexes   = "indexes"
	cacheManifests = "manifests"

	causeDamaged  = "damaged"
	causeDropped  = "dropped"
	causeBypassed = "bypassed"

	accessRead  = "read"
	accessWrite = "write"
)

func causes() []string {
	return []string{
		cache.Evicted.String(), cache.Reclaimed.String(), cache.Expired.String(), cache.Deleted.String(), causeDamaged, causeDropped, causeBypassed,
	}
}

// NewCaches returns a collector of the caches of a manager: stats is rsm.Manager.CacheStats.
func NewCaches(stats func() rsm.CacheStats) prometheus.Collector { return newCaches(stats) }

func newCaches(stats func() rsm.CacheStats) *polled[rsm.CacheStats] {
	type st = rsm.CacheStats
	p := &polled[st]{take: stats}
	inMemory := func(of func(cache.Stats) float64) func(st, func(float64, ...string)) {
		return func(s st, put func(float64, ...string)) {
			put(of(s.Chunks), cacheChunks)
			put(of(s.Indexes), cacheIndexes)
			put(of(s.Manifests), cacheManifests)
		}
	}
	all := func(of func(cache.Stats) float64, onDisk func(st) float64) func(st, func(float64, ...string)) {
		return func(s st, put func(float64, ...string)) {
			inMemory(of)(s, put)
			put(onDisk(s), cacheDisk)
		}
	}
	label := []string{"cache"}
	p.family(Counter, "tierkit_cache_hits_total", "Requests of a cache for what was there.", label,
		all(func(s cache.Stats) float64 { return float64(s.Hits) }, func(s st) float64 { return float64(s.Disk.Hits) }))
	p.family(Counter, "tierkit_cache_misses_total", "Requests of a cache for what was not there.", label,
		all(func(s cache.Stats) float64 { return float64(s.Misses) }, func(s st) float64 { return float64(s.Disk.Misses) }))
	p.family(Counter, "tierkit_cache_failed_loads_total", "Loads for a cache that failed or were cancelled.", label,
		inMemory(func(s cache.Stats) float64 { return float64(s.FailedLoads) }))
	p.family(Gauge, "tierkit_cache_entries", "Entries of a cache.", label,
		all(func(s cache.Stats) float64 { return float64(s.Entries) }, func(s st) float64 { return float64(s.Disk.Entries) }))
	p.family(Gauge, "tierkit_cache_bytes", "Bytes of a cache, in memory or of its files.", label,
		all(func(s cache.Stats) float64 { return float64(s.Bytes) }, func(s st) float64 { return float64(s.Disk.Bytes) }))
	p.family(Gauge, "tierkit_cache_limit_bytes", "The most bytes that a cache may have.", label,
		all(func(s cache.Stats) float64 { return float64(s.MaxBytes) }, func(s st) float64 { return float64(s.Disk.MaxBytes) }))
	p.family(Gauge, "tierkit_cache_pinned_bytes", "Bytes of a cache that a reader is reading from.", label,
		inMemory(func(s cache.Stats) float64 { return float64(s.PinnedBytes) }))
	p.family(Counter, "tierkit_cache_removed_total", "Entries that left a cache.", []string{"cache", "cause"}, removed)
	diskFamilies(p)
	return p
}

func removed(s rsm.CacheStats, put func(float64, ...string)) {
	for name, c := range map[string]cache.Stats{cacheChunks: s.Chunks, cacheIndexes: s.Indexes, cacheManifests: s.Manifests} {
		put(float64(c.Evicted), name, cache.Evicted.String())
		put(float64(c.Reclaimed), name, cache.Reclaimed.String())
		put(float64(c.Expired), name, cache.Expired.String())
		put(float64(c.Deleted), name, cache.Deleted.String())
	}
	put(float64(s.Disk.Evicted), cacheDisk, cache.Evicted.String())
	put(float64(s.Disk.Expired), cacheDisk, cache.Expired.String())
	put(float64(s.Disk.Deleted), cacheDisk, cache.Deleted.String())
	put(float64(s.Disk.Damaged), cacheDisk, causeDamaged)
}

// diskFamilies are those of the disk tier alone.
func diskFamilies(p *polled[rsm.CacheStats]) {
	type st = rsm.CacheStats
	p.number(Counter, "tierkit_cache_disk_written_total", "Chunks written to the disk cache.", func(s st) float64 { return float64(s.Disk.Written) })
	p.number(Counter, "tierkit_cache_disk_written_bytes_total", "Bytes of these chunks.", func(s st) float64 { return float64(s.Disk.WrittenBytes) })
	p.family(Counter, "tierkit_cache_disk_unwritten_total", "Chunks that should have been written to the disk cache and were not.", []string{"cause"},
		func(s st, put func(float64, ...string)) {
			put(float64(s.Disk.Dropped), causeDropped)
			put(float64(s.Disk.Bypassed), causeBypassed)
		})
	p.family(Counter, "tierkit_cache_disk_errors_total", "Errors of the file system under the disk cache. None of them fails a fetch.", []string{"access"},
		func(s st, put func(float64, ...string)) {
			put(float64(s.Disk.ReadErrors), accessRead)
			put(float64(s.Disk.WriteErrors), accessWrite)
		})
	p.number(Gauge, "tierkit_cache_disk_queue_bytes", "Memory of chunks that wait to be written to the disk cache.",
		func(s st) float64 { return float64(s.Disk.QueueBytes) })
	p.number(Gauge, "tierkit_cache_disk_bypassed", "1 while the disk cache is not written to because of an error, or not used because a read of it hangs, or is not used at all because its directory could not be opened.",
		func(s st) float64 {
			if s.Disk.Suspended || s.DiskBroken {
				return 1
			}
			return 0
		})
}
