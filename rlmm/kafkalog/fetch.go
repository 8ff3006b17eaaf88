package kafkalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// What one fetch asks for, and what a compressed batch may grow to. A broker sends the first batch whole even if it is larger.
const (
	fetchBytes     = 2 << 20
	partitionBytes = 1 << 20
	decodedBytes   = 2 << 20  // of one partition; decoding stops behind the batch that reaches it
	maxBatchBytes  = 64 << 20 // of one batch, decompressed
)

// work is what a task has to do for one partition.
type work struct {
	*cursor
	pos     rlmm.Position
	leader  int32 // epoch
	version int   // of the topology
	vet     bool  // pos is to be compared with the leader's epochs first
}

// outcome is what became of it. Without error, next is where reading goes on.
type outcome struct {
	work
	events []rlmm.Event
	next   rlmm.Position
	loss   *rlmm.Loss
	err    error
}

// step is the result of a task, of a leader or (-1) of a penalty.
type step struct {
	node     int32
	outcomes []outcome
}

// errDamaged: what a broker sent cannot be decoded.
var errDamaged = fmt.Errorf("%w: record batch of the metadata topic", remotelog.ErrCorrupt)

func surfacesFromRead(err error) bool {
	return surfaced(err) || errors.Is(err, ErrNoTopic) || errors.Is(err, remotelog.ErrCorrupt) || errors.Is(err, recordbatch.ErrUnsupportedMagic)
}

// work compares positions with the leader's epochs where that is due, and fetches.
func (f *follower) work(node int32, ws []work) step {
	ctx, cancel := context.WithTimeout(f.ctx, f.log.opts.Config.Consumer.RequestTimeout)
	defer cancel()
	s := step{node: node}
	var due, ready []work
	for _, w := range ws {
		if w.vet {
			due = append(due, w)
		} else {
			ready = append(ready, w)
		}
	}
	s.outcomes, ready = f.vet(ctx, node, due, ready)
	if len(ready) == 0 {
		return s
	}
	fetched := f.fetch(ctx, node, ready)
	var outOfRange []work
	for _, o := range fetched {
		if errors.Is(o.err, kerr.OffsetOutOfRange) {
			outOfRange = append(outOfRange, o.work)
			continue
		}
		s.outcomes = append(s.outcomes, o)
	}
	lost, still := f.vet(ctx, node, outOfRange, nil)
	s.outcomes = append(s.outcomes, lost...)
	for _, w := range still { // the leader has changed its mind: ask again
		s.outcomes = append(s.outcomes, outcome{work: w, err: kerr.OffsetOutOfRange})
	}
	return s
}

// vet looks positions up. What is on the log is appended to good; the rest has an outcome.
func (f *follower) vet(ctx context.Context, node int32, ws, good []work) (out []outcome, ready []work) {
	if len(ws) == 0 {
		return nil, good
	}
	q := &question{node: node, at: make(map[int32]place, len(ws))}
	for _, w := range ws {
		q.at[w.part] = place{w.pos, w.leader}
	}
	found, errs := f.log.inspect(ctx, q)
	sure := false
	for _, w := range ws {
		if err := errs[w.part]; err != nil {
			out = append(out, outcome{work: w, err: err})
			continue
		}
		loss, lost := lossAt(w.part, w.pos, found[w.part])
		if !lost {
			good = append(good, w)
			continue
		}
		if !sure { // the question named the topic without its id: a topic made again has lost nothing, it is another
			err := f.log.look(ctx)
			if errors.Is(err, ErrNoTopic) { // perhaps not yet
				err = kerr.UnknownTopicOrPartition
			}
			if err != nil {
				out = append(out, outcome{work: w, err: err})
				continue
			}
			sure = true
		}
		out = append(out, outcome{work: w, loss: &loss, next: loss.Resume})
	}
	return out, good
}

// fetch reads from one leader.
func (f *follower) fetch(ctx context.Context, node int32, ws []work) []outcome {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = Topic, f.log.topicID
	for _, w := range ws {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = w.part, w.leader, w.pos.Offset, partitionBytes
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(idleWait.Milliseconds()), 1, fetchBytes
	req.Topics = append(req.Topics, t)
	resp, err := send[*kmsg.FetchResponse](ctx, f.client, node, req)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	got := map[int32]*kmsg.FetchResponseTopicPartition{}
	if err == nil {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				p := &resp.Topics[i].Partitions[j]
				got[p.Partition] = p
			}
		}
	}
	dec := recordbatch.NewDecoder(recordbatch.Limits{MaxDecompressedBytes: maxBatchBytes})
	defer dec.Close()
	out := make([]outcome, 0, len(ws))
	for _, w := range ws {
		o := outcome{work: w, next: w.pos}
		p := got[w.part]
		switch {
		case err != nil:
			o.err = err
		case p == nil:
			o.err = fmt.Errorf("broker %d leaves partition %d out of its answer", node, w.part)
		default:
			if o.err = kerr.ErrorForCode(p.ErrorCode); o.err == nil {
				o.events, o.next, o.err = decode(dec, w.part, w.pos, p.RecordBatches)
			}
		}
		out = append(out, o)
	}
	return out
}

// decode takes the events at and behind from out of record batches. A batch at the end may be cut off. next is behind the last
// batch, be it one of events or of control records. What cannot be decoded is an error if nothing stands before it, so that it
// comes alone the next time.
func decode(dec *recordbatch.Decoder, part int32, from rlmm.Position, b []byte) (events []rlmm.Event, next rlmm.Position, err error) {
	next = from
	for size := 0; size < decodedBytes; {
		h, herr := recordbatch.ParseHeader(b)
		if errors.Is(herr, recordbatch.ErrTruncated) || herr == nil && h.Size() > int64(len(b)) {
			return events, next, nil
		}
		if herr == nil {
			_, herr = recordbatch.Check(b[:h.Size()])
		}
		kept := len(events)
		if herr == nil && !h.Control() {
			events, size, herr = decodeRecords(dec, part, next.Offset, &h, b[:h.Size()], events, size)
		}
		if herr != nil {
			if next == from {
				return nil, from, fmt.Errorf("%w at offset %d of partition %d: %w", errDamaged, next.Offset, part, herr)
			}
			return events[:kept], next, nil
		}
		if end := h.LastOffset() + 1; end > next.Offset {
			next = rlmm.Position{Offset: end, Epoch: h.PartitionLeaderEpoch}
		}
		size += recordbatch.HeaderSize
		b = b[h.Size():]
	}
	return events, next, nil
}

func decodeRecords(dec *recordbatch.Decoder, part int32, from int64, h *recordbatch.Header, batch []byte, events []rlmm.Event, size int) ([]rlmm.Event, int, error) {
	const least = 7 // bytes of a record, so that a count does not claim more memory than there are bytes for
	if n := int(h.RecordCount); h.Codec() == recordbatch.None && n <= len(batch)/least {
		events = slices.Grow(events, n)
	}
	for r, err := range dec.Records(batch) {
		if err != nil {
			return events, size, err
		}
		if r.Offset < from {
			continue
		}
		events = append(events, rlmm.Event{
			Partition: part, Offset: r.Offset, Epoch: h.PartitionLeaderEpoch, TimestampMs: r.TimestampMs,
			Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value),
		})
		size += len(r.Key) + len(r.Value)
	}
	return events, size, nil
}
