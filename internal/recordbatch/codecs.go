package recordbatch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxWindow is what zstd-jni's stream accepts without being told otherwise (ZSTD_WINDOWLOG_LIMIT_DEFAULT 27), so no Kafka client
// can read, and no Kafka producer usefully write, more.
const maxWindow = 128 << 20

// xerialMagic begins the framing of snappy-java (SnappyCodec.MAGIC_HEADER); version and compatible version follow as int32. Other
// clients write one raw block.
const xerialMagic = "\x82SNAPPY\x00"

// snappyRatio bounds what a raw snappy block can expand to: its densest element makes 64 bytes out of 3.
const snappyRatio = 22

// codecs keeps one decompressor of each kind.
type codecs struct {
	src   bytes.Reader
	plain *bufio.Reader
	gzip  *gzip.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
	block []byte // decoded snappy block
}

func (c *codecs) close() {
	if c.zstd != nil {
		c.zstd.Close()
		c.zstd = nil
	}
}

// byteReader is what the record parser reads from.
type byteReader interface {
	io.Reader
	io.ByteReader
}

func (c *codecs) open(codec Codec, b []byte) (byteReader, error) {
	c.src.Reset(b)
	var r io.Reader
	var err error
	switch codec {
	case None:
		return &c.src, nil
	case Gzip:
		r, err = c.openGzip()
	case Snappy:
		r, err = c.openSnappy(b)
	case LZ4:
		if c.lz4 == nil {
			c.lz4 = lz4.NewReader(&c.src)
		} else {
			c.lz4.Reset(&c.src)
		}
		r = c.lz4
	case Zstd:
		r, err = c.openZstd()
	default:
		err = fmt.Errorf("codec %d is unknown", codec)
	}
	if err != nil {
		return nil, err
	}
	if c.plain == nil {
		c.plain = bufio.NewReader(r)
	} else {
		c.plain.Reset(r)
	}
	return c.plain, nil
}

func (c *codecs) openGzip() (io.Reader, error) {
	if c.gzip != nil {
		return c.gzip, c.gzip.Reset(&c.src)
	}
	z, err := gzip.NewReader(&c.src)
	if err != nil {
		return nil, err
	}
	c.gzip = z
	return z, nil
}

func (c *codecs) openZstd() (io.Reader, error) {
	if c.zstd != nil {
		return c.zstd, c.zstd.Reset(&c.src)
	}
	// Concurrency 1 decodes in the caller's goroutine: nothing to leak, nothing decoded ahead of a reader that stops.
	z, err := zstd.NewReader(&c.src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	c.zstd = z
	return z, nil
}

func (c *codecs) openSnappy(b []byte) (io.Reader, error) {
	if !bytes.HasPrefix(b, []byte(xerialMagic)) {
		var err error
		c.block, err = decodeSnappy(c.block, b)
		return bytes.NewReader(c.block), err
	}
	if len(b) < len(xerialMagic)+8 {
		return nil, errors.New("snappy header is cut off")
	}
	return &xerialReader{c: c, rest: b[len(xerialMagic)+8:]}, nil
}

// xerialReader decodes the blocks of snappy-java one after the other.
type xerialReader struct {
	c     *codecs
	rest  []byte // blocks not decoded yet
	ready []byte // decoded, not read yet
}

func (x *xerialReader) Read(p []byte) (int, error) {
	for len(x.ready) == 0 {
		if len(x.rest) == 0 {
			return 0, io.EOF
		}
		if len(x.rest) < 4 {
			return 0, errors.New("snappy block length is cut off")
		}
		n := binary.BigEndian.Uint32(x.rest)
		if uint64(n) > uint64(len(x.rest)-4) {
			return 0, errors.New("snappy block is cut off")
		}
		var err error
		if x.c.block, err = decodeSnappy(x.c.block, x.rest[4:4+n]); err != nil {
			return 0, err
		}
		x.ready, x.rest = x.c.block, x.rest[4+n:]
	}
	n := copy(p, x.ready)
	x.ready = x.ready[n:]
	return n, nil
}

// decodeSnappy decodes one raw block into dst's memory. A claimed length that the block cannot expand to is refused before memory
// is taken for it.
func decodeSnappy(dst, block []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return dst[:0], err
	}
	if n > snappyRatio*len(block) {
		return dst[:0], fmt.Errorf("snappy block of %d bytes claims %d", len(block), n)
	}
	return snappy.DecodeStrict(dst[:cap(dst)], block)
}

// limited stops decompression at a number of bytes.
type limited struct {
	r    byteReader
	left int64
}

var errTooLarge = errors.New("decompresses to more than the limit")

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, errTooLarge
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}

func (l *limited) ReadByte() (byte, error) {
	b, err := l.r.ReadByte()
	if err != nil {
		return 0, err
	}
	if l.left <= 0 {
		return 0, errTooLarge
	}
	l.left--
	return b, nil
}
