package membudget

// reclaims is one registered cache.
type reclaims struct {
	free func(want int64) (freed int64)
}

// moment is when reclaim runs for those who wait.
type moment uint8

const (
	atWait moment = iota
	atRelease
	atIdle
	atCancel
)

// settle reclaims for the waiters that it could help. It is called with mu held and returns with it released.
//
// One goroutine reclaims at a time. A reclaimer releases reservations and so comes back here: it, and every other goroutine, leaves word and goes on, and the
// one that reclaims looks again before it stops. So no recursion, and no wake-up is lost: whoever changes something either runs reclaim itself or
// sets again while the other still holds reclaiming, both under mu.
func (b *Budget) settle(m moment) {
	defer b.mu.Unlock()
	if len(b.queue) == 0 || !b.rules.reclaimAt(m) {
		return
	}
	b.again = true
	for _, w := range b.queue {
		w.dry = false // what changed may help it: it is not passed over before that was tried
	}
	if b.reclaiming {
		return
	}
	b.reclaiming = true
	for b.again && len(b.queue) > 0 {
		b.again = false
		b.reclaimPass()
	}
	b.reclaiming = false
}

// reclaimPass goes once through the queue. Called with mu held; gives it up while caches work.
func (b *Budget) reclaimPass() {
	b.counts.passes++
	pass := b.counts.passes
	for {
		w := b.helpable(pass)
		if w == nil {
			return
		}
		w.pass = pass
		b.reclaimFor(func() int64 {
			if w.got != nil {
				return 0
			}
			return b.lacks(w.class, w.min)
		})
		w.dry = true // if it is still there: what caches had did not suffice
		b.dispatch()
	}
}

// helpable returns the first waiter that caches could help and that this pass has not tried; nil if there is none, or if one that was tried keeps out
// everybody behind it.
func (b *Budget) helpable(pass uint64) *waiter {
	var keepOut [Ahead + 1]bool
	for _, w := range b.queue {
		switch {
		case keepOut[w.class]:
		case w.class == Copy && b.atCeiling(Copy, w.min) && b.rules.reclaimOnlyToHelp:
			keepOut[w.class] = true
		case w.pass != pass:
			return w
		case b.passable(w):
			keepOut[w.class] = true
		default:
			return nil
		}
	}
	return nil
}

// reclaimFor asks cache after cache as long as lacks is positive. Called with mu held; gives it up while a cache works.
func (b *Budget) reclaimFor(lacks func() int64) {
	for _, rc := range b.reclaimers {
		want := lacks()
		if want <= 0 {
			return
		}
		b.counts.reclaims++
		freed := b.call(rc, want)
		b.counts.reclaimed += max(0, freed)
	}
}

// call runs a reclaimer off the lock.
func (b *Budget) call(rc *reclaims, want int64) int64 {
	b.mu.Unlock()
	defer b.mu.Lock()
	return rc.free(want)
}
