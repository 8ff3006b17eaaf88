package rlmm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"
)

// DefaultSnapshotEvery is Options.SnapshotEvery where that is 0.
const DefaultSnapshotEvery = 5 * time.Minute

const (
	// captureUsers and captureEpochs bound what is copied under the lock of a metadata partition before it is given up for a
	// moment: at well below a microsecond for a partition and some 30 ns for an epoch that is a fraction of a millisecond.
	captureUsers  = 256
	captureEpochs = 4096
)

// snapshots is what a manager with Options.SnapshotDir has for them. Its fields belong to the goroutine that runs keepSnapshots,
// but for path and create, which do not change.
type snapshots struct {
	path   string
	create func(path string) (snapTemp, error)
	last   []partPlace // what the newest file holds
}

// partPlace is as much of a metadata partition as tells whether there is something new.
type partPlace struct {
	index      int32
	begin, end Position
	users      int
}

// keepSnapshots is the goroutine that writes: at an interval, and when the manager is closed.
func (m *Manager) keepSnapshots(ctx context.Context) {
	var tick <-chan time.Time
	if m.opts.SnapshotEvery > 0 {
		t := time.NewTicker(m.opts.SnapshotEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			m.writeSnapshot()
			return
		case <-tick:
			m.writeSnapshot()
		}
	}
}

// writeSnapshot writes what is known now, unless the newest file has it.
func (m *Manager) writeSnapshot() {
	s := m.capture()
	place := make([]partPlace, len(s.parts))
	for i, p := range s.parts {
		place[i] = partPlace{p.index, p.begin, p.end, len(p.users)}
	}
	if len(place) == 0 || slices.Equal(place, m.snaps.last) {
		return
	}
	began := m.opts.Now()
	size, err := writeSnapshot(m.snaps.path, s, m.snaps.create)
	if err == nil {
		m.snaps.last = place
		err = sweepTemps(m.snaps.path, m.opts.Now())
	}
	if err != nil {
		m.opts.Logger.Warn("snapshot of the metadata is not written; the next start reads more of the log", "file", m.snaps.path, "error", err)
	}
	if m.opts.Hooks.Snapshot != nil {
		m.opts.Hooks.Snapshot(m.opts.Now().Sub(began), size, err)
	}
}

// capture takes views of everything that the live streams have read.
func (m *Manager) capture() *snapshot {
	s := &snapshot{logID: m.logID, partitions: int32(len(m.parts)), createdMs: m.opts.Now().UnixMilli()}
	for _, mp := range m.parts {
		if p, ok := mp.capture(); ok {
			s.parts = append(s.parts, p)
		}
	}
	return s
}

// capture takes views of the partitions on mp, a few under each hold of the lock; reading goes on between. So each view holds
// the events up to a position of its own. Events that name a partition for the first time after the first hold lie behind
// begin, and are read again from there. ok is false if nothing has been read, or a truncation came in between.
func (mp *metaPartition) capture() (p partSnapshot, ok bool) {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if !mp.live.on {
		return p, false
	}
	life, resets := mp.live.gen, mp.resets
	p = partSnapshot{index: mp.index, complete: mp.all, begin: mp.live.next}
	us := make([]*partition, 0, len(mp.users))
	for _, u := range mp.users {
		us = append(us, u)
	}
	users, epochs := 0, 0
	for _, u := range us {
		if users >= captureUsers || epochs >= captureEpochs {
			users, epochs = 0, 0
			mp.mu.Unlock()
			runtime.Gosched() // who waits gets the lock
			mp.mu.Lock()
			if mp.live.gen != life || mp.resets != resets {
				return p, false
			}
		}
		if mp.users[u.tp] != u || u.loading {
			continue
		}
		u.mu.RLock()
		v := u.cache.view()
		u.mu.RUnlock()
		v.from, v.named = mp.live.next.Offset, u.named
		p.users = append(p.users, v)
		users, epochs = users+1, epochs+len(v.epochs)
	}
	p.end, p.lastEventMs = mp.live.next, mp.lastEventMs
	return p, true
}

// restore reads the snapshot for those of ask that begin for the first time. Afterwards a snapshot is never looked at again: a
// partition that was stopped and comes back is read from the first offset.
func (m *Manager) restore(ask []int32) {
	if m.snaps == nil {
		return
	}
	want := map[int32]bool{}
	for _, p := range ask {
		mp := m.parts[p]
		mp.mu.Lock()
		want[p] = !mp.began && !mp.live.on
		mp.began = true
		mp.mu.Unlock()
	}
	if !slices.ContainsFunc(ask, func(p int32) bool { return want[p] }) {
		return
	}
	c, err := loadSnapshot(m.snaps.path, func(p int32) bool { return want[p] })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
	case c.logID != m.logID:
		err = fmt.Errorf("it is of log %s, this one is %s", c.logID, m.logID)
	case int(c.partitions) != len(m.parts):
		err = fmt.Errorf("it is of a log with %d metadata partitions, this one has %d", c.partitions, len(m.parts))
	}
	if err != nil {
		m.opts.Logger.Warn("snapshot of the metadata is not used; the log is read from its beginning", "file", m.snaps.path, "reason", err)
		return
	}
	for i, p := range c.parts {
		if m.opts.All && !p.complete {
			m.unused(i, "it has not all partitions that the log names")
			continue
		}
		mp := m.parts[i]
		mp.mu.Lock()
		mp.restored = p
		mp.mu.Unlock()
	}
}

// unused says why a metadata partition is read from its beginning.
func (m *Manager) unused(p int32, reason string) {
	m.opts.Logger.Warn("snapshot of a metadata partition is not used; the partition is read from its beginning", "file", m.snaps.path,
		"metadataPartition", p, "reason", reason)
}

// verify drops what was restored but is not, or may not be, a part of this log.
func (m *Manager) verify(ctx context.Context, bounds map[int32]Bounds) {
	at := map[int32]Position{}
	for p, b := range bounds {
		mp := m.parts[p]
		mp.mu.Lock()
		r := mp.restored
		mp.mu.Unlock()
		switch {
		case r == nil:
		case r.begin.Offset < b.First:
			m.discard(p, fmt.Sprintf("it goes to offset %d, the log begins at %d", r.begin.Offset, b.First))
		case r.end.Offset > b.Next:
			m.discard(p, fmt.Sprintf("it goes to offset %d, the log ends at %d", r.end.Offset, b.Next))
		default:
			at[p] = r.end // what precedes it includes what precedes begin
		}
	}
	if len(at) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	lost, err := m.log.Check(ctx, at)
	if err != nil {
		for p := range at {
			m.discard(p, "whether it is of this log cannot be found out: "+err.Error())
		}
		return
	}
	for _, l := range lost {
		m.discard(l.Partition, fmt.Sprintf("the log lost offset %d: %v", l.From.Offset, l.Kind))
	}
}

func (m *Manager) discard(p int32, reason string) {
	mp := m.parts[p]
	mp.mu.Lock()
	mp.restored = nil
	mp.mu.Unlock()
	m.unused(p, reason)
}

// resume begins the live stream where the snapshot ends; it needs mp.mu. A partition that is not in it is loaded, unless the
// snapshot has all that the log names.
func (m *Manager) resume(mp *metaPartition) {
	r := mp.restored
	if r == nil || mp.live.on || !mp.all && len(mp.users) == 0 {
		return
	}
	mp.restored = nil
	if mp.all {
		for tp, u := range r.users {
			if u.named && mp.users[tp] == nil {
				m.mentioned(mp, tp)
			}
		}
	}
	mp.live.start(r.begin)
	mp.fresh, mp.lastEventMs = false, r.lastEventMs
	for tp, u := range mp.users {
		switch from := r.users[tp]; {
		case from != nil:
			u.mu.Lock()
			u.cache = from.cache
			u.mu.Unlock()
			u.from, u.named = from.from, from.named
			u.listed = u.listed || from.named
		case !r.complete:
			u.loading = true
		}
	}
}
