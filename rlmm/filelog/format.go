package filelog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tierkit/tierkit/rlmm"
)

// The numbers of docs/filelog-format.md.
const (
	magic         = "TIERLOG\n"
	version       = 1
	headerSize    = 64
	maxPartitions = 10_000

	groupHead   = 8  // length and CRC
	groupFixed  = 28 // what precedes the events in the body
	maxBody     = 4 << 20
	maxGroup    = groupHead + maxBody
	eventFixed  = 17 // size, flags, offset delta, timestamp
	eventKey    = 1
	eventNoVal  = 2
	epochOrigin = 1_577_836_800 // 2020-01-01 00:00 UTC in Unix seconds
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the start of a file.
type header struct {
	partitions int32
	partition  int32
	id         [16]byte
	first      int64
	createdMs  int64
}

// logID is the identity that the file's random id stands for.
func (h header) logID() rlmm.LogID { return rlmm.LogID("file:" + hex.EncodeToString(h.id[:])) }

// marshal returns the 64 bytes.
func (h header) marshal() []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(h.partitions))
	b = binary.BigEndian.AppendUint32(b, uint32(h.partition))
	b = append(b, h.id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.first))
	b = binary.BigEndian.AppendUint64(b, uint64(h.createdMs))
	b = binary.BigEndian.AppendUint64(b, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader reads the header of the file called name and returns its CRC field too. b may be longer.
func parseHeader(name string, b []byte) (header, uint32, error) {
	bad := func(format string, args ...any) (header, uint32, error) {
		return header{}, 0, &CorruptError{File: name, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < headerSize {
		return bad("%d bytes are too few for a header", len(b))
	}
	if string(b[:8]) != magic {
		return bad("not a metadata log")
	}
	crc := binary.BigEndian.Uint32(b[60:])
	if got := crc32.Checksum(b[:60], castagnoli); got != crc {
		return bad("checksum of the header is %08x, stored %08x", got, crc)
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != version {
		return header{}, 0, newer(name, "version", uint64(v))
	}
	if r := binary.BigEndian.Uint64(b[52:]); r != 0 {
		return header{}, 0, newer(name, "reserved field", r)
	}
	h := header{
		partitions: int32(binary.BigEndian.Uint32(b[12:])),
		partition:  int32(binary.BigEndian.Uint32(b[16:])),
		id:         [16]byte(b[20:36]),
		first:      int64(binary.BigEndian.Uint64(b[36:])),
		createdMs:  int64(binary.BigEndian.Uint64(b[44:])),
	}
	if h.partitions < 1 || h.partitions > maxPartitions || h.partition < 0 || h.partition >= h.partitions || h.first < 0 {
		return bad("partition %d of %d from offset %d", h.partition, h.partitions, h.first)
	}
	return h, crc, nil
}

// tail is a place between two groups and what the group there must say.
type tail struct {
	pos   int64  // of the next group
	next  int64  // its base offset
	epoch int32  // the least epoch it may have; -1 before the first group
	crc   uint32 // its field previous
}

func headerTail(h header, crc uint32) tail {
	return tail{pos: headerSize, next: h.first, epoch: -1, crc: crc}
}

// group is a group whose CRC is right.
type group struct {
	crc     uint32
	flags   uint32
	prev    uint32
	epoch   int32
	base    int64
	offsets uint32
	count   uint32
	events  []byte // still encoded
	size    int64  // of the whole group
}

// The ways in which bytes are not a whole group.
var (
	errShort = errors.New("the group is longer than what is left of the file")
	errBad   = errors.New("the group has an impossible length or a wrong checksum")
)

// groupSize returns the size of the group that b begins with, as it claims; b has at least groupHead bytes.
func groupSize(b []byte) (int64, error) {
	n := binary.BigEndian.Uint32(b)
	if n < groupFixed || n > maxBody {
		return 0, errBad
	}
	return groupHead + int64(n), nil
}

// parseGroup reads the group that b begins with.
func parseGroup(b []byte) (group, error) {
	if len(b) < groupHead {
		return group{}, errShort
	}
	size, err := groupSize(b)
	if err != nil {
		return group{}, err
	}
	if int64(len(b)) < size {
		return group{}, errShort
	}
	crc := binary.BigEndian.Uint32(b[4:])
	if groupCRC(b[:size]) != crc {
		return group{}, errBad
	}
	return group{
		crc:     crc,
		flags:   binary.BigEndian.Uint32(b[8:]),
		prev:    binary.BigEndian.Uint32(b[12:]),
		epoch:   int32(binary.BigEndian.Uint32(b[16:])),
		base:    int64(binary.BigEndian.Uint64(b[20:])),
		offsets: binary.BigEndian.Uint32(b[28:]),
		count:   binary.BigEndian.Uint32(b[32:]),
		events:  b[groupHead+groupFixed : size : size],
		size:    size,
	}, nil
}

func groupCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}
