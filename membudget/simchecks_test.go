package membudget

import "slices"

// What the simulation holds against the budget: its own accounts, the order of grants, and how long a wait may be.

// accountOf is the class that c counts as.
func accountOf(c Class) Class {
	if c == Copy {
		return Copy
	}
	return Fetch
}

// heldNow is what class c holds. In the middle of a call the simulation does not know yet who was granted, and asks the budget, whose account is compared after each
// event.
func (s *sim) heldNow(c Class) int64 {
	switch {
	case s.reclaiming == 0:
		return s.held[accountOf(c)]
	case c == Copy:
		return s.b.copies
	}
	return s.b.fetches
}

// lack is how much more must come free for n of class c, by the formulas of the design and the simulation's own accounts.
func (s *sim) lack(c Class, n int64) int64 {
	return max(s.heldNow(c)+n-s.ceiling(c), s.heldNow(Copy)+s.heldNow(Fetch)+n-s.avail())
}

func (s *sim) full(c Class, n int64) bool { return s.heldNow(c)+n > s.ceiling(c) }

// reclaimable is what the caches could give back now.
func (s *sim) reclaimable() int64 { return s.chunks.unpinned + s.indexes.unpinned }

// queued is who waits right now, in the middle of a call of the budget too: a waiter that is entering is known to the budget only.
func (s *sim) queued() []*simWaiter {
	q := s.queue[:0]
	for _, sw := range s.waiting {
		if sw.w.got == nil {
			q = append(q, sw)
		}
	}
	if e, n := s.entering, len(s.b.queue); e != nil && n > 0 {
		last := s.b.queue[n-1]
		if !slices.ContainsFunc(q, func(sw *simWaiter) bool { return sw.w == last }) {
			s.enters = simWaiter{w: last, ordinal: e.ordinal}
			q = append(q, &s.enters)
		}
	}
	s.queue = q
	return q
}

// inOrder checks a grant to class c that arrived as number ordinal against everybody who waits and came before. Of the other class only the first
// counts: those behind it wait for it, not for bytes.
func (s *sim) inOrder(c Class, ordinal int64) {
	var seen [Ahead + 1]bool
	for _, o := range s.queued() {
		if o.ordinal >= ordinal || seen[o.w.class] {
			continue
		}
		seen[o.w.class] = true
		if accountOf(c) == o.w.class || !s.full(o.w.class, o.w.min) {
			s.failf(order, "%s got bytes before a %s of %d bytes that must not be passed over", c, o.w.class, o.w.min)
		}
		if o.w.class == Fetch && s.reclaimable() >= s.lack(Fetch, o.w.min) {
			s.failf(order, "%s got bytes before a fetch of %d bytes that the caches could have helped", c, o.w.min)
		}
	}
}

// checkWait compares a wait with the bounds that follow from the rules. Each of those ahead is served when at most all who held bytes at its turn have ended.
// And who asks for no more than the need of its class never waits for the other class to end, once nobody of its own class who asks for more is ahead.
func (s *sim) checkWait(sw *simWaiter) {
	ahead := int64(sw.ahead + 1)
	if sw.behind { // until this event
		sw.clear = s.now
	}
	if wait, bound := s.now-sw.since, ahead*2*max(s.copyMs(), s.fetchMs()); wait > bound {
		s.failf(starved, "%s of %d bytes has waited %d ms with %d ahead, at most %d are explained", sw.w.class, sw.w.min, wait, sw.ahead, bound)
	}
	if s.isLarge(sw.w) {
		return
	}
	own := s.fetchMs()
	if sw.w.class == Copy {
		own = s.copyMs()
	}
	if wait, bound := s.now-max(sw.since, sw.clear), ahead*2*own; wait > bound {
		s.failf(isolated, "%s of %d bytes has waited %d ms with %d ahead, its class explains %d", sw.w.class, sw.w.min, wait, sw.ahead, bound)
	}
}

func (s *sim) isLarge(w *waiter) bool {
	if w.class == Copy {
		return w.min > s.needs.Copy
	}
	return w.min > s.needs.Fetch
}

// checkWaits looks at all who wait, and notes for whom a large request of the own class is still ahead.
func (s *sim) checkWaits() {
	var large [Ahead + 1]bool
	for _, sw := range s.waiting {
		s.checkWait(sw)
		sw.behind = large[sw.w.class]
		large[sw.w.class] = sw.behind || s.isLarge(sw.w)
	}
}

// check looks at everything that must hold between events.
func (s *sim) check() {
	st := s.b.Stats()
	if st.CopyBytes != s.held[Copy] || st.FetchBytes != s.held[Fetch] {
		s.failf(account, "the budget holds %d and %d, the simulation %d and %d", st.CopyBytes, st.FetchBytes, s.held[Copy], s.held[Fetch])
	}
	if s.held[Copy]+s.held[Fetch] > s.avail() {
		s.failf(limit, "copies hold %d and fetches %d of %d", s.held[Copy], s.held[Fetch], s.avail())
	}
	if s.real+st.IdleBytes > s.avail() {
		s.failf(limit, "%d bytes are in use and %d idle, of %d", s.real, st.IdleBytes, s.avail())
	}
	s.checkWaits()
	if s.held[Copy] > s.ceiling(Copy) || s.held[Fetch] > s.ceiling(Fetch) {
		s.failf(limit, "copies hold %d, fetches %d: above a ceiling", s.held[Copy], s.held[Fetch])
	}
	s.checkAsleep()
}

// checkAsleep finds a waiter that is next in line and does not get what is free or could be reclaimed.
func (s *sim) checkAsleep() {
	var behind [Ahead + 1]bool
	for _, sw := range s.waiting {
		c := sw.w.class
		if behind[c] {
			continue
		}
		help := s.reclaimable()
		if c == Copy && s.full(Copy, sw.w.min) {
			help = 0
		}
		if lack := s.lack(c, sw.w.min); lack <= help {
			s.failf(asleep, "%s of %d bytes lacks %d, caches could give %d", c, sw.w.min, lack, help)
		}
		if !s.full(c, sw.w.min) {
			return
		}
		behind[c] = true
	}
}
