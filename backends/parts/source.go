package parts

import (
	"context"
	"io"

	"github.com/tierkit/tierkit/backends"
)

// maxIdle bounds reads in a row that bring nothing and say nothing.
const maxIdle = 100

// source reads the body and holds it against what was announced.
type source struct {
	body  io.Reader
	o     *Options
	n     int64 // bytes handed on
	ahead [1]byte
	kept  int  // bytes in ahead
	ended bool // io.EOF was seen
}

// fill reads until buf is full or the body ends.
func (s *source) fill(ctx context.Context, buf []byte) (n int, err error) {
	n = copy(buf, s.ahead[:s.kept])
	s.kept -= n
	k, err := s.read(ctx, buf[n:])
	if err != nil {
		return 0, err
	}
	n += k
	s.n += int64(n)
	switch most := s.o.Limits.MaxObjectBytes; {
	case s.o.Size >= 0 && s.n > s.o.Size:
		return 0, s.tooLong()
	case most > 0 && s.n > most:
		return 0, backends.Errorf(backends.InvalidArgument, "the body has more than the %d bytes that an object can have", most)
	case s.ended && s.o.Size > s.n:
		return 0, backends.Errorf(backends.SizeMismatch, "the body has %d bytes, announced were %d", s.n, s.o.Size)
	}
	return n, nil
}

// atEnd tells whether nothing more comes. It reads one byte ahead if it has to.
func (s *source) atEnd(ctx context.Context) (bool, error) {
	if !s.ended && s.kept == 0 {
		n, err := s.read(ctx, s.ahead[:])
		if err != nil {
			return false, err
		}
		s.kept = n
	}
	if s.kept > 0 && s.o.Size >= 0 && s.n >= s.o.Size {
		return false, s.tooLong()
	}
	return s.kept == 0 && s.ended, nil
}

func (s *source) tooLong() error {
	return backends.Errorf(backends.SizeMismatch, "the body has more than the %d bytes announced", s.o.Size)
}

// read fills p unless the body ends.
func (s *source) read(ctx context.Context, p []byte) (n int, err error) {
	for idle := 0; n < len(p) && !s.ended; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := s.body.Read(p[n:])
		n += k
		idle++
		if k > 0 {
			idle = 0
		}
		switch {
		case err == io.EOF: // io.Reader demands io.EOF itself
			s.ended = true
		case err != nil:
			return n, err
		case idle > maxIdle:
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// verify is the last look before the object comes into being.
func (s *source) verify(sum uint32) error {
	if want := s.o.CRC32C; want != nil && *want != sum {
		return backends.Errorf(backends.Corrupt, "the body has CRC-32C %08x, announced was %08x", sum, *want)
	}
	return nil
}
