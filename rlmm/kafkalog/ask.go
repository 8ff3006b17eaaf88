package kafkalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/rlmm"
)

// facts are what a leader says about a partition.
type facts struct {
	bounds rlmm.Bounds
	// epoch is the greatest leader epoch of the log that is not above the one that was asked for, end the offset behind its last
	// event; epoch is -1 if there is none.
	epoch int32
	end   int64
	// mute: the leader knows no such epoch though its own is greater. Kafka always answers then, with the epoch below, because a
	// leader notes where its own epoch begins (LeaderEpochFileCache.endOffsetFor); others may not, and it says nothing.
	mute bool
}

// question asks one leader about some partitions.
type question struct {
	node int32
	at   map[int32]place
}

// place is a position, and the leader epoch in which the leader is asked.
type place struct {
	pos    rlmm.Position
	leader int32
}

// Bounds implements rlmm.Log.
func (l *Log) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	at := make(map[int32]rlmm.Position, len(ps))
	for _, p := range ps {
		at[p] = rlmm.Position{Epoch: -1}
	}
	found, err := l.ask(ctx, at)
	if err != nil {
		return nil, err
	}
	out := make(map[int32]rlmm.Bounds, len(found))
	for p, f := range found {
		out[p] = f.bounds
	}
	return out, nil
}

// Check implements rlmm.Log.
func (l *Log) Check(ctx context.Context, at map[int32]rlmm.Position) ([]rlmm.Loss, error) {
	found, err := l.ask(ctx, at)
	if err != nil {
		return nil, err
	}
	var lost []rlmm.Loss
	for _, p := range slices.Sorted(maps.Keys(found)) {
		if loss, ok := lossAt(p, at[p], found[p]); ok {
			lost = append(lost, loss)
		}
	}
	return lost, nil
}

// lossAt says whether a reader at pos has lost its place.
func lossAt(p int32, pos rlmm.Position, f facts) (rlmm.Loss, bool) {
	loss := rlmm.Loss{Partition: p, From: pos, Resume: rlmm.Position{Offset: f.bounds.First, Epoch: -1}}
	// What precedes a position below or at First has left the log: nothing can be said against it.
	known := pos.Epoch >= 0 && pos.Offset > f.bounds.First && !f.mute
	switch {
	case pos.Offset > f.bounds.Next,
		known && f.epoch != pos.Epoch, // nothing of that epoch is there
		known && f.end < pos.Offset:   // that epoch ends before
		loss.Kind = rlmm.Truncated
	case pos.Offset < f.bounds.First:
		loss.Kind = rlmm.HeadGone
	default:
		return rlmm.Loss{}, false
	}
	return loss, true
}

// ask asks the leaders until each has answered, an error has to come out, or ctx ends.
func (l *Log) ask(ctx context.Context, at map[int32]rlmm.Position) (map[int32]facts, error) {
	for p := range at {
		if err := l.valid(p); err != nil {
			return nil, err
		}
	}
	found, open := make(map[int32]facts, len(at)), maps.Clone(at)
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		if err := l.usable(); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		version, failed := l.round(ctx, open, found)
		if len(open) == 0 {
			// These questions name the topic without its id: only afterwards is it sure whom they were about.
			if failed = l.look(ctx); failed == nil {
				return found, nil
			}
		} else if !surfaced(failed) {
			if err := l.refresh(ctx, version); err != nil && surfaced(err) {
				failed = err
			}
		}
		if surfaced(failed) || !sleep(ctx, pause) {
			return nil, fmt.Errorf("metadata log on kafka: bounds of %d partitions: %w", len(at), ended(ctx, failed))
		}
	}
}

// round asks each leader once and moves what was answered from open to found. failed is an error that has to come out, or else
// the last one.
func (l *Log) round(ctx context.Context, open map[int32]rlmm.Position, found map[int32]facts) (version int, failed error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Config.Admin.RequestTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	nodes := map[int32]*question{}
	for p, pos := range open {
		var to leader
		to, version = l.topo.of(p)
		if to.node < 0 {
			failed = fmt.Errorf("metadata partition %d: %w", p, kerr.LeaderNotAvailable)
			continue
		}
		if nodes[to.node] == nil {
			nodes[to.node] = &question{node: to.node, at: map[int32]place{}}
		}
		nodes[to.node].at[p] = place{pos, to.epoch}
	}
	var mu sync.Mutex
	var g errgroup.Group
	for _, q := range nodes {
		g.Go(func() error {
			got, errs := l.inspect(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for p, f := range got {
				found[p] = f
				delete(open, p)
			}
			for p, err := range errs {
				if failed == nil || !surfaced(failed) {
					failed = fmt.Errorf("metadata partition %d: %w", p, err)
				}
			}
			return nil
		})
	}
	_ = g.Wait() // each error was taken where it arose
	return version, failed
}

// inspect asks one leader for bounds and epochs. Each partition is in one of the two answers.
func (l *Log) inspect(ctx context.Context, q *question) (map[int32]facts, map[int32]error) {
	found, errs := make(map[int32]facts, len(q.at)), map[int32]error{}
	steps := []func(context.Context, *question, map[int32]facts, map[int32]error) error{
		func(ctx context.Context, q *question, found map[int32]facts, errs map[int32]error) error {
			return l.listOffsets(ctx, q, -2, errs, func(p int32, o int64) { found[p] = facts{bounds: rlmm.Bounds{First: o}, epoch: -1} })
		},
		func(ctx context.Context, q *question, found map[int32]facts, errs map[int32]error) error {
			return l.listOffsets(ctx, q, -1, errs, func(p int32, o int64) { f := found[p]; f.bounds.Next = o; found[p] = f })
		},
		l.epochEnds,
	}
	for _, step := range steps {
		if err := step(ctx, q, found, errs); err != nil {
			for p := range q.at {
				errs[p] = err
			}
			return nil, errs
		}
	}
	for p := range q.at {
		_, ok := found[p]
		switch {
		case errs[p] != nil:
			delete(found, p)
		case !ok:
			errs[p] = fmt.Errorf("broker %d leaves it out of its answer", q.node)
		}
	}
	return found, errs
}

// listOffsets asks for the offsets at a time: -2 the first, -1 the high watermark.
func (l *Log) listOffsets(ctx context.Context, q *question, at int64, errs map[int32]error, take func(p int32, offset int64)) error {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = Topic
	for p, pl := range q.at {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.Timestamp = p, pl.leader, at
		t.Partitions = append(t.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := send[*kmsg.ListOffsetsResponse](ctx, l.admin, q.node, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if _, asked := q.at[p.Partition]; !asked {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs[p.Partition] = err
				continue
			}
			take(p.Partition, p.Offset)
		}
	}
	return nil
}

// epochEnds asks where the epochs of the positions end.
func (l *Log) epochEnds(ctx context.Context, q *question, found map[int32]facts, errs map[int32]error) error {
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = Topic
	for p, pl := range q.at {
		if pl.pos.Epoch < 0 {
			continue
		}
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = p, pl.leader, pl.pos.Epoch
		t.Partitions = append(t.Partitions, rp)
	}
	if len(t.Partitions) == 0 {
		return nil
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	req.Topics = append(req.Topics, t)
	resp, err := send[*kmsg.OffsetForLeaderEpochResponse](ctx, l.admin, q.node, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			f, ok := found[p.Partition]
			if !ok {
				continue
			}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs[p.Partition] = err
				continue
			}
			pl := q.at[p.Partition]
			f.epoch, f.end, f.mute = p.LeaderEpoch, p.EndOffset, p.LeaderEpoch < 0 && pl.pos.Epoch < pl.leader
			found[p.Partition] = f
		}
	}
	return nil
}
