package backends

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/membudget"
)

// Store is what the engine uses: one concrete type with one path for every call (Store.call). It is safe for concurrent use.
//
// Keys are 1 to Properties.MaxKeyBytes bytes of valid UTF-8 without NUL, not below ".tierkit/"; where Properties.FlatKeys is false
// they also have no empty, "." or ".." segment. Any other key is InvalidArgument before any I/O.
type Store struct {
	driver Driver
	props  Properties
	env    Env
	prefix string
	mask   masker
	obs    Observer

	reads, writes    slots
	upload, download rateLimit
	budget           atomic.Pointer[membudget.Budget]

	mu       sync.Mutex
	closing  bool
	runs     map[*run]struct{} // calls and open bodies
	idle     chan struct{}     // closed when closing and runs is empty
	closed   chan struct{}     // closed when Close is done
	closeErr error
}

// NewStore returns a Store over a driver that the Store closes.
func NewStore(d Driver, o Options) (*Store, error) {
	if err := o.Limits.check(); err != nil {
		return nil, Errorf(InvalidArgument, "open store: %w", err)
	}
	s := &Store{
		driver: d, props: d.Properties(), env: o.Env.withDefaults(), prefix: o.Prefix, mask: newMasker(o.Mask), obs: o.Observer,
		runs: make(map[*run]struct{}), idle: make(chan struct{}), closed: make(chan struct{}),
	}
	if err := s.checkPrefix(); err != nil {
		return nil, err
	}
	s.env.Log = s.mask.logger(s.env.Log)
	return s, s.SetLimits(o.Limits)
}

// checkPrefix finds out at once that no key can be valid behind the prefix.
func (s *Store) checkPrefix() error {
	if s.prefix == "" {
		return nil
	}
	if err := CheckKey(s.props, s.prefix+"x"); err != nil {
		return Errorf(InvalidArgument, "open store: prefix %q: %w", s.mask.text(s.prefix), errors.Unwrap(err))
	}
	return nil
}

// UseBudget makes a Put without a Memory of its own reserve it from b. Call it once, before the store is used: the budget's Needs
// depend on PutMemory of the opened store.
func (s *Store) UseBudget(b *membudget.Budget) { s.budget.Store(b) }

// SetLimits changes the limits; calls that wait take notice at once.
func (s *Store) SetLimits(l Limits) error {
	if err := l.check(); err != nil {
		return Errorf(InvalidArgument, "set limits: %w", err)
	}
	s.reads.setLimit(l.Reads)
	s.writes.setLimit(l.Writes)
	s.upload.set(l.UploadBytesPerSecond)
	s.download.set(l.DownloadBytesPerSecond)
	return nil
}

// Driver returns the driver itself: for the conformance suite.
func (s *Store) Driver() Driver { return s.driver }

// Properties returns the driver's properties.
func (s *Store) Properties() Properties { return s.props }

// Stat returns what is known about key without reading it.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	var info Info
	err := s.call(ctx, request{op: OpStat, key: key, slots: &s.reads}, func(ctx context.Context, r *run) (err error) {
		info, err = s.driver.Stat(ctx, r.full)
		info.Key = key
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// CheckKey reports, as InvalidArgument and without I/O, why no object can have that key in this store: whoever must leave nothing
// behind has nothing to delete there.
func (s *Store) CheckKey(key string) error {
	if err := s.refuse(key); err != nil {
		return Errorf(InvalidArgument, "key %q: %w", s.mask.text(s.prefix+key), errors.Unwrap(err))
	}
	return nil
}

// refuse is CheckKey of package backends for a key without the Store's prefix.
func (s *Store) refuse(key string) error {
	if key == "" {
		return CheckKey(s.props, "")
	}
	return CheckKey(s.props, s.prefix+key)
}

// Delete removes key. A missing key is success.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.call(ctx, request{op: OpDelete, key: key, slots: &s.writes}, func(ctx context.Context, r *run) error {
		return s.driver.Delete(ctx, r.full)
	})
}

// request describes a call to the one path.
type request struct {
	op    Op
	key   string
	free  bool         // key is free text (the prefix of a listing, or nothing), not the key of an object
	rng   Range        // for the observer
	slots *slots       // where to take a slot
	check func() error // validates the options
	// prepare gets memory before the slot is taken: whoever holds a slot never waits for bytes.
	prepare func(ctx context.Context) (release func(), err error)
}

// run is one call on its way, or the body that it left behind.
type run struct {
	s       *Store
	op      Op
	full    string // with the prefix
	shown   string // masked
	rng     Range
	cancel  context.CancelCauseFunc
	started time.Time

	waited            time.Duration
	bytes             int64
	attempts, resumes int
	bodyErr           error // what the caller's body failed with
	handedOver        bool  // the body of a Get goes on
	release           []func()
	onClose           func() // ends what the call left open, for Store.Close
}

// call is the one path: closed?, validate, prefix, memory, slot, run, observe, wrap the error and mask it. Once.
func (s *Store) call(caller context.Context, q request, f func(ctx context.Context, r *run) error) (err error) {
	r := &run{s: s, op: q.op, full: s.prefix + q.key, rng: q.rng, started: s.env.Now()}
	if q.key != "" {
		r.shown = s.mask.text(r.full)
	}
	if err := s.enter(r); err != nil {
		return r.wrap(caller, nil, err)
	}
	ctx, cancel := context.WithCancelCause(caller)
	s.armed(r, cancel)
	finished := false
	defer func() { // also when the caller's body panics
		if !finished || !r.handedOver {
			r.end()
		}
	}()
	err = r.admit(ctx, q)
	if err == nil {
		err = f(ctx, r)
	}
	finished = true
	err = r.wrap(caller, ctx, err)
	r.observe(caller, q.op, err)
	return err
}

// admit validates, then waits for what the call needs.
func (r *run) admit(ctx context.Context, q request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	check := r.s.refuse(q.key)
	if q.free {
		check = checkText(r.full)
	}
	if check == nil && q.check != nil {
		check = q.check()
	}
	if check != nil {
		return check
	}
	began := r.s.env.Now()
	defer func() { r.waited += r.s.env.Now().Sub(began) }()
	if q.prepare != nil {
		release, err := q.prepare(ctx)
		if err != nil {
			return err
		}
		r.release = append(r.release, release)
	}
	if q.slots == nil {
		return nil
	}
	if err := q.slots.acquire(ctx); err != nil {
		return err
	}
	r.release = append(r.release, q.slots.free)
	return ctx.Err()
}

// end gives everything back. It is called once per run.
func (r *run) end() {
	for i := len(r.release) - 1; i >= 0; i-- {
		r.release[i]()
	}
	r.s.leave(r)
	r.cancel(nil)
}

// observe reports to the observer and, at debug level, to the log.
func (r *run) observe(ctx context.Context, op Op, err error) {
	e := OpEvent{
		Driver: r.s.props.Name, Op: op, Key: r.shown, Range: r.rng, Bytes: r.bytes, Attempts: max(1, r.attempts), Resumes: r.resumes,
		Waited: r.waited, Took: r.s.env.Now().Sub(r.started), Err: err, Code: CodeOf(err),
	}
	if r.s.obs != nil {
		r.s.obs.OnOp(ctx, e)
	}
	if !r.s.env.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("driver", e.Driver), slog.String("op", string(op)), slog.String("key", e.Key), slog.Int64("bytes", e.Bytes),
		slog.Int("attempts", e.Attempts), slog.Duration("took", e.Took),
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", e.Code.Label()), slog.String("error", err.Error()))
	}
	r.s.env.Log.LogAttrs(ctx, slog.LevelDebug, "store operation", attrs...)
}
