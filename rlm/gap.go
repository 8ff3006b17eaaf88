package rlm

import (
	"context"
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
)

// gap is the offsets between the last batch of a closed segment and the next segment, where nothing shows that the log was
// compacted. Either a segment file is lost without a trace, or compaction took the last records of this segment and nothing else.
//
// No file of a broker tells these apart for certain. A segment does not know the one before it; producers' and leaders' epochs of what
// compaction removed stay in the snapshots and the checkpoint; indexes speak of their own segment. Compaction itself does
// leave signs: offsets that are missing inside segments, which a replica inherits, and the entry in cleaner-offset-checkpoint of the broker that
// did it. Without either a gap is suspicious, and where the tier holds what is missing here it is a loss.
type gap struct{ first, last int64 }

func (g *gap) String() string { return fmt.Sprintf("offsets %d to %d", g.first, g.last) }

// gap returns the gap behind the segment, nil if there is none or compaction explains it.
func (c *scan) gap() *gap {
	g := &gap{c.last + 1, c.s.EndOffset}
	if g.first > g.last || c.compacted || g.first < c.s.plan.cleaned {
		return nil
	}
	return g
}

// checkGap is an error if the tier holds offsets of the gap: this copy would hide them from readers.
func (s *LocalSegment) checkGap(remote []remotelog.SegmentMetadata) error {
	if s.gap == nil {
		return nil
	}
	for i := range remote {
		md := &remote[i]
		at := max(md.StartOffset, s.gap.first)
		theirs, _ := Lineage(md.LeaderEpochs).EpochAt(at)
		if ours, ok := s.log.lineage.EpochAt(at); ok && ours == theirs && at <= min(md.EndOffset, s.gap.last) {
			return fmt.Errorf("segment %d of %s: %w: %v behind it are in no file, and in the tier as %s (%d to %d): a segment file is lost, "+
				"let the broker's replica restore it", s.StartOffset, s.plan.Dir, remotelog.ErrCorrupt, s.gap, md.SegmentID, md.StartOffset, md.EndOffset)
		}
	}
	return nil
}

// prepare is Prepare, with a look at what lies behind the segment.
func (j *offload) prepare(ctx context.Context, s *LocalSegment, remote []remotelog.SegmentMetadata) (remotelog.SegmentMetadata, remotelog.SegmentData, error) {
	md, data, err := s.Prepare(ctx)
	if err == nil {
		err = s.checkGap(remote)
	}
	if err == nil && s.gap != nil {
		j.notice(s.plan.Dir, fmt.Sprintf("%v behind segment %d are in no file, and neither the segment nor %s shows that the log was compacted: if it never was, "+
			"a segment file is lost, and the broker's replica should restore it", s.gap, s.StartOffset, cleanedUpTo))
	}
	return md, data, err
}
