package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// stride is how far into the file each segment begins behind the one before: no two have the same bytes in any chunk.
const stride = 4093

// part is a Source: some bytes of a file.
type part struct {
	path    string
	at, len int64
}

var _ remotelog.Source = part{}

// Open implements remotelog.Source.
func (p part) Open(context.Context) (io.ReadCloser, int64, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, 0, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, p.at, p.len), f}, p.len, nil
}

// stored is a segment and what it was copied from.
type stored struct {
	md   remotelog.SegmentMetadata
	from part
}

// press copies a segment for each reader, reads until the cache of chunks is full, and then lets all readers and copies loose at the same time.
// Everything is compared with the file. It returns how much was in the cache when they began, and how often they waited for memory.
func press(ctx context.Context, m *rsm.Manager, log string, copies, readers int) (string, error) {
	fi, err := os.Stat(log)
	if err != nil {
		return "", err
	}
	segments := make([]stored, readers+copies)
	size := fi.Size() - int64(len(segments))*stride
	copySegment := func(i int) (err error) {
		s := &segments[i]
		s.from = part{log, int64(i) * stride, size}
		s.md, err = copyOne(ctx, m, s.from, size)
		return err
	}
	for i := range readers {
		if err := copySegment(i); err != nil {
			return "", err
		}
	}
	for i := 0; m.CacheStats().Chunks.Evicted+m.CacheStats().Chunks.Reclaimed == 0; i++ {
		if i == readers {
			return "", errors.New("the cache does not become full")
		}
		if err := compare(ctx, m, segments[i], size); err != nil {
			return "", err
		}
	}
	// The cache gives back what the next load needs, so that at the end of a segment it has the whole chunk before or the short last one alone,
	// as the loads met. What is read last is one whole chunk, which nobody takes away again.
	if err := compare(ctx, m, segments[0], int64(m.Config().ChunkBytes)); err != nil {
		return "", err
	}
	cached, waits := m.CacheStats().Chunks.Bytes, m.Budget().Stats().Waits
	err = each(len(segments), func(i int) error {
		if i < readers {
			return compare(ctx, m, segments[i], size)
		}
		return copySegment(i)
	})
	waits = m.Budget().Stats().Waits - waits
	for _, s := range segments[readers:] {
		if err == nil {
			err = compare(ctx, m, s, size)
		}
	}
	return fmt.Sprintf(" cached %d waits %d", cached, waits), err
}

// compare reads the first size bytes of a segment and of what it was copied from, and sees that they are the same.
func compare(ctx context.Context, m *rsm.Manager, s stored, size int64) error {
	from, _, err := s.from.Open(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	rc, err := m.Fetch(ctx, s.md, 0, size-1)
	if err != nil {
		return err
	}
	defer rc.Close()
	want, got := sha256.New(), sha256.New()
	if _, err := io.CopyN(want, from, size); err != nil {
		return err
	}
	n, err := io.Copy(got, rc)
	if err != nil {
		return err
	}
	if n != size || [sha256.Size]byte(want.Sum(nil)) != [sha256.Size]byte(got.Sum(nil)) {
		return fmt.Errorf("read %d bytes that differ from the %d copied", n, size)
	}
	return nil
}
