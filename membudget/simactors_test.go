package membudget

import "slices"

// arrivals starts the sources of work; each goes on until the horizon.
func (s *sim) arrivals() {
	s.source(Copy, func() {
		s.copyArrives()
		for s.chance(25) { // segments roll together
			s.copyArrives()
		}
	})
	s.source(Fetch, s.readerArrives)
	s.source(Ahead, s.indexArrives) // the third gap is that of indexes
}

func (s *sim) source(c Class, arrive func()) {
	s.at(s.upTo(2*s.gapMs[c]), func() {
		if s.now > s.horizon {
			return
		}
		if s.now%1000 >= s.quietMs {
			arrive()
		}
		s.source(c, arrive)
	})
}

const forever = -1

// patience is how long a caller waits.
func (s *sim) patience() int64 {
	if s.impatient && s.chance(25) {
		return s.upTo(60 * (1 + 9*s.rnd.Int64N(2)))
	}
	return forever
}

// need is what one operation of class c reserves: mostly its least, now and then much more, rarely more than there can be.
func (s *sim) need(c Class, least, most int64) int64 {
	switch {
	case s.large[c] && s.chance(20):
		return most + s.rnd.Int64N(max(1, s.ceiling(c)-most+1))
	case s.chance(1):
		return s.ceiling(c) + s.upTo(8192)
	case s.chance(30):
		return most
	}
	return least
}

func (s *sim) stalls(c Class) bool { return s.stall == c && s.now%(s.stallMs+1000) < s.stallMs }

// copyArrives is one upload: it reserves once, and splits the driver's share off anew for each of its three puts. Each must get its buffers.
func (s *sim) copyArrives() {
	n := s.need(Copy, 2*s.storedCap()+s.putMemory(), s.needs.Copy)
	s.reserve(Copy, n, s.patience(), func(r *simRes) {
		s.copies = append(s.copies, r)
		s.put(r, 3, s.chance(10))
	})
}

func (s *sim) put(r *simRes, left int, fails bool) {
	driver := r.split(s.putMemory())
	var parts, chunks [][]byte
	for range s.parts {
		parts = append(parts, driver.buffer(s.part))
	}
	for range 2 {
		chunks = append(chunks, r.buffer(s.chunk+28))
	}
	for range 3 { // more in flight while there is room
		if r.tryGrow(s.storedCap()) {
			chunks = append(chunks, r.buffer(s.chunk+28))
		}
	}
	d := s.upTo(putMs)
	if s.stalls(Copy) {
		d, fails = s.stallMs, true // the watchdog ends it
	}
	s.at(d, func() {
		if !fails || s.chance(50) { // a transport that was cut off may keep a part for good
			for _, p := range parts {
				driver.giveBuffer(p)
			}
		}
		for _, c := range chunks {
			r.giveBuffer(c)
		}
		driver.release(false)
		if s.chance(50) {
			r.shrink(s.storedCap() * int64(len(chunks)-2))
		}
		if left > 1 && !fails {
			s.put(r, left-1, s.chance(5))
			return
		}
		s.at(s.upTo(putMs/2), func() { // a failed copy deletes what it has put
			s.copies = slices.DeleteFunc(s.copies, func(x *simRes) bool { return x == r })
			r.release(false)
		})
	})
}

// readerArrives reads a row of chunks, one after the other.
func (s *sim) readerArrives() {
	first := s.rnd.IntN(200)
	s.read(first, first+1+s.rnd.IntN(s.rows))
}

// read serves one chunk to a reader, and the rest of its row afterwards. Between two reads it holds nothing.
func (s *sim) read(key, end int) {
	if key == end {
		return
	}
	next := func(e *simEntry) { // pinned
		s.at(s.upTo(pinMs), func() {
			s.chunks.unpin(e)
			s.at(s.upTo(20), func() { s.read(key+1, end) })
		})
	}
	if s.readAhead {
		s.lookAhead(key + 1)
	}
	if e := s.chunks.entries[key]; e != nil {
		s.chunks.pin(e)
		next(e)
		return
	}
	if _, ok := s.inflight[key]; ok {
		s.inflight[key] = append(s.inflight[key], next)
		return
	}
	s.reserve(Fetch, s.need(Fetch, s.needs.Fetch, s.needs.Fetch), s.patience(), func(r *simRes) {
		s.join(key, next)
		s.load(r, key, s.rowLength(), func() { s.loads-- })
	})
}

// join makes a load of key known, with one who waits for it; others may have come first since the request was made.
func (s *sim) join(key int, waiting func(*simEntry)) {
	s.inflight[key] = append(s.inflight[key], waiting)
}

// rowLength is how many chunks one request covers if it can grow.
func (s *sim) rowLength() int {
	if s.longRuns {
		return 40 + s.rnd.IntN(200)
	}
	return 1 + s.rnd.IntN(8)
}

// load fetches chunk after chunk by one request, as long as it can take each further one. Every chunk goes to the cache, pinned for those who wait.
func (s *sim) load(r *simRes, key, run int, ended func()) {
	stored := r.buffer(s.chunk + 28)
	d := s.upTo(getMs)
	if s.stalls(Fetch) {
		d, run = s.stallMs, 1 // and then the watchdog ends the request
	}
	s.at(d, func() {
		mem := r.split(s.chunkCap())
		buf := mem.buffer(s.chunk)
		r.giveBuffer(stored)
		waiting := s.inflight[key]
		delete(s.inflight, key)
		e := s.chunks.add(key, mem, buf, len(waiting))
		for _, w := range waiting {
			w(e)
		}
		if run > 1 && r.tryGrow(s.chunkCap()) {
			s.load(r, key+1, run-1, ended)
			return
		}
		ended()
		r.release(false)
	})
}

// lookAhead loads a few chunks that nobody has asked for.
func (s *sim) lookAhead(key int) {
	if _, ok := s.inflight[key]; ok || s.chunks.entries[key] != nil || s.now > s.horizon {
		return
	}
	r := s.tryReserve(Ahead, s.needs.Fetch)
	if r == nil {
		return
	}
	s.stats.aheads++
	s.ahead++
	s.inflight[key] = nil
	s.load(r, key, s.rowLength(), func() { s.ahead-- })
}

// indexArrives loads an index or a manifest: one request, an ordinary value in a cache of its own.
func (s *sim) indexArrives() {
	key := s.rnd.IntN(30)
	if e := s.indexes.entries[key]; e != nil {
		s.indexes.pin(e)
		s.at(s.upTo(pinMs), func() { s.indexes.unpin(e) })
		return
	}
	n := s.need(Fetch, 4096*(1+s.rnd.Int64N(s.needs.Fetch/4096)), s.needs.Fetch)
	s.reserve(Fetch, n, s.patience(), func(r *simRes) {
		d := s.upTo(getMs)
		if s.stalls(Fetch) {
			d = s.stallMs
		}
		s.at(d, func() {
			s.loads--
			mem := r.split(r.size)
			mem.charge(mem.size)
			r.release(false)
			e := s.indexes.add(key, mem, nil, 1)
			s.at(s.upTo(pinMs), func() { s.indexes.unpin(e) })
		})
	})
}
