package rlm

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// FetchOptions configures Fetch.
type FetchOptions struct {
	MaxBytes   int64 // of Fetched.Records; 0: no limit but the segment
	AtLeastOne bool  // return the first batch even if it is larger than MaxBytes
	Isolation  Isolation
}

// Fetched is what a consumer's fetch returns from the tier.
type Fetched struct {
	BaseOffset int64 // of the first batch, which may be below the offset asked for; without a batch: that offset
	Position   int64 // of the first batch in its segment
	Records    []byte
	Aborted    []AbortedTxn // read_committed: those that overlap Records, by first offset; nil in read_uncommitted
}

// Fetch returns whole record batches for a fetch request of a broker (Kafka: RemoteLogManager.read): from the one that holds offset, or
// the next one if compaction removed it, up to MaxBytes or the end of its segment. Empty Records: nothing is there from offset on,
// or the first batch is larger than MaxBytes. Batches of aborted transactions are contained; Aborted tells the consumer to skip them.
func (v *View) Fetch(ctx context.Context, offset int64, o FetchOptions) (Fetched, error) {
	rd, err := v.newRead(ctx, offset, o.Isolation)
	if err != nil {
		return Fetched{}, err
	}
	defer rd.dec.Close()
	limit := o.MaxBytes
	if limit == 0 {
		limit = math.MaxInt64
	}
	f := Fetched{BaseOffset: offset}
	var from remotelog.UUID
	end := offset
	err = v.batches(ctx, offset, func(md *remotelog.SegmentMetadata, b recordbatch.Batch) (bool, error) {
		first := len(f.Records) == 0
		if b.BaseOffset >= rd.stop || !first && (md.ID != from || int64(len(f.Records))+b.Size() > limit) {
			return false, nil
		}
		if first && b.Size() > limit && !o.AtLeastOne {
			return false, nil
		}
		if first {
			f.BaseOffset, f.Position, from = b.BaseOffset, b.Position, md.ID
		}
		f.Records = append(f.Records, b.Bytes...)
		end = b.LastOffset() + 1
		return int64(len(f.Records)) < limit, nil
	})
	if err != nil {
		return Fetched{}, err
	}
	if rd.aborted == nil {
		return f, nil
	}
	if err := rd.aborted.load(ctx, end); err != nil {
		return Fetched{}, err
	}
	f.Aborted = rd.aborted.in(f.BaseOffset, end)
	slices.SortFunc(f.Aborted, func(a, b AbortedTxn) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return f, nil
}
