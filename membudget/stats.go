package membudget

// counts is what Stats adds up over the life of a budget. Guarded by Budget.mu.
type counts struct {
	peak                      int64
	waits, cancelled, refused uint64
	passes, reclaims          uint64
	reclaimed                 int64
}

// Stats is a moment of a budget, for metrics and tests. All fields are bytes or numbers of events since New.
type Stats struct {
	Limit, Fixed              int64  // the limit and what codecs hold of it
	CopyCeiling, FetchCeiling int64  // the most that a class may hold
	CopyBytes, FetchBytes     int64  // reserved now; Fetch with caches and read-ahead
	PeakBytes                 int64  // the most that was ever reserved at a time
	InUseBytes, IdleBytes     int64  // memory really there: buffers handed out with Charge, and pooled buffers
	CopyWaiters, FetchWaiters int    // in the queue now
	Waits, Cancelled          uint64 // Reserve calls that had to wait; of these given up
	Refused                   uint64 // TryGrow and TryReserve that got nothing
	Reclaims                  uint64 // calls of reclaimers
	ReclaimedBytes            int64  // what they reported
	Fresh, Reused, Dropped    uint64 // buffers made, taken from the pool, dropped from it to make room
	Collected                 uint64 // garbage collections for what was dropped
}

// Stats returns the present numbers.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{
		Limit: b.limit, Fixed: b.needs.Fixed, CopyCeiling: b.copyCeiling, FetchCeiling: b.fetchCeil,
		CopyBytes: b.copies, FetchBytes: b.fetches, PeakBytes: b.counts.peak,
		InUseBytes: b.pool.inUse, IdleBytes: b.pool.idle,
		Waits: b.counts.waits, Cancelled: b.counts.cancelled, Refused: b.counts.refused,
		Reclaims: b.counts.reclaims, ReclaimedBytes: b.counts.reclaimed,
		Fresh: b.pool.fresh, Reused: b.pool.reused, Dropped: b.pool.dropped, Collected: b.pool.collected,
	}
	for _, w := range b.queue {
		if w.class == Copy {
			s.CopyWaiters++
		} else {
			s.FetchWaiters++
		}
	}
	return s
}
