package rlm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// scan reads the batches of a segment in order.
type scan struct {
	s            *LocalSegment
	index        logfiles.OffsetIndex
	entry        int // next entry of index to be met
	last         int64
	end          int64 // position behind the last batch
	maxTimestamp int64
	early        Lineage // epochs of batches below the first epoch of the checkpoint
	epoch        int32   // of the batch before
	producers    *logfiles.Producers
	data         map[int64][]int64 // base offsets of transactional batches with records, by producer
	aborted      []logfiles.AbortedTxn
	compacted    bool // offsets are missing between and inside the batches
}

func (c *scan) run(ctx context.Context) error {
	c.data = map[int64][]int64{}
	c.epoch = -1
	c.begin()
	if c.producers != nil {
		defer c.producers.Close()
	}
	path := c.s.path(".log")
	err := eachBatch(ctx, path, func(b recordbatch.Batch, err error) (bool, error) {
		if err == nil {
			err = c.batch(b)
		}
		if errors.Is(err, recordbatch.ErrTruncated) && c.s.Active {
			err = fmt.Errorf("%w: start the broker once, its recovery cuts it off, or leave the active segment out", err)
		}
		return err == nil, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case c.end != c.s.SizeBytes:
		return fmt.Errorf("%w: %s changed: it had %d bytes and has %d", remotelog.ErrConflict, path, c.s.SizeBytes, c.end)
	case c.entry < c.index.Len():
		e := c.index.Entry(c.entry)
		return c.s.lostEnd(fmt.Sprintf("at byte %d", c.end), fmt.Sprintf(".index knows a batch at byte %d with offset %d", e.Position, e.Offset))
	}
	return nil
}

// begin finds the producers' state before the segment, which decides whether its transaction index is complete. Without a
// snapshot the index is believed.
func (c *scan) begin() {
	if states, err := c.s.log.snapshot(c.s.StartOffset); err == nil {
		c.producers = logfiles.NewProducers(states)
	} else if c.s.StartOffset == 0 {
		c.producers = logfiles.NewProducers(nil)
	}
}

func (c *scan) batch(b recordbatch.Batch) error {
	if b.BaseOffset <= c.last || b.LastOffset() > c.s.EndOffset {
		return fmt.Errorf("%w: position %d: batch has offsets %d to %d, expected above %d and at most %d", remotelog.ErrCorrupt,
			b.Position, b.BaseOffset, b.LastOffset(), c.last, c.s.EndOffset)
	}
	if err := c.checkEpoch(b); err != nil {
		return err
	}
	if err := c.checkIndex(b); err != nil {
		return err
	}
	c.compacted = c.compacted || b.BaseOffset > c.last+1 || int64(b.RecordCount) <= b.LastOffset()-b.BaseOffset
	c.last, c.end = b.LastOffset(), b.Position+b.Size()
	c.maxTimestamp = max(c.maxTimestamp, b.MaxTimestampMs)
	if b.Transactional() && !b.Control() && b.RecordCount > 0 {
		c.data[b.ProducerID] = append(c.data[b.ProducerID], b.BaseOffset)
	}
	if c.producers == nil {
		return nil
	}
	a, ok, err := c.producers.Apply(b)
	if ok {
		c.aborted = append(c.aborted, a)
	}
	return err
}

// checkEpoch compares the batch's leader epoch with the checkpoint. Below its first entry (the log start has moved into the segment)
// the batches are the only witnesses.
func (c *scan) checkEpoch(b recordbatch.Batch) error {
	want, ok := c.s.log.lineage.EpochAt(b.BaseOffset)
	got := b.PartitionLeaderEpoch
	if ok && got != want || got < c.epoch || got < 0 {
		said := fmt.Sprintf("%s says %d", leaderEpochFile, want)
		if !ok || got == want {
			said = fmt.Sprintf("the batch before has %d", c.epoch)
		}
		return fmt.Errorf("%w: position %d: batch at offset %d has leader epoch %d, %s", remotelog.ErrCorrupt, b.Position, b.BaseOffset, got, said)
	}
	if !ok && got > c.epoch {
		c.early = append(c.early, remotelog.LeaderEpoch{Epoch: got, StartOffset: b.BaseOffset})
	}
	c.epoch = got
	return nil
}

// checkIndex compares the next entry of the offset index with the batch: an entry names the position of a batch and an offset that is
// not below it (one append of several batches has one entry, with its last offset).
func (c *scan) checkIndex(b recordbatch.Batch) error {
	if c.entry == c.index.Len() {
		return nil
	}
	e := c.index.Entry(c.entry)
	if e.Position > b.Position {
		return nil
	}
	if e.Position < b.Position || e.Offset < b.BaseOffset || e.Offset > c.s.EndOffset {
		return c.s.damaged(".index", fmt.Errorf("%w: its entry for offset %d, position %d does not fit the batch at offset %d, position %d",
			remotelog.ErrCorrupt, e.Offset, e.Position, b.BaseOffset, b.Position))
	}
	c.entry++
	return nil
}

// checkAborted finds aborted transactions with records in this segment that the transaction index does not know: read_committed
// would show them. What compaction removed needs no entry any more.
func (c *scan) checkAborted(index []logfiles.AbortedTxn) error {
	known := map[[2]int64]bool{}
	for _, t := range index {
		known[[2]int64{t.ProducerID, t.LastOffset}] = true
	}
	for _, a := range c.aborted {
		if known[[2]int64{a.ProducerID, a.LastOffset}] {
			continue
		}
		for _, base := range c.data[a.ProducerID] {
			if base >= a.FirstOffset && base < a.LastOffset {
				return c.s.damaged(".txnindex", fmt.Errorf("%w: the transaction of producer %d that was aborted at offset %d is missing",
					remotelog.ErrCorrupt, a.ProducerID, a.LastOffset))
			}
		}
	}
	return nil
}

// leaderEpochs are the epochs of the segment's offsets, the first one beginning at its start.
func (c *scan) leaderEpochs() []remotelog.LeaderEpoch {
	rest := c.s.Epochs
	if n := len(c.early); n > 0 && len(rest) > 0 && rest[0].Epoch == c.early[n-1].Epoch {
		rest = rest[1:] // the log start lies inside this epoch
	}
	epochs := append(c.early[:len(c.early):len(c.early)], rest...).InRange(c.s.StartOffset, c.s.EndOffset+1)
	if len(epochs) > 0 {
		epochs[0].StartOffset = c.s.StartOffset // its first batches may have been compacted away
	}
	return epochs
}
