package cli

import (
	"sync"

	"github.com/tierkit/tierkit/remotelog"
)

// storedSizes remembers how many bytes the copies of this process stored. The zero value is empty and ready.
type storedSizes struct {
	mu sync.Mutex
	m  map[remotelog.UUID]int64
}

func (s *storedSizes) put(md remotelog.SegmentMetadata, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[remotelog.UUID]int64)
	}
	s.m[md.ID] = bytes
}

// take returns the size of a segment and forgets it; nil if it was not copied here.
func (s *storedSizes) take(id remotelog.UUID) *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.m[id]
	if !ok {
		return nil
	}
	delete(s.m, id)
	return &n
}
