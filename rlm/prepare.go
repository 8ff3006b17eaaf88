package rlm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/remotelog"
)

// Prepare reads the segment and everything that belongs to it, checks that it is whole and fits together, and returns its metadata,
// still without an id and in state COPY_SEGMENT_STARTED, with the data for StorageManager.Copy. It changes nothing. What is damaged
// is remotelog.ErrCorrupt, a file that is missing remotelog.ErrInvalidArgument; both name the file.
func (s *LocalSegment) Prepare(ctx context.Context) (remotelog.SegmentMetadata, remotelog.SegmentData, error) {
	md, data, err := s.prepare(ctx)
	if err != nil {
		return remotelog.SegmentMetadata{}, remotelog.SegmentData{}, fmt.Errorf("segment %d of %s: %w", s.StartOffset, s.plan.Dir, err)
	}
	return md, data, nil
}

func (s *LocalSegment) prepare(ctx context.Context) (md remotelog.SegmentMetadata, data remotelog.SegmentData, err error) {
	offsets, err := s.offsetIndex()
	if err != nil {
		return md, data, err
	}
	times, err := s.timeIndex()
	if err != nil {
		return md, data, err
	}
	aborted, hasTxnIndex, err := s.txnIndex()
	if err != nil {
		return md, data, err
	}
	sc := scan{s: s, index: offsets, last: s.StartOffset - 1, maxTimestamp: -1}
	if err := sc.run(ctx); err != nil {
		return md, data, err
	}
	if err := s.checkEnd(times, sc.last); err != nil {
		return md, data, err
	}
	if err := sc.checkAborted(aborted); err != nil {
		return md, data, err
	}
	s.gap = sc.gap()
	snapshot, err := s.producerSnapshot(ctx)
	if err != nil {
		return md, data, err
	}
	md = remotelog.SegmentMetadata{
		SegmentID:   remotelog.SegmentID{TopicIDPartition: s.plan.TopicIDPartition},
		StartOffset: s.StartOffset, EndOffset: s.EndOffset, LeaderEpochs: sc.leaderEpochs(),
		MaxTimestampMs: sc.maxTimestamp, BrokerID: s.plan.BrokerID, SizeBytes: s.SizeBytes, TxnIndexEmpty: len(aborted) == 0,
	}
	data = remotelog.SegmentData{
		Log: remotelog.File(s.path(".log")), OffsetIndex: remotelog.File(s.path(".index")), TimeIndex: remotelog.File(s.path(".timeindex")),
		ProducerSnapshot: snapshot, LeaderEpochs: s.leaderEpochText(),
	}
	if s.Active { // Kafka preallocates them with zeros, or has not created them yet
		data.OffsetIndex, data.TimeIndex = remotelog.Bytes(offsets.Bytes()), remotelog.Bytes(times.Bytes())
	}
	if hasTxnIndex {
		data.TransactionIndex = remotelog.File(s.path(".txnindex"))
	}
	return md, data, md.Validate()
}

// checkEnd compares the end of the .log with the last entry of the time index. A broker writes that one when it closes the segment: where
// it names an offset behind the last batch, the .log lost whole batches at its end.
func (s *LocalSegment) checkEnd(times logfiles.TimeIndex, last int64) error {
	if times.Len() == 0 {
		return nil
	}
	switch named := times.Entry(times.Len() - 1).Offset; {
	case named > s.EndOffset:
		return s.damaged(".timeindex", fmt.Errorf("%w: its last entry is for offset %d, the segment ends at %d", remotelog.ErrCorrupt, named, s.EndOffset))
	case named > last:
		return s.lostEnd(fmt.Sprintf("at offset %d", last), fmt.Sprintf(".timeindex knows offset %d", named))
	}
	return nil
}

// lostEnd is the error for a .log that is shorter than one of its indexes says. To rebuild the index would hide the loss.
func (s *LocalSegment) lostEnd(end, knows string) error {
	todo := "its end was lost, let the broker's replica restore it"
	if s.Active {
		todo = "start the broker once, its recovery makes them agree, or leave the active segment out"
	}
	return fmt.Errorf("%s: %w: it ends %s, but its %s: %s", s.path(".log"), remotelog.ErrCorrupt, end, knows, todo)
}

// index reads an index file. Only an active segment may be without.
func (s *LocalSegment) indexFile(suffix string) ([]byte, error) {
	b, err := readSideFile(s.path(suffix))
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Active:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s is missing: start the broker once, it rebuilds index files", remotelog.ErrInvalidArgument, s.path(suffix))
	}
	return b, err
}

func (s *LocalSegment) offsetIndex() (logfiles.OffsetIndex, error) {
	b, err := s.indexFile(".index")
	if err != nil {
		return logfiles.OffsetIndex{}, err
	}
	parse := logfiles.ParseOffsetIndex
	if s.Active {
		parse = logfiles.CutOffsetIndex
	}
	x, err := parse(b, s.StartOffset)
	return x, s.damaged(".index", err)
}

func (s *LocalSegment) timeIndex() (logfiles.TimeIndex, error) {
	b, err := s.indexFile(".timeindex")
	if err != nil {
		return logfiles.TimeIndex{}, err
	}
	parse := logfiles.ParseTimeIndex
	if s.Active {
		parse = logfiles.CutTimeIndex
	}
	x, err := parse(b, s.StartOffset)
	return x, s.damaged(".timeindex", err)
}

func (s *LocalSegment) txnIndex() (txns []logfiles.AbortedTxn, exists bool, err error) {
	b, err := readSideFile(s.path(".txnindex"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	txns, err = logfiles.ParseTxnIndex(b)
	if n := len(txns); err == nil && n > 0 && (txns[0].LastOffset < s.StartOffset || txns[n-1].LastOffset > s.EndOffset) {
		err = fmt.Errorf("%w: it has markers outside the segment", remotelog.ErrCorrupt)
	}
	return txns, true, s.damaged(".txnindex", err)
}

func (s *LocalSegment) damaged(suffix string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: delete the file and start the broker once, it rebuilds it", s.path(suffix), err)
}

// producerSnapshot returns the snapshot at the end of the segment: the file that is named by the next base offset. For an active
// segment without one it is computed: an empty one would lose producers' state.
func (s *LocalSegment) producerSnapshot(ctx context.Context) (remotelog.Source, error) {
	next := s.EndOffset + 1
	path := fileName(s.log.dir, next, ".snapshot")
	_, err := s.log.snapshot(next)
	switch {
	case err == nil:
		return remotelog.File(path), nil
	case errors.Is(err, fs.ErrNotExist) && !s.Active:
		return nil, fmt.Errorf("%w: %s is missing: start the broker once, it writes producer snapshots", remotelog.ErrInvalidArgument, path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w: delete the file and start the broker once, it writes it again", path, err)
	}
	p, err := s.log.producersAt(ctx, next)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return remotelog.Bytes(logfiles.MarshalSnapshot(p.Snapshot())), nil
}

// leaderEpochText is the checkpoint as a broker hands it over: cut at the segment's end, not at its start.
func (s *LocalSegment) leaderEpochText() []byte {
	var upTo Lineage
	for _, e := range s.log.lineage {
		if e.StartOffset <= s.EndOffset {
			upTo = append(upTo, e)
		}
	}
	return logfiles.MarshalLeaderEpochs(upTo)
}

// unchanged reports, as an error, whether the .log has another size than when it was planned.
func (s *LocalSegment) unchanged() error {
	fi, err := os.Stat(s.path(".log"))
	if err != nil {
		return err
	}
	if fi.Size() != s.SizeBytes {
		return fmt.Errorf("%w: %s changed while it was copied: it had %d bytes and has %d", remotelog.ErrConflict, s.path(".log"), s.SizeBytes, fi.Size())
	}
	return nil
}
