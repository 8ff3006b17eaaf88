package filelog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// request is one waiting Append.
type request struct {
	event rlmm.Event // its Value is a copy
	done  chan result
}

type result struct {
	at  rlmm.Position
	err error
}

// keepBuf is the largest group buffer that is kept for the next group.
const keepBuf = 1 << 20

// Append implements rlmm.Log.
func (l *Log) Append(ctx context.Context, p int32, event []byte) (rlmm.Position, error) {
	part, err := l.partition(p)
	if err != nil {
		return rlmm.Position{}, err
	}
	if len(event) == 0 || len(event) > rlmm.MaxEventBytes {
		return rlmm.Position{}, fmt.Errorf("%w: event of %d bytes for metadata partition %d, want 1 to %d",
			remotelog.ErrInvalidArgument, len(event), p, rlmm.MaxEventBytes)
	}
	if l.lock == nil {
		return rlmm.Position{}, fmt.Errorf("%w: append to %s, which was opened for reading only", remotelog.ErrInvalidArgument, l.dir)
	}
	if err := ctx.Err(); err != nil {
		return rlmm.Position{}, err
	}
	r := &request{
		event: rlmm.Event{TimestampMs: l.now().UnixMilli(), Value: slices.Clone(event)},
		done:  make(chan result, 1),
	}
	if err := part.enqueue(r); err != nil {
		return rlmm.Position{}, err
	}
	select {
	case got := <-r.done:
		return got.at, got.err
	case <-ctx.Done():
	}
	if part.withdraw(r) {
		return rlmm.Position{}, ctx.Err()
	}
	select {
	case got := <-r.done:
		return got.at, got.err
	default:
		return rlmm.Position{}, fmt.Errorf("append to %s: being written: %w: %w", part.path, remotelog.ErrOutcomeUnknown, ctx.Err())
	}
}

func (p *partition) enqueue(r *request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed()
	}
	p.pending = append(p.pending, r)
	select {
	case p.kick <- struct{}{}:
	default:
	}
	return nil
}

// withdraw takes back a request that is not in a group yet.
func (p *partition) withdraw(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.pending, r)
	if i < 0 {
		return false
	}
	p.pending = slices.Delete(p.pending, i, i+1)
	return true
}

// commit is the goroutine that writes groups, until the partition is shut.
func (l *Log) commit(p *partition) {
	for {
		select {
		case <-p.kick:
		case <-l.done:
			return
		}
		for reqs := p.take(); len(reqs) > 0; reqs = p.take() {
			at, err := l.writeGroup(p, reqs)
			answer(reqs, at, err)
		}
	}
}

// answer tells the callers of a group what became of it; at is the position of its first event.
func answer(reqs []*request, at rlmm.Position, err error) {
	for _, r := range reqs {
		if err != nil {
			r.done <- result{err: err}
			continue
		}
		r.done <- result{at: at}
		at.Offset++
	}
}

// shut fails what is not in a group, and everything that comes later.
func (p *partition) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.pending {
		r.done <- result{err: errClosed()}
	}
	p.pending = nil
}

// take removes the requests for one group.
func (p *partition) take() []*request {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, size := 0, groupFixed
	for n < len(p.pending) {
		size += eventSize(p.pending[n].event)
		if size > maxBody {
			break
		}
		n++
	}
	reqs := slices.Clone(p.pending[:n])
	p.pending = slices.Delete(p.pending, 0, n)
	return reqs
}

// writeGroup makes a group of the requests durable and returns the position behind its first event.
func (l *Log) writeGroup(p *partition, reqs []*request) (rlmm.Position, error) {
	if err := l.refusal(); err != nil {
		return rlmm.Position{}, err
	}
	before, epoch := p.st.end, p.epoch // only this goroutine changes them
	events := make([]rlmm.Event, len(reqs))
	for i, r := range reqs {
		events[i] = r.event
		events[i].Offset = before.next + int64(i)
	}
	b := appendGroup(p.buf[:0], before, epoch, uint32(len(events)), events)
	if p.buf = nil; cap(b) <= keepBuf {
		p.buf = b
	}
	if _, err := p.f.WriteAt(b, before.pos); err != nil {
		return rlmm.Position{}, l.cutBack(p, before.pos, err)
	}
	if err := p.f.Sync(); err != nil {
		return rlmm.Position{}, l.refuse(p, fmt.Errorf("fsync: %w", err))
	}
	g, err := parseGroup(b)
	if err != nil {
		return rlmm.Position{}, l.refuse(p, fmt.Errorf("the group written: %w", err)) // memory was overwritten
	}
	p.mu.Lock()
	p.st.add(before, g)
	p.mu.Unlock()
	l.notify()
	return rlmm.Position{Offset: before.next + 1, Epoch: epoch}, nil
}

// cutBack removes what a failed write may have left.
func (l *Log) cutBack(p *partition, end int64, cause error) error {
	if err := p.f.Truncate(end); err != nil {
		return l.refuse(p, fmt.Errorf("%w; cutting it back: %w", cause, err))
	}
	if err := p.f.Sync(); err != nil {
		return l.refuse(p, fmt.Errorf("%w; cutting it back: fsync: %w", cause, err))
	}
	if p.epoch == math.MaxInt32 {
		_ = l.refuse(p, errors.New("no epoch is left")) // for later writes; this one's outcome is known
	}
	p.epoch++
	return fmt.Errorf("append to %s: %w: nothing was written", p.path, cause)
}

// refuse makes the log refuse all later writes and returns the error of the write that ended like this.
func (l *Log) refuse(p *partition, cause error) error {
	l.mu.Lock()
	if l.refused == nil {
		l.refused = fmt.Errorf("%s: %w: %w", p.path, ErrWritesRefused, cause)
	}
	l.mu.Unlock()
	l.log.Error("metadata log refuses writes until it is opened again", "file", p.path, "error", cause)
	return fmt.Errorf("append to %s: %w: %w", p.path, remotelog.ErrOutcomeUnknown, cause)
}

func (l *Log) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}
