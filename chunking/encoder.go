package chunking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tierkit/tierkit/membudget"
)

// errEncoderClosed is what Read returns behind Close.
var errEncoderClosed = errors.New("chunking: encoder is closed")

// Encoder is the stored form of a segment file as an io.Reader: the chunks in order, each compressed and encrypted as the
// options say. Chunks are encoded in parallel, ahead of what is read. One goroutine reads; Close may come from any.
//
// The source is read by one goroutine at a time, each Read after the one before. No goroutine waits for memory: the first
// worker and the first slot own what EncodeMemory asks for, the others exist only while the budget has bytes that nobody
// waits for, and ask again for each chunk.
type Encoder struct {
	o      EncodeOptions
	count  int64 // chunks
	cancel context.CancelFunc
	done   <-chan struct{} // of the context, as is ctxErr
	ctxErr func() error
	work   sync.WaitGroup
	free   chan *slot   // slots that hold a buffer and no chunk
	order  chan *slot   // slots in the order of their chunks; closed behind the last
	taken  atomic.Int64 // chunks that a worker has begun to read

	source struct { // what reading needs; the lock is held while src is read
		sync.Mutex
		src  io.Reader
		next int64 // number of the chunk that is read next
		left int64 // plain bytes not yet read
	}
	state struct {
		sync.Mutex
		workers int
		slots   []slot  // all that may ever exist
		idle    []*slot // those without a buffer
		err     error   // the first failure
	}
	reading sync.Mutex // held by Read, and by Close when it takes the buffers away
	cur     *slot      // being read
	off     int        // in cur.out
	stored  int64      // bytes handed to the reader
	emitted int64      // chunks handed to it whole

	sizes []int32  // per chunk; written by its worker before the slot is ready
	crcs  []uint32 // the same
}

// slot carries one chunk from a worker to the reader.
type slot struct {
	buf   []byte        // from the reservation
	out   []byte        // the stored chunk, in buf
	ready chan struct{} // one token when out is complete; capacity 1, so a worker never waits here
	extra bool          // its buffer was grown: it goes back when the slot is drained
}

var _ io.ReadCloser = (*Encoder)(nil)

// NewEncoder starts encoding src. It stops when ctx ends, on the first failure and on Close.
func NewEncoder(ctx context.Context, src io.Reader, o EncodeOptions) (*Encoder, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	n := EncodedChunks(o)
	e := &Encoder{
		o: o, count: n, sizes: make([]int32, n), crcs: make([]uint32, n),
		free: make(chan *slot, 2*o.Workers), order: make(chan *slot, 2*o.Workers),
	}
	e.source.src, e.source.left = src, o.PlainBytes
	raw, first := o.Memory.Buffer(o.rawCap()), o.Memory.Buffer(o.storedCap())
	if (raw == nil && o.rawCap() > 0) || first == nil {
		o.Memory.Return(raw)
		o.Memory.Return(first)
		return nil, errors.New("chunking: the reservation is below EncodeMemory")
	}
	e.state.workers = 1
	e.state.slots = make([]slot, 2*o.Workers)
	for i := range e.state.slots {
		s := &e.state.slots[i]
		s.ready = make(chan struct{}, 1)
		if s.extra = i > 0; s.extra {
			e.state.idle = append(e.state.idle, s)
		}
	}
	e.state.slots[0].buf = first
	e.free <- &e.state.slots[0]
	ctx, e.cancel = context.WithCancel(ctx)
	e.done, e.ctxErr = ctx.Done(), ctx.Err
	e.work.Go(func() { e.run(ctx, raw, firstWorker) })
	return e, nil
}

// Read implements io.Reader. At io.EOF the whole source was read and had the announced size.
func (e *Encoder) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	e.reading.Lock()
	defer e.reading.Unlock()
	for e.cur == nil {
		if err := e.await(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.cur.out[e.off:])
	e.off += n
	e.stored += int64(n)
	if e.off == len(e.cur.out) {
		s := e.cur
		e.cur = nil
		e.drained(s)
	}
	return n, nil
}

// await waits for the next chunk in order and makes it the current one; io.EOF behind the last.
func (e *Encoder) await() error {
	select {
	case <-e.done: // first: after Close the slots have no buffers
		return e.failure()
	default:
	}
	select {
	case <-e.done:
		return e.failure()
	case s, ok := <-e.order:
		if !ok {
			return io.EOF
		}
		select {
		case <-e.done:
			return e.failure() // Close returns the slot's buffer once its worker has left it
		case <-s.ready:
		}
		if len(s.out) == 0 { // an empty file that is not transformed
			e.drained(s)
			return nil
		}
		e.cur, e.off = s, 0
		return nil
	}
}

// drained takes back a slot that the reader has emptied. A grown one lets go of its bytes and asks for them again, so that
// whoever waits for the budget gets them first.
func (e *Encoder) drained(s *slot) {
	e.emitted++
	if s.extra {
		e.o.Memory.Return(s.buf)
		s.buf = nil
		e.o.Memory.Shrink(e.o.storedCharge())
		if e.taken.Load() < e.count {
			s.buf = e.grown(e.o.storedCap())
		}
		if s.buf == nil {
			e.state.Lock()
			e.state.idle = append(e.state.idle, s)
			e.state.Unlock()
			return
		}
	}
	e.free <- s // has room for every slot
}

// grown takes n more bytes of the budget, if they can be had at once, as a buffer.
func (e *Encoder) grown(n int) []byte {
	charge := membudget.Capacity(n)
	if !e.o.Memory.TryGrow(charge) {
		return nil
	}
	b := e.o.Memory.Buffer(n)
	if b == nil {
		e.o.Memory.Shrink(charge)
	}
	return b
}

// Result describes what was read: the stored size and the CRC32C of each chunk, and their total. It fails if not everything was
// read, or the source turned out not to end where it should. The slices are the caller's.
func (e *Encoder) Result() (sizes []int32, crcs []uint32, storedBytes int64, err error) {
	e.reading.Lock()
	defer e.reading.Unlock()
	if e.emitted < e.count {
		return nil, nil, e.stored, fmt.Errorf("chunking: %d of %d stored chunks were read to their end", e.emitted, e.count)
	}
	// Whoever knows the size need not have read up to io.EOF.
	if err := e.await(); !errors.Is(err, io.EOF) {
		return nil, nil, e.stored, err
	}
	return e.sizes, e.crcs, e.stored, nil
}

// Close stops the workers, waits for them, and gives every buffer back to the reservation. It is idempotent.
func (e *Encoder) Close() error {
	e.fail(errEncoderClosed)
	e.work.Wait()
	e.reading.Lock()
	defer e.reading.Unlock()
	e.cur = nil
	for i := range e.state.slots {
		s := &e.state.slots[i]
		if s.buf == nil {
			continue
		}
		e.o.Memory.Return(s.buf)
		if s.extra {
			e.o.Memory.Shrink(e.o.storedCharge())
		}
		s.buf, s.out = nil, nil
	}
	return nil
}

// fail records the first failure and stops everything.
func (e *Encoder) fail(err error) {
	e.state.Lock()
	if e.state.err == nil {
		e.state.err = err
	}
	e.state.Unlock()
	e.cancel()
}

// failure is why the encoder stopped.
func (e *Encoder) failure() error {
	e.state.Lock()
	defer e.state.Unlock()
	if e.state.err == nil {
		return e.ctxErr()
	}
	return e.state.err
}
