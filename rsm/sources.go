package rsm

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// sources are the opened files of a segment.
type sources struct {
	log     io.Reader
	indexes []indexSource // in the order in which they are stored
	closers []io.Closer

	overhead int64 // that encryption adds to each index
}

type indexSource struct {
	t    remotelog.IndexType
	r    io.Reader
	size int64
}

// openSources opens all files of a segment and checks their sizes. On an error nothing stays open.
func openSources(ctx context.Context, md *remotelog.SegmentMetadata, data remotelog.SegmentData) (_ *sources, err error) {
	s := &sources{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var size int64
	if s.log, size, err = s.open(ctx, ".log", data.Log); err != nil {
		return nil, err
	}
	if size != md.SizeBytes {
		return nil, fmt.Errorf("%w: the .log has %d bytes, the metadata of the segment say %d", remotelog.ErrInvalidArgument, size, md.SizeBytes)
	}
	of := map[remotelog.IndexType]remotelog.Source{
		remotelog.OffsetIndex: data.OffsetIndex, remotelog.TimestampIndex: data.TimeIndex,
		remotelog.ProducerSnapshotIndex: data.ProducerSnapshot, remotelog.TransactionIndex: data.TransactionIndex,
	}
	for _, t := range manifest.StoredOrder() {
		x := indexSource{t: t}
		if t == remotelog.LeaderEpochIndex {
			x.r, x.size = bytes.NewReader(data.LeaderEpochs), int64(len(data.LeaderEpochs))
			s.indexes = append(s.indexes, x)
			continue
		}
		if t == remotelog.TransactionIndex && of[t] == nil {
			continue // the segment has none
		}
		if x.r, x.size, err = s.open(ctx, t.String()+" index", of[t]); err != nil {
			return nil, err
		}
		if x.size < 0 || x.size > math.MaxInt32 {
			return nil, fmt.Errorf("%w: the %s index has %d bytes, a manifest holds %d", remotelog.ErrInvalidArgument, t, x.size, math.MaxInt32)
		}
		s.indexes = append(s.indexes, x)
	}
	return s, nil
}

func (s *sources) open(ctx context.Context, what string, src remotelog.Source) (io.Reader, int64, error) {
	if src == nil {
		return nil, 0, fmt.Errorf("%w: the segment has no %s", remotelog.ErrInvalidArgument, what)
	}
	var r io.ReadCloser
	var size int64
	err := contain("opening the "+what, func() (err error) {
		r, size, err = src.Open(ctx)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, 0, fmt.Errorf("open the %s: %w", what, err)
	case err != nil: // a file that is not there stays so until somebody does something
		return nil, 0, fmt.Errorf("%w: open the %s: %w", remotelog.ErrInvalidArgument, what, err)
	}
	s.closers = append(s.closers, r)
	return &contained{what: "reading the " + what, r: r}, size, nil
}

// close closes all files. They were only read.
func (s *sources) close() {
	for _, c := range s.closers {
		_ = contain("closing a source", c.Close)
	}
}

// compressible is the heuristic: it says whether the first record batch is valid and not compressed. Like Aiven's plug-in it judges a
// segment by that one batch, and leaves a segment alone whose first batch cannot be read. The log is opened once more for it.
func (m *Manager) compressible(ctx context.Context, md *remotelog.SegmentMetadata, log remotelog.Source) bool {
	s := &sources{}
	defer s.close()
	r, _, err := s.open(ctx, ".log", log)
	if err == nil {
		var h recordbatch.Header
		if h, err = firstBatch(r); err == nil {
			return h.Codec() == recordbatch.None
		}
	}
	m.log.WarnContext(ctx, "segment is stored without compression: its first record batch cannot be read", "segment", md.String(), "error", err)
	return false
}

// firstBatch reads the batch at the start of r and checks its CRC, without holding it in memory.
func firstBatch(r io.Reader) (recordbatch.Header, error) {
	const attributes = 21 // where the bytes begin that the CRC covers
	var head [recordbatch.HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return recordbatch.Header{}, err
	}
	h, err := recordbatch.ParseHeader(head[:])
	if err != nil {
		return h, err
	}
	sum := crc32.New(castagnoli)
	_, _ = sum.Write(head[attributes:]) // a hash never fails
	if _, err := io.CopyN(sum, r, h.Size()-int64(len(head))); err != nil {
		return h, err
	}
	if sum.Sum32() != h.CRC {
		return h, fmt.Errorf("%w: its CRC is %08x, its bytes have %08x", remotelog.ErrCorrupt, h.CRC, sum.Sum32())
	}
	return h, nil
}
