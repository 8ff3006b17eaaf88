package rlm

import (
	"context"
	"fmt"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// TimestampedOffset is the answer of a search by timestamp.
type TimestampedOffset struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch int32
}

// OffsetForTimestamp returns the first record whose timestamp is at least ts, as Kafka's ListOffsets does: control records count. ok is
// false if there is none.
func (v *View) OffsetForTimestamp(ctx context.Context, ts int64) (at TimestampedOffset, ok bool, err error) {
	dec := recordbatch.NewDecoder(recordbatch.Limits{})
	defer dec.Close()
	for next := v.start; next <= v.end; {
		md, err := v.segment(ctx, next)
		if err != nil {
			return at, false, err
		}
		if md.MaxTimestampMs >= ts {
			at, ok, err = v.searchTimestamp(ctx, dec, md, next, ts)
			if err != nil && v.replace(md, next, err) {
				continue
			}
			if ok || err != nil {
				return at, ok, err
			}
		}
		next = md.EndOffset + 1
	}
	return TimestampedOffset{}, false, nil
}

// searchTimestamp searches one segment from offset from on.
func (v *View) searchTimestamp(ctx context.Context, dec *recordbatch.Decoder, md remotelog.SegmentMetadata, from, ts int64) (at TimestampedOffset, ok bool, err error) {
	b, err := v.index(ctx, md, remotelog.TimestampIndex)
	if err != nil {
		return at, false, err
	}
	x, err := logfiles.ParseTimeIndex(b, md.StartOffset)
	if err != nil {
		return at, false, fmt.Errorf("segment %s: %w", md.SegmentID, err)
	}
	if e, ok := x.Before(ts); ok {
		from = max(from, e.Offset+1)
	}
	err = v.segmentBatches(ctx, md, from, func(b recordbatch.Batch) (bool, error) {
		if b.MaxTimestampMs < ts {
			return true, nil
		}
		for rec, err := range dec.Records(b.Bytes) {
			if err != nil {
				return false, err
			}
			if rec.Offset >= from && rec.TimestampMs >= ts {
				at, ok = TimestampedOffset{Offset: rec.Offset, TimestampMs: rec.TimestampMs, LeaderEpoch: b.PartitionLeaderEpoch}, true
				return false, nil
			}
		}
		return true, nil
	})
	return at, ok, err
}
