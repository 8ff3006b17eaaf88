package filelog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// example is the log of docs/filelog-format.md.
func example() (header, []rlmm.Event) {
	h := header{partitions: 1, createdMs: 1700000000000}
	for i := range h.id {
		h.id[i] = byte(i)
	}
	return h, []rlmm.Event{
		{Offset: 0, Epoch: 7, TimestampMs: 1700000000001, Value: []byte("abc")},
		{Offset: 1, Epoch: 7, TimestampMs: 1700000000002, Value: []byte("d")},
	}
}

// TestFormat_Example: the bytes printed in the specification are those that are written and read.
func TestFormat_Example(t *testing.T) {
	if got := crc32.Checksum([]byte("123456789"), castagnoli); got != 0xe3069283 {
		t.Fatalf("CRC of 123456789 = %08x", got)
	}
	doc, err := os.ReadFile("../../docs/filelog-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(doc), "## Example")
	if !ok {
		t.Fatal("the specification has no example")
	}
	block = strings.Split(block, "```")[1]
	want := strings.Join(regexp.MustCompile(`(?m)^[0-9a-f ]+`).FindAllString(block, -1), "")
	want = strings.ReplaceAll(want, " ", "")
	h, events := example()
	b := h.marshal()
	_, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	b = appendGroup(b, headerTail(h, crc), 7, 2, events)
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("bytes of the example:\n got %s\nwant %s", got, want)
	}
	got, _, err := parseHeader("x", b)
	if err != nil || got != h {
		t.Errorf("parseHeader = %+v, %v, want %+v", got, err, h)
	}
	g, err := parseGroup(b[headerSize:])
	if err != nil {
		t.Fatal(err)
	}
	var read []rlmm.Event
	at := headerTail(h, crc)
	if err := at.accept("x", 0, g, func(e rlmm.Event) { read = append(read, e) }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(events, read); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if at.pos != int64(len(b)) || at.next != 2 || at.epoch != 7 {
		t.Errorf("place behind the group: %+v", at)
	}
}

// TestHeader_EveryBitFlipped: no changed header is taken for a good one.
func TestHeader_EveryBitFlipped(t *testing.T) {
	h, _ := example()
	good := h.marshal()
	for i := range len(good) * 8 {
		b := append([]byte(nil), good...)
		b[i/8] ^= 1 << (i % 8)
		if _, _, err := parseHeader("x", b); !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("bit %d of byte %d flipped: %v, want ErrCorrupt", i%8, i/8, err)
		}
	}
	for n := range good {
		if _, _, err := parseHeader("x", good[:n]); !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("header of %d bytes: %v, want ErrCorrupt", n, err)
		}
	}
}

// TestNewerFormat: what a later version wrote is refused and is not called damage.
func TestNewerFormat(t *testing.T) {
	h, events := example()
	crc := func(b []byte) []byte { // make the checksums right again
		copy(b[60:64], be32(crc32.Checksum(b[:60], castagnoli)))
		if len(b) > headerSize {
			copy(b[64+12:], b[60:64])
			copy(b[64+4:], be32(groupCRC(b[64:])))
		}
		return b
	}
	_, hcrc, _ := parseHeader("x", h.marshal())
	for name, at := range map[string]int{"version": 11, "reserved": 59, "group flags": 64 + 8, "event flags": 64 + 36 + 4} {
		b := appendGroup(h.marshal(), headerTail(h, hcrc), 7, 2, events)
		b[at] |= 0x80
		b = crc(b)
		_, c, err := parseHeader("x", b)
		if err == nil {
			g, gerr := parseGroup(b[headerSize:])
			if gerr != nil {
				t.Fatalf("%s: %v", name, gerr)
			}
			at := headerTail(h, c)
			err = at.accept("x", 0, g, nil)
		}
		if !errors.Is(err, ErrNewerFormat) || errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrNewerFormat", name, err)
		}
	}
}

func be32(v uint32) []byte { return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }

func be(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
