package filelog

import (
	"sort"

	"github.com/tierkit/tierkit/rlmm"
)

// indexEvery is how many bytes of a file share one entry of the index in memory.
const indexEvery = 256 << 10

// epochStart says that offsets from this one on are of this epoch, up to the next entry.
type epochStart struct {
	epoch  int32
	offset int64
}

// state is what is known of the valid part of a file. Its slices only grow and have one writer, so that a copy
// of a state stays true.
type state struct {
	first  int64
	end    tail   // behind the last group
	last   int64  // position of the last group, 0 if there is none
	index  []tail // a place for every indexEvery bytes; the first is behind the header
	epochs []epochStart
}

func newState(h header, crc uint32) state {
	t := headerTail(h, crc)
	return state{first: h.first, end: t, index: []tail{t}}
}

// add takes a group that was found at before.
func (s *state) add(before tail, g group) {
	if before.pos >= s.index[len(s.index)-1].pos+indexEvery {
		s.index = append(s.index, before)
	}
	if n := len(s.epochs); n == 0 || s.epochs[n-1].epoch != g.epoch {
		s.epochs = append(s.epochs, epochStart{epoch: g.epoch, offset: g.base})
	}
	s.last = before.pos
	s.end = tail{pos: before.pos + g.size, next: g.base + int64(g.offsets), epoch: g.epoch, crc: g.crc}
}

// locate returns a place at or before the group that holds offset.
func (s *state) locate(offset int64) tail {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].next > offset })
	return s.index[max(i-1, 0)]
}

// epochOf returns the epoch in which an offset was written, -1 if that is not known.
func (s *state) epochOf(offset int64) int32 {
	i := sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].offset > offset })
	if i == 0 {
		return -1
	}
	return s.epochs[i-1].epoch
}

// lost says whether a reader at pos has lost its place.
func (s *state) lost(p int32, pos rlmm.Position) (rlmm.Loss, bool) {
	loss := rlmm.Loss{Partition: p, From: pos, Resume: rlmm.Position{Offset: s.first, Epoch: -1}}
	epoch := s.epochOf(pos.Offset - 1)
	switch {
	case pos.Offset > s.end.next, pos.Epoch >= 0 && epoch >= 0 && pos.Epoch != epoch:
		loss.Kind = rlmm.Truncated
	case pos.Offset < s.first:
		loss.Kind = rlmm.HeadGone
	default:
		return rlmm.Loss{}, false
	}
	return loss, true
}
