package disk

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model is what a cache must look like from outside: two lists by last use, the one used last first.
type model struct {
	most, entries int64
	retention     time.Duration
	once, again   []*modelEntry
}

type modelEntry struct {
	key, n        int
	used, stamped time.Time
}

func (e *modelEntry) space() int64 { return int64(64+e.n+4095) / 4096 * 4096 }

func spaceOf(l []*modelEntry) (n int64) {
	for _, e := range l {
		n += e.space()
	}
	return n
}

func (m *model) all() []*modelEntry { return append(slices.Clone(m.once), m.again...) }

// find returns the entry of key, unless it is too old.
func (m *model) find(key int, now time.Time) *modelEntry {
	for _, e := range m.all() {
		if e.key == key && (m.retention == 0 || now.Sub(e.used) < m.retention) {
			return e
		}
	}
	return nil
}

func (m *model) drop(e *modelEntry) {
	is := func(x *modelEntry) bool { return x == e }
	m.once, m.again = slices.DeleteFunc(m.once, is), slices.DeleteFunc(m.again, is)
}

// expire drops what is too old, as far as it is the last of its list.
func (m *model) expire(now time.Time) {
	for _, l := range []*[]*modelEntry{&m.once, &m.again} {
		for n := len(*l); n > 0 && m.retention > 0 && now.Sub((*l)[n-1].used) >= m.retention; n-- {
			*l = (*l)[:n-1]
		}
	}
}

func (m *model) add(e *modelEntry) {
	for len(m.all()) > 0 && (spaceOf(m.all())+e.space() > m.most || int64(len(m.all())) >= m.entries) {
		m.evict()
	}
	m.once = append([]*modelEntry{e}, m.once...)
}

func (m *model) evict() {
	if n := len(m.once); n > 0 {
		m.once = m.once[:n-1]
		return
	}
	m.again = m.again[:len(m.again)-1]
}

func (m *model) use(e *modelEntry, now time.Time) {
	promote := slices.Contains(m.again, e) || now.Sub(e.used) >= time.Minute
	m.drop(e)
	e.used = now
	if now.Sub(e.stamped) >= max(time.Minute, m.retention/8) {
		e.stamped = now
	}
	if !promote {
		m.once = append([]*modelEntry{e}, m.once...)
		return
	}
	m.again = append([]*modelEntry{e}, m.again...)
	for spaceOf(m.again) > m.most/5*4 {
		last := m.again[len(m.again)-1]
		m.drop(last)
		m.once = append([]*modelEntry{last}, m.once...)
	}
}

// restart forgets what is not in the files.
func (m *model) restart() {
	all := m.all()
	for _, e := range all {
		e.used = e.stamped
	}
	slices.SortFunc(all, func(a, b *modelEntry) int { return cmp.Or(b.used.Compare(a.used)) })
	m.once, m.again = all, nil
	for spaceOf(m.once) > m.most || int64(len(m.once)) > m.entries {
		m.evict()
	}
}

func TestCache_MatchesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any // rapid ends a run by a panic, which must come out of the bubble
		synctest.Test(t, func(t *testing.T) {
			defer func() { stopped = recover() }()
			checkModel(t, rt)
		})
		if stopped != nil {
			panic(stopped)
		}
	})
}

func checkModel(st *testing.T, t *rapid.T) {
	m := &model{
		most:      rapid.SampledFrom([]int64{1, 4, 9}).Draw(t, "blocks") * blockSize,
		entries:   rapid.SampledFrom([]int64{2, 100}).Draw(t, "entries"),
		retention: rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, 2 * time.Hour}).Draw(t, "retention"),
	}
	o := Options{Dir: st.TempDir(), MaxBytes: m.most, MaxEntries: int(m.entries), Retention: m.retention}
	r := newRig(st, o)
	defer func() { r.end(st) }()
	key := rapid.IntRange(0, 9)
	// The length of an entry belongs to its key, as that of a chunk does.
	size := func(key int) int { return []int{10, 3000, 4032, 4033, 9000}[key%5] }
	get := func(t *rapid.T, k int) {
		e := m.find(k, time.Now())
		if got := r.get(t, k, size(k)); got != (e != nil) {
			t.Fatalf("get %d: %v, in the model it is %+v", k, got, e)
		}
		if e != nil {
			m.use(e, time.Now())
			return
		}
		for _, e := range m.all() { // too old, and looked for
			if e.key == k {
				m.drop(e)
			}
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			k := key.Draw(t, "key")
			e := &modelEntry{key: k, n: size(k), used: time.Now(), stamped: time.Now()}
			known := slices.ContainsFunc(m.all(), func(x *modelEntry) bool { return x.key == k })
			if got, want := r.put(k, dataOf(k, e.n)), !known && e.space() <= m.most; got != want {
				t.Fatalf("put %d: wanted %v, in the model %v", k, got, want)
			} else if got {
				m.expire(time.Now())
				m.add(e)
			}
		},
		"get": func(t *rapid.T) {
			get(t, key.Draw(t, "key"))
		},
		"get all after a while": func(t *rapid.T) {
			time.Sleep(sameUse)
			for k := range 10 {
				get(t, k)
				time.Sleep(time.Millisecond)
			}
		},
		"delete": func(t *rapid.T) {
			k := key.Draw(t, "key")
			r.Delete(keyOf(k))
			for _, e := range m.all() {
				if e.key == k {
					m.drop(e)
				}
			}
		},
		"time": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 10, 61, 400}).Draw(t, "seconds")) * time.Second)
		},
		"restart": func(t *rapid.T) {
			r.end(t)
			r = newRig(st, o)
			m.restart()
		},
		"": func(t *rapid.T) {
			r.poke()
			synctest.Wait()
			m.expire(time.Now())
			time.Sleep(time.Millisecond) // no two uses at the same time
			s := r.Stats()
			space, n := onDisk(st, o.Dir)
			if int64(s.Entries) != int64(len(m.all())) || s.Bytes != spaceOf(m.all()) || s.Bytes != space || n != s.Entries || space > m.most {
				t.Fatalf("%+v; %d files of %d bytes; in the model %d of %d, at most %d", s, n, space, len(m.all()), spaceOf(m.all()), m.most)
			}
			for _, l := range []struct {
				got  *list
				want []*modelEntry
			}{{&r.index.once, m.once}, {&r.index.again, m.again}} {
				var got, want []Key
				for n := l.got.root.next; n != &l.got.root; n = n.next {
					got = append(got, n.key)
				}
				for _, e := range l.want {
					want = append(want, keyOf(e.key))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("the order of use is %x, in the model %x", got, want)
				}
			}
			if s.Damaged+s.WriteErrors+s.ReadErrors+s.Dropped+s.Bypassed != 0 || s.QueueBytes != 0 {
				t.Fatalf("%+v", s)
			}
		},
	})
}
