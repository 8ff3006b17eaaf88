package kafkalog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// watchEvery is how often the topic is looked at while nothing else asks for it.
const watchEvery = 30 * time.Second

// Log is the metadata topic of a Kafka cluster.
type Log struct {
	opts       Options
	id         rlmm.LogID
	topicID    remotelog.UUID
	partitions int32
	grown      atomic.Int32 // the number of partitions that was warned of

	admin    *kgo.Client
	producer *kgo.Client
	topo     topology
	writers  []*writer
	session  session

	ctx  context.Context //nolint:containedctx // the life of the log, ended by Close
	stop context.CancelFunc
	wg   sync.WaitGroup // every goroutine of the log and its followers

	mu     sync.Mutex
	closed bool

	failure atomic.Pointer[ReplacedError]
	failed  chan struct{} // closed with failure
}

var _ rlmm.Log = (*Log)(nil)

// Open connects, finds the topic, checks it and, with Options.Create, makes it. It tries for Config.ConnectTimeout what may pass
// (no broker answers, no leader yet) and returns at once what does not. The caller closes the Log.
func Open(ctx context.Context, o Options) (*Log, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	admin, err := o.newClient(o.Config.Admin)
	if err != nil {
		return nil, err
	}
	st, err := o.openTopic(ctx, admin)
	if err != nil {
		admin.Close()
		return nil, err
	}
	producer, err := o.newClient(o.Config.Producer)
	if err != nil {
		admin.Close()
		return nil, err
	}
	l := &Log{
		opts: o, topicID: st.id, partitions: int32(len(st.leaders)), admin: admin, producer: producer,
		id:      rlmm.LogID(fmt.Sprintf("kafka:%s/%s", st.cluster, st.id)),
		topo:    topology{turn: make(chan struct{}, 1), leaders: st.leaders},
		session: session{turn: make(chan struct{}, 1)}, failed: make(chan struct{}),
	}
	l.ctx, l.stop = context.WithCancel(context.Background()) //nolint:forbidigo // the log's own life, ended by Close
	for p := range l.partitions {
		l.writers = append(l.writers, &writer{log: l, part: p})
	}
	l.wg.Go(l.watch)
	return l, nil
}

// Identity implements rlmm.Log: cluster id and topic id.
func (l *Log) Identity() rlmm.LogID { return l.id }

// Partitions implements rlmm.Log.
func (l *Log) Partitions() int32 { return l.partitions }

// Grown returns the number of partitions that the topic has now, if that is not the one that it was opened with, else 0. The Log
// stays with the old number: records are found by it.
func (l *Log) Grown() int32 { return l.grown.Load() }

// Err returns the *ReplacedError that ended the log, nil while it lives.
func (l *Log) Err() error {
	if err := l.failure.Load(); err != nil {
		return err
	}
	return nil
}

// fail ends the log: the topic is another one.
func (l *Log) fail(err *ReplacedError) {
	if l.failure.CompareAndSwap(nil, err) {
		l.opts.Logger.Error("the metadata topic was replaced; nothing is read or written any more", "error", err)
		close(l.failed)
	}
}

// usable returns why nothing can be asked of the log, nil if it can.
func (l *Log) usable() error {
	if l.ctx.Err() != nil {
		return errClosed
	}
	return l.Err()
}

func (l *Log) valid(p int32) error {
	if p < 0 || p >= l.partitions {
		return fmt.Errorf("%w: metadata partition %d, the topic has %d", remotelog.ErrInvalidArgument, p, l.partitions)
	}
	return nil
}

// watch looks at the topic now and then.
func (l *Log) watch() {
	for sleep(l.ctx, watchEvery) {
		ctx, cancel := context.WithTimeout(l.ctx, l.opts.Config.Admin.RequestTimeout)
		err := l.look(ctx)
		cancel()
		if l.Err() != nil {
			return
		}
		if err != nil && l.ctx.Err() == nil {
			l.opts.Logger.Warn("the metadata topic cannot be looked at; trying again", "error", err)
		}
	}
}

// Close implements rlmm.Log.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
	l.producer.Close()
	l.admin.Close()
	return nil
}
