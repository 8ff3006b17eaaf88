package conformance

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"strings"
	"testing/iotest"
	"time"

	"github.com/tierkit/tierkit/backends"
)

func putCases() []Case {
	return []Case{
		{ID: "put/read-after-write", Rule: "What Put stored is read back byte for byte, at once, by the same client and by another.", Run: putReadAfterWrite},
		{ID: "put/zero-byte", Rule: "An empty body, announced or not, makes an object of size 0 that reads as an empty stream.", Run: putZero},
		{ID: "put/one-byte", Rule: "One byte in is that byte out, with Size 1.", Run: putOne},
		{ID: "put/part-boundaries", Rule: "Bodies one byte around one and two parts, announced or not, come back byte for byte.", Level: Driver, Run: putPartBoundaries},
		{
			ID: "put/single-vs-multipart", Rule: "A body that fits one buffer costs exactly one request that carries data.", Level: Driver,
			Needs: overHTTP, Run: putSingle,
		},
		{ID: "put/binary-safe", Rule: "A body may hold any bytes: they are neither interpreted nor changed.", Run: putBinary},
		{ID: "put/returns-info", Rule: "Put returns the key, size and version that Stat returns after it.", Run: putReturnsInfo},
		{ID: "put/does-not-close-body", Rule: "Put never closes the body.", Run: putDoesNotClose},
		{ID: "put/does-not-touch-body-after-return", Rule: "Put never reads the body after it returned, with success or an error.", Run: putNotAfterReturn},
		{ID: "put/reads-sequentially", Rule: "Put reads the body from one goroutine at a time.", Run: putSequentially},
		{ID: "put/tiny-reads", Rule: "The body may deliver any number of bytes per Read, none too, and its last bytes together with io.EOF.", Run: putTinyReads},
		{
			ID: "put/meta-roundtrip", Rule: "Metadata of lower-case ASCII keys and printable values within MaxMetaBytes comes back from Stat and Get; the Store refuses any other; " +
				"without UserMeta it is ignored.", Run: putMeta,
		},
	}
}

// part is the size around which bodies are interesting.
func (b *Bench) part() int {
	if b.r.h.Knobs.PartBytes > 0 {
		return int(b.r.h.Knobs.PartBytes)
	}
	return 256 << 10
}

// announced are both ways to give the size of n bytes.
func announced(n int) []int64 { return []int64{int64(n), backends.SizeUnknown} }

// ways are those of announced. A quick run with parts that cost seconds takes one of them for a large body, another one for the next i and at the other level.
func (b *Bench) ways(i, n int) []int64 {
	sizes := announced(n)
	if n <= 1<<20 || b.part() <= 1<<20 || b.Full() {
		return sizes
	}
	if b.Store() {
		i++
	}
	return sizes[i%2 : i%2+1]
}

func putReadAfterWrite(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for _, n := range []int{1, 4095, 100_000, 256<<10 + 1} {
		data := b.Bytes(n)
		for _, size := range announced(n) {
			if _, err := c.Put(t.Context(), "a/b", plain(data), backends.PutOptions{Size: size}); err != nil {
				t.Fatalf("put of %d bytes, Size %d: got %v, want success", n, size, err)
			}
			other.Holds("a/b", data)
			c.Holds("a/b", data)
		}
	}
}

func putZero(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for i, size := range announced(0) {
		key := fmt.Sprintf("empty-%d", i)
		info, err := c.Put(t.Context(), key, plain(nil), backends.PutOptions{Size: size})
		if err != nil {
			t.Fatalf("put of nothing, Size %d: got %v, want success", size, err)
		}
		if st := other.Info(key); info.Size != 0 || st.Size != 0 {
			t.Errorf("put of nothing, Size %d: got a size of %d from Put and %d from Stat, want 0", size, info.Size, st.Size)
		}
		if obj := other.Open(key, backends.All()); obj.Length != 0 || obj.Offset != 0 {
			t.Errorf("Object has Offset %d and Length %d, want 0 and 0", obj.Offset, obj.Length)
		} else if n, err := obj.Body.Read(make([]byte, 10)); n != 0 || err != io.EOF {
			t.Errorf("read of nothing: %d bytes, %v, want io.EOF", n, err)
		} else {
			_ = obj.Body.Close() // nothing was read
		}
	}
}

func putOne(t T, b *Bench) {
	c := b.Client()
	if info := c.Write("one", []byte{0xa7}); info.Size != 1 {
		t.Errorf("Put: got a size of %d, want 1", info.Size)
	}
	c.Holds("one", []byte{0xa7})
	if size := c.Info("one").Size; size != 1 {
		t.Errorf("Stat: got a size of %d, want 1", size)
	}
}

func putPartBoundaries(t T, b *Bench) {
	c := b.Client()
	p := b.part()
	for i, n := range []int{p - 1, p, p + 1, 2*p - 1, 2 * p, 2*p + 1} {
		data := b.Bytes(n)
		sizes := announced(n)
		if p > 1<<20 && n%p != 0 && b.Harness().Scale == Quick { // parts of this size cost seconds: both ways only exactly at the boundary
			sizes = sizes[i/3 : i/3+1]
		}
		for _, size := range sizes {
			info, err := c.Put(t.Context(), "k", plain(data), backends.PutOptions{Size: size})
			if err != nil || info.Size != int64(n) {
				t.Fatalf("put of %d bytes (parts of %d), Size %d: got %+v, %v, want success and that size", n, p, size, info, err)
			}
			c.Holds("k", data)
		}
	}
}

// withBody are the requests that carried data.
func withBody(log []Request) []Request {
	var out []Request
	for _, r := range log {
		if r.Sent > 0 {
			out = append(out, r)
		}
	}
	return out
}

func putSingle(t T, b *Bench) {
	c := b.Client()
	c.Write("k", nil) // the request for a token, where there is one, carries data too
	for _, size := range announced(1000) {
		mark := b.Mark()
		if _, err := c.Put(t.Context(), "k", plain(b.Bytes(1000)), backends.PutOptions{Size: size}); err != nil {
			t.Fatalf("put: got %v, want success", err)
		}
		if log := withBody(b.Requests(mark)); len(log) != 1 {
			t.Errorf("1000 bytes, Size %d: got %d requests with data, want 1: %v", size, len(log), log)
		}
	}
}

func putBinary(t T, b *Bench) {
	c := b.Client()
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	for i, data := range [][]byte{
		all, []byte("\r\n"), []byte("\r\n--boundary\r\nContent-Type: text/plain\r\n\r\nx\r\n--boundary--\r\n"), {0x1f, 0x8b, 8, 0, 0, 0, 0, 0},
		[]byte(`<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`), []byte(`{"error":{"code":404}}`), []byte("0\r\n\r\n"),
		[]byte("5;chunk-signature=00\r\nhello\r\n0;chunk-signature=00\r\n\r\n"), bytes.Repeat([]byte{0}, 70_000), []byte("\xef\xbb\xbftext"),
	} {
		key := fmt.Sprintf("k%d", i)
		c.Write(key, data)
		c.Holds(key, data)
	}
}

func putReturnsInfo(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	for _, n := range []int{0, 1000, b.part() + 1} {
		info := c.Write("a/b", b.Bytes(n))
		st := other.Info("a/b")
		if info.Key != "a/b" || st.Key != "a/b" || info.Size != int64(n) || st.Size != info.Size {
			t.Errorf("got %+v from Put and %+v from Stat, want %d bytes under a/b from both", info, st, n)
		}
		if !info.ModTime.IsZero() && !sameTime(info.ModTime, st.ModTime) { // not every store tells after a put
			t.Errorf("got the time %s from Put, want that of Stat: %s", info.ModTime, st.ModTime)
		}
		if v := b.Properties().Versions; v != (info.Version != "") || info.Version != st.Version {
			t.Errorf("Properties.Versions is %t: got the version %q from Put and %q from Stat, want the same, and one exactly where it is true", v, info.Version, st.Version)
		}
	}
}

// attempts runs Put with bodies that end well and badly, guarded.
func attempts(t T, b *Bench, wrap func(io.Reader) io.Reader) {
	c := b.Client()
	data := b.Bytes(b.part() + 1000)
	size := int64(len(data))
	for name, tc := range map[string]struct {
		body io.Reader
		size int64
	}{
		"good":    {bytes.NewReader(data), size},
		"unsized": {bytes.NewReader(data), backends.SizeUnknown},
		"small":   {bytes.NewReader(data[:10]), 10},
		"broken":  {io.MultiReader(bytes.NewReader(data[:size-100]), iotest.ErrReader(errSource)), size},
		"short":   {bytes.NewReader(data[:size-1]), size},
		"long":    {bytes.NewReader(data), size - 1},
	} {
		body := &guarded{t: t, r: wrap(tc.body)}
		_, err := c.Put(t.Context(), name, body, backends.PutOptions{Size: tc.size})
		body.over()
		good := name == "good" || name == "unsized" || name == "small"
		if good != (err == nil) {
			t.Errorf("put of the %s body: got %s, want an error for those that are broken, short or long alone", name, shown(err))
		}
		if !good {
			c.Lacks(name)
		}
	}
}

// putDoesNotClose leaves large bodies to put/does-not-touch-body-after-return where they cost seconds: each body is guarded against both.
func putDoesNotClose(t T, b *Bench) {
	if b.part() > 1<<20 && !b.Full() {
		c := b.Client()
		body := &guarded{t: t, r: bytes.NewReader(b.Bytes(1000))}
		if _, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: 1000}); err != nil {
			t.Errorf("put: got %s, want success", shown(err))
		}
		body.over()
		return
	}
	attempts(t, b, func(r io.Reader) io.Reader { return r })
}

func putNotAfterReturn(t T, b *Bench) {
	attempts(t, b, func(r io.Reader) io.Reader { return r })
	c := b.Client()
	c.Write("old", []byte("old"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	body := &guarded{t: t, r: readerFunc(func(p []byte) (int, error) {
		if n++; n == 3 {
			cancel()
		}
		return copy(p, make([]byte, 64<<10)), nil
	})}
	if _, err := c.Put(ctx, "old", body, backends.PutOptions{Size: backends.SizeUnknown}); err == nil {
		t.Errorf("put of an endless body whose context ended: got no error, want one")
	}
	body.over()
	c.Holds("old", []byte("old"))
}

// putSequentially gives a second reader the time to show up.
func putSequentially(t T, b *Bench) {
	attempts(t, b, func(r io.Reader) io.Reader {
		pauses := 0
		return readerFunc(func(p []byte) (int, error) {
			if pauses++; pauses <= 5 {
				pause(t.Context(), 5*time.Millisecond)
			}
			return r.Read(p)
		})
	})
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// emptyReads delivers nothing, without an error, before each Read that delivers something.
func emptyReads(r io.Reader) io.Reader {
	n := 0
	return readerFunc(func(p []byte) (int, error) {
		if n++; n%2 == 1 {
			return 0, nil
		}
		return r.Read(p)
	})
}

func putTinyReads(t T, b *Bench) {
	c := b.Client()
	data := b.Bytes(70_001)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader, "nothing at times": emptyReads,
	} {
		for _, size := range announced(len(data)) {
			if _, err := c.Put(t.Context(), "k", wrap(plain(data)), backends.PutOptions{Size: size}); err != nil {
				t.Errorf("put of a body that delivers %s, Size %d: got %v, want success", name, size, err)
				continue
			}
			c.Holds("k", data)
		}
	}
}

func putMeta(t T, b *Bench) {
	c, other := b.Client(), b.Client()
	put := func(key string, meta map[string]string) error {
		_, err := c.Put(t.Context(), key, plain([]byte("x")), backends.PutOptions{Size: 1, Meta: meta})
		return err
	}
	big := strings.Repeat("v", backends.MaxMetaBytes-3)
	for i, meta := range []map[string]string{{"token": "abc-1"}, {"a": "1", "b_c": "~ !\"#$%&'()*+,-./:;<=>?@[\\]^`{|}", "d-e": "2"}, {"big": big}} {
		key := fmt.Sprintf("k%d", i)
		if err := put(key, meta); err != nil {
			t.Errorf("put with metadata %.60v: got %v, want success", meta, err)
			continue
		}
		st, obj := other.Info(key), other.Open(key, backends.All())
		_ = obj.Body.Close() // its Info counts
		want := meta
		if !b.Properties().UserMeta {
			want = nil
		}
		if !maps.Equal(st.Meta, want) || !maps.Equal(obj.Info.Meta, want) {
			t.Errorf("metadata %.60v: Stat has %.60v, Get %.60v, want %.60v", meta, st.Meta, obj.Info.Meta, want)
		}
	}
	if !b.Store() {
		return
	}
	for _, meta := range []map[string]string{{"Token": "x"}, {"": "x"}, {"\u00fc": "x"}, {"a": "\u00fc"}, {"a": "x\ny"}, {"big": big + "v"}} {
		c.Coded(fmt.Sprintf("put with metadata %.60v", meta), put("refused", meta), backends.InvalidArgument)
	}
	c.Lacks("refused")
}

// castagnoli is the checksum of PutOptions.CRC32C.
func castagnoli(data []byte) *uint32 {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return &sum
}
