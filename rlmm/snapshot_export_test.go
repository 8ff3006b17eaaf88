package rlmm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// EncodeSnapshot is the snapshot that m would write now.
func EncodeSnapshot(m *Manager) []byte {
	var b bytes.Buffer
	if _, err := m.capture().encode(&b); err != nil {
		panic(err) // a Buffer takes everything
	}
	return b.Bytes()
}

// WriteSnapshot writes a snapshot to path, through a writer that fails for good once it has taken limit bytes; limit < 0: never.
func WriteSnapshot(m *Manager, path string, limit int64) (int64, error) {
	return writeSnapshot(path, m.capture(), func(path string) (snapTemp, error) {
		f, err := createTemp(path)
		if err != nil || limit < 0 {
			return f, err
		}
		return &fullDisk{snapTemp: f, left: limit}, nil
	})
}

// ErrFull is what a writer of WriteSnapshot fails with.
var ErrFull = errors.New("no space left on the device of this test")

type fullDisk struct {
	snapTemp
	left int64
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if int64(len(b)) <= f.left {
		f.left -= int64(len(b))
		return f.snapTemp.Write(b)
	}
	n, err := f.snapTemp.Write(b[:f.left])
	f.left = 0
	return n, errors.Join(err, ErrFull)
}

// ReencodeSnapshot decodes a snapshot and encodes what was understood.
func ReencodeSnapshot(raw []byte) ([]byte, error) {
	c, err := readSnapshot(bytes.NewReader(raw), int64(len(raw)), func(int32) bool { return true })
	if err != nil {
		return nil, err
	}
	s := &snapshot{logID: c.logID, partitions: c.partitions, createdMs: c.createdMs}
	for i := range c.partitions {
		p := c.parts[i]
		if p == nil {
			continue
		}
		ps := partSnapshot{index: i, complete: p.complete, begin: p.begin, end: p.end, lastEventMs: p.lastEventMs}
		for _, u := range p.users {
			v := u.cache.view()
			v.from, v.named = u.from, u.named
			ps.users = append(ps.users, v)
		}
		s.parts = append(s.parts, ps)
	}
	var b bytes.Buffer
	_, err = s.encode(&b)
	return b.Bytes(), err
}

// ReadSnapshot decodes without keeping anything.
func ReadSnapshot(r io.ReadSeeker, size int64) (segments int, err error) {
	c, err := readSnapshot(r, size, func(int32) bool { return true })
	if err != nil {
		return 0, err
	}
	for _, p := range c.parts {
		for _, u := range p.users {
			segments += len(u.cache.byID)
		}
	}
	return segments, nil
}

// StopSnapshots makes the writing of snapshots fail, so that closing m leaves the file as it is. Call it before Close.
func StopSnapshots(m *Manager) {
	m.snaps.create = func(string) (snapTemp, error) { return nil, ErrFull }
}

// SealSnapshot puts the right checksum at the end.
func SealSnapshot(raw []byte) []byte {
	body := raw[:len(raw)-snapCRCBytes]
	return binary.BigEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, castagnoli))
}

// SnapshotSpread reports whether partitions of the snapshot were captured at different positions.
func SnapshotSpread(raw []byte) bool {
	c, err := readSnapshot(bytes.NewReader(raw), int64(len(raw)), func(int32) bool { return true })
	if err != nil {
		panic(err)
	}
	for _, p := range c.parts {
		for _, u := range p.users {
			if u.from != p.begin.Offset {
				return true
			}
		}
	}
	return false
}

// CaptureSnapshot takes the views that a snapshot is written from.
func CaptureSnapshot(m *Manager) { m.capture() }
