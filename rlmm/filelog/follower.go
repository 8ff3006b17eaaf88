package filelog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// batchBytes is how much of the files one batch reads, and how many bytes one read asks for. The last group of a batch may be
// longer.
const batchBytes = 1 << 20

// cursor is where a follower is in one partition.
type cursor struct {
	pos rlmm.Position
	// at is a place at or before pos in the file, if it was found in this generation of the partition's state.
	at         tail
	found      bool
	generation int
}

// follower reads a Log. No lock is held while it reads a file.
type follower struct {
	log  *Log
	wake chan struct{} // holds a token after Assign
	done chan struct{}

	mu     sync.Mutex
	closed bool
	at     map[int32]*cursor // a cursor that was replaced is another pointer
	last   int32             // the partition read last; the next batch begins behind it
}

var _ rlmm.Follower = (*follower)(nil)

// Follow implements rlmm.Log.
func (l *Log) Follow(from map[int32]rlmm.Position) rlmm.Follower {
	f := &follower{log: l, wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.Assign(from)
	return f
}

// Assign implements rlmm.Follower.
func (f *follower) Assign(from map[int32]rlmm.Position) {
	f.mu.Lock()
	next := make(map[int32]*cursor, len(from))
	for p, pos := range from {
		if next[p] = f.at[p]; next[p] == nil {
			next[p] = &cursor{pos: pos}
		}
	}
	f.at = next
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Close implements rlmm.Follower.
func (f *follower) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.done)
	}
	return nil
}

// Next implements rlmm.Follower.
func (f *follower) Next(ctx context.Context) (rlmm.Batch, error) {
	for {
		changed := f.log.change()
		b, err := f.read(ctx)
		if err != nil || len(b.Next) > 0 {
			return b, err
		}
		if err := f.wait(ctx, changed); err != nil {
			return rlmm.Batch{}, err
		}
	}
}

// wait waits for a reason to look again.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}) error {
	var tick <-chan time.Time // a reader in another process than the writer is not told
	if f.log.lock == nil {
		t := time.NewTimer(f.log.poll)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-changed:
	case <-tick:
	case <-f.wake:
	case <-f.done:
	case <-f.log.done:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// step is what one partition gives to a batch.
type step struct {
	part   int32
	from   *cursor
	to     cursor
	events []rlmm.Event
	lost   []rlmm.Loss
	bytes  int64
}

// read gathers what is there.
func (f *follower) read(ctx context.Context) (rlmm.Batch, error) {
	steps, err := f.begin(ctx)
	if err != nil {
		return rlmm.Batch{}, err
	}
	left, n := int64(batchBytes), 0
	for i := range steps {
		if left <= 0 {
			break
		}
		if err = f.log.advance(ctx, &steps[i], left); err != nil {
			break
		}
		left -= steps[i].bytes
		n++
	}
	b := f.end(steps[:n])
	if len(b.Next) > 0 { // an error comes again with the next call
		return b, nil
	}
	return b, err
}

// begin returns the partitions to read, in turn, each with a copy of its cursor.
func (f *follower) begin(ctx context.Context) ([]step, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.log.isClosed() {
		return nil, fmt.Errorf("follower of a metadata log in files: %w", remotelog.ErrClosed)
	}
	order := slices.Sorted(maps.Keys(f.at))
	i := sort.Search(len(order), func(i int) bool { return order[i] > f.last })
	steps := make([]step, 0, len(order))
	for _, p := range append(order[i:len(order):len(order)], order[:i]...) {
		steps = append(steps, step{part: p, from: f.at[p], to: *f.at[p]})
	}
	return steps, nil
}

// end moves the cursors and makes the batch, without partitions that Assign took away meanwhile.
func (f *follower) end(steps []step) rlmm.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := rlmm.Batch{Next: map[int32]rlmm.Position{}}
	for _, s := range steps {
		f.last = s.part
		if f.at[s.part] != s.from {
			continue
		}
		if s.moved() {
			b.Next[s.part] = s.to.pos
		}
		*s.from = s.to
		b.Lost = append(b.Lost, s.lost...)
		if b.Events == nil {
			b.Events = s.events
		} else {
			b.Events = append(b.Events, s.events...)
		}
	}
	return b
}

// advance reads up to about limit bytes of one partition. What stands in the way behind something that can be delivered comes
// with the next call: a loss goes before the events of its batch, and an error comes alone.
func (l *Log) advance(ctx context.Context, s *step, limit int64) error {
	p, err := l.partition(s.part)
	if err != nil {
		return err
	}
	for {
		if l.lock == nil {
			if err := p.refresh(ctx); err != nil {
				return s.unless(err)
			}
		}
		st, generation := p.state()
		if loss, ok := st.lost(s.part, s.to.pos); ok {
			if s.moved() {
				return nil
			}
			s.lost = append(s.lost, loss)
			s.to = cursor{pos: loss.Resume}
		}
		if s.to.pos.Offset == st.end.next || s.bytes >= limit {
			return nil
		}
		if !s.to.found || s.to.generation != generation {
			s.to.at, s.to.found, s.to.generation = st.locate(s.to.pos.Offset), true, generation
		}
		if err := p.readGroups(s, st.end.pos, limit-s.bytes); err != nil {
			if again, err := l.readAgain(ctx, p, generation, err); !again {
				return s.unless(err)
			}
		}
	}
}

// moved says whether the step has something to deliver.
func (s *step) moved() bool { return s.to.pos != s.from.pos || len(s.lost) > 0 }

func (s *step) unless(err error) error {
	if s.moved() {
		return nil
	}
	return err
}

// readAgain decides whether a group that cannot be read is to be looked for again: for a read-only Log the writer may have
// cut it off since its bounds were looked at.
func (l *Log) readAgain(ctx context.Context, p *partition, generation int, cause error) (bool, error) {
	if l.lock != nil {
		return false, cause
	}
	if err := p.refresh(ctx); err != nil {
		return false, err
	}
	_, now := p.state()
	return now != generation, cause
}

// readGroups takes the groups in one read from the cursor's place on. Their events are parts of one buffer made for them.
func (p *partition) readGroups(s *step, end, limit int64) error {
	want := min(max(limit, groupHead), end-s.to.at.pos)
	b, err := p.readAt(s.to.at.pos, want)
	if err != nil {
		return err
	}
	if len(b) >= groupHead { // a first group that is longer than the limit
		if size, err := groupSize(b); err == nil && size > want && size <= end-s.to.at.pos {
			if b, err = p.readAt(s.to.at.pos, size); err != nil {
				return err
			}
		}
	}
	for taken := 0; len(b) > 0; taken++ {
		g, err := parseGroup(b)
		if err != nil {
			if taken > 0 {
				return nil // the read may have ended within the group: the next one begins with it
			}
			return &CorruptError{File: p.path, Position: s.to.at.pos, Reason: err.Error()}
		}
		from, kept := s.to.pos.Offset, len(s.events)
		err = s.to.at.accept(p.path, p.num, g, func(e rlmm.Event) {
			if e.Offset >= from {
				s.events = append(s.events, e)
			}
		})
		if err != nil {
			s.events = s.events[:kept]
			return err
		}
		if s.to.at.next > from {
			s.to.pos = rlmm.Position{Offset: s.to.at.next, Epoch: g.epoch}
		}
		s.bytes += g.size
		b = b[g.size:]
	}
	return nil
}

func (p *partition) readAt(pos, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := p.f.ReadAt(b, pos)
	if err != nil && !isEOF(err) {
		return nil, closedErr(err)
	}
	return b[:got], nil
}
