package recordbatch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	readBuffer = 64 << 10
	growStep   = 1 << 20 // a length field is believed for this much before the bytes have arrived
)

// Batch is one batch of a stream. Bytes is valid until the next call of Next.
type Batch struct {
	Header
	Position int64 // of its first byte in the segment
	Bytes    []byte
}

// ReaderOptions configures a Reader.
type ReaderOptions struct {
	Position      int64 // of the first byte of the stream in the segment: for Batch.Position and error texts
	MaxBatchBytes int64 // 0: what the length field can say
}

// Reader splits a stream into batches and checks each one's length and CRC. It is not safe for concurrent use.
type Reader struct {
	r   *bufio.Reader
	pos int64
	max int64
	buf []byte
}

// NewReader returns a Reader over r, which stands at the first byte of a batch.
func NewReader(r io.Reader, o ReaderOptions) *Reader {
	if o.MaxBatchBytes == 0 {
		o.MaxBatchBytes = math.MaxInt32 + LogOverhead
	}
	return &Reader{r: bufio.NewReaderSize(r, readBuffer), pos: o.Position, max: o.MaxBatchBytes}
}

// Position is where the next batch begins.
func (r *Reader) Position() int64 { return r.pos }

// Next returns the next batch, io.EOF at the end of the stream, ErrTruncated if it ends inside a batch. Errors of the stream are
// returned as they are. After an error the Reader stands where it was; it cannot go on.
func (r *Reader) Next() (Batch, error) {
	head, err := r.peek(HeaderSize)
	if err != nil {
		return Batch{}, err
	}
	h, err := ParseHeader(head)
	if err != nil {
		return Batch{}, r.at(err)
	}
	if h.Size() > r.max {
		return Batch{}, r.at(corrupt("length %d is above the limit of %d", h.Size(), r.max))
	}
	if err := r.fill(h.Size()); err != nil {
		return Batch{}, err
	}
	if h, err = Check(r.buf); err != nil {
		return Batch{}, r.at(err)
	}
	b := Batch{Header: h, Position: r.pos, Bytes: r.buf}
	r.pos += h.Size()
	return b, nil
}

// PeekBaseOffset returns the base offset of the batch that Next will return, io.EOF at the end of the stream.
func (r *Reader) PeekBaseOffset() (int64, error) {
	b, err := r.peek(LogOverhead)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// peek returns the next n bytes; io.EOF only if there is none at all.
func (r *Reader) peek(n int) ([]byte, error) {
	b, err := r.r.Peek(n)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, io.EOF) && len(b) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, r.at(ErrTruncated)
	default:
		return nil, err
	}
}

// fill reads n bytes into buf, which grows with what arrives.
func (r *Reader) fill(n int64) error {
	r.buf = r.buf[:0]
	for int64(len(r.buf)) < n {
		have := int64(len(r.buf))
		next := min(n, max(2*have, growStep, int64(cap(r.buf))))
		if int64(cap(r.buf)) < next {
			grown := make([]byte, have, next)
			copy(grown, r.buf)
			r.buf = grown
		}
		r.buf = r.buf[:next]
		switch _, err := io.ReadFull(r.r, r.buf[have:]); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return r.at(ErrTruncated)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *Reader) at(err error) error { return fmt.Errorf("position %d: %w", r.pos, err) }
