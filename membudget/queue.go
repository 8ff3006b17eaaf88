package membudget

import "slices"

// held returns the account of class c and its ceiling.
func (b *Budget) held(c Class) (account *int64, ceiling int64) {
	if c == Copy {
		return &b.copies, b.copyCeiling
	}
	return &b.fetches, b.fetchCeil
}

// lacks returns how many bytes are missing, in the class or in the budget, for n more of class c; 0 or less: it fits.
func (b *Budget) lacks(c Class, n int64) int64 {
	account, ceiling := b.held(c)
	return max(n-(ceiling-*account), n-(b.avail-b.copies-b.fetches))
}

// atCeiling says that n more bytes of class c would lift the class above its ceiling.
func (b *Budget) atCeiling(c Class, n int64) bool {
	account, ceiling := b.held(c)
	return n > ceiling-*account
}

// take charges n bytes to class c.
func (b *Budget) take(c Class, n int64) {
	account, _ := b.held(c)
	*account += n
	b.counts.peak = max(b.counts.peak, b.copies+b.fetches)
}

// passable says that w may be passed over: its class is at its ceiling, and taking from caches cannot change that. Caches are charged as Fetch, so
// they never help a copy at its ceiling; for a fetch it is known only after reclaim was tried.
func (b *Budget) passable(w *waiter) bool {
	if !b.rules.passOver {
		return false
	}
	if b.rules.passOverCeiling && !b.atCeiling(w.class, w.min) {
		return false
	}
	return w.class == Copy || w.dry || !b.rules.passOverDry
}

// dispatch grants what can be granted, in order. Called with mu held.
//
// A waiter that does not fit keeps out everybody behind it, unless it may be passed over: then it keeps out only its own class.
func (b *Budget) dispatch() {
	var keepOut [Ahead + 1]bool
	for i := 0; i < len(b.queue); {
		w := b.queue[i]
		switch {
		case keepOut[w.class]:
			i++
		case b.lacks(w.class, w.min) <= 0:
			b.queue = slices.Delete(b.queue, i, i+1)
			b.grant(w)
		case !b.rules.fifo:
			i++
		case b.passable(w):
			keepOut[w.class] = true
			i++
		default:
			return
		}
	}
}

func (b *Budget) grant(w *waiter) {
	b.take(w.class, w.min)
	w.got = &Reservation{b: b, class: w.class, size: w.min}
	close(w.ready)
}

func (b *Budget) remove(w *waiter) {
	if i := slices.Index(b.queue, w); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
}

// mayTake says whether somebody of class c may have bytes without waiting, as far as those who wait are concerned.
func (b *Budget) mayTake(c Class) bool {
	if len(b.queue) == 0 {
		return true
	}
	if c == Ahead {
		return !b.rules.aheadYields
	}
	var seen [Ahead + 1]bool // only the first waiter of a class counts: the others wait for it
	for _, w := range b.queue {
		if seen[w.class] {
			continue
		}
		seen[w.class] = true
		if w.class == c && b.rules.growYields {
			return false
		}
		if w.class != c && b.rules.growYieldsOther && !b.passable(w) {
			return false
		}
	}
	return true
}

// tryTake charges n bytes to class c if that is possible at once.
func (b *Budget) tryTake(c Class, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mayTake(c) {
		lacks := b.lacksNow(c, n)
		if lacks > 0 && b.canReclaim(c, n) {
			b.reclaimFor(func() int64 { return b.lacksNow(c, n) })
			lacks = b.lacksNow(c, n)
		}
		if lacks <= 0 && b.mayTake(c) { // somebody may have come to wait meanwhile
			b.take(c, n)
			return true
		}
	}
	b.counts.refused++
	return false
}

// lacksNow is lacks, with one fetch's need on top for read-ahead.
func (b *Budget) lacksNow(c Class, n int64) int64 {
	lacks := b.lacks(c, n)
	if c == Ahead && b.rules.aheadLeaves {
		lacks += b.needs.Fetch
	}
	return lacks
}

// canReclaim says whether caches are asked before n bytes of class c are refused.
func (b *Budget) canReclaim(c Class, n int64) bool {
	switch {
	case !b.rules.reclaimOnGrow, c == Ahead && b.rules.aheadNoReclaim:
		return false
	case c == Copy && b.rules.reclaimOnlyToHelp:
		return !b.atCeiling(c, n)
	}
	return true
}
