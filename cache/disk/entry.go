package disk

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// Key names an entry: a hash, or another 32 bytes that tell what is in it.
type Key [32]byte

// Prefix is what keys of entries begin with that can be deleted together.
type Prefix [8]byte

// Prefix returns what the key begins with.
func (k Key) Prefix() Prefix { return Prefix(k[:]) }

const (
	magic      = "tierkit\x00"
	version    = 1
	headerSize = 64
	blockSize  = 4096 // what file systems allocate by
)

// errDamaged: a file is not the entry that it should be. Its causes are for messages only.
var errDamaged = errors.New("damaged")

// castagnoli is the polynomial of the checksums; the standard library uses the CPU's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// occupied is the space that an entry of n bytes is counted with.
func occupied(n int64) int64 { return (headerSize + n + blockSize - 1) / blockSize * blockSize }

// putHeader fills in the header of an entry: file is the header and the bytes.
func putHeader(file []byte, key Key) {
	h, data := file[:headerSize], file[headerSize:]
	clear(h)
	copy(h, magic)
	binary.BigEndian.PutUint32(h[8:], version)
	binary.BigEndian.PutUint32(h[12:], crc32.Checksum(data, castagnoli))
	binary.BigEndian.PutUint64(h[16:], uint64(len(data)))
	copy(h[24:], key[:])
	binary.BigEndian.PutUint32(h[60:], crc32.Checksum(h[:60], castagnoli)) // 56..59 are zero
}

// header is what the header of an entry says.
type header struct {
	sum    uint32
	length int64
}

// parseHeader checks that h begins the entry of key.
func parseHeader(h []byte, key Key) (header, error) {
	bad := func(format string, args ...any) (header, error) {
		return header{}, fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
	switch {
	case len(h) < headerSize:
		return bad("a header has %d bytes, not %d", headerSize, len(h))
	case string(h[:8]) != magic:
		return bad("it does not begin as an entry does")
	case crc32.Checksum(h[:60], castagnoli) != binary.BigEndian.Uint32(h[60:]):
		return bad("the header has another checksum")
	case binary.BigEndian.Uint32(h[8:]) != version:
		return bad("it has version %d, not %d", binary.BigEndian.Uint32(h[8:]), version)
	case [4]byte(h[56:60]) != [4]byte{}:
		return bad("reserved bytes are set")
	case Key(h[24:56]) != key:
		return bad("it is the entry of another key")
	}
	n := binary.BigEndian.Uint64(h[16:])
	if n > maxLength {
		return bad("it says that it has %d bytes", n)
	}
	return header{sum: binary.BigEndian.Uint32(h[12:]), length: int64(n)}, nil
}

// maxLength is the most bytes that an entry can have: far more than any chunk, and so little that no sum of sizes overflows.
const maxLength = 1 << 40

// check says whether data are the bytes that the header describes.
func (h header) check(data []byte) error {
	if int64(len(data)) != h.length {
		return fmt.Errorf("%w: %d bytes, the header says %d", errDamaged, len(data), h.length)
	}
	if crc32.Checksum(data, castagnoli) != h.sum {
		return fmt.Errorf("%w: the bytes have another checksum", errDamaged)
	}
	return nil
}

// name is where an entry lies below the directory of the cache.
func (k Key) name() (dir, file string) {
	file = hex.EncodeToString(k[:])
	return file[:2], file
}

// parseName returns the key of a file in one of the directories of entries.
func parseName(dir, file string) (k Key, ok bool) {
	if len(file) != 2*len(k) || file[:2] != dir {
		return k, false
	}
	if _, err := hex.Decode(k[:], []byte(file)); err != nil {
		return k, false
	}
	_, want := k.name() // hexadecimal digits in capitals name no entry
	return k, file == want
}
