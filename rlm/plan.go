package rlm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// PlanOptions says what may be taken from a partition directory.
type PlanOptions struct {
	IncludeActive bool   // the last segment too, as far as it is committed
	BrokerID      *int32 // nil: from meta.properties, else -1
}

// Plan is what may be taken from one partition directory.
type Plan struct {
	remotelog.TopicIDPartition
	Dir      string
	BrokerID int32
	Segments []*LocalSegment // in order
	Notices  []string        // what is not taken, and why

	cleaned int64 // compaction has been through what is below; 0: nothing, as far as this broker knows
}

// LocalSegment is a segment that may be taken.
type LocalSegment struct {
	StartOffset int64
	EndOffset   int64   // inclusive
	Epochs      Lineage // of its offsets, as far as the leader-epoch-checkpoint reaches back
	SizeBytes   int64   // of the .log
	Active      bool

	plan  *Plan
	log   *localLog
	index int  // in log.segments
	gap   *gap // found by Prepare; nil: none
}

// PlanPartition reads which segments of a partition directory may be taken: what the broker's files show to be closed, committed,
// decided and not deleted. It reads checkpoints and the batches behind the newest producer snapshot; the segments themselves are
// read by [LocalSegment.Prepare]. A directory that a running broker uses is refused.
func PlanPartition(ctx context.Context, dir string, o PlanOptions) (*Plan, error) {
	return planPartition(ctx, dir, o, loadLogDir)
}

// planPartition is PlanPartition with the way to read what a log directory says about all its partitions.
func planPartition(ctx context.Context, dir string, o PlanOptions, load func(string) (*logDir, error)) (*Plan, error) {
	tp, err := PartitionOf(dir)
	if err != nil {
		return nil, err
	}
	if err := checkNotInUse(filepath.Dir(absolute(dir))); err != nil {
		return nil, err
	}
	around, err := load(filepath.Dir(absolute(dir)))
	if err != nil {
		return nil, err
	}
	l, err := loadLocalLog(dir, tp)
	if err != nil {
		return nil, err
	}
	p := &Plan{TopicIDPartition: tp, Dir: dir, BrokerID: around.brokerID,
		cleaned: around.cleaned[logfiles.Partition{Topic: tp.Topic, Partition: tp.Partition}]}
	if o.BrokerID != nil {
		p.BrokerID = *o.BrokerID
	}
	if len(l.segments) == 0 {
		return nil, fmt.Errorf("%w: %s holds no segment", remotelog.ErrInvalidArgument, dir)
	}
	b, err := l.bounds(ctx, around)
	if err != nil {
		return nil, err
	}
	return p, p.choose(ctx, l, b, o)
}

// absolute resolves dir; where that is not possible (the working directory is gone) dir serves as it is.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// bounds is how far the content of a log is final.
type bounds struct {
	logStart  int64 // what ends below it is deleted data
	highKnown bool
	high      int64 // exclusive end of what is committed; MaxInt64 if not known
	open      int64 // first offset of the oldest transaction that is open; MaxInt64 if none is
}

func (l *localLog) bounds(ctx context.Context, d *logDir) (bounds, error) {
	name := logfiles.Partition{Topic: l.tp.Topic, Partition: l.tp.Partition}
	b := bounds{logStart: d.starts[name], high: math.MaxInt64, open: math.MaxInt64}
	if d.highs != nil {
		// A partition without an entry has nothing that is known to be committed: Kafka takes 0 for it as well.
		b.high, b.highKnown = d.highs[name], true
	}
	producers, err := l.producersAt(ctx, b.high)
	if err != nil {
		return b, err
	}
	defer producers.Close()
	if open, ok := logfiles.FirstOpen(producers.Snapshot()); ok {
		b.open = open
	}
	return b, nil
}

func (p *Plan) notice(format string, args ...any) {
	p.Notices = append(p.Notices, fmt.Sprintf(format, args...))
}

func (p *Plan) choose(ctx context.Context, l *localLog, b bounds, o PlanOptions) error {
	below := 0
	for i, f := range l.segments {
		s := &LocalSegment{StartOffset: f.base, SizeBytes: f.size, plan: p, log: l, index: i}
		if i+1 < len(l.segments) {
			s.EndOffset = l.segments[i+1].base - 1
		} else {
			s.Active = true
			taken, err := p.takesActive(ctx, s, o)
			if err != nil {
				return err
			}
			if !taken {
				break
			}
		}
		if s.EndOffset < b.logStart {
			below++
			continue
		}
		if why := b.notFinal(s.EndOffset); why != "" {
			p.notice("segments from offset %d on are not taken: the one up to %d %s", s.StartOffset, s.EndOffset, why)
			break
		}
		s.Epochs = l.lineage.InRange(s.StartOffset, s.EndOffset+1)
		p.Segments = append(p.Segments, s)
	}
	if below > 0 {
		p.notice("%d segments below the log start offset %d are deleted data and not taken", below, b.logStart)
	}
	return nil
}

// notFinal says why a segment with that last offset may still change; "" if it may not.
func (b bounds) notFinal(end int64) string {
	switch {
	case end >= b.high:
		return fmt.Sprintf("reaches the high watermark %d of %s", b.high, highWatermarks)
	case end >= b.open:
		return fmt.Sprintf("reaches offset %d, where a transaction that is still open begins", b.open)
	}
	return ""
}

// takesActive finds the end of the active segment and reports whether it is a candidate.
func (p *Plan) takesActive(ctx context.Context, s *LocalSegment, o PlanOptions) (bool, error) {
	if !o.IncludeActive {
		return false, nil
	}
	if s.SizeBytes == 0 {
		p.notice("the active segment at offset %d is empty", s.StartOffset)
		return false, nil
	}
	last := int64(-1)
	err := eachBatch(ctx, s.path(".log"), func(b recordbatch.Batch, err error) (bool, error) {
		if errors.Is(err, remotelog.ErrCorrupt) || errors.Is(err, recordbatch.ErrUnsupportedMagic) {
			return false, nil // Prepare reports what is wrong with a batch
		}
		if err == nil {
			last = b.LastOffset()
		}
		return true, err
	})
	switch {
	case err != nil:
		return false, err
	case last < s.StartOffset:
		return false, fmt.Errorf("%s: %w: the active segment holds no whole batch: start the broker once, its recovery cuts it, "+
			"or leave the active segment out", s.path(".log"), remotelog.ErrCorrupt)
	}
	s.EndOffset = last
	return true, nil
}

// path is that of one of the segment's files.
func (s *LocalSegment) path(suffix string) string { return fileName(s.log.dir, s.StartOffset, suffix) }
