package filelog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// DefaultPollEvery is how often a read-only Log looks for what another process wrote.
const DefaultPollEvery = 100 * time.Millisecond

// Options configure a Log.
type Options struct {
	// Partitions is the number of metadata partitions. 0 means that of the log there is, and 1 for a new one. If it differs
	// from the log there is, opening fails.
	Partitions int32
	// PollEvery is how long a Follower of a read-only Log waits between two looks at the files; 0 means DefaultPollEvery.
	PollEvery time.Duration
	// Logger gets a warning for a torn tail that was cut and an error when writes are refused; nil means silence.
	Logger *slog.Logger
	// Now is the clock of timestamps and epochs; nil means the system's.
	Now func() time.Time
}

// Log is a metadata log in files. All methods are safe for concurrent use.
type Log struct {
	dir   string
	id    rlmm.LogID
	now   func() time.Time
	log   *slog.Logger
	poll  time.Duration
	lock  *os.File // nil: read-only
	parts []*partition

	committers sync.WaitGroup
	done       chan struct{} // closed by Close
	closeOnce  sync.Once
	closeErr   error

	mu      sync.Mutex
	refused error
	changed chan struct{} // closed and replaced when a group became durable
}

var _ rlmm.Log = (*Log)(nil)

// Open opens the log in dir for reading and writing; it makes the directory and the log if there is none. It verifies the whole
// log, cuts a torn tail with a warning, and holds the lock until Close. ErrLocked: another writer has it. A *CorruptError
// (remotelog.ErrCorrupt) changes nothing.
func Open(ctx context.Context, dir string, o Options) (*Log, error) {
	return open(ctx, dir, o, openOS)
}

func open(ctx context.Context, dir string, o Options, file opener) (*Log, error) {
	l, err := newLog(dir, &o)
	if err != nil {
		return nil, err
	}
	if err := durable.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("make directory of the metadata log: %w", err)
	}
	if l.lock, err = lock(dir); err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	if err := l.openForWriting(ctx, o, file); err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log: %w", err), l.closeFiles())
	}
	for _, p := range l.parts {
		l.committers.Go(func() { l.commit(p) })
	}
	return l, nil
}

// OpenReadOnly opens the log in dir for reading: without a lock, at the same time as a writer, and without changing anything.
// It verifies the whole log and follows what a writer adds. fs.ErrNotExist: there is no log.
func OpenReadOnly(ctx context.Context, dir string, o Options) (*Log, error) {
	l, err := newLog(dir, &o)
	if err != nil {
		return nil, err
	}
	if err = l.openParts(o, openOS, os.O_RDONLY); err == nil {
		for _, p := range l.parts {
			if _, err = p.load(ctx); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log for reading: %w", err), l.closeFiles())
	}
	return l, nil
}

func newLog(dir string, o *Options) (*Log, error) {
	if o.Partitions < 0 || o.Partitions > maxPartitions {
		return nil, fmt.Errorf("%w: %d metadata partitions, want 1 to %d", remotelog.ErrInvalidArgument, o.Partitions, maxPartitions)
	}
	if o.PollEvery <= 0 {
		o.PollEvery = DefaultPollEvery
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of an injectable clock
	}
	return &Log{
		dir: dir, now: o.Now, log: o.Logger, poll: o.PollEvery, done: make(chan struct{}), changed: make(chan struct{}),
	}, nil
}

// openForWriting creates what is missing, and makes each file whole and durable.
func (l *Log) openForWriting(ctx context.Context, o Options, file opener) error {
	if _, err := os.Stat(partitionFile(l.dir, 0)); errors.Is(err, fs.ErrNotExist) {
		h := header{partitions: max(o.Partitions, 1), createdMs: l.now().UnixMilli()}
		_, _ = rand.Read(h.id[:]) // never fails (crypto/rand, Go 1.24)
		if err := create(l.dir, h); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := l.openParts(o, file, os.O_RDWR); err != nil {
		return err
	}
	sizes := make([]int64, len(l.parts))
	for i, p := range l.parts { // all are verified before one is changed
		size, err := p.load(ctx)
		if err != nil {
			return err
		}
		sizes[i] = size
	}
	for i, p := range l.parts {
		if err := l.recover(p, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// openParts opens the files and checks that they belong together.
func (l *Log) openParts(o Options, file opener, flag int) error {
	for n := int32(0); n == 0 || n < l.parts[0].head.partitions; n++ {
		path := partitionFile(l.dir, n)
		p, err := openPartition(path, file, flag)
		if n > 0 && errors.Is(err, fs.ErrNotExist) {
			return &CorruptError{File: path, Reason: fmt.Sprintf("the file is missing, the log has %d", l.parts[0].head.partitions)}
		}
		if err != nil {
			return err
		}
		l.parts = append(l.parts, p)
		h := l.parts[0].head
		if p.num != n || p.head.partitions != h.partitions || p.head.id != h.id {
			return &CorruptError{File: path, Reason: fmt.Sprintf("it is partition %d of %d of log %s, want %d of %d of %s",
				p.num, p.head.partitions, p.head.logID(), n, h.partitions, h.logID())}
		}
	}
	h := l.parts[0].head
	if l.id = h.logID(); o.Partitions != 0 && o.Partitions != h.partitions {
		return fmt.Errorf("%w: the log in %s has %d metadata partitions, the settings say %d: the number cannot be changed",
			remotelog.ErrInvalidArgument, l.dir, h.partitions, o.Partitions)
	}
	return nil
}

// recover cuts a torn tail and makes durable what is shown from now on. The last group is written again: its fsync may never
// have run, or it failed, after which the system can hold the pages for clean (Linux) and the next fsync would do nothing.
func (l *Log) recover(p *partition, size int64) error {
	end := p.st.end
	if torn := size - end.pos; torn > 0 {
		if err := p.f.Truncate(end.pos); err != nil {
			return fmt.Errorf("cut a torn tail: %w", err)
		}
		l.log.Warn("cut a torn tail off the metadata log", "file", p.path, "at", end.pos, "bytes", torn)
	}
	if p.st.last > 0 {
		b := make([]byte, end.pos-p.st.last)
		if _, err := p.f.ReadAt(b, p.st.last); err != nil {
			return err
		}
		if _, err := p.f.WriteAt(b, p.st.last); err != nil {
			return err
		}
	}
	if err := p.f.Sync(); err != nil {
		return err
	}
	if end.epoch == math.MaxInt32 {
		return fmt.Errorf("%s: no epoch is left for new groups: create a new log", p.path)
	}
	p.epoch = max(end.epoch+1, int32(min(max(l.now().Unix()-epochOrigin, 0), math.MaxInt32)))
	return nil
}

// Identity implements rlmm.Log.
func (l *Log) Identity() rlmm.LogID { return l.id }

// Partitions implements rlmm.Log.
func (l *Log) Partitions() int32 { return int32(len(l.parts)) }

// Bounds implements rlmm.Log.
func (l *Log) Bounds(ctx context.Context, ps []int32) (map[int32]rlmm.Bounds, error) {
	out := make(map[int32]rlmm.Bounds, len(ps))
	for _, p := range ps {
		st, err := l.fresh(ctx, p)
		if err != nil {
			return nil, err
		}
		out[p] = rlmm.Bounds{First: st.first, Next: st.end.next}
	}
	return out, nil
}

// Check implements rlmm.Log.
func (l *Log) Check(ctx context.Context, at map[int32]rlmm.Position) ([]rlmm.Loss, error) {
	var lost []rlmm.Loss
	for p, pos := range at {
		st, err := l.fresh(ctx, p)
		if err != nil {
			return nil, err
		}
		if loss, ok := st.lost(p, pos); ok {
			lost = append(lost, loss)
		}
	}
	return lost, nil
}

// Close implements rlmm.Log. It waits for the group that is being written.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		for _, p := range l.parts {
			p.shut()
		}
		close(l.done)
		l.committers.Wait()
		l.closeErr = l.closeFiles()
	})
	return l.closeErr
}

// closeFiles closes everything, the lock last.
func (l *Log) closeFiles() error {
	var errs []error
	for _, p := range l.parts {
		errs = append(errs, p.f.Close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}

// fresh returns the state of a partition at this moment.
func (l *Log) fresh(ctx context.Context, p int32) (state, error) {
	part, err := l.partition(p)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && l.lock == nil {
		err = part.refresh(ctx)
	}
	if err == nil && l.isClosed() {
		err = errClosed()
	}
	if err != nil {
		return state{}, err
	}
	st, _ := part.state()
	return st, nil
}

func (l *Log) partition(p int32) (*partition, error) {
	if p < 0 || int(p) >= len(l.parts) {
		return nil, fmt.Errorf("%w: metadata partition %d, the log has %d", remotelog.ErrInvalidArgument, p, len(l.parts))
	}
	return l.parts[p], nil
}

func (l *Log) isClosed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// notify wakes every follower.
func (l *Log) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// change returns the channel that closes with the next notify.
func (l *Log) change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func errClosed() error { return fmt.Errorf("metadata log in files: %w", remotelog.ErrClosed) }

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
