package chunking

import (
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/internal/b64"
)

// The examples of the format description, made by the plug-in's own classes.
func TestSizes_WorkedExamples(t *testing.T) {
	for _, c := range []struct {
		sizes []int32
		bin   string
	}{
		{[]int32{100}, "00000001 00000064"},
		{[]int32{5, 5}, "00000002 00000005 01 00 00000005"},
		{[]int32{1000, 1016, 77}, "00000003 000003e8 01 00 10 0000004d"},
		{[]int32{1000, 1016, 1300, 77}, "00000004 000003e8 02 0000 0010 012c 0000004d"},
		{[]int32{0, 65536, 3}, "00000003 00000000 03 000000 010000 00000003"},
		{[]int32{0, math.MaxInt32, 7}, "00000003 00000000 04 00000000 7fffffff 00000007"},
		{[]int32{255, 0, 1}, "00000003 00000000 01 ff 00 00000001"},
		{[]int32{256, 0, 1}, "00000003 00000000 02 0100 0000 00000001"},
		{[]int32{9, 8, math.MaxInt32}, "00000003 00000008 01 01 00 7fffffff"},
	} {
		s, err := packSizes(c.sizes)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := hex.EncodeToString(s.bin), strings.ReplaceAll(c.bin, " ", ""); got != want {
			t.Errorf("%v packed to %s, want %s", c.sizes, got, want)
		}
	}
	x, err := NewVariable(1000, 2500, []int32{1000, 1016, 77})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.SizesText(); err != nil || got != "KLUv/SAPeQAAAAAAAwAAA+gBABAAAABN" {
		t.Errorf("text is %q, %v", got, err)
	}
}

func TestIndex_VariableAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunkSize := rapid.Int64Range(1, 5000).Draw(t, "chunk size")
		fileSize := rapid.Int64Range(0, 1_000_000).Filter(func(n int64) bool { return n <= 700*chunkSize }).Draw(t, "file size")
		n := max(1, (fileSize+chunkSize-1)/chunkSize)
		most := rapid.SampledFrom([]int32{200, 60_000, 10_000_000, math.MaxInt32}).Draw(t, "largest")
		sizes := rapid.SliceOfN(rapid.Int32Range(0, most), int(n), int(n)).Draw(t, "sizes")
		x, err := NewVariable(chunkSize, fileSize, sizes)
		if err != nil {
			t.Fatal(err)
		}
		text, err := x.SizesText()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseVariable(chunkSize, fileSize, text)
		if err != nil {
			t.Fatal(err)
		}
		checkModel(t, x, sizes)
		checkModel(t, back, sizes)
	})
}

// checkModel compares an index with the sizes that it was made of.
func checkModel(t *rapid.T, x *Index, sizes []int32) {
	var stored, start int64
	for i, size := range sizes {
		want := Chunk{Number: i, Start: start, Size: min(x.ChunkSize(), x.FileSize()-start), StoredStart: stored, StoredSize: int64(size)}
		if got := x.Chunk(i); got != want {
			t.Fatalf("chunk %d is %+v, want %+v", i, got, want)
		}
		for _, pos := range []int64{want.Start, want.Start + want.Size - 1} {
			if got, ok := x.Find(pos); want.Size > 0 && (got != i || !ok) {
				t.Fatalf("Find(%d) = %d, %t, want %d", pos, got, ok, i)
			}
		}
		stored, start = stored+int64(size), start+want.Size
	}
	if x.Chunks() != len(sizes) || x.StoredSize() != stored || x.MaxStored() != int64(slices.Max(sizes)) {
		t.Fatalf("%d chunks, %d stored, largest %d; want %d, %d, %d", x.Chunks(), x.StoredSize(), x.MaxStored(), len(sizes), stored, slices.Max(sizes))
	}
	for _, pos := range []int64{-1, x.FileSize(), math.MaxInt64, math.MinInt64} {
		if i, ok := x.Find(pos); ok {
			t.Fatalf("Find(%d) = %d outside a file of %d bytes", pos, i, x.FileSize())
		}
	}
}

func TestIndex_Fixed(t *testing.T) {
	for _, c := range []struct {
		name                string
		chunk, file         int64
		encrypted           bool
		chunks              int
		stored, last, total int64
	}{
		{"several", 1000, 2500, false, 3, 1000, 500, 2500},
		{"several, encrypted", 1000, 2500, true, 3, 1028, 528, 2584},
		{"exact multiple", 1000, 2000, true, 2, 1028, 1028, 2056},
		{"one byte, encrypted", 1000, 1, true, 1, 1028, 29, 29},
		{"empty", 1000, 0, false, 1, 1000, 0, 0},
		{"empty, encrypted", 1000, 0, true, 1, 1028, 28, 28},
		{"near 2 GiB, encrypted", 4 << 20, math.MaxInt32, true, 512, 4<<20 + 28, 4<<20 + 27, math.MaxInt32 + 512*28},
		{"chunks of 1", 1, math.MaxInt32, true, math.MaxInt32, 29, 29, 29 * math.MaxInt32},
	} {
		x, err := Layout(c.chunk, c.file, c.encrypted)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		stored, last := x.FixedSizes()
		if x.Chunks() != c.chunks || stored != c.stored || last != c.last || x.StoredSize() != c.total || x.Kind() != Fixed {
			t.Errorf("%s: %d chunks, %d/%d, %d in all, want %d, %d/%d, %d", c.name, x.Chunks(), stored, last, x.StoredSize(), c.chunks, c.stored, c.last, c.total)
		}
		if err := x.Check(Transform{Encrypted: c.encrypted}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := x.Check(Transform{Encrypted: !c.encrypted}); !errors.Is(err, ErrBadIndex) {
			t.Errorf("%s with encryption flipped: %v, want ErrBadIndex", c.name, err)
		}
		if i := c.chunks - 1; c.file > 0 {
			if got, ok := x.Find(c.file - 1); !ok || got != i {
				t.Errorf("%s: Find(last) = %d, %t, want %d", c.name, got, ok, i)
			}
			if got, want := x.Chunk(i).StoredStart, int64(i)*c.stored; got != want {
				t.Errorf("%s: last chunk is at %d, want %d", c.name, got, want)
			}
		}
	}
}

func TestIndex_RefusesWhatDoesNotAddUp(t *testing.T) {
	text := func(bin string) string {
		b, err := hex.DecodeString(strings.ReplaceAll(bin, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		frame, err := packFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		return b64.Encode(frame)
	}
	claim := b64.Encode([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0, 1, 0, 0}) // 10 GB of content
	for name, f := range map[string]func() (*Index, error){
		"chunk size 0":          func() (*Index, error) { return Layout(0, 10, false) },
		"chunk size negative":   func() (*Index, error) { return Layout(-1, 10, false) },
		"chunk size above int":  func() (*Index, error) { return Layout(1<<31, 10, false) },
		"file size negative":    func() (*Index, error) { return Layout(10, -1, false) },
		"file size above int":   func() (*Index, error) { return Layout(10, 1<<31, false) },
		"stored size above int": func() (*Index, error) { return Layout(math.MaxInt32, 10, true) },
		"stored size negative":  func() (*Index, error) { return NewFixed(10, 10, 10, -1) },
		"no sizes":              func() (*Index, error) { return NewVariable(10, 10, nil) },
		"negative size":         func() (*Index, error) { return NewVariable(10, 20, []int32{-1, 2}) },
		"one size too few":      func() (*Index, error) { return NewVariable(10, 30, []int32{1, 2}) },
		"one size too many":     func() (*Index, error) { return NewVariable(10, 10, []int32{1, 2}) },
		"count 0":               func() (*Index, error) { return ParseVariable(10, 10, text("00000000 00000000")) },
		"count negative":        func() (*Index, error) { return ParseVariable(10, 10, text("ffffffff 00000000 01 00 00000000")) },
		"count claims too much": func() (*Index, error) {
			return ParseVariable(1, math.MaxInt32, text("7fffffff 00000000 01 00 00000000"))
		},
		"one chunk, more bytes": func() (*Index, error) { return ParseVariable(10, 10, text("00000001 00000000 00")) },
		"one chunk, negative":   func() (*Index, error) { return ParseVariable(10, 10, text("00000001 80000000")) },
		"width 0":               func() (*Index, error) { return ParseVariable(10, 20, text("00000002 00000000 00 00000000")) },
		"width 5":               func() (*Index, error) { return ParseVariable(10, 20, text("00000002 00000000 05 0000000000 00000000")) },
		"two chunks, cut":       func() (*Index, error) { return ParseVariable(10, 20, text("00000002 00000000")) },
		"a byte too few":        func() (*Index, error) { return ParseVariable(10, 30, text("00000003 00000000 01 00 0000004d")) },
		"a byte too many":       func() (*Index, error) { return ParseVariable(10, 20, text("00000002 00000000 01 00 0000004d 00")) },
		"base plus delta above": func() (*Index, error) { return ParseVariable(10, 20, text("00000002 7fffffff 01 01 0000004d")) },
		"base negative":         func() (*Index, error) { return ParseVariable(10, 20, text("00000002 ffffffff 01 00 0000004d")) },
		"last negative":         func() (*Index, error) { return ParseVariable(10, 20, text("00000002 00000001 01 00 8000004d")) },
		"not base64":            func() (*Index, error) { return ParseVariable(10, 20, "*") },
		"no frame":              func() (*Index, error) { return ParseVariable(10, 20, "AAAA") },
		"empty":                 func() (*Index, error) { return ParseVariable(10, 20, "") },
		"a frame claims 10 GB":  func() (*Index, error) { return ParseVariable(10, 20, claim) },
		"two frames": func() (*Index, error) {
			a := text("00000001 00000064")
			return ParseVariable(10, 10, a[:len(a)-len(a)%4]+a)
		},
		"sizes above 10 MiB": func() (*Index, error) { return NewVariable(1, 5_300_000, bigSizes(5_300_000)) },
		"skippable frame": func() (*Index, error) {
			return ParseVariable(10, 20, b64.Encode([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}))
		},
		"url-safe base64":        func() (*Index, error) { return ParseVariable(1000, 2500, "KLUv_SAPeQAAAAAAAwAAA-gBABAAAABN") },
		"line break in base64":   func() (*Index, error) { return ParseVariable(1000, 2500, "KLUv/SAPeQAAAAAA\nAwAAA+gBABAAAABN") },
		"content after the last": func() (*Index, error) { return ParseVariable(1000, 2500, "KLUv/SAPeQAAAAAAAwAAA+gBABAAAABNAA==") },
	} {
		if x, err := f(); !errors.Is(err, ErrBadIndex) {
			t.Errorf("%s: %+v, %v, want ErrBadIndex", name, x, err)
		}
	}
}

// bigSizes need two bytes each.
func bigSizes(n int) []int32 {
	s := make([]int32, n)
	s[0] = 1000
	return s
}

func TestIndex_LargestSizesThatTheFormatHolds(t *testing.T) {
	n := (maxSizesBytes-13)/2 + 1
	x, err := NewVariable(1, int64(n), bigSizes(n))
	if err != nil {
		t.Fatal(err)
	}
	text, err := x.SizesText()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseVariable(1, int64(n), text)
	if err != nil || back.Chunk(1) != x.Chunk(1) || back.StoredSize() != x.StoredSize() {
		t.Fatalf("%d chunks do not come back: %v", n, err)
	}
	// Not an object for each chunk: hardly more than the packed form.
	if got := back.MemoryBytes(); got > maxSizesBytes*11/10 {
		t.Errorf("index holds %d bytes for %d packed ones", got, maxSizesBytes)
	}
	if err := CheckVariable(1, int64(n)); err != nil {
		t.Errorf("CheckVariable refuses what fits: %v", err)
	}
	if err := CheckVariable(1, int64(n)+1); !errors.Is(err, ErrBadIndex) || !strings.Contains(err.Error(), "chunk.size") {
		t.Errorf("CheckVariable of one more: %v, want ErrBadIndex that names the setting", err)
	}
	if err := CheckVariable(4<<20, math.MaxInt32); err != nil {
		t.Errorf("CheckVariable refuses the defaults: %v", err)
	}
}

func TestIndex_CheckFindsFlippedFlags(t *testing.T) {
	frames, err := NewVariable(1000, 2500, []int32{300, 280, 150})
	if err != nil {
		t.Fatal(err)
	}
	grown, err := NewFixed(1000, 2500, 1000, 900) // the file had 400 bytes behind its announced size
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		x  *Index
		t  Transform
		ok bool
	}{
		"frames":                        {frames, Transform{Compressed: true}, true},
		"frames, sealed":                {frames, Transform{Compressed: true, Encrypted: true}, true},
		"frames, compression off":       {frames, Transform{}, false},
		"grown file":                    {grown, Transform{}, true},
		"grown file, compression on":    {grown, Transform{Compressed: true}, true},
		"grown file, encryption on":     {grown, Transform{Encrypted: true}, false},
		"frame of 8 bytes":              {mustVariable(t, 1000, 1000, 8), Transform{Compressed: true}, false},
		"sealed frame of 36 bytes":      {mustVariable(t, 1000, 1000, 36), Transform{Compressed: true, Encrypted: true}, false},
		"frame that is far too large":   {mustVariable(t, 1000, 1000, 5000), Transform{Compressed: true}, false},
		"frame of incompressible bytes": {mustVariable(t, 1000, 1000, 1013), Transform{Compressed: true}, true},
		"plain chunk one short":         {mustFixed(t, 1000, 999), Transform{}, false},
		"plain chunk beyond its chunk":  {mustFixed(t, 1000, 1001), Transform{}, false},
	} {
		if err := c.x.Check(c.t); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadIndex) {
			t.Errorf("%s: %v, want ok %t", name, err, c.ok)
		}
	}
}

func mustVariable(t *testing.T, chunk, file int64, sizes ...int32) *Index {
	t.Helper()
	x, err := NewVariable(chunk, file, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func mustFixed(t *testing.T, chunk, last int64) *Index {
	t.Helper()
	x, err := NewFixed(chunk, chunk, chunk, last)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestIndex_ChunkOutsidePanics(t *testing.T) {
	for _, i := range []int{-1, 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Chunk(%d) of 1 does not panic", i)
				}
			}()
			mustVariable(t, 10, 10, 12).Chunk(i)
		}()
	}
}

func FuzzParseVariable(f *testing.F) {
	f.Add(int64(1000), int64(2500), "KLUv/SAPeQAAAAAAAwAAA+gBABAAAABN")
	f.Fuzz(func(t *testing.T, chunk, file int64, text string) {
		x, err := ParseVariable(chunk, file, text)
		if err != nil {
			if !errors.Is(err, ErrBadIndex) {
				t.Fatalf("%v is not ErrBadIndex", err)
			}
			return
		}
		if x.MemoryBytes() > int64(5*x.Chunks()+1000) {
			t.Fatalf("%d bytes for %d chunks", x.MemoryBytes(), x.Chunks())
		}
		sizes := make([]int32, x.Chunks())
		for i := range sizes {
			sizes[i] = int32(x.Chunk(i).StoredSize)
		}
		again, err := NewVariable(chunk, file, sizes)
		if err != nil {
			t.Fatal(err)
		}
		if last := x.Chunks() - 1; again.Chunk(last) != x.Chunk(last) {
			t.Fatalf("last chunk is %+v, written again %+v", x.Chunk(last), again.Chunk(last))
		}
	})
}
