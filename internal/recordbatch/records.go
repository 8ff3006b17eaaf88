package recordbatch

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math"
)

// Record is one record. Its slices are valid until the next step of the iteration; nil is null.
type Record struct {
	Offset      int64
	TimestampMs int64
	Key         []byte
	Value       []byte
	Headers     []RecordHeader
}

// RecordHeader is a header of a record.
type RecordHeader struct {
	Key   []byte
	Value []byte
}

// Limits bounds what a batch may grow to. The zero value means the defaults.
type Limits struct {
	MaxDecompressedBytes int64 // all records of one batch; default 2^31-1, what Kafka's own buffers can hold
	MaxHeaders           int   // per record; default 1,000,000
}

// Decoder iterates over the records of batches. It keeps its decompressors and buffers for the next batch. It is not safe for
// concurrent use, and one iteration must end before the next begins.
type Decoder struct {
	limits  Limits
	codecs  codecs
	scratch []byte
	headers []RecordHeader
}

// NewDecoder returns a Decoder. Close releases its decompressors.
func NewDecoder(l Limits) *Decoder {
	if l.MaxDecompressedBytes == 0 {
		l.MaxDecompressedBytes = math.MaxInt32
	}
	if l.MaxHeaders == 0 {
		l.MaxHeaders = 1_000_000
	}
	return &Decoder{limits: l}
}

// Close releases the decompressors.
func (d *Decoder) Close() { d.codecs.close() }

// Records iterates over the records of a batch whose CRC is good, in order of their offsets. Every record is checked: lengths,
// offset inside the batch and above the one before, number of records, nothing behind the last. An error ends the iteration; it
// is remotelog.ErrCorrupt.
func (d *Decoder) Records(batch []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, err := ParseHeader(batch)
		if err != nil {
			yield(Record{}, err)
			return
		}
		if h.RecordCount == 0 && len(batch) == HeaderSize {
			return // compaction keeps an empty batch for its producer's sequence numbers
		}
		src, err := d.codecs.open(h.Codec(), batch[HeaderSize:])
		if err != nil {
			yield(Record{}, corrupt("batch at offset %d, %s: %v", h.BaseOffset, h.Codec(), err))
			return
		}
		p := parser{d: d, h: h, src: &limited{r: src, left: d.limits.MaxDecompressedBytes}, last: -1}
		for range h.RecordCount {
			rec, err := p.next()
			if err != nil {
				yield(Record{}, corrupt("batch at offset %d, %s: %v", h.BaseOffset, h.Codec(), err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if _, err := p.src.ReadByte(); !errors.Is(err, io.EOF) {
			yield(Record{}, corrupt("batch at offset %d: more bytes than its %d records", h.BaseOffset, h.RecordCount))
		}
	}
}

// parser walks over the records of one batch.
type parser struct {
	d    *Decoder
	h    Header
	src  *limited
	last int64 // offset delta of the record before
}

var (
	errVarint  = errors.New("bad varint")
	errLength  = errors.New("record length does not fit its fields")
	errOrder   = errors.New("record offsets out of order or outside the batch")
	errHeaders = errors.New("bad number of headers")
)

func (p *parser) next() (Record, error) {
	n, err := binary.ReadVarint(p.src)
	if err != nil {
		return Record{}, noEOF(err)
	}
	if n < 0 || n > math.MaxInt32 || n > p.src.left {
		return Record{}, errLength
	}
	body, err := p.d.read(p.src, int(n))
	if err != nil {
		return Record{}, noEOF(err)
	}
	f := fields{b: body}
	f.skip(1) // attributes: none are defined
	delta, offsetDelta := f.varint(), f.varint()
	rec := Record{Key: f.bytes(), Value: f.bytes()}
	rec.Headers = p.d.readHeaders(&f)
	switch {
	case f.err != nil:
		return Record{}, f.err
	case len(f.b) != 0:
		return Record{}, errLength
	case offsetDelta <= p.last || offsetDelta > int64(p.h.LastOffsetDelta):
		return Record{}, errOrder
	}
	p.last = offsetDelta
	rec.Offset = p.h.BaseOffset + offsetDelta
	rec.TimestampMs = p.h.BaseTimestampMs + delta
	if p.h.LogAppendTime() {
		rec.TimestampMs = p.h.MaxTimestampMs
	}
	return rec, nil
}

// read reads n bytes into the scratch buffer, which grows with what arrives.
func (d *Decoder) read(r io.Reader, n int) ([]byte, error) {
	d.scratch = d.scratch[:0]
	for len(d.scratch) < n {
		have := len(d.scratch)
		next := min(n, max(2*have, growStep, cap(d.scratch)))
		if cap(d.scratch) < next {
			grown := make([]byte, have, next)
			copy(grown, d.scratch)
			d.scratch = grown
		}
		d.scratch = d.scratch[:next]
		if _, err := io.ReadFull(r, d.scratch[have:]); err != nil {
			return nil, err
		}
	}
	return d.scratch, nil
}

func (d *Decoder) readHeaders(f *fields) []RecordHeader {
	n := f.varint()
	if f.err != nil {
		return nil
	}
	// A header takes two bytes at least, so a count above what is left is a lie whatever the limit.
	if n < 0 || n > int64(d.limits.MaxHeaders) || n > int64(len(f.b)/2) {
		f.fail(errHeaders)
		return nil
	}
	d.headers = d.headers[:0]
	for range n {
		key := f.bytes()
		if key == nil {
			f.fail(errHeaders)
		}
		d.headers = append(d.headers, RecordHeader{Key: key, Value: f.bytes()})
		if f.err != nil {
			return nil
		}
	}
	if n == 0 {
		return nil
	}
	return d.headers
}

// fields reads the fields of one record; the first error stays.
type fields struct {
	b   []byte
	err error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
	f.b = nil
}

func (f *fields) skip(n int) {
	if len(f.b) < n {
		f.fail(errLength)
		return
	}
	f.b = f.b[n:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.fail(errVarint)
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes reads a length and that many bytes; a negative length is null.
func (f *fields) bytes() []byte {
	n := f.varint()
	if f.err != nil || n < 0 {
		return nil
	}
	if n > int64(len(f.b)) {
		f.fail(errLength)
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

// noEOF turns an end of the bytes into an error of the batch: it announced more records.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the records end before the announced number")
	}
	return err
}
