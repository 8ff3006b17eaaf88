package parts

import (
	"context"
	"sync"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

// slabs hands out the buffers of one Put.
type slabs struct {
	mem   *membudget.Reservation // nil: one buffer that is made here
	most  int
	base  int // length of the buffer that there is always memory for
	freed chan struct{}

	mu    sync.Mutex
	out   int
	grown int64  // bytes that the reservation grew by
	own   []byte // without mem: the one buffer while it is free
}

func newSlabs(o *Options) *slabs {
	s := &slabs{mem: o.Memory, most: o.slabs(), base: int(o.firstPart()), freed: make(chan struct{}, o.slabs())}
	if s.mem == nil {
		s.most = 1
	}
	return s
}

// take returns a buffer of n bytes, or of fewer if there is no memory for n; it waits for a part on its way when there is none at all. It
// never waits for the budget.
func (s *slabs) take(ctx context.Context, n int) ([]byte, error) {
	for {
		buf, err := s.try(n)
		if buf != nil || err != nil {
			return buf, err
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try returns nil without an error if a part on its way has to come back first.
func (s *slabs) try(n int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out >= s.most {
		return nil, nil
	}
	buf := s.get(n)
	if buf == nil && n > s.base {
		buf = s.get(s.base)
	}
	switch {
	case buf != nil:
		s.out++
		return buf, nil
	case s.out > 0:
		return nil, nil
	}
	return nil, backends.Errorf(backends.InvalidArgument, "the memory given to Put has no %d bytes left, see PutMemory", s.base)
}

func (s *slabs) get(n int) []byte {
	if s.mem == nil {
		if s.own == nil {
			s.own = make([]byte, s.base)
		}
		return s.own[:min(n, s.base)]
	}
	if buf := s.mem.Buffer(n); buf != nil {
		return buf
	}
	need := membudget.Capacity(n)
	if !s.mem.TryGrow(need) {
		return nil
	}
	s.grown += need
	return s.mem.Buffer(n)
}

// give takes a buffer back that nobody reads any more. What was grown goes to those who wait.
func (s *slabs) give(buf []byte) {
	s.mu.Lock()
	s.out--
	if s.mem != nil {
		n := int64(cap(buf))
		s.mem.Return(buf)
		if n = min(n, s.grown); n > 0 {
			s.mem.Shrink(n)
			s.grown -= n
		}
	}
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default: // enough have been announced
	}
}
