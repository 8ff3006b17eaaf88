package rlmm

// Status is where a manager stands, for gauges and for people.
type Status struct {
	Log        LogID
	Partitions []PartitionStatus // the metadata partitions that are followed, in order
}

// PartitionStatus is where a manager stands on one partition of its log.
type PartitionStatus struct {
	Partition int32
	// Assigned is the number of partitions followed on it, Ready how many of them can answer, Loading how many wait for the
	// live stream to take them over.
	Assigned, Ready, Loading int
	// Next is how far it has been read, Target how far it had to be read when following began; -1: not known yet.
	Next, Target int64
	// Applied is the number of events that changed something, Dropped of those that did not, by reason.
	Applied uint64
	Dropped map[DropReason]uint64
	// Lost counts positions that were not on the log any more.
	Lost uint64
	// LastEventMs is when the last event that was read had been appended, -1: none was read.
	LastEventMs int64
	// InDoubt is the number of writes whose outcome is not known.
	InDoubt int
	// Stale is why the log cannot be read on at the moment, nil if it can; what is ready answers from what it has.
	Stale error
}

// Status returns where the manager stands. It is not one moment over all partitions.
func (m *Manager) Status() Status {
	st := Status{Log: m.logID}
	for _, mp := range m.parts {
		mp.mu.Lock()
		if mp.all || len(mp.users) > 0 {
			st.Partitions = append(st.Partitions, mp.status())
		}
		mp.mu.Unlock()
	}
	if cause := m.live.cause(); cause != nil {
		for i := range st.Partitions {
			st.Partitions[i].Stale = cause
		}
	}
	return st
}

func (mp *metaPartition) status() PartitionStatus {
	ps := PartitionStatus{
		Partition: mp.index, Next: -1, Target: mp.target, Applied: mp.applied, Dropped: map[DropReason]uint64{}, Lost: mp.lost,
		LastEventMs: mp.lastEventMs, InDoubt: mp.doubts, Stale: mp.cause,
	}
	if mp.live.on {
		ps.Next = mp.live.next.Offset
	}
	for r, n := range mp.dropped {
		if n > 0 {
			ps.Dropped[DropReason(r)] = n
		}
	}
	for _, u := range mp.users {
		if u.explicit || u.listed {
			ps.Assigned++
		}
		if u.isReady() {
			ps.Ready++
		}
		if u.loading {
			ps.Loading++
		}
	}
	return ps
}
