package rlmm

import (
	"cmp"

	"github.com/tierkit/tierkit/remotelog"
)

// segment is what the cache keeps of one segment: remotelog.SegmentMetadata without what all segments of a partition share. It
// never changes: a change of state makes a new one, so that a listing may read it without a lock.
type segment struct {
	id       remotelog.UUID
	start    int64
	end      int64
	maxTs    int64
	eventTs  int64
	epochs   []remotelog.LeaderEpoch // strictly ascending epochs, at least one; offsets may be anything in a foreign record
	custom   remotelog.CustomMetadata
	size     int32
	broker   int32
	state    remotelog.State
	txnEmpty bool
}

// single is a segment of one epoch, by far the most frequent kind, with the epoch beside it: one object instead of two, and one
// place in memory to go to.
type single struct {
	segment
	epoch [1]remotelog.LeaderEpoch
}

func newSegment(md *remotelog.SegmentMetadata) *segment {
	s := segment{
		id: md.ID, start: md.StartOffset, end: md.EndOffset, maxTs: md.MaxTimestampMs, eventTs: md.EventTimestampMs,
		epochs: normalEpochs(md.LeaderEpochs), custom: md.CustomMetadata, size: int32(md.SizeBytes), broker: md.BrokerID,
		state: md.State, txnEmpty: md.TxnIndexEmpty,
	}
	return s.keep()
}

// keep moves s to the heap.
func (s *segment) keep() *segment {
	if len(s.epochs) != 1 {
		n := *s
		return &n
	}
	n := &single{segment: *s, epoch: [1]remotelog.LeaderEpoch{s.epochs[0]}}
	n.epochs = n.epoch[:]
	return &n.segment
}

// with returns the segment after an update: Kafka replaces the custom metadata even by null (RemoteLogSegmentMetadata
// .createWithUpdates, 4.4).
func (s *segment) with(u *remotelog.SegmentUpdate) *segment {
	n := *s
	n.state, n.custom, n.broker, n.eventTs = u.State, u.CustomMetadata, u.BrokerID, u.EventTimestampMs
	return n.keep()
}

func (s *segment) metadata(tp remotelog.TopicIDPartition) remotelog.SegmentMetadata {
	return remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: tp, ID: s.id},
		StartOffset: s.start, EndOffset: s.end, LeaderEpochs: s.epochs, MaxTimestampMs: s.maxTs, BrokerID: s.broker,
		EventTimestampMs: s.eventTs, SizeBytes: int64(s.size), CustomMetadata: s.custom, State: s.state, TxnIndexEmpty: s.txnEmpty,
	}
}

// lastOf returns the last offset of an epoch that s is known to have.
func (s *segment) lastOf(epoch int32) int64 {
	if len(s.epochs) == 1 {
		return s.end
	}
	_, last, _ := s.within(epoch)
	return last
}

// within returns the first and last offset of an epoch in s; ok is false if s has no such epoch.
func (s *segment) within(epoch int32) (first, last int64, ok bool) {
	lo, hi := 0, len(s.epochs)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); s.epochs[mid].Epoch < epoch {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(s.epochs) || s.epochs[lo].Epoch != epoch {
		return 0, 0, false
	}
	return s.epochs[lo].StartOffset, s.epochEnd(lo), true
}

// epochEnd is the last offset of the i-th epoch.
func (s *segment) epochEnd(i int) int64 {
	if i+1 < len(s.epochs) {
		return s.epochs[i+1].StartOffset - 1
	}
	return s.end
}

// byEnd orders segments with equal starts as Segments lists them.
func byEnd(a, b *segment) int { return cmp.Or(cmp.Compare(a.end, b.end), a.id.Compare(b.id)) }

// byEndThenIDDown is the reverse of the order in which SegmentsOfEpoch lists segments with equal starts, so that a search from
// the right meets the first of them first.
func byEndThenIDDown(a, b *segment) int { return cmp.Or(cmp.Compare(a.end, b.end), b.id.Compare(a.id)) }

// byKeyAlone makes the key identify an entry.
func byKeyAlone(_, _ *segment) int { return 0 }
