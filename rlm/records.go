package rlm

import (
	"context"
	"iter"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// Isolation says which records of transactions are shown.
type Isolation int8

// The isolation levels of a consumer.
const (
	ReadUncommitted Isolation = iota // all records
	ReadCommitted                    // none of aborted transactions, none behind the first open one
)

// Record is a record as a consumer gets it. Its slices are valid until the next step of the iteration; nil is null.
type Record struct {
	Offset        int64
	TimestampMs   int64
	LogAppendTime bool // else the timestamp is the producer's (CreateTime)
	LeaderEpoch   int32
	ProducerID    int64 // -1: none
	Transactional bool
	Key           []byte
	Value         []byte
	Headers       []Header
}

// Header is a record header.
type Header = recordbatch.RecordHeader

// ReadOptions configures Records. The zero value reads everything, uncommitted.
type ReadOptions struct {
	Isolation  Isolation
	MaxRecords int64 // 0: no maximum
}

// Records streams the records from offset on, up to the end of what is tiered. Control records are not shown. An offset outside what is
// tiered is a *RangeError. The first error ends the iteration; what was yielded before it is right.
func (v *View) Records(ctx context.Context, offset int64, o ReadOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		rd, err := v.newRead(ctx, offset, o.Isolation)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer rd.dec.Close()
		left := o.MaxRecords
		err = v.batches(ctx, offset, func(md *remotelog.SegmentMetadata, b recordbatch.Batch) (bool, error) {
			if b.BaseOffset >= rd.stop {
				return false, nil
			}
			if skip, err := rd.skips(ctx, md, b); skip || err != nil {
				return true, err
			}
			return rd.show(b, func(rec Record) bool {
				left--
				return yield(rec, nil) && left != 0
			})
		})
		if err != nil { // a loop that was left has ended without one
			yield(Record{}, err)
		}
	}
}

// show yields the records of a batch that are wanted, and says whether to go on.
func (rd *read) show(b recordbatch.Batch, yield func(Record) bool) (bool, error) {
	for rec, err := range rd.dec.Records(b.Bytes) {
		if err != nil {
			return false, err
		}
		if rec.Offset < rd.next {
			continue // before the first one wanted, or shown from a copy that was found damaged behind it
		}
		rd.next = rec.Offset + 1
		if !yield(asRecord(b, rec)) {
			return false, nil
		}
	}
	return true, nil
}

func asRecord(b recordbatch.Batch, rec recordbatch.Record) Record {
	return Record{Offset: rec.Offset, TimestampMs: rec.TimestampMs, LogAppendTime: b.LogAppendTime(), LeaderEpoch: b.PartitionLeaderEpoch,
		ProducerID: b.ProducerID, Transactional: b.Transactional(), Key: rec.Key, Value: rec.Value, Headers: rec.Headers}
}

// read is one pass over a view in one isolation level.
type read struct {
	v       *View
	dec     *recordbatch.Decoder
	next    int64 // offset of the next record to show
	stop    int64 // exclusive
	aborted *abortedSet
}

func (v *View) newRead(ctx context.Context, offset int64, isolation Isolation) (*read, error) {
	if offset < v.start || offset > v.end {
		return nil, &RangeError{Partition: v.tp, Offset: offset, Start: v.start, End: v.end}
	}
	rd := &read{v: v, next: offset, stop: v.end + 1}
	if isolation == ReadCommitted {
		stop, err := v.stableEnd(ctx)
		if err != nil {
			return nil, err
		}
		rd.stop, rd.aborted = stop, newAbortedSet(v, offset)
	}
	rd.dec = recordbatch.NewDecoder(recordbatch.Limits{})
	return rd, nil
}

// skips reports whether no record of the batch is shown.
func (rd *read) skips(ctx context.Context, md *remotelog.SegmentMetadata, b recordbatch.Batch) (bool, error) {
	if b.Control() {
		return true, nil
	}
	if rd.aborted == nil || !b.Transactional() {
		return false, nil
	}
	if err := rd.aborted.load(ctx, min(md.EndOffset+1, rd.stop)); err != nil {
		return false, err
	}
	return rd.aborted.has(b), nil
}
