package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
)

// openMetadataLog opens the metadata log for reading, and nothing else: no store, no manager. It creates nothing.
func (a *app) openMetadataLog(ctx context.Context) (*session, error) {
	s, err := a.configure()
	if err != nil {
		return nil, err
	}
	return s.finish(ctx, func(ctx context.Context) error { return s.openLog(ctx, filelog.OpenReadOnly) })
}

// dump shows the records of the log as it is now, or of the files of a stopped broker.
func (a *app) dump(ctx context.Context, f *recordFilter, logDir string) (err error) {
	p := a.recordPrinter()
	fatal := 0
	audit, of := rlmm.Audit{}, int32(-1)
	each := func(r *metaRecord) error {
		if r.partition != of {
			audit, of = rlmm.Audit{}, r.partition // they come one metadata partition after the other
		}
		v := audit.Apply(r.value)
		if !f.matches(r, &v) {
			return nil
		}
		if v.Fatal != rlmm.Harmless {
			fatal++
		}
		return p.show(r, &v)
	}
	if logDir != "" {
		err = a.scanFiles(ctx, logDir, each)
	} else {
		err = a.scanConfigured(ctx, each)
	}
	if err = errors.Join(err, p.flush()); err == nil && fatal > 0 {
		err = fmt.Errorf("%w: the metadata consumer of a broker does not survive %s of these; --fatal shows them alone", remotelog.ErrCorrupt, count(fatal, "record"))
	}
	return err
}

func (a *app) scanConfigured(ctx context.Context, each func(*metaRecord) error) (err error) {
	s, err := a.openMetadataLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	bounds, err := s.log.Bounds(ctx, allPartitions(s.log))
	if err != nil {
		return err
	}
	return a.scanLog(ctx, s.log, bounds, each)
}

func allPartitions(log rlmm.Log) []int32 {
	ps := make([]int32, log.Partitions())
	for i := range ps {
		ps[i] = int32(i)
	}
	return ps
}

// scanLog reads one metadata partition after the other, from its first offset to the end given.
func (a *app) scanLog(ctx context.Context, log rlmm.Log, bounds map[int32]rlmm.Bounds, each func(*metaRecord) error) error {
	for _, p := range allPartitions(log) {
		if b := bounds[p]; b.First < b.Next {
			if err := a.scanPartition(ctx, log, p, b, each); err != nil {
				return fmt.Errorf("metadata partition %d: %w", p, err)
			}
		}
	}
	return nil
}

func (a *app) scanPartition(ctx context.Context, log rlmm.Log, p int32, bounds rlmm.Bounds, each func(*metaRecord) error) (err error) {
	f := log.Follow(map[int32]rlmm.Position{p: {Offset: bounds.First, Epoch: -1}})
	defer func() { err = errors.Join(err, f.Close()) }()
	for at := bounds.First; at < bounds.Next; {
		b, err := nextSoon(ctx, f)
		if err != nil {
			return err
		}
		for _, l := range b.Lost {
			if l.Kind == rlmm.Truncated {
				return errors.New("the log was truncated while it was read: run the command again")
			}
			a.notice(fmt.Sprintf("metadata partition %d: records below offset %d have left the log while it was read", p, l.Resume.Offset))
			at = max(at, l.Resume.Offset)
		}
		if err := eachBelow(b.Events, bounds.Next, each); err != nil {
			return err
		}
		at = max(at, b.Next[p].Offset)
	}
	return nil
}

// nextSoon is Next where there must be something: a log that does not go on ends the command.
func nextSoon(ctx context.Context, f rlmm.Follower) (rlmm.Batch, error) {
	slice, cancel := context.WithTimeout(ctx, stalledAfter)
	defer cancel()
	b, err := f.Next(slice)
	if err != nil && slice.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the metadata log does not go on for %v: %w", stalledAfter, err)
	}
	return b, err
}

// eachBelow gives the events below an offset to each.
func eachBelow(events []rlmm.Event, end int64, each func(*metaRecord) error) error {
	for i := range events {
		if events[i].Offset >= end {
			return nil
		}
		if err := each(recordOf(&events[i])); err != nil {
			return err
		}
	}
	return nil
}

func recordOf(ev *rlmm.Event) *metaRecord {
	return &metaRecord{partition: ev.Partition, offset: ev.Offset, timestampMs: ev.TimestampMs, key: ev.Key, value: ev.Value}
}

// watch shows what comes in. All of the log is read, since what a record changes depends on those before it.
func (a *app) watch(ctx context.Context, f *recordFilter) (err error) {
	s, err := a.openMetadataLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	bounds, err := s.log.Bounds(ctx, allPartitions(s.log))
	if err != nil {
		return err
	}
	w := watcher{app: a, filter: f, now: map[int32]int64{}, audits: map[int32]*rlmm.Audit{}, out: a.recordPrinter()}
	from := map[int32]rlmm.Position{}
	for p, b := range bounds {
		from[p] = rlmm.Position{Offset: b.First, Epoch: -1}
		w.now[p], w.audits[p] = b.Next, &rlmm.Audit{}
	}
	follower := s.log.Follow(from)
	defer func() { err = errors.Join(err, follower.Close()) }()
	for {
		b, err := follower.Next(ctx)
		if err != nil {
			return err
		}
		if err := w.take(&b); err != nil {
			return err
		}
	}
}

// watcher is the state of a watch.
type watcher struct {
	app    *app
	filter *recordFilter
	now    map[int32]int64 // where each metadata partition ended when the watch began
	audits map[int32]*rlmm.Audit
	out    *recordPrinter
}

func (w *watcher) take(b *rlmm.Batch) error {
	for _, l := range b.Lost {
		w.app.notice(fmt.Sprintf("metadata partition %d: %v: the log lost offset %d and goes on at %d", l.Partition, l.Kind, l.From.Offset, l.Resume.Offset))
		if l.Kind == rlmm.Truncated {
			w.audits[l.Partition], w.now[l.Partition] = &rlmm.Audit{}, l.Resume.Offset // all that is there now is new
		}
	}
	for i := range b.Events {
		r := recordOf(&b.Events[i])
		v := w.audits[r.partition].Apply(r.value)
		if !w.filter.from.given && r.offset < w.now[r.partition] || !w.filter.matches(r, &v) {
			continue
		}
		if err := w.out.show(r, &v); err != nil {
			return err
		}
	}
	return w.out.flush()
}
