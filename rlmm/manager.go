package rlmm

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// Manager is the RemoteLogMetadataManager over a Log. It keeps what the events of the partitions that it follows add up to, so
// a read never touches the log; a write appends an event and returns when that event has come back. All methods may be called
// by any goroutine at any time.
//
// A partition is followed after OnLeadershipChange or Reconcile named it, or, with Options.All, when the log mentions it. Reads
// and writes of any other are ErrNotAssigned. Until a followed one has been read to the end that the log had when it was added,
// they are ErrNotReady, and never an empty answer.
type Manager struct {
	log   Log
	opts  Options
	logID LogID
	parts []*metaPartition

	life   life // ends at Close
	closed atomic.Bool
	active atomic.Int32  // goroutines that run
	done   chan struct{} // closed by the last of them

	live   *reader
	loader *reader
	kick   chan struct{} // a token: bounds are to be asked for
	snaps  *snapshots    // nil: none

	assigning sync.Mutex // serialises changes of the assigned set
	mu        sync.RWMutex
	users     map[remotelog.TopicIDPartition]*partition

	changed signal // readiness, assignment or a cause changed
}

var _ remotelog.MetadataManager = (*Manager)(nil)

// New returns a manager over log and starts its goroutines, which Close ends. It does no I/O itself. The log stays the caller's,
// who closes it after the manager; several managers may share one.
func New(log Log, opts Options) (*Manager, error) {
	if log == nil || log.Partitions() < 1 {
		return nil, fmt.Errorf("%w: a metadata manager needs a log with at least one partition", remotelog.ErrInvalidArgument)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now //nolint:forbidigo // the default of an injectable clock
	}
	if opts.SnapshotEvery == 0 {
		opts.SnapshotEvery = DefaultSnapshotEvery
	}
	m := &Manager{
		log: log, opts: opts, life: newLife(), logID: log.Identity(), done: make(chan struct{}), kick: make(chan struct{}, 1),
		users: map[remotelog.TopicIDPartition]*partition{},
	}
	for i := range log.Partitions() {
		m.parts = append(m.parts, newMetaPartition(i, opts.All))
	}
	m.live = newReader(m, (*metaPartition).liveStream, liveRole)
	m.loader = newReader(m, (*metaPartition).loadStream, loadRole)
	run := []func(context.Context){m.live.run, m.loader.run, m.keepTargets}
	if opts.SnapshotDir != "" {
		m.snaps = &snapshots{path: SnapshotFile(opts.SnapshotDir, m.logID), create: createTemp}
		run = append(run, m.keepSnapshots)
	}
	m.active.Store(int32(len(run)))
	for _, f := range run {
		go func() {
			f(m.life.ctx)
			if m.active.Add(-1) == 0 {
				close(m.done)
			}
		}()
	}
	if opts.All {
		m.askBounds()
	}
	return m, nil
}

// Close refuses new calls (ErrClosed), wakes those that wait, writes a snapshot where Options.SnapshotDir is set (Hooks.Snapshot
// has its error), and waits for the manager's goroutines to end or for ctx. A write
// whose event was on its way then ends with ErrOutcomeUnknown. Close is idempotent; it does not close the log.
func (m *Manager) Close(ctx context.Context) error {
	m.closed.Store(true)
	m.life.end(errClosed())
	m.changed.raise()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close metadata manager: its goroutines still run: %w", ctx.Err())
	}
}

func errClosed() error { return fmt.Errorf("metadata manager: %w", remotelog.ErrClosed) }

// metaOf returns the metadata partition of tp.
func (m *Manager) metaOf(tp remotelog.TopicIDPartition) *metaPartition {
	return m.parts[MetadataPartition(tp, int32(len(m.parts)))]
}

// OnLeadershipChange adds partitions to those that are followed. Leaders and followers are treated alike: both need the
// metadata. Known ones stay as they are. The only error is ErrClosed; the call does not wait for the log.
func (m *Manager) OnLeadershipChange(leaders, followers []remotelog.TopicIDPartition) error {
	m.assigning.Lock()
	defer m.assigning.Unlock()
	if m.closed.Load() {
		return errClosed()
	}
	m.addAll(leaders)
	m.addAll(followers)
	m.askBounds()
	return nil
}

// OnStop ends the following of partitions and forgets what was known of them; unknown ones are passed over. Writes that wait
// end with ErrOutcomeUnknown. With Options.All it changes nothing. The only error is ErrClosed.
func (m *Manager) OnStop(ps []remotelog.TopicIDPartition) error {
	m.assigning.Lock()
	defer m.assigning.Unlock()
	if m.closed.Load() {
		return errClosed()
	}
	m.removeAll(ps)
	return nil
}

// Reconcile makes ps the set that is followed: what is missing is added, what is too much removed (with Options.All: nothing).
// It waits until the log was asked once how far each of ps has to be read, and returns that error if one failed, which is asked
// again by itself; the partitions are not ready yet: see WaitReady. Use it instead of OnLeadershipChange and OnStop, not beside
// them: a Reconcile from an older view removes what was just added.
func (m *Manager) Reconcile(ctx context.Context, ps []remotelog.TopicIDPartition) error {
	added, err := m.replace(ps)
	if err != nil {
		return err
	}
	return m.waitAsked(ctx, added)
}

// asked waits until the log was asked how far to read those of ps that are followed.
func (m *Manager) asked(ctx context.Context, ps []remotelog.TopicIDPartition) error {
	var us []*partition
	for _, tp := range ps {
		if u := m.user(tp); u != nil {
			us = append(us, u)
		}
	}
	return m.waitAsked(ctx, us)
}

func (m *Manager) waitAsked(ctx context.Context, us []*partition) error {
	for _, u := range us {
		select {
		case <-u.asked:
			if u.askErr != nil {
				return fmt.Errorf("metadata of %v: asking how far to read: %w", u.tp, u.askErr)
			}
		case <-u.life.done(): // removed again by a later call, or closed
			if m.closed.Load() {
				return errClosed()
			}
		case <-ctx.Done():
			return fmt.Errorf("metadata of %v: how far to read is not known yet: %w", u.tp, ctx.Err())
		}
	}
	return nil
}

func (m *Manager) replace(ps []remotelog.TopicIDPartition) (all []*partition, err error) {
	m.assigning.Lock()
	defer m.assigning.Unlock()
	if m.closed.Load() {
		return nil, errClosed()
	}
	keep := map[remotelog.TopicIDPartition]bool{}
	for _, tp := range ps {
		keep[tp] = true
	}
	var gone []remotelog.TopicIDPartition
	m.mu.RLock()
	for tp := range m.users {
		if !keep[tp] {
			gone = append(gone, tp)
		}
	}
	m.mu.RUnlock()
	m.removeAll(gone)
	all = m.addAll(ps)
	m.askBounds()
	return all, nil
}

// addAll needs m.assigning. It returns the partitions, known ones too.
func (m *Manager) addAll(ps []remotelog.TopicIDPartition) (all []*partition) {
	for _, tp := range ps {
		mp := m.metaOf(tp)
		mp.mu.Lock()
		u := mp.users[tp]
		if u == nil {
			u = m.addTo(mp, tp)
		}
		u.explicit, u.listed = true, true
		mp.mu.Unlock()
		all = append(all, u)
	}
	return all
}

// addTo takes a partition in; it needs mp.mu.
func (m *Manager) addTo(mp *metaPartition, tp remotelog.TopicIDPartition) *partition {
	u := newPartition(m.life.within(), tp, mp)
	mp.add(u)
	m.mu.Lock()
	m.users[tp] = u
	m.mu.Unlock()
	return u
}

// mentioned takes a partition in that the log named (Options.All); it needs mp.mu. Nothing before the live position names it, so
// it is as far as the metadata partition is.
func (m *Manager) mentioned(mp *metaPartition, tp remotelog.TopicIDPartition) *partition {
	ask := mp.ask
	u := m.addTo(mp, tp)
	mp.ask = ask
	u.target, u.asking = mp.target, mp.target < 0
	if mp.target >= 0 {
		u.answered(nil)
	}
	return u
}

// removeAll needs m.assigning.
func (m *Manager) removeAll(ps []remotelog.TopicIDPartition) {
	if m.opts.All || len(ps) == 0 {
		return
	}
	for _, tp := range ps {
		mp := m.metaOf(tp)
		mp.mu.Lock()
		if u := mp.users[tp]; u != nil {
			m.mu.Lock()
			delete(m.users, tp)
			m.mu.Unlock()
			mp.remove(u)
			u.life.end(errStopped(tp))
		}
		mp.mu.Unlock()
	}
	m.live.wake()
	m.loader.wake()
	m.askBounds() // a load may have ended for which others wait
	m.changed.raise()
}

func errStopped(tp remotelog.TopicIDPartition) error {
	return fmt.Errorf("%w: %v was stopped", remotelog.ErrNotAssigned, tp)
}

// user returns the partition, nil if it is not followed.
func (m *Manager) user(tp remotelog.TopicIDPartition) *partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.users[tp]
}

// assigned returns the partitions that Partitions lists, in order.
func (m *Manager) assigned() []*partition {
	m.mu.RLock()
	us := make([]*partition, 0, len(m.users))
	for _, u := range m.users {
		us = append(us, u)
	}
	m.mu.RUnlock()
	us = slices.DeleteFunc(us, func(u *partition) bool {
		u.meta.mu.Lock()
		defer u.meta.mu.Unlock()
		return !u.listed
	})
	slices.SortFunc(us, func(a, b *partition) int { return a.tp.Compare(b.tp) })
	return us
}
