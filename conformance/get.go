package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing/iotest"

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
	got, err := io.ReadAll(obj.Body)
	if want := data[off : off+length]; err != nil || !bytes.Equal(got, want) {
		c.t.Errorf("read %q %+v: %v, %s", key, r, err, difference(got, want))
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
			t.Errorf("get %s: the error %v does not name the key", key, err)
		}
	}
	c.Holds("a/b", []byte("12345678"))
}

func getIotest(t T, b *Bench) {
	c, data := stored(b, 100_000)
	for _, r := range []backends.Range{{Length: 1}, {Length: 700}, {Offset: 50_000, Length: 1000}, {Offset: 99_500, Length: -1}, {Offset: 99_999, Length: 10}} {
		obj := c.Open("dir/k", r)
		if err := iotest.TestReader(obj.Body, data[obj.Offset:obj.Offset+obj.Length]); err != nil {
			t.Errorf("%+v: %v", r, err)
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
			t.Errorf("%+v: %v", r, err)
		}
		for range 3 {
			if n, err := obj.Body.Read(make([]byte, 10)); n != 0 || err != io.EOF {
				t.Errorf("%+v: behind the last byte: %d, %v, want io.EOF", r, n, err)
			}
		}
		_ = obj.Body.Close() // read side
	}
}
