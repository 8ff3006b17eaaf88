package backends

// Load is what a Store is doing at a moment.
type Load struct {
	Driver   string
	InFlight map[Op]int // calls that have not ended, those that wait included, and as OpRead the streams that are open
	// Calls that wait for one of Limits' slots.
	WaitingReads, WaitingWrites int
}

// Load returns what s is doing now.
func (s *Store) Load() Load {
	out := Load{Driver: s.props.Name, InFlight: make(map[Op]int), WaitingReads: s.reads.queue(), WaitingWrites: s.writes.queue()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		if r.onClose != nil {
			out.InFlight[OpRead]++
			continue
		}
		out.InFlight[r.op]++
	}
	return out
}

func (s *slots) queue() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
