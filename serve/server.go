package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/internal/bounded"
	"github.com/tierkit/tierkit/remotelog"
)

// Protocol is the version of the API and of the supervised start.
const Protocol = 1

// longCall bounds the wait of a call for the first bytes of its answer, and for each piece after them. Loads have shorter limits of their
// own; this one is for the wait for memory.
const longCall = 60 * time.Second

// Segments is what moves the bytes: an *rsm.Manager.
type Segments interface {
	remotelog.StorageManager
	// CopyNoting is Copy, which calls note, beside its own work, before it changes anything in the store.
	CopyNoting(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData, note func()) (remotelog.CustomMetadata, error)
	// CleanUp removes what an interrupted copy left, unless the segment is whole.
	CleanUp(ctx context.Context, md remotelog.SegmentMetadata) error
}

// Options of a Server. Segments, Token and StateDir are required.
type Options struct {
	Segments  Segments
	Token     string
	TokenFile string // that Token was read from, to be read again when it changes; "": it stays
	StateDir  string
	BrokerID  int32
	// SpoolBytes bounds the files that clients send for copies that run. 0: DefaultSpoolBytes.
	SpoolBytes int64

	LogDirs       []string // where files may be opened; none: all are sent
	DeriveLogDirs bool     // they are what the paths of the calls show

	// Probe finds out whether the store can be used; nil: it is taken to be. It is called until it succeeds, and again, at most every 10 s, when a
	// call could not use the store.
	Probe func(ctx context.Context) error
	// ChunkBytes is what is loaded as one: calls within it wait for the same bytes. 0: 4 MiB.
	ChunkBytes int64
	// MaxCustomBytes is what the broker keeps for a segment (remote.log.metadata.custom.metadata.max.bytes). 0: 128, its default.
	MaxCustomBytes int

	Metrics http.Handler // answers GET /metrics; nil: nothing does
	Version string
	Logger  *slog.Logger     // nil: nothing is logged
	Hooks   Hooks            // nil ones are left out
	Now     func() time.Time // nil: time.Now

	orphanGrace time.Duration // of a test; 0: orphanGrace
}

// Hooks tell what happened. They are called off locks, from several goroutines at once, and must not block.
type Hooks struct {
	// Call: a call was answered. Kind is "" for one that succeeded.
	Call func(c Call, kind Kind, took time.Duration)
	// Copied: an operation ended. Kind is "" for one that succeeded, KindClosed for one that was cancelled.
	Copied func(kind Kind, took time.Duration)
}

// Server answers the calls of a broker's plug-in. Make it with Open.
type Server struct {
	o        Options
	segments Segments
	log      *slog.Logger
	now      func() time.Time
	token    tokenCheck

	state    *state
	copies   copies
	deletes  deletes
	orders   *journal // to delete
	orphans  *journal // copies that run, or ran when a process was killed
	waits    waits
	failures *failures
	health   health

	ctx          context.Context //nolint:containedctx // the life of the server: work that outlives the call that began it
	cancel       context.CancelCauseFunc
	running      sync.WaitGroup
	calls, reads atomic.Int64   // that run
	handled      sync.WaitGroup // calls
	closing      sync.Once
	closed       error
	counts       counts
}

// counts are what happened so far, for metrics.
type counts struct {
	late, held, answered atomic.Int64
	customMost           atomic.Int64
	customTooLong        atomic.Int64
	spooled, spoolNow    atomic.Int64
}

// Open takes the broker's directory and begins to work off what is in it. Close the Server after use.
func Open(ctx context.Context, o Options) (*Server, error) {
	if o.Segments == nil || o.StateDir == "" {
		return nil, errors.New("serve: Options.Segments and Options.StateDir are required")
	}
	if err := CheckToken(o.Token); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	if o.ChunkBytes <= 0 {
		o.ChunkBytes = 4 << 20
	}
	if o.MaxCustomBytes <= 0 {
		o.MaxCustomBytes = DefaultMaxCustomBytes
	}
	if o.SpoolBytes <= 0 {
		o.SpoolBytes = DefaultSpoolBytes
	}
	if o.orphanGrace == 0 {
		o.orphanGrace = orphanGrace
	}
	st, err := openState(ctx, o.StateDir, o.BrokerID, o.Logger)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Logger, now: o.Now, state: st}
	s.health.doubts = make(chan struct{}, 1)
	s.segments = watched{o.Segments, s.health.doubt}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.token.init(s.ctx, o.Token, o.TokenFile, o.Logger)
	s.health.state = map[string]trouble{}
	s.copies.init(s)
	s.deletes.init(s)
	s.waits.late = &s.counts.late
	s.failures = newFailures(o.Now, &s.counts)
	s.orders = newJournal(&journal{dir: st.deletes, what: "delete", work: s.remove, log: s.log, now: s.now})
	s.orphans = newJournal(&journal{
		dir: st.copies, what: "clean up after an interrupted copy of", grace: o.orphanGrace, work: s.segments.CleanUp, log: s.log, now: s.now,
	})
	s.running.Go(func() { s.orders.run(s.ctx) })
	s.running.Go(func() { s.orphans.run(s.ctx) })
	s.running.Go(func() { s.health.run(s.ctx, s) })
	s.running.Go(s.watchState)
	return s, nil
}

// closeTime bounds Close: what a copy that is cancelled stored has 30 s to be removed (rsm), and a moment more.
const closeTime = 35 * time.Second

// Close cancels what runs, waits until what that stored is removed, and gives the directory free. It does not close the Segments.
// It may be called several times. What cannot be cancelled, such as a read from a disk that hangs, is waited for until closeTime is over: the error
// says what goes on, and the directory stays locked then until the process ends.
func (s *Server) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Server) close() error {
	s.copies.stop()
	s.cancel(errStopping)
	if bounded.Wait(closeTime, s.copies.wait, s.deletes.wait, s.running.Wait) {
		return s.state.close()
	}
	return fmt.Errorf("after %v of waiting there go on still %s: a disk, or the client of the store, does not answer; their directory %s stays locked until the process ends",
		closeTime, s.goingOn(), s.state.dir)
}

// goingOn names what runs, for messages.
func (s *Server) goingOn() string {
	var what []string
	add := func(kind string, ids []string) {
		if len(ids) > 0 {
			slices.Sort(ids)
			what = append(what, kind+" of "+strings.Join(ids, ", "))
		}
	}
	add("copies", s.copies.live())
	add("deletes", s.deletes.live())
	add("orders to delete", s.orders.live())
	add("clean-up", s.orphans.live())
	if n := s.calls.Load() + s.reads.Load(); n > 0 {
		what = append(what, fmt.Sprintf("%d calls", n))
	}
	if len(what) == 0 {
		return "looks at the state directory"
	}
	return strings.Join(what, "; ")
}

// remove deletes a segment, whatever is there of it and whatever goes on with it here.
func (s *Server) remove(ctx context.Context, md remotelog.SegmentMetadata) error {
	if err := s.copies.forget(ctx, md.ID); err != nil {
		return err
	}
	if err := s.segments.Delete(ctx, md); err != nil {
		return err
	}
	s.failures.forget(md.ID)
	return nil
}

// Stats is the state of a server at one moment, and what it counted so far.
type Stats struct {
	CopiesRunning, CopiesWanting int64 // operations; wanting: that wait for files
	SpoolBytes, SpooledBytes     int64 // of files sent: now on disk, in all
	DeletesJournaled             int64
	DeletesOldest                time.Duration // age of the oldest order; 0: none
	DeletesBad                   int64         // files of the journal that were set aside
	Orphans                      int64         // interrupted copies to be cleaned up
	FailureEntries               int64         // ranges and indexes that failed just now
	FailureAnswers               int64         // calls answered from them
	FailureHeld                  int64         // of these, calls that were held
	Late                         int64         // calls that waited for another's bytes in vain
	CustomBytes, CustomLimit     int64         // largest custom metadata so far, and what the broker takes
	CustomTooLong                int64         // copies whose custom metadata the broker will refuse
	Ready                        bool
}

// Stats returns the state, for metrics.
func (s *Server) Stats() Stats {
	j, c := s.orders.stats(), s.copies.stats()
	return Stats{
		CopiesRunning: c.running, CopiesWanting: c.wanting, SpoolBytes: s.counts.spoolNow.Load(), SpooledBytes: s.counts.spooled.Load(),
		DeletesJournaled: j.Orders, DeletesOldest: j.Oldest, DeletesBad: j.Bad, Orphans: s.orphans.stats().Orders,
		FailureEntries: s.failures.entries(), FailureAnswers: s.counts.answered.Load(), FailureHeld: s.counts.held.Load(),
		Late: s.counts.late.Load(), CustomBytes: s.counts.customMost.Load(), CustomLimit: int64(s.o.MaxCustomBytes),
		CustomTooLong: s.counts.customTooLong.Load(), Ready: len(s.health.reasons(s)) == 0,
	}
}

// checkCustom looks at what a copy gave the broker to keep.
func (s *Server) checkCustom(md *remotelog.SegmentMetadata, custom remotelog.CustomMetadata) {
	n := int64(len(custom))
	for most := s.counts.customMost.Load(); n > most && !s.counts.customMost.CompareAndSwap(most, n); {
		most = s.counts.customMost.Load()
	}
	if n <= int64(s.o.MaxCustomBytes) {
		return
	}
	s.counts.customTooLong.Add(1)
	s.log.Error("the broker will delete this copy again and stop copying the partition: its custom metadata are too long",
		"segment", md.SegmentID.String(), "bytes", n, "limit", s.o.MaxCustomBytes,
		"do", "raise remote.log.metadata.custom.metadata.max.bytes of the brokers, or take fields out of custom.metadata.fields.include")
}

// DefaultMaxCustomBytes is the default of remote.log.metadata.custom.metadata.max.bytes (Kafka 3.9 to 4.4).
const DefaultMaxCustomBytes = 128

// MaxTopicName is the most characters that the name of a topic has (org.apache.kafka.common.internals.Topic).
const MaxTopicName = 249

// LongestTopic returns the length of the longest name of a topic whose custom metadata fit into limit, 0 for none; size is how many bytes
// a segment of a topic needs.
func LongestTopic(limit int, size func(topic string) (int, error)) (int, error) {
	name := make([]byte, MaxTopicName)
	for i := range name {
		name[i] = 't'
	}
	for n := len(name); n > 0; n-- {
		got, err := size(string(name[:n]))
		if err != nil {
			return 0, fmt.Errorf("custom metadata: %w", err)
		}
		if got <= limit {
			return n, nil
		}
	}
	return 0, nil
}
