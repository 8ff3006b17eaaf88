package rsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache/disk"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/bounded"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// Options of a Manager. Store and Budget are required.
type Options struct {
	Store  *backends.Store   // without a prefix of its own: key.prefix is part of the keys
	Budget *membudget.Budget // made with Needs, or with more
	Keys   crypto.KeyWrapper // wraps data keys; nil: nothing is encrypted, and encrypted segments cannot be read
	Config Config
	Logger *slog.Logger     // nil: nothing is logged
	Hooks  Hooks            // nil ones are left out
	Now    func() time.Time // the clock of the caches; nil: time.Now
}

// Manager copies, fetches and deletes segments. It is safe for concurrent use. It retries nothing: its caller does.
type Manager struct {
	store  *backends.Store
	budget *membudget.Budget
	keys   crypto.KeyWrapper
	config Config
	fields []manifest.CustomField
	log    *slog.Logger
	hooks  Hooks
	now    func() time.Time
	codecs *chunking.Codecs
	owned  []func() error // closed with the manager, in order

	newDataKey func() (*crypto.DataKey, error) // a test of golden bytes sets it
	locks      segmentLocks
	manifests  *manifestCache
	indexes    *indexCache
	chunks     *chunkLoads
	disk       *disk.Cache // nil: there is none
	diskBroken bool        // there should be one

	mu     sync.Mutex
	ops    map[*op]struct{}
	idle   sync.WaitGroup
	closed bool
}

var _ remotelog.StorageManager = (*Manager)(nil)

// op is one call in progress.
type op struct{ cancel context.CancelCauseFunc }

// New returns a Manager. It does no I/O but to open the directory of Config.Disk.
func New(o Options) (*Manager, error) {
	if o.Store == nil || o.Budget == nil {
		return nil, errors.New("rsm: Options.Store and Options.Budget are required")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	c := o.Config.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Encryption && o.Keys == nil {
		return nil, fmt.Errorf("%w: %s=true needs key pairs", remotelog.ErrInvalidArgument, keyEncryption)
	}
	m := &Manager{
		store: o.Store, budget: o.Budget, keys: o.Keys, config: c, log: o.Logger, hooks: o.Hooks, now: o.Now,
		newDataKey: crypto.NewDataKey, ops: make(map[*op]struct{}),
	}
	for _, name := range c.CustomFields {
		f, err := manifest.ParseCustomField(name)
		if err != nil {
			return nil, err
		}
		m.fields = append(m.fields, f)
	}
	pair := chunking.PairBytes(c.ZstdLevel, int64(c.ChunkBytes))
	var err error
	m.codecs, err = chunking.NewCodecs(chunking.CodecOptions{
		Pairs: int(max(1, (o.Budget.Needs().Fixed-indexNeed(c, o.Budget.Stats().Limit))/pair)), Level: c.ZstdLevel, ChunkSize: int64(c.ChunkBytes),
	})
	if err != nil {
		return nil, err
	}
	// In this order they are asked to give back: chunks have the bytes, and of a manifest each is a request saved.
	m.chunks = newChunkLoads(m, o.Now)
	if err := m.openDisk(o.Now); err != nil {
		return nil, errors.Join(err, m.chunks.close())
	}
	m.indexes = newIndexCache(m, o.Now)
	m.manifests = newManifestCache(m, o.Now)
	for _, n := range c.Notices {
		m.log.Warn("configuration", "notice", n)
	}
	return m, nil
}

// enter begins a call: its context ends when the manager is closed, and Close waits for done.
func (m *Manager) enter(ctx context.Context) (inner context.Context, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, fmt.Errorf("%w: the storage manager was closed", remotelog.ErrClosed)
	}
	inner, cancel := context.WithCancelCause(ctx)
	o := &op{cancel: cancel}
	m.ops[o] = struct{}{}
	m.idle.Add(1)
	return inner, func() {
		cancel(nil)
		m.mu.Lock()
		delete(m.ops, o)
		m.mu.Unlock()
		m.idle.Done()
	}, nil
}

// ended turns the end of a call's context that Close brought about into ErrClosed.
func (m *Manager) ended(caller context.Context, err error) error {
	if err == nil || caller.Err() != nil || !errors.Is(err, context.Canceled) {
		return classify(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%w: the storage manager was closed: %w", remotelog.ErrClosed, err)
	}
	return err
}

const (
	// closeCalls is how long Close waits for calls: what a copy that is cancelled stored has cleanupTimeout to be removed.
	closeCalls = cleanupTimeout + 10*time.Second
	// closeLoads is how long Close waits for loads, which end at once but in a read of a disk that hangs.
	closeLoads = 10 * time.Second
)

// Close ends all calls and streams, waits for the calls, and closes what Open made. It may be called several times. Nothing can end a
// read or write of a disk that hangs: such calls are waited for until closeCalls and closeLoads are over, and the error says how many go
// on; they hold what they have until they come back, or the process ends.
func (m *Manager) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	for o := range m.ops {
		o.cancel(remotelog.ErrClosed)
	}
	m.mu.Unlock()
	var errs []error
	if !bounded.Wait(closeCalls, m.idle.Wait) {
		m.mu.Lock()
		errs = append(errs, fmt.Errorf("rsm: %d calls did not end within %v of Close: a disk, or the client of the store, does not answer", len(m.ops), closeCalls))
		m.mu.Unlock()
	}
	errs = append(errs, m.chunks.close())
	if m.disk != nil {
		errs = append(errs, m.disk.Close())
	}
	m.indexes.close()
	m.manifests.close()
	if !first {
		return nil
	}
	for _, f := range m.owned {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Budget returns the memory budget, for metrics.
func (m *Manager) Budget() *membudget.Budget { return m.budget }

// Store returns the store, for listings and for inspection of single objects.
func (m *Manager) Store() *backends.Store { return m.store }

// Config returns the configuration with its defaults filled in.
func (m *Manager) Config() Config { return m.config }
