package filelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The search behind a broken group computes at most this many bytes of checksums. Only bytes made up for it need more.
const searchBudget = 64 * maxGroup

// scanner walks over the groups of a file. It holds at most one group and one step of reading.
type scanner struct {
	r    io.ReaderAt
	name string
	size int64 // of the file, asked for before anything was read
	buf  []byte
	at   int64 // where buf begins in the file
	n    int   // how much of buf is filled
}

const scanStep = 256 << 10

// walk verifies groups from t on, calling each with the place where the group was found. It returns when the file ends
// or when nothing but a torn tail is left: then t.pos is below the size.
func (s *scanner) walk(ctx context.Context, t *tail, each func(tail, group)) error {
	for t.pos < s.size {
		if err := ctx.Err(); err != nil {
			return err
		}
		g, err := s.group(t.pos)
		if errors.Is(err, errShort) || errors.Is(err, errBad) {
			torn, err := s.broken(*t)
			if err != nil {
				return err
			}
			if torn {
				return nil
			}
			s.n = 0 // the group was being written while we looked: take it again
			continue
		}
		if err != nil {
			return err
		}
		before := *t
		if err := t.accept(s.name, 0, g, nil); err != nil {
			return err
		}
		each(before, g)
	}
	return nil
}

// group reads and checks the group at pos.
func (s *scanner) group(pos int64) (group, error) {
	b, err := s.peek(pos, groupHead)
	if err != nil {
		return group{}, err
	}
	if len(b) < groupHead {
		return group{}, errShort
	}
	size, err := groupSize(b)
	if err != nil {
		return group{}, err
	}
	if size > s.size-pos {
		return group{}, errShort
	}
	b, err = s.peek(pos, int(size))
	if err != nil {
		return group{}, err
	}
	return parseGroup(b)
}

// peek returns n bytes from pos on, fewer where the file ends. They are valid until the next call.
func (s *scanner) peek(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-pos))
	if pos >= s.at && pos+int64(n) <= s.at+int64(s.n) {
		i := int(pos - s.at)
		return s.buf[i : i+n], nil
	}
	want := int(min(int64(max(n, scanStep)), s.size-pos))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:cap(s.buf)]
	got, err := s.r.ReadAt(s.buf[:want], pos)
	s.at, s.n = pos, got
	if err != nil && !errors.Is(err, io.EOF) {
		s.n = 0
		return nil, err
	}
	return s.buf[:min(n, got)], nil
}

// broken decides what a group at t.pos is that is not whole: a torn tail (true), whole by now (false), or damage.
func (s *scanner) broken(t tail) (torn bool, err error) {
	if s.size-t.pos <= maxGroup {
		behind, err := s.validBehind(t)
		if err != nil || behind == 0 {
			return err == nil, err
		}
	}
	// A group is only written after the one before it is on disk. So this one is whole by now, if it ever was: a reader
	// without the lock may have read it while it was written, and the ones behind it afterwards.
	s.n = 0
	_, err = s.group(t.pos)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, errShort), errors.Is(err, errBad):
		return false, &CorruptError{File: s.name, Position: t.pos, Reason: fmt.Sprintf(
			"%v, and more is behind it than a crash can leave", err)}
	default:
		return false, err
	}
}

// validBehind looks for a whole group somewhere behind t.pos and returns its position, or 0. When so many places look like
// one that it would take too long, it returns the next of them unchecked: nothing may be cut then.
func (s *scanner) validBehind(t tail) (int64, error) {
	b := make([]byte, s.size-t.pos)
	n, err := s.r.ReadAt(b, t.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	b = b[:n]
	budget := int64(searchBudget)
	for i := 1; i+groupHead+groupFixed <= len(b); i++ {
		c := b[i:]
		size, err := groupSize(c)
		if err != nil || size > int64(len(c)) {
			continue
		}
		if int64(binary.BigEndian.Uint64(c[20:])) <= t.next || int32(binary.BigEndian.Uint32(c[16:])) < t.epoch {
			continue
		}
		if budget -= size; budget < 0 {
			return t.pos + int64(i), nil
		}
		if groupCRC(c[:size]) == binary.BigEndian.Uint32(c[4:]) {
			return t.pos + int64(i), nil
		}
	}
	return 0, nil
}
