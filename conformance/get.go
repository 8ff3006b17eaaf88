package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func getCases() []Case {
	return []Case{
		{ID: "get/whole", Rule: "All delivers every byte; Object.Offset is 0 and Length the size.", Run: getWhole},
		{ID: "get/middle", Rule: "A range inside the object delivers exactly those bytes.", Run: getMiddle},
		{ID: "get/first-byte", Rule: "Offset 0 with Length 1 is the first byte.", Run: getFirst},
		{ID: "get/last-byte", Rule: "Offset Size-1 with Length 1 is the last byte: the end of a range is exclusive here and inclusive in HTTP.", Run: getLast},
		{ID: "get/to-end", Rule: "A negative Length, whichever, reads to the end.", Run: getToEnd},
		{ID: "get/range-past-end-clipped", Rule: "A range that ends behind the object is clipped, and Object.Length tells.", Run: getClipped},
		{ID: "get/offset-at-size", Rule: "A range that starts at the end is InvalidRange, from Get itself.", Run: getAtSize},
		{ID: "get/offset-beyond-size", Rule: "A range that starts behind the end is InvalidRange, not NotFound.", Run: getBeyond},
		{ID: "get/empty-object", Rule: "An empty object reads as an empty stream by All; any range of it is InvalidRange.", Run: getEmpty},
		{ID: "get/missing", Rule: "A missing key is NotFound from Get itself, names the key, and matches fs.ErrNotExist.", Run: getMissing},
		{ID: "get/missing-range", Rule: "A range of a missing key is NotFound from Get itself.", Run: getMissingRange},
		{ID: "get/iotest", Rule: "Object.Body is a well-behaved reader on any range (testing/iotest.TestReader).", Run: getIotest},
		{
			ID: "get/zero-length", Rule: "A range of length 0 is an empty stream, without a request, wherever it starts.", Level: Store, Run: getZeroLength,
		},
		{ID: "get/negative-offset", Rule: "A negative offset is InvalidArgument, without a request.", Level: Store, Run: getNegative},
		{
			ID: "get/offset-int64", Rule: "Offsets and lengths around 2^31, 2^32 and 2^63-1 are handled as numbers of 64 bits.", Run: getInt64,
		},
		{ID: "get/random-ranges", Rule: "Any range of an object of three parts is that part of its bytes.", Level: Driver, Run: getRandom},
		{ID: "get/aligned-chunks", Rule: "Chunk after chunk of an object, read as the engine reads it, is the object.", Level: Store, Run: getChunks},
		{ID: "get/parallel", Rule: "64 ranges of one object can be read at the same time through one client.", Run: getParallel},
		{
			ID: "get/early-close", Rule: "Close in the middle returns at once, and the store stops sending.", Level: Driver, Serial: true, Run: getEarlyClose,
		},
		{ID: "get/close-unblocks-read", Rule: "Close from another goroutine ends a Read that waits for bytes.", Needs: overHTTP, Run: getCloseUnblocks},
		{ID: "get/double-close", Rule: "A second Close of a body is nil.", Run: getDoubleClose},
		{ID: "get/read-after-close", Rule: "A Read after Close is Closed, and delivers nothing.", Run: getReadAfterClose},
		{
			ID: "get/slow-consumer", Rule: "A reader that pauses for longer than the stall timeout is not cut off: a stall is a Read that waits.", Level: Driver,
			Uses: []Facility{UsesTimeouts}, Needs: overHTTP, Run: getSlowConsumer,
		},
		{ID: "get/info", Rule: "Object.Info tells of the whole object, of a range too: size, version, time, metadata.", Run: getInfo},
		{ID: "get/if-version", Rule: "IfVersion reads that version, or fails with Precondition when the object is another one.", Needs: versions, Run: getIfVersion},
		{ID: "get/no-transparent-decompression", Rule: "Compressed bytes come back as they were stored.", Run: getGzip},
		{ID: "get/exact-length", Rule: "Behind its last byte Object.Body says io.EOF, again and again.", Run: getExact},
	}
}

// want checks a range of an object against its bytes.
func (c *Client) want(key string, data []byte, r backends.Range, off, length int64) {
	c.t.Helper()
	obj := c.Open(key, r)
	defer obj.Body.Close()
	if obj.Offset != off || obj.Length != length || obj.Info.Size != int64(len(data)) {
		c.t.Errorf("get %q %+v of %d bytes: Offset %d, Length %d, Info.Size %d, want %d, %d, %d", key, r, len(data), obj.Offset, obj.Length,
			obj.Info.Size, off, length, len(data))
	}
	got, err := readWhole(obj)
	if want := data[off : off+length]; err != nil || !bytes.Equal(got, want) {
		c.t.Errorf("read %q %+v: got %v, want success; %s", key, r, err, difference(got, want))
	}
}

// refused checks that Get itself fails.
func (c *Client) refused(key string, r backends.Range, want backends.Code) {
	c.t.Helper()
	obj, err := c.Get(c.t.ctx, key, backends.GetOptions{Range: r})
	if err == nil {
		_ = obj.Body.Close() // should not be there
	}
	c.Coded(fmt.Sprintf("get %q %+v", key, r), err, want)
}

// stored is an object of n random bytes under "dir/k".
func stored(b *Bench, n int) (*Client, []byte) {
	c := b.Client()
	data := b.Bytes(n)
	c.Write("dir/k", data)
	return c, data
}

func getWhole(_ T, b *Bench) {
	c, data := stored(b, 300_000)
	c.want("dir/k", data, backends.All(), 0, 300_000)
}

func getMiddle(_ T, b *Bench) {
	c, data := stored(b, 300_000)
	c.want("dir/k", data, backends.Range{Offset: 1, Length: 1}, 1, 1)
	c.want("dir/k", data, backends.Range{Offset: 256<<10 - 7, Length: 1000}, 256<<10-7, 1000)
	c.want("dir/k", data, backends.Range{Offset: 10, Length: 290_000}, 10, 290_000)
}

func getFirst(_ T, b *Bench) {
	c, data := stored(b, 1000)
	c.want("dir/k", data, backends.Range{Length: 1}, 0, 1)
}

func getLast(_ T, b *Bench) {
	c, data := stored(b, 1000)
	c.want("dir/k", data, backends.Range{Offset: 999, Length: 1}, 999, 1)
	c.want("dir/k", data, backends.Range{Offset: 0, Length: 1000}, 0, 1000)
}

func getToEnd(_ T, b *Bench) {
	c, data := stored(b, 1000)
	for _, n := range []int64{-1, -42, math.MinInt64} {
		c.want("dir/k", data, backends.Range{Length: n}, 0, 1000)
		c.want("dir/k", data, backends.Range{Offset: 10, Length: n}, 10, 990)
		c.want("dir/k", data, backends.Range{Offset: 999, Length: n}, 999, 1)
	}
}

func getClipped(_ T, b *Bench) {
	c, data := stored(b, 1000)
	c.want("dir/k", data, backends.Range{Offset: 997, Length: 100}, 997, 3)
	c.want("dir/k", data, backends.Range{Offset: 999, Length: 2}, 999, 1)
	c.want("dir/k", data, backends.Range{Offset: 0, Length: 1001}, 0, 1000)
	c.want("dir/k", data, backends.Range{Offset: 7, Length: math.MaxInt64}, 7, 993)
}

func getAtSize(_ T, b *Bench) {
	c, _ := stored(b, 1000)
	c.refused("dir/k", backends.Range{Offset: 1000, Length: 1}, backends.InvalidRange)
	c.refused("dir/k", backends.Range{Offset: 1000, Length: -1}, backends.InvalidRange)
}

func getBeyond(_ T, b *Bench) {
	c, _ := stored(b, 1000)
	for _, off := range []int64{1001, 1 << 20, 1 << 31, 1 << 32, math.MaxInt64} {
		c.refused("dir/k", backends.Range{Offset: off, Length: 1}, backends.InvalidRange)
		c.refused("dir/k", backends.Range{Offset: off, Length: -1}, backends.InvalidRange)
	}
	c.refused("dir/k", backends.Range{Offset: math.MaxInt64, Length: math.MaxInt64}, backends.InvalidRange)
}

func getEmpty(_ T, b *Bench) {
	c, _ := stored(b, 0)
	c.want("dir/k", nil, backends.All(), 0, 0)
	c.refused("dir/k", backends.Range{Length: 5}, backends.InvalidRange)
	c.refused("dir/k", backends.Range{Offset: 1, Length: -1}, backends.InvalidRange)
	c.refused("dir/k", backends.Range{Offset: 5, Length: 5}, backends.InvalidRange)
}

func getMissing(t T, b *Bench) { missing(t, b, backends.All()) }

func getMissingRange(t T, b *Bench) { missing(t, b, backends.Range{Offset: 3, Length: 4}) }

func missing(t T, b *Bench, r backends.Range) {
	c := b.Client()
	c.Write("a/b", []byte("12345678"))
	for _, key := range []string{"no-such-key", "a/b2", "a/b/c", "a/b/c/d", "a"} {
		obj, err := c.Get(t.Context(), key, backends.GetOptions{Range: r})
		if err == nil {
			_ = obj.Body.Close() // should not be there
		}
		c.Missing("get "+key, err)
		e, ok := errors.AsType[*backends.Error](err)
		if b.Store() && (!ok || e.Key != "<prefix>/"+key || e.Op != backends.OpGet) {
			t.Errorf("get %s: got the error %v, want one that names the key", key, err)
		}
	}
	c.Holds("a/b", []byte("12345678"))
}

func getIotest(t T, b *Bench) {
	c, data := stored(b, 100_000)
	for _, r := range []backends.Range{{Length: 1}, {Length: 700}, {Offset: 50_000, Length: 1000}, {Offset: 99_500, Length: -1}, {Offset: 99_999, Length: 10}} {
		obj := c.Open("dir/k", r)
		if err := iotest.TestReader(obj.Body, data[obj.Offset:obj.Offset+obj.Length]); err != nil {
			t.Errorf("%+v: got %v, want success", r, err)
		}
		_ = obj.Body.Close() // read side
	}
}

func getExact(t T, b *Bench) {
	c, data := stored(b, 5000)
	for _, r := range []backends.Range{backends.All(), {Offset: 100, Length: 500}} {
		obj := c.Open("dir/k", r)
		got := make([]byte, obj.Length)
		if _, err := io.ReadFull(obj.Body, got); err != nil || !bytes.Equal(got, data[obj.Offset:obj.Offset+obj.Length]) {
			t.Errorf("%+v: got %v, want success", r, err)
		}
		for range 3 {
			if n, err := obj.Body.Read(make([]byte, 10)); n != 0 || err != io.EOF {
				t.Errorf("%+v: behind the last byte: %d, %v, want io.EOF", r, n, err)
			}
		}
		_ = obj.Body.Close() // read side
	}
}

func getZeroLength(t T, b *Bench) {
	c, _ := stored(b, 1000)
	mark := b.Mark()
	for _, r := range []backends.Range{{}, {Offset: 10}, {Offset: 1000}, {Offset: 5000}} {
		obj := c.Open("dir/k", r)
		if n, err := obj.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF || obj.Length != 0 || obj.Offset != r.Offset {
			t.Errorf("%+v: %d bytes, %v, Offset %d, Length %d, want an empty stream", r, n, err, obj.Offset, obj.Length)
		}
		if err := obj.Body.Close(); err != nil {
			t.Errorf("%+v: close: got %v, want success", r, err)
		}
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests for nothing: got %v, want none", log)
	}
}

func getNegative(t T, b *Bench) {
	c, _ := stored(b, 1000)
	mark := b.Mark()
	for _, off := range []int64{-1, -1000, math.MinInt64} {
		c.refused("dir/k", backends.Range{Offset: off, Length: 5}, backends.InvalidArgument)
		c.refused("dir/k", backends.Range{Offset: off, Length: -1}, backends.InvalidArgument)
		c.refused("dir/k", backends.Range{Offset: off}, backends.InvalidArgument)
	}
	if log := b.Requests(mark); len(log) > 0 {
		t.Errorf("requests for a range that cannot be: got %v, want none", log)
	}
}

func getInt64(_ T, b *Bench) {
	c, data := stored(b, 1000)
	for _, n := range []int64{1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, math.MaxInt64 - 1, math.MaxInt64} {
		c.refused("dir/k", backends.Range{Offset: n, Length: 1}, backends.InvalidRange)
		c.refused("dir/k", backends.Range{Offset: n, Length: n}, backends.InvalidRange)
		c.want("dir/k", data, backends.Range{Offset: 5, Length: n}, 5, 995)
	}
}

func getRandom(_ T, b *Bench) {
	size := 2*b.part() + 1 + b.IntN(b.part())
	c, data := stored(b, size)
	for range Pick(b, 100, 5000) {
		off := b.IntN(size)
		n := 1 + b.IntN(min(size-off, 100_000))
		c.want("dir/k", data, backends.Range{Offset: int64(off), Length: int64(n)}, int64(off), int64(n))
	}
}

func getChunks(_ T, b *Bench) {
	const chunk = 1 << 20
	c, data := stored(b, 4*chunk+12345)
	for off := 0; off < len(data); off += chunk {
		n := min(chunk, len(data)-off)
		c.want("dir/k", data, backends.Range{Offset: int64(off), Length: int64(n)}, int64(off), int64(n))
	}
}

func getParallel(t T, b *Bench) {
	c, data := stored(b, 1<<20)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			off, n := int64(i*16_000), int64(16_384)
			obj, err := c.Get(t.Context(), "dir/k", backends.GetOptions{Range: backends.Range{Offset: off, Length: n}})
			if err != nil {
				t.Errorf("get at %d: got %v, want success", off, err)
				return
			}
			defer obj.Body.Close()
			if got, err := readWhole(obj); err != nil || !bytes.Equal(got, data[off:off+n]) {
				t.Errorf("read at %d: got %v, want success; %s", off, err, difference(got, data[off:off+n]))
			}
		})
	}
	wg.Wait()
}

// getEarlyClose counts what was fetched: sockets hold some MiB, a driver that drains would take all of it.
func getEarlyClose(t T, b *Bench) {
	const size, most = 64 << 20, 24 << 20
	c := b.ClientWith(ClientOptions{LargeParts: true})
	if _, err := c.Put(t.Context(), "k", zeros(size), backends.PutOptions{Size: size}); err != nil {
		t.Fatalf("put: got %v, want success", err)
	}
	mark := b.Mark()
	obj := c.Open("k", backends.All())
	if _, err := io.ReadFull(obj.Body, make([]byte, 1)); err != nil {
		t.Errorf("read one byte: got %v, want success", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = obj.Body.Close() }()
	b.Wait(done, "Close after one byte of 64 MiB")
	var got int64
	for _, r := range b.Requests(mark) {
		got += r.Got
	}
	if got > most {
		t.Errorf("got %d bytes of the answer read for one byte, want few", got)
	}
}

// blocking lets bodies of answers deliver the first n bytes; then a Read waits until the request's context ends or the body is closed.
type blocking struct {
	next    http.RoundTripper
	after   int64
	waiting chan struct{} // gets one for each Read that waits
	on      *atomic.Bool
}

func (s *blocking) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && s.on.Load() {
		resp.Body = &blockedBody{ReadCloser: resp.Body, s: s, ctx: r.Context(), closed: make(chan struct{})}
	}
	return resp, err
}

type blockedBody struct {
	io.ReadCloser
	s      *blocking
	ctx    context.Context
	n      int64
	once   sync.Once
	closed chan struct{}
}

func (b *blockedBody) Read(p []byte) (int, error) {
	if b.n < b.s.after {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.s.after-b.n)])
		b.n += int64(n)
		return n, err
	}
	select {
	case b.s.waiting <- struct{}{}:
	default:
	}
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	}
}

func (b *blockedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// block makes the bodies of answers to GET wait after n bytes while on is set.
func (b *Bench) block(n int64) (waiting <-chan struct{}, on *atomic.Bool) {
	ch, on := make(chan struct{}, 1), new(atomic.Bool)
	b.Inject(func(next http.RoundTripper) http.RoundTripper {
		return &blocking{next: next, after: n, waiting: ch, on: on}
	})
	return ch, on
}

func getCloseUnblocks(t T, b *Bench) {
	waiting, on := b.block(1000)
	c, _ := stored(b, 300_000)
	on.Store(true)
	obj := c.Open("dir/k", backends.All())
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = io.Copy(io.Discard, obj.Body)
	}()
	b.Wait(waiting, "a Read that waits")
	closed := make(chan struct{})
	go func() { defer close(closed); _ = obj.Body.Close() }()
	b.Wait(closed, "Close while a Read waits")
	b.Wait(ended, "the end of a Read whose body was closed")
	if !errors.Is(err, backends.Closed) {
		t.Errorf("the Read ended with %s, want closed", shown(err))
	}
	on.Store(false)
}

func getDoubleClose(t T, b *Bench) {
	c, _ := stored(b, 100_000)
	for _, n := range []int{0, 10, 100_000} {
		obj := c.Open("dir/k", backends.All())
		if _, err := io.ReadFull(obj.Body, make([]byte, n)); err != nil {
			t.Errorf("read %d bytes: got %v, want success", n, err)
		}
		for i := range 3 {
			if err := obj.Body.Close(); err != nil {
				t.Errorf("close number %d after %d bytes: got %v, want success", i+1, n, err)
			}
		}
	}
}

func getReadAfterClose(_ T, b *Bench) {
	c, _ := stored(b, 100_000)
	for _, n := range []int{0, 10, 100_000} {
		obj := c.Open("dir/k", backends.All())
		if _, err := io.ReadFull(obj.Body, make([]byte, n)); err != nil {
			c.t.Errorf("read %d bytes: got %v, want success", n, err)
		}
		_ = obj.Body.Close() // its result is another case
		got, err := obj.Body.Read(make([]byte, 10))
		c.Coded(fmt.Sprintf("read after %d bytes and Close", n), err, backends.Closed)
		if got != 0 {
			c.t.Errorf("a read after Close: got %d bytes, want none", got)
		}
	}
}

func getSlowConsumer(t T, b *Bench) {
	const stall = 300 * time.Millisecond
	c := b.ClientWith(ClientOptions{Override: b.r.h.Knobs.Timeouts(stall)})
	data := b.Bytes(12 << 20)   // more than sockets hold, so that the store has to wait
	b.Client().Write("k", data) // the reader alone is in a hurry
	obj := c.Open("k", backends.All())
	defer obj.Body.Close()
	got := make([]byte, len(data))
	for i, at := range []int{0, 1, 4 << 20} {
		if _, err := io.ReadFull(obj.Body, got[at:[]int{1, 4 << 20, len(data)}[i]]); err != nil {
			t.Fatalf("read behind byte %d, after a pause: got %v, want success", at, err)
		}
		pause(t.Context(), 3*stall)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("the whole object: %s", difference(got, data))
	}
}

func getInfo(t T, b *Bench) {
	c := b.Client()
	if _, err := c.Put(t.Context(), "k", plain(b.Bytes(1000)), backends.PutOptions{Size: 1000, Meta: map[string]string{"a": "b"}}); err != nil {
		t.Fatalf("put: got %v, want success", err)
	}
	st := c.Info("k")
	for _, r := range []backends.Range{backends.All(), {Offset: 100, Length: 10}, {Offset: 999, Length: 5}} {
		obj := c.Open("k", r)
		_ = obj.Body.Close() // its Info counts
		i := obj.Info
		if i.Key != "k" || i.Size != 1000 || i.Version != st.Version || !sameTime(i.ModTime, st.ModTime) || fmt.Sprint(i.Meta) != fmt.Sprint(st.Meta) {
			t.Errorf("%+v: got Object.Info %+v, want what Stat says: %+v", r, i, st)
		}
	}
}

func getIfVersion(t T, b *Bench) {
	c := b.Client()
	read := func(v string) (string, error) {
		obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: v})
		if err != nil {
			return "", err
		}
		defer obj.Body.Close()
		data, err := readWhole(obj)
		return string(data), err
	}
	seen := map[string]string{}
	last := ""
	for i := range 10 { // as fast as it goes, the same size each time: a version made of times would repeat
		text := fmt.Sprintf("%04d", i)
		last = c.Write("k", []byte(text)).Version
		if other, twice := seen[last]; twice {
			t.Fatalf("the version: got %q for %s and for %s, want two", last, other, text)
		}
		seen[last] = text
		if got, err := read(last); err != nil || got != text {
			t.Errorf("the current version: %q, %v, want %s", got, err, text)
		}
	}
	for v, text := range seen {
		if got, err := read(v); v != last && (err == nil && got != text || err != nil && !errors.Is(err, backends.Precondition)) {
			t.Errorf("the version of %s after it was replaced: %q, %s, want precondition", text, got, shown(err))
		}
	}
	_, err := read("no-such-version")
	c.Coded("get with a version that never was", err, backends.Precondition)
}

func getGzip(t T, b *Bench) {
	c := b.Client()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(bytes.Repeat([]byte("compressible "), 1000)) // into memory
	_ = w.Close()                                               // into memory
	c.Write("text.gz", buf.Bytes())
	c.Holds("text.gz", buf.Bytes())
	if got := c.Range("text.gz", backends.Range{Offset: 10, Length: 20}); !bytes.Equal(got, buf.Bytes()[10:30]) {
		t.Errorf("a range of it: %s", difference(got, buf.Bytes()[10:30]))
	}
	if size := c.Info("text.gz").Size; size != int64(buf.Len()) {
		t.Errorf("Stat: got a size of %d, want %d", size, buf.Len())
	}
}
