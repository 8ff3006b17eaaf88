package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	scanEvery  = time.Second
	scanShare  = 20              // of the time, one part at most goes into reading the directory
	settled    = 2 * time.Second // of a directory's time stamp: a file may come within the tick of an earlier one
	parallel   = 8               // orders at a time
	firstDelay = time.Second
	lastDelay  = 5 * time.Minute
	orderTime  = 2 * time.Minute // for one try
	tempMaxAge = time.Hour
	diskTime   = 5 * time.Second // for a change of a file that a call or a copy waits for
	maxSlow    = 64              // of them at a time
)

var errDiskHangs = errorf(KindUnavailable, "the disk of %s does not answer within %v", keyStateDir, diskTime)

// journal is a directory of orders, one small file for each segment, that are worked off until they are done: through failures, restarts
// and crashes. Others may put files into it too.
type journal struct {
	dir   string
	what  string        // an order does, for the log
	grace time.Duration // for which an order that was found is left alone
	work  func(ctx context.Context, md remotelog.SegmentMetadata) error
	log   *slog.Logger
	now   func() time.Time

	write   func(path string, content []byte) error // of a file, durably
	slow    chan struct{}                           // has one for each change of a file that others wait for
	wake    chan struct{}                           // capacity 1
	running sync.WaitGroup

	mu      sync.Mutex
	orders  map[remotelog.UUID]*order
	waiting queue // of orders that are neither worked on nor kept
	busy    int
	bad     int64     // files set aside
	seen    time.Time // time stamp of the directory when it was read last
	again   bool      // it may have changed within that tick
	scans   int       // times that the directory was read
}

// order is one segment's, about which a file is or was there.
type order struct {
	id    remotelog.UUID
	since time.Time
	due   time.Time
	at    int // in the queue; -1: not there
	delay time.Duration
	keep  bool                       // somebody works on the segment by other means
	md    *remotelog.SegmentMetadata // of the segment, where the file need not be there; nil: the file has it
	done  chan struct{}              // not nil: being worked on; closed when that ends
	again bool                       // another order about it came meanwhile, perhaps
}

func newJournal(j *journal) *journal {
	j.write, j.slow, j.wake = durable.WriteFile, make(chan struct{}, maxSlow), make(chan struct{}, 1)
	j.orders = map[remotelog.UUID]*order{}
	return j
}

func (j *journal) path(id remotelog.UUID) string {
	return filepath.Join(j.dir, id.String()+journalSuffix)
}

// put makes an order durable and due.
func (j *journal) put(md *remotelog.SegmentMetadata) error {
	if err := j.note(md); err != nil {
		return err
	}
	j.mu.Lock()
	j.add(md.ID, j.now(), j.now())
	j.mu.Unlock()
	j.poke()
	return nil
}

// note makes an order durable, or fails within diskTime. The order may be there all the same later, when its disk answers again.
func (j *journal) note(md *remotelog.SegmentMetadata) error {
	seg, err := json.Marshal(segmentjson.Of(md))
	if err != nil {
		return err
	}
	data, err := json.Marshal(orderFile{Version: journalVersion, Segment: seg})
	if err != nil {
		return err
	}
	return j.inTime(func() error {
		if err := durable.MakeDir(j.dir); err != nil { // somebody may have removed it
			return err
		}
		return j.write(j.path(md.ID), append(data, '\n'))
	})
}

// inTime changes a file, or fails within diskTime; the change goes on then. So many may go on that the threads of the process suffice.
func (j *journal) inTime(change func() error) error {
	t := time.NewTimer(diskTime)
	defer t.Stop()
	done := make(chan error, 1)
	select {
	case j.slow <- struct{}{}:
		go func() {
			done <- change()
			<-j.slow
		}()
	case <-t.C:
		return errDiskHangs
	}
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errDiskHangs
	}
}

// add makes an order known. One that is worked on is tried once more afterwards: its file may be another one than was read. Called with
// mu held.
func (j *journal) add(id remotelog.UUID, since, due time.Time) {
	o := j.orders[id]
	switch {
	case o == nil:
		o = &order{id: id, since: since, at: -1}
		j.orders[id] = o
		j.schedule(o, due)
	case o.done != nil:
		o.again = true
	}
}

// claim keeps the order about a segment, which need not be on disk yet, from being worked on before release: the caller works on the
// segment. It waits for a try that runs; with an error nothing is claimed.
func (j *journal) claim(ctx context.Context, id remotelog.UUID) error {
	for {
		j.mu.Lock()
		o := j.orders[id]
		if o == nil || o.done == nil {
			j.add(id, j.now(), j.now())
			o = j.orders[id]
			o.keep = true
			j.unschedule(o)
			j.mu.Unlock()
			return nil
		}
		done := o.done
		j.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release makes an order that was claimed due. It is worked off also if it could not be written, as long as this process lives.
func (j *journal) release(md *remotelog.SegmentMetadata) {
	j.mu.Lock()
	if o := j.orders[md.ID]; o != nil {
		o.keep, o.md = false, md
		j.schedule(o, j.now())
	}
	j.mu.Unlock()
	j.poke()
}

// forget removes an order that was claimed. It may come back after a crash of the machine: whoever works it off then finds the segment whole or
// gone, and leaves it alone. To make the removal durable would be a wait for the disk in each copy.
func (j *journal) forget(id remotelog.UUID) error {
	err := j.inTime(func() error { return os.Remove(j.path(id)) })
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.orders, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (j *journal) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run works orders off until ctx ends, and returns when nothing of it runs any more.
func (j *journal) run(ctx context.Context) {
	defer j.running.Wait()
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	said := false
	var next time.Time // reading of the directory: what this process put there is known without
	for {
		if began := j.now(); !began.Before(next) {
			err := j.scan()
			next = began.Add(max(scanEvery, scanShare*j.now().Sub(began)))
			if err != nil && !said {
				j.log.ErrorContext(ctx, "the journal cannot be read", "dir", j.dir, "error", err)
			}
			said = err != nil
		}
		j.begin(ctx)
		select {
		case <-tick.C:
		case <-j.wake:
		case <-ctx.Done():
			return
		}
	}
}

// begin starts the tries that are due.
func (j *journal) begin(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	for len(j.waiting) > 0 && j.busy < parallel && ctx.Err() == nil && !now.Before(j.waiting[0].due) {
		o := j.waiting[0]
		j.unschedule(o)
		o.done, o.again = make(chan struct{}), false
		j.busy++
		j.running.Go(func() { j.try(ctx, o) })
	}
}

// try does one order once.
func (j *journal) try(ctx context.Context, o *order) {
	defer j.poke()
	err := j.tryFile(ctx, o)
	j.mu.Lock()
	defer j.mu.Unlock()
	close(o.done)
	o.done = nil
	j.busy--
	if err == nil {
		o.md, o.delay = nil, 0
		if !o.again {
			delete(j.orders, o.id)
			return
		}
	} else {
		o.delay = min(max(2*o.delay, firstDelay), lastDelay)
		if ctx.Err() == nil {
			j.log.WarnContext(ctx, "cannot "+j.what+" yet", "segment", o.id.String(), "again", o.delay, "error", err)
		}
	}
	j.schedule(o, j.now().Add(o.delay))
}

// tryFile reads the file of an order, does what it says and removes it. A file that somebody puts in its place meanwhile stays.
func (j *journal) tryFile(ctx context.Context, o *order) error {
	f, err := openOrder(j.path(o.id))
	if f != nil {
		defer f.close()
	}
	switch {
	case err == nil:
		err = j.do(ctx, f.md)
	case o.md != nil: // it could not be written
		err = j.do(ctx, *o.md)
	case errors.Is(err, fs.ErrNotExist): // somebody removed it
		return nil
	case errors.Is(err, remotelog.ErrInvalidArgument):
		return j.setAside(o, f, err)
	}
	if err != nil || f == nil {
		return err
	}
	return j.remove(o, f)
}

func (j *journal) do(ctx context.Context, md remotelog.SegmentMetadata) error {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	return j.work(ctx, md)
}

// live are the segments of orders that are worked on.
func (j *journal) live() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, o := range j.orders {
		if o.done != nil {
			ids = append(ids, id.String())
		}
	}
	return ids
}

// journalStats is the state of a journal at one moment.
type journalStats struct {
	Orders int64
	Oldest time.Duration // age of the oldest order; 0: none
	Bad    int64
}

func (j *journal) stats() journalStats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := journalStats{Bad: j.bad}
	now := j.now()
	for _, o := range j.orders {
		if o.keep {
			continue
		}
		s.Orders++
		s.Oldest = max(s.Oldest, now.Sub(o.since))
	}
	return s
}
