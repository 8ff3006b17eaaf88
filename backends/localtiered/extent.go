package localtiered

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/remotelog"
)

// content is what the batches of a log file say, as long as the file is the same one.
type content struct {
	size         int64
	modTime      time.Time
	last         int64 // offset, -1: the file is empty
	maxTimestamp int64
	holes        bool // offsets up to last are missing: the log was compacted
}

// contentOf reads and checks the batches of a segment, once for each state of its log file.
func (d *Driver) contentOf(ctx context.Context, s segment, log fs.FileInfo) (content, error) {
	d.mu.Lock()
	known, ok := d.contents[s.path]
	d.mu.Unlock()
	if ok && known.size == log.Size() && known.modTime.Equal(log.ModTime()) {
		return known, nil
	}
	c := content{size: log.Size(), modTime: log.ModTime(), last: -1, maxTimestamp: -1}
	if err := s.read(ctx, &c); err != nil {
		return c, err
	}
	d.mu.Lock()
	d.contents[s.path] = c
	d.mu.Unlock()
	return c, nil
}

// read takes in every batch.
func (s *segment) read(ctx context.Context, c *content) error {
	name := filepath.Base(s.path)
	f, _, err := regular.Open(s.path + ".log")
	if err != nil {
		return failure(err)
	}
	defer f.Close()
	for r, next := recordbatch.NewReader(io.LimitReader(f, c.size), recordbatch.ReaderOptions{}), s.start; ; next = c.last + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return backends.Errorf(backends.Corrupt, "%s.log: %w", name, err)
		}
		if b.BaseOffset < next {
			return backends.Errorf(backends.Corrupt, "%s.log: a batch begins at offset %d, expected at %d or above", name, b.BaseOffset, next)
		}
		c.holes = c.holes || b.BaseOffset > next || int64(b.RecordCount) <= b.LastOffset()-b.BaseOffset
		c.last, c.maxTimestamp = b.LastOffset(), max(c.maxTimestamp, b.MaxTimestampMs)
	}
	if c.last >= 0 {
		return nil
	}
	// Compaction leaves empty files when it takes the last record. An index that is not empty knows of batches that are lost.
	index, err := os.Stat(s.path + ending(remotelog.OffsetIndex))
	if err != nil {
		return failure(err)
	}
	if index.Size() > 0 {
		return backends.Errorf(backends.Corrupt, "%s.log has no batch, its .index has entries", name)
	}
	c.holes = true
	return nil
}

// end returns the last offset of a segment. That is the one of its last batch; but where compaction took what came behind, the
// segment ends before the next one begins, as the broker's metadata say. Such a gap counts as compaction's only if one of the two
// shows elsewhere that the log was compacted, and if both are of one history; else a segment is missing there.
func (d *Driver) end(ctx context.Context, s segment, held content, checkpoint []remotelog.LeaderEpoch) (int64, error) {
	next, ok, err := d.next(ctx, s, held.last)
	if err != nil {
		return 0, err
	}
	if ok && next.start > held.last+1 && d.compacted(ctx, held, next) && continues(checkpoint, next) {
		return next.start - 1, nil
	}
	if held.last < 0 {
		return 0, backends.Errorf(backends.Corrupt, "%s.log has no batch: its end offset is not known", filepath.Base(s.path))
	}
	return held.last, nil
}

// next returns the segment that begins first behind the last batch of s. It is none if another one, which begins within s, holds
// what comes behind.
func (d *Driver) next(ctx context.Context, s segment, last int64) (next segment, ok bool, err error) {
	all, err := d.segmentsOf(s.id.TopicIDPartition)
	if err != nil {
		return next, false, err
	}
	for _, other := range all {
		switch {
		case other.start < s.start || other.id == s.id:
		case other.start > max(last, s.start):
			return other, true, nil
		default:
			if c, readable := d.peek(ctx, other); readable && c.last > last {
				return next, false, ctx.Err()
			}
		}
	}
	return next, false, ctx.Err()
}

// compacted reports whether a segment or the next one shows that the log was compacted.
func (d *Driver) compacted(ctx context.Context, held content, next segment) bool {
	if held.holes {
		return true
	}
	c, readable := d.peek(ctx, next)
	return readable && c.holes
}

// peek is contentOf for a neighbour, whose damage is told where it is read itself.
func (d *Driver) peek(ctx context.Context, s segment) (content, bool) {
	log, err := os.Stat(s.path + ".log")
	if err != nil {
		return content{}, false
	}
	c, err := d.contentOf(ctx, s, log)
	return c, err == nil
}

// continues reports whether next is of the history that ends with checkpoint, the one of the segment before it: the epoch that came
// last is the one that next knows before its start.
func continues(checkpoint []remotelog.LeaderEpoch, next segment) bool {
	after, err := next.checkpoint()
	if err != nil || len(checkpoint) == 0 {
		return false
	}
	before := int32(-1)
	for _, e := range after {
		if e.StartOffset < next.start {
			before = e.Epoch
		}
	}
	return before == checkpoint[len(checkpoint)-1].Epoch
}
