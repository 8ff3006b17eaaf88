package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/membudget"
)

// NewMemory returns a collector of a memory budget: stats is the Stats of a membudget.Budget, of rsm.Manager.Budget for one.
func NewMemory(stats func() membudget.Stats) prometheus.Collector { return newMemory(stats) }

func newMemory(stats func() membudget.Stats) *polled[membudget.Stats] {
	type st = membudget.Stats
	p := &polled[st]{take: stats}
	class := func(copies, fetches func(st) float64) func(st, func(float64, ...string)) {
		return func(s st, put func(float64, ...string)) {
			put(copies(s), membudget.Copy.String())
			put(fetches(s), membudget.Fetch.String())
		}
	}
	p.number(Gauge, "tierkit_memory_limit_bytes", "The memory budget.", func(s st) float64 { return float64(s.Limit) })
	p.number(Gauge, "tierkit_memory_fixed_bytes", "What encoders, decoders and the index of the cache on disk hold of the budget all the time.",
		func(s st) float64 { return float64(s.Fixed) })
	p.family(Gauge, "tierkit_memory_ceiling_bytes", "The most that a class may hold.", []string{"class"},
		class(func(s st) float64 { return float64(s.CopyCeiling) }, func(s st) float64 { return float64(s.FetchCeiling) }))
	p.family(Gauge, "tierkit_memory_held_bytes", "What a class has reserved; fetch with caches and read-ahead.", []string{"class"},
		class(func(s st) float64 { return float64(s.CopyBytes) }, func(s st) float64 { return float64(s.FetchBytes) }))
	p.number(Gauge, "tierkit_memory_peak_bytes", "The most that was ever reserved at a time.",
		func(s st) float64 { return float64(s.PeakBytes) })
	p.family(Gauge, "tierkit_memory_buffer_bytes", "Buffers that exist: handed out, and kept for the next.", []string{"state"},
		func(s st, put func(float64, ...string)) {
			put(float64(s.InUseBytes), "in_use")
			put(float64(s.IdleBytes), "idle")
		})
	p.family(Gauge, "tierkit_memory_waiters", "Operations that wait for memory now.", []string{"class"},
		class(func(s st) float64 { return float64(s.CopyWaiters) }, func(s st) float64 { return float64(s.FetchWaiters) }))
	p.number(Counter, "tierkit_memory_waits_total", "Reservations that had to wait.", func(s st) float64 { return float64(s.Waits) })
	p.number(Counter, "tierkit_memory_waits_cancelled_total", "Reservations that were given up while they waited.",
		func(s st) float64 { return float64(s.Cancelled) })
	p.number(Counter, "tierkit_memory_refused_total", "Reservations that do not wait and got nothing: read-ahead and entries of caches.",
		func(s st) float64 { return float64(s.Refused) })
	p.number(Counter, "tierkit_memory_reclaims_total", "Times that caches were asked to give back memory.",
		func(s st) float64 { return float64(s.Reclaims) })
	p.number(Counter, "tierkit_memory_reclaimed_bytes_total", "What they gave back.",
		func(s st) float64 { return float64(s.ReclaimedBytes) })
	return p
}
