package chunking

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/membudget"
)

// ErrChecksum: the stored bytes of a chunk are not those that were written.
var ErrChecksum = errors.New("stored chunk does not have its checksum")

// Sink takes the chunks that Decode makes. Its methods are called from several goroutines, never two at a time.
type Sink interface {
	// Room returns the buffer that chunk i, of n plain bytes, is decoded into: at least n bytes long. nil: there is no memory
	// for it now, and decoding ends before it. It must not wait. The first call must not return nil.
	Room(i, n int) []byte
	// Done ends what Room(i) began, in the order of the chunks: the chunk is in data, or it cannot be had because of err. It
	// must not wait either.
	Done(i int, data []byte, err error)
}

// DecodeOptions say which chunks a stored stream has and how they were made.
type DecodeOptions struct {
	Index  *Index          // of the whole segment
	First  int             // number of the chunk that the stream begins with
	Last   int             // number of the last chunk wanted, inclusive
	Codecs *Codecs         // nil: chunks are not compressed
	Key    *crypto.DataKey // nil: chunks are not encrypted
	// CRC32C returns the checksum of the stored bytes of chunk i; nil: they are not known.
	CRC32C func(i int) uint32
	// Memory has at least [DecodeMemory] unused bytes: the stored form of a chunk. Chunks in parallel grow it, without waiting.
	// The decoded chunks are the Sink's affair.
	Memory  *membudget.Reservation
	Workers int // chunks decoded at the same time; 0: GOMAXPROCS
}

// DecodeMemory returns the bytes that Decode needs besides the Sink's: those of the largest stored chunk, or none when chunks
// are used as they lie in the store.
func DecodeMemory(o DecodeOptions) int64 {
	if n := o.storedCap(); n > 0 {
		return membudget.Capacity(n)
	}
	return 0
}

// storedCap is the size of the buffer that holds any stored chunk of the run; 0: chunks are read where they are delivered.
func (o *DecodeOptions) storedCap() int {
	if o.Codecs == nil && o.Key == nil {
		return 0
	}
	n := 1
	for i := o.First; i <= o.Last; i++ {
		n = max(n, int(o.Index.Chunk(i).StoredSize))
	}
	return n
}

// Decode reads the stored chunks First..Last from body, decodes them in parallel while they arrive, and hands them to sink in
// order. It returns how many chunks it delivered: all of them, or fewer when the sink had no room for the next, or those before
// the first that failed, together with the reason. It does not read behind the last chunk that it took and leaves closing body
// to the caller. All its buffers and goroutines are gone when it returns.
func Decode(ctx context.Context, body io.Reader, o DecodeOptions, sink Sink) (int, error) {
	if o.Index == nil || o.First < 0 || o.Last < o.First || o.Last >= o.Index.Chunks() {
		return 0, fmt.Errorf("chunking: decode chunks %d..%d: not in the index", o.First, o.Last)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	d := &decoder{o: o, body: body, sink: sink, cap: o.storedCap(), next: o.First, turn: o.First, workers: 1, reading: make(chan struct{}, 1)}
	d.waiting = make([]result, o.Last-o.First+1)
	var stored []byte
	if d.cap > 0 {
		if stored = o.Memory.Buffer(d.cap); stored == nil {
			return 0, errors.New("chunking: the reservation is below DecodeMemory")
		}
	}
	d.run(ctx, stored, firstWorker)
	d.work.Wait()
	return d.turn - o.First - d.failed, d.err
}

// decoder is one run of Decode.
type decoder struct {
	o    DecodeOptions
	sink Sink
	cap  int // of the buffers for stored chunks
	work sync.WaitGroup

	// reading is full while a chunk is read from body: a mutex on which tests in virtual time can wait.
	reading chan struct{}
	body    io.Reader
	next    int // number of the chunk that is read next

	// mu guards what follows, and that no two methods of sink run at the same time.
	mu      sync.Mutex
	workers int
	ended   bool     // nothing more is read
	waiting []result // chunks that are done or in work, by number - First
	turn    int      // the next chunk that the sink is told of
	failed  int      // how many it was told have failed
	err     error    // of the first chunk that failed, in order
}

// result is the fate of one chunk.
type result struct {
	data []byte
	err  error
	done bool
}

// run is one worker: it takes, decodes and delivers chunks until there are no more. An extra one holds grown memory.
func (d *decoder) run(ctx context.Context, stored []byte, w worker) {
	defer func() {
		d.o.Memory.Return(stored)
		if w == extraWorker && d.cap > 0 {
			d.o.Memory.Shrink(membudget.Capacity(d.cap))
		}
		d.mu.Lock()
		d.workers--
		d.mu.Unlock()
	}()
	for d.step(ctx, stored) {
		if w == firstWorker {
			d.spawn(ctx)
		}
	}
}

// step does one chunk and reports whether there may be another.
func (d *decoder) step(ctx context.Context, stored []byte) bool {
	i, room, err := d.take(stored)
	if i < 0 {
		return false
	}
	if err == nil {
		err = contain(func() error { return d.decode(ctx, i, stored, room) })
	}
	if err != nil {
		err = fmt.Errorf("chunk %d: %w", i, err)
	}
	d.finish(i, room, err)
	// Whoever waits for the chunk is runnable now, on this processor. Without a yield it would wait until this goroutine is
	// preempted, several chunks later, and ask for more only when all is decoded and the processors have nothing to do.
	runtime.Gosched()
	return err == nil
}

// contain makes an error of a panic in f: of somebody else's reader, or of the codec over hostile bytes.
func contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// take reads the next chunk from body: its number and its room, or -1 when there is none to be read.
func (d *decoder) take(stored []byte) (int, []byte, error) {
	d.reading <- struct{}{}
	defer func() { <-d.reading }()
	i := d.next
	c, room := d.room(i)
	if room == nil {
		return -1, nil, nil
	}
	d.next++
	into := stored
	if d.cap == 0 {
		into = room
	}
	err := contain(func() error {
		_, err := io.ReadFull(d.body, into[:d.readSize(c)])
		return err
	})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // at the first byte of a chunk, where more are announced
	}
	return i, room, err
}

// readSize is how much of a stored chunk is read. Of one that is used as it lies there, that is no more than its content: the
// last chunk of a file that had grown behind its announced size is stored longer (see Index.Check).
func (d *decoder) readSize(c Chunk) int64 {
	if d.cap == 0 {
		return min(c.Size, c.StoredSize)
	}
	return c.StoredSize
}

// room asks the sink for the memory of chunk i; nil: nothing more is to be read.
func (d *decoder) room(i int) (Chunk, []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || i > d.o.Last {
		return Chunk{}, nil
	}
	c := d.o.Index.Chunk(i)
	room := d.sink.Room(i, int(c.Size))
	if room == nil {
		d.ended = true
	}
	return c, room
}

// decode makes the plain chunk in room of its stored form, which take has read into stored, or into room itself.
func (d *decoder) decode(ctx context.Context, i int, stored, room []byte) error {
	c := d.o.Index.Chunk(i)
	piece, plain := stored, room[:0:c.Size]
	if d.cap == 0 {
		piece = room
	}
	piece = piece[:d.readSize(c)]
	if d.o.CRC32C != nil && crc32.Checksum(piece, castagnoli) != d.o.CRC32C(i) {
		return ErrChecksum
	}
	// In place, and from there into room, unless the content fits room exactly.
	if d.o.Key != nil {
		into := piece[:0]
		if d.o.Codecs == nil && int64(len(piece)) == c.Size+crypto.Overhead {
			into = plain
		}
		var err error
		if piece, err = d.o.Key.Open(into, piece); err != nil {
			return err
		}
	}
	if d.o.Codecs != nil {
		return d.decompress(ctx, plain, piece, int(c.Size))
	}
	if n := int64(len(piece)); n < c.Size || n > c.Size && i < d.o.Index.Chunks()-1 {
		return fmt.Errorf("%w: %d stored bytes for %d plain ones", ErrBadIndex, n, c.Size)
	}
	if int64(len(piece)) > c.Size {
		copy(plain[:c.Size], piece)
	}
	return nil
}

func (d *decoder) decompress(ctx context.Context, plain, frame []byte, want int) error {
	codec, err := d.o.Codecs.Acquire(ctx)
	if err != nil {
		return err
	}
	defer d.o.Codecs.Release(codec)
	_, err = codec.Decompress(plain, frame, want)
	return err
}

// finish notes the fate of chunk i and tells the sink of every chunk whose turn has come.
func (d *decoder) finish(i int, room []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[i-d.o.First] = result{data: room[:d.o.Index.Chunk(i).Size], err: err, done: true}
	d.ended = d.ended || err != nil
	for d.turn-d.o.First < len(d.waiting) && d.waiting[d.turn-d.o.First].done {
		r := &d.waiting[d.turn-d.o.First]
		if r.err != nil && d.err == nil {
			d.err = r.err
		}
		if d.err != nil { // a chunk behind one that failed is not delivered: the caller reads in order
			r.err = d.err
			d.failed++
		}
		d.sink.Done(d.turn, r.data, r.err)
		*r = result{}
		d.turn++
	}
}

// spawn starts another worker if there is work for one and memory for its stored chunk.
func (d *decoder) spawn(ctx context.Context) {
	d.reading <- struct{}{}
	left := d.o.Last - d.next + 1
	<-d.reading
	d.mu.Lock()
	more := !d.ended && d.workers < min(d.o.Workers, left)
	if more {
		d.workers++
	}
	d.mu.Unlock()
	if !more {
		return
	}
	var stored []byte
	if d.cap > 0 {
		charge := membudget.Capacity(d.cap)
		if d.o.Memory.TryGrow(charge) {
			if stored = d.o.Memory.Buffer(d.cap); stored == nil {
				d.o.Memory.Shrink(charge)
			}
		}
		if stored == nil {
			d.mu.Lock()
			d.workers--
			d.mu.Unlock()
			return
		}
	}
	d.work.Go(func() { d.run(ctx, stored, extraWorker) })
}
