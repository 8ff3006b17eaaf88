package chunking

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/membudget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// half is seeded data of which about half compresses away.
func half(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32()) & 0x0f
	}
	return b
}

type rig struct {
	budget *membudget.Budget
	codecs *Codecs
	key    *crypto.DataKey
}

func newRig(t testing.TB, limit int64) *rig {
	t.Helper()
	b, err := membudget.New(limit, membudget.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCodecs(CodecOptions{Pairs: 3, Level: 1})
	if err != nil {
		t.Fatal(err)
	}
	k, err := crypto.NewDataKey()
	if err != nil {
		t.Fatal(err)
	}
	return &rig{budget: b, codecs: c, key: k}
}

func (r *rig) reserve(t testing.TB, c membudget.Class, n int64) *membudget.Reservation {
	t.Helper()
	res, err := r.budget.Reserve(t.Context(), c, n)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// settled fails if anything but the reservation's own least bytes is held, or a buffer of it.
func (r *rig) settled(t testing.TB, res *membudget.Reservation, least int64) {
	t.Helper()
	if s := r.budget.Stats(); res.Size() != least || res.Unused() != least || s.InUseBytes != 0 {
		t.Errorf("reservation holds %d bytes of which %d are unused, %d in use; want %d, all unused", res.Size(), res.Unused(), s.InUseBytes, least)
	}
}

func (r *rig) options(compress, encrypt bool) EncodeOptions {
	var o EncodeOptions
	if compress {
		o.Codecs = r.codecs
	}
	if encrypt {
		o.Key = r.key
	}
	return o
}

// collect is a Sink that keeps the chunks in memory of the test, up to a number of them.
type collect struct {
	most   int
	chunks [][]byte
	errs   []error
	first  int
}

func (c *collect) Room(_, n int) []byte {
	if c.most == 0 {
		return nil
	}
	c.most--
	return make([]byte, n)
}

func (c *collect) Done(i int, data []byte, err error) {
	if i != c.first+len(c.chunks)+len(c.errs) {
		panic("out of order")
	}
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.chunks = append(c.chunks, data)
}

func index(t interface{ Fatal(...any) }, o EncodeOptions, sizes []int32) *Index {
	var x *Index
	var err error
	if o.Codecs != nil {
		x, err = NewVariable(int64(o.ChunkBytes), o.PlainBytes, sizes)
	} else {
		x, err = Layout(int64(o.ChunkBytes), o.PlainBytes, o.Key != nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestPipelines_AnyRangeOfChunksComesBack(t *testing.T) {
	r := newRig(t, 1<<30)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 40_000).Draw(t, "size")
		o := r.options(rapid.Bool().Draw(t, "compress") && size > 0, rapid.Bool().Draw(t, "encrypt"))
		o.PlainBytes, o.ChunkBytes = int64(size), rapid.IntRange(max(1, size/200), 50_000).Draw(t, "chunk")
		o.Workers = rapid.IntRange(1, 5).Draw(t, "workers")
		plain := half(uint64(size), size)
		least := EncodeMemory(o)
		o.Memory, _ = r.budget.Reserve(context.Background(), membudget.Copy, least)
		defer o.Memory.Release()
		var src io.Reader = bytes.NewReader(plain)
		if rapid.Bool().Draw(t, "halting source") {
			src = iotest.HalfReader(src)
		}
		e, err := NewEncoder(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := io.ReadAll(e)
		if err != nil {
			t.Fatal(err)
		}
		sizes, crcs, n, err := e.Result()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil || n != int64(len(stored)) || o.Memory.Size() != least || o.Memory.Unused() != least {
			t.Fatalf("%v; %d stored bytes, result says %d; reservation %d/%d, want %d", err, len(stored), n, o.Memory.Size(), o.Memory.Unused(), least)
		}
		x := index(t, o, sizes)
		if x.StoredSize() != n || x.Check(Transform{Compressed: o.Codecs != nil, Encrypted: o.Key != nil}) != nil {
			t.Fatalf("index says %d bytes, %d were stored", x.StoredSize(), n)
		}
		first := rapid.IntRange(0, x.Chunks()-1).Draw(t, "first")
		last := rapid.IntRange(first, x.Chunks()-1).Draw(t, "last")
		d := DecodeOptions{Index: x, First: first, Last: last, Codecs: o.Codecs, Key: o.Key, Workers: o.Workers}
		if rapid.Bool().Draw(t, "checksums") {
			d.CRC32C = func(i int) uint32 { return crcs[i] }
		}
		d.Memory, _ = r.budget.Reserve(context.Background(), membudget.Fetch, DecodeMemory(d))
		defer d.Memory.Release()
		most := rapid.IntRange(1, last-first+1).Draw(t, "room for")
		sink := &collect{most: most, first: first}
		got, err := Decode(context.Background(), bytes.NewReader(stored[x.Chunk(first).StoredStart:]), d, sink)
		if err != nil || got != most || d.Memory.Unused() != d.Memory.Size() || d.Memory.Size() != DecodeMemory(d) {
			t.Fatalf("decoded %d chunks of %d: %v; reservation %d/%d", got, most, err, d.Memory.Size(), d.Memory.Unused())
		}
		want := plain[x.Chunk(first).Start:]
		for i, c := range sink.chunks {
			if !bytes.Equal(c, want[:x.Chunk(first+i).Size]) {
				t.Fatalf("chunk %d differs", first+i)
			}
			want = want[len(c):]
			if at := x.Chunk(first + i); crc32.Checksum(stored[at.StoredStart:at.StoredStart+at.StoredSize], castagnoli) != crcs[first+i] {
				t.Fatalf("checksum of chunk %d is not that of its stored bytes", first+i)
			}
		}
	})
}

func TestEncoder_WorksInItsLeastMemoryBesideAFullBudget(t *testing.T) {
	for _, compress := range []bool{false, true} {
		r := newRig(t, 64<<20)
		o := r.options(compress, true)
		o.PlainBytes, o.ChunkBytes, o.Workers = 1<<20, 64<<10, 4
		least := EncodeMemory(o)
		o.Memory = r.reserve(t, membudget.Copy, least)
		hog := r.budget.TryReserve(membudget.Copy, r.budget.Ceiling(membudget.Copy)-least)
		if hog == nil {
			t.Fatal("cannot fill the budget")
		}
		plain := half(1, 1<<20)
		e, err := NewEncoder(t.Context(), bytes.NewReader(plain), o)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, e); err != nil || n == 0 {
			t.Fatalf("compress %t: %d bytes, %v", compress, n, err)
		}
		_ = e.Close()
		hog.Release()
		r.settled(t, o.Memory, least)
		o.Memory.Release()
	}
}

func TestEncoder_GivesGrownMemoryToWhoeverWaits(t *testing.T) {
	r := newRig(t, 8<<20)
	o := r.options(true, true)
	o.PlainBytes, o.ChunkBytes, o.Workers = 1<<36, 1<<20, 4 // ends only if the waiter gets nothing
	o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
	defer o.Memory.Release()
	e, err := NewEncoder(t.Context(), zeros{}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	buf := make([]byte, 32<<10)
	for r.budget.Stats().CopyBytes <= EncodeMemory(o) { // until it has grown
		if _, err := e.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	waiting := make(chan error, 1)
	go func() { // needs what only the encoder can give back
		res, err := r.budget.Reserve(t.Context(), membudget.Copy, r.budget.Ceiling(membudget.Copy)-EncodeMemory(o))
		if err == nil {
			res.Release()
		}
		waiting <- err
	}()
	for {
		select {
		case err := <-waiting:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		if _, err := e.Read(buf); err != nil {
			t.Fatalf("the waiter got nothing until the encoder ended: %v", err)
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// after runs f instead of Read once n bytes have been delivered.
type after struct {
	r io.Reader
	n int
	f func() (int, error)
}

func (a *after) Read(p []byte) (int, error) {
	if a.n == 0 {
		return a.f()
	}
	n, err := a.r.Read(p[:min(len(p), a.n)])
	a.n -= n
	return n, err
}

func TestEncoder_FailuresLeaveNothingBehind(t *testing.T) {
	boom := errors.New("boom")
	const size, chunk = 300_000, 10_000
	for name, c := range map[string]struct {
		src  func(cancel func()) io.Reader
		want error
		text string
	}{
		"source too short":        {func(func()) io.Reader { return bytes.NewReader(make([]byte, size-1)) }, ErrSourceSize, "ended after 299999 of 300000"},
		"source empty":            {func(func()) io.Reader { return bytes.NewReader(nil) }, ErrSourceSize, "ended after 0"},
		"source too long":         {func(func()) io.Reader { return bytes.NewReader(make([]byte, size+1)) }, ErrSourceSize, "goes on"},
		"source fails":            {func(func()) io.Reader { return &after{zeros{}, 123_456, func() (int, error) { return 0, boom }} }, boom, "read source"},
		"source fails at its end": {func(func()) io.Reader { return &after{zeros{}, size, func() (int, error) { return 0, boom }} }, boom, "read source"},
		"source panics":           {func(func()) io.Reader { return &after{zeros{}, 50_000, func() (int, error) { panic("ouch") }} }, nil, "ouch"},
		"context ends": {func(cancel func()) io.Reader {
			return &after{zeros{}, 150_000, func() (int, error) { cancel(); return 1, nil }}
		}, context.Canceled, ""},
	} {
		for _, workers := range []int{1, 4} {
			r := newRig(t, 64<<20)
			o := r.options(true, true)
			o.PlainBytes, o.ChunkBytes, o.Workers = size, chunk, workers
			o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
			ctx, cancel := context.WithCancel(t.Context())
			e, err := NewEncoder(ctx, c.src(cancel), o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, e)
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s, %d workers: %v, want %v with %q", name, workers, err, c.want, c.text)
			}
			if _, again := e.Read(make([]byte, 1)); again == nil || errors.Is(again, io.EOF) {
				t.Errorf("%s: Read after the failure: %v, want the failure again", name, again)
			}
			if _, _, _, err := e.Result(); err == nil {
				t.Errorf("%s: Result after the failure is no error", name)
			}
			for range 2 {
				if err := e.Close(); err != nil {
					t.Errorf("%s: Close: %v", name, err)
				}
			}
			r.settled(t, o.Memory, EncodeMemory(o))
			o.Memory.Release()
			cancel()
		}
	}
}

func TestEncoder_CloseStopsItAtAnyByte(t *testing.T) {
	r := newRig(t, 64<<20)
	o := r.options(true, true)
	o.PlainBytes, o.ChunkBytes, o.Workers = 200_000, 10_000, 3
	plain := half(3, 200_000)
	for n := int64(0); n < 80_000; n += 7_919 {
		o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
		e, err := NewEncoder(t.Context(), bytes.NewReader(plain), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, e, n); err != nil {
			t.Fatal(err)
		}
		_ = e.Close()
		if _, err := e.Read(make([]byte, 1)); !errors.Is(err, errEncoderClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		r.settled(t, o.Memory, EncodeMemory(o))
		o.Memory.Release()
	}
}

func TestDecode_DamageEndsItAtTheChunk(t *testing.T) {
	r := newRig(t, 64<<20)
	boom := errors.New("boom")
	o := r.options(true, true)
	o.PlainBytes, o.ChunkBytes = 200_000, 10_000
	o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
	defer o.Memory.Release()
	e, err := NewEncoder(t.Context(), bytes.NewReader(half(5, 200_000)), o)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(e)
	if err != nil {
		t.Fatal(err)
	}
	sizes, crcs, _, _ := e.Result()
	_ = e.Close()
	x := index(t, o, sizes)
	const bad = 7
	flipped := bytes.Clone(stored)
	flipped[x.Chunk(bad).StoredStart+20] ^= 1
	swapped := bytes.Clone(stored)
	a, b := x.Chunk(bad), x.Chunk(bad+1)
	copy(swapped[a.StoredStart:], stored[b.StoredStart:b.StoredStart+b.StoredSize])
	cut := stored[:a.StoredStart+3]
	for name, c := range map[string]struct {
		body func() io.Reader
		crcs []uint32
		want error
	}{
		"bit flip, checksums known":  {func() io.Reader { return bytes.NewReader(flipped) }, crcs, ErrChecksum},
		"bit flip, no checksums":     {func() io.Reader { return bytes.NewReader(flipped) }, nil, crypto.ErrAuthentication},
		"other chunk, checksums":     {func() io.Reader { return bytes.NewReader(swapped) }, crcs, ErrChecksum},
		"stream ends inside a chunk": {func() io.Reader { return bytes.NewReader(cut) }, crcs, io.ErrUnexpectedEOF},
		"stream ends between chunks": {func() io.Reader { return bytes.NewReader(stored[:a.StoredStart]) }, crcs, io.ErrUnexpectedEOF},
		"stream fails": {func() io.Reader {
			return &after{bytes.NewReader(stored), len(cut), func() (int, error) { return 0, boom }}
		}, crcs, boom},
		"stream panics": {func() io.Reader {
			return &after{bytes.NewReader(stored), len(cut), func() (int, error) { panic(boom) }}
		}, crcs, nil},
	} {
		for _, workers := range []int{1, 4} {
			d := DecodeOptions{Index: x, Last: x.Chunks() - 1, Codecs: r.codecs, Key: r.key, Workers: workers}
			if c.crcs != nil {
				d.CRC32C = func(i int) uint32 { return c.crcs[i] }
			}
			least := DecodeMemory(d)
			d.Memory = r.reserve(t, membudget.Fetch, least)
			sink := &collect{most: 1 << 30}
			n, err := Decode(t.Context(), c.body(), d, sink)
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) || n != bad || len(sink.chunks) != bad || len(sink.errs) == 0 {
				t.Errorf("%s, %d workers: %d chunks (%d to the sink, %d failed), %v; want %d and %v",
					name, workers, n, len(sink.chunks), len(sink.errs), err, bad, c.want)
			}
			r.settled(t, d.Memory, least)
			d.Memory.Release()
		}
	}
}

func TestDecode_CancelledWhileItWaitsForACodec(t *testing.T) {
	r := newRig(t, 64<<20)
	o := r.options(true, false)
	o.PlainBytes, o.ChunkBytes = 10, 10
	o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
	defer o.Memory.Release()
	e, err := NewEncoder(t.Context(), strings.NewReader("0123456789"), o)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := io.ReadAll(e)
	sizes, _, _, _ := e.Result()
	_ = e.Close()
	for range r.codecs.Pairs() {
		c, err := r.codecs.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.codecs.Release(c)
	}
	d := DecodeOptions{Index: index(t, o, sizes), Codecs: r.codecs}
	d.Memory = r.reserve(t, membudget.Fetch, DecodeMemory(d))
	defer d.Memory.Release()
	ctx, cancel := context.WithCancel(t.Context())
	body := &after{bytes.NewReader(stored), len(stored), func() (int, error) { return 0, io.EOF }}
	go cancel()
	if n, err := Decode(ctx, body, d, &collect{most: 1}); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("decoded %d chunks, %v; want 0 and context.Canceled", n, err)
	}
}

// prepared is a Sink whose buffers exist already.
type prepared [][]byte

func (s prepared) Room(i, n int) []byte    { return s[i][:n] }
func (s prepared) Done(int, []byte, error) {}

func TestPipelines_AllocateNothingPerChunk(t *testing.T) {
	r := newRig(t, 64<<20)
	const chunk = 64 << 10
	run := func(chunks int) (encode, decode float64) {
		o := r.options(true, true)
		o.PlainBytes, o.ChunkBytes, o.Workers = int64(chunks)*chunk, chunk, 2
		plain := half(9, chunks*chunk)
		var stored bytes.Buffer
		stored.Grow(2 * len(plain))
		var sizes []int32
		encode = testing.AllocsPerRun(5, func() {
			o.Memory = r.reserve(t, membudget.Copy, EncodeMemory(o))
			e, err := NewEncoder(t.Context(), bytes.NewReader(plain), o)
			if err != nil {
				t.Fatal(err)
			}
			stored.Reset()
			if _, err := stored.ReadFrom(e); err != nil {
				t.Fatal(err)
			}
			sizes, _, _, _ = e.Result()
			_ = e.Close()
			o.Memory.Release()
		})
		d := DecodeOptions{Index: index(t, o, sizes), Last: chunks - 1, Codecs: r.codecs, Key: r.key, Workers: 2}
		sink := make(prepared, chunks)
		for i := range sink {
			sink[i] = make([]byte, chunk)
		}
		decode = testing.AllocsPerRun(5, func() {
			d.Memory = r.reserve(t, membudget.Fetch, DecodeMemory(d))
			if n, err := Decode(t.Context(), bytes.NewReader(stored.Bytes()), d, sink); n != chunks || err != nil {
				t.Fatalf("%d chunks, %v", n, err)
			}
			d.Memory.Release()
		})
		return encode, decode
	}
	fewE, fewD := run(20)
	manyE, manyD := run(220)
	// The work of a run is a handful of objects; 200 more chunks may add less than one for every ten of them: goroutines that
	// started again because the test process was descheduled.
	if manyE-fewE > 20 || manyD-fewD > 20 {
		t.Errorf("200 more chunks cost %v more allocations to encode and %v to decode, want none", manyE-fewE, manyD-fewD)
	}
	t.Logf("allocations: encode %v and %v, decode %v and %v (20 and 220 chunks, GOMAXPROCS %d)", fewE, manyE, fewD, manyD, runtime.GOMAXPROCS(0))
}
