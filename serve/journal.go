package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	journalVersion = 1
	journalSuffix  = ".json"
	badSuffix      = ".bad"
	maxOrder       = 1 << 20 // bytes of a file

	scanEvery   = time.Second
	settled     = 2 * time.Second // of a directory's time stamp: a file may come within the tick of an earlier one
	parallel    = 8               // orders at a time
	firstDelay  = time.Second
	lastDelay   = 5 * time.Minute
	orderTime   = 2 * time.Minute // for one try
	tempMaxAge  = time.Hour
	tempPattern = ".tmp"
)

// journal is a directory of orders, one small file for each segment, that are worked off until they are done: through failures, restarts
// and crashes. Others may put files into it too.
type journal struct {
	dir   string
	what  string        // an order does, for the log
	grace time.Duration // for which an order that was found is left alone
	work  func(ctx context.Context, md remotelog.SegmentMetadata) error
	log   *slog.Logger
	now   func() time.Time

	wake    chan struct{} // capacity 1
	running sync.WaitGroup

	mu     sync.Mutex
	orders map[remotelog.UUID]*order
	busy   int
	bad    int64     // files set aside
	seen   time.Time // time stamp of the directory when it was read last
	again  bool      // it may have changed within that tick
}

// order is one file.
type order struct {
	since time.Time
	due   time.Time
	delay time.Duration
	keep  bool                       // somebody works on the segment by other means
	md    *remotelog.SegmentMetadata // of the segment, where the file need not be there; nil: the file has it
	done  chan struct{}              // not nil: being worked on; closed when that ends
}

// orderFile is what a file holds.
type orderFile struct {
	Version int             `json:"version"`
	Segment json.RawMessage `json:"segment"`
}

func newJournal(j *journal) *journal {
	j.wake = make(chan struct{}, 1)
	j.orders = map[remotelog.UUID]*order{}
	return j
}

func (j *journal) path(id remotelog.UUID) string {
	return filepath.Join(j.dir, id.String()+journalSuffix)
}

// put makes an order durable and due.
func (j *journal) put(md *remotelog.SegmentMetadata) error {
	if err := j.write(md); err != nil {
		return err
	}
	j.mu.Lock()
	j.add(md.ID, j.now(), j.now())
	j.mu.Unlock()
	j.poke()
	return nil
}

func (j *journal) write(md *remotelog.SegmentMetadata) error {
	seg, err := json.Marshal(segmentjson.Of(md))
	if err != nil {
		return err
	}
	data, err := json.Marshal(orderFile{Version: journalVersion, Segment: seg})
	if err != nil {
		return err
	}
	if err := durable.MakeDir(j.dir); err != nil { // somebody may have removed it
		return err
	}
	return durable.WriteFile(j.path(md.ID), append(data, '\n'))
}

// add makes an order known. Called with mu held.
func (j *journal) add(id remotelog.UUID, since, due time.Time) *order {
	o := j.orders[id]
	if o == nil {
		o = &order{since: since, due: due}
		j.orders[id] = o
	}
	return o
}

// claim keeps the order about a segment, which need not be on disk yet, from being worked on before release: the caller works on the
// segment. It waits for a try that runs; with an error nothing is claimed.
func (j *journal) claim(ctx context.Context, id remotelog.UUID) error {
	for {
		j.mu.Lock()
		o := j.orders[id]
		if o == nil || o.done == nil {
			j.add(id, j.now(), j.now()).keep = true
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
		o.keep, o.due, o.md = false, j.now(), md
	}
	j.mu.Unlock()
	j.poke()
}

// drop removes an order: it is done.
func (j *journal) drop(id remotelog.UUID) error {
	err := durable.Remove(j.path(id))
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.orders, id)
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
	for {
		if err := j.scan(); err != nil && !said {
			j.log.ErrorContext(ctx, "the journal cannot be read", "dir", j.dir, "error", err)
			said = true
		} else if err == nil {
			said = false
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
	for id, o := range j.orders {
		if j.busy >= parallel || ctx.Err() != nil {
			return
		}
		if o.keep || o.done != nil || now.Before(o.due) {
			continue
		}
		o.done = make(chan struct{})
		j.busy++
		j.running.Go(func() { j.try(ctx, id, o) })
	}
}

// try does one order once.
func (j *journal) try(ctx context.Context, id remotelog.UUID, o *order) {
	defer j.poke()
	md, err := readOrder(j.path(id))
	switch {
	case err != nil && o.md != nil:
		md = *o.md
		err = j.do(ctx, md)
	case errors.Is(err, fs.ErrNotExist): // somebody removed it
		err = nil
	case errors.Is(err, remotelog.ErrInvalidArgument):
		j.setAside(ctx, id, err)
		err = nil
	case err == nil:
		err = j.do(ctx, md)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	defer close(o.done)
	o.done = nil
	j.busy--
	if err == nil {
		delete(j.orders, id)
		return
	}
	o.delay = min(max(2*o.delay, firstDelay), lastDelay)
	o.due = j.now().Add(o.delay)
	if ctx.Err() == nil {
		j.log.WarnContext(ctx, "cannot "+j.what+" yet", "segment", md.SegmentID.String(), "again", o.delay, "error", err)
	}
}

func (j *journal) do(ctx context.Context, md remotelog.SegmentMetadata) error {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	if err := j.work(ctx, md); err != nil {
		return err
	}
	return durable.Remove(j.path(md.ID))
}

// setAside gives a file that is no order another name, where somebody can look at it.
func (j *journal) setAside(ctx context.Context, id remotelog.UUID, why error) {
	err := os.Rename(j.path(id), j.path(id)+badSuffix)
	j.log.ErrorContext(ctx, "a file of the journal is no order and was set aside", "file", j.path(id)+badSuffix, "error", errors.Join(why, err))
	j.mu.Lock()
	j.bad++
	j.mu.Unlock()
}

// scan finds orders that others wrote, or an earlier process did.
func (j *journal) scan() error {
	fi, err := os.Stat(j.dir)
	if err != nil {
		j.seen = time.Time{} // it may come back as it was
		return err
	}
	if fi.ModTime().Equal(j.seen) && !j.again {
		return nil
	}
	now := j.now()
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	j.seen, j.again = fi.ModTime(), now.Sub(fi.ModTime()) < settled
	for _, e := range list {
		j.found(e, now)
	}
	return nil
}

func (j *journal) found(e fs.DirEntry, now time.Time) {
	name := e.Name()
	if strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempPattern) {
		if fi, err := e.Info(); err == nil && now.Sub(fi.ModTime()) > tempMaxAge {
			_ = os.Remove(filepath.Join(j.dir, name)) // what a crash left; the next scan sees whether it went
		}
		return
	}
	id, err := remotelog.ParseUUID(strings.TrimSuffix(name, journalSuffix))
	if err != nil || !strings.HasSuffix(name, journalSuffix) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.orders[id] != nil {
		return
	}
	since := now
	if fi, err := e.Info(); err == nil {
		since = fi.ModTime()
	}
	j.add(id, since, now.Add(j.grace))
}

// readOrder reads a file of the journal. ErrInvalidArgument: it is no order, and will not become one.
func readOrder(path string) (md remotelog.SegmentMetadata, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", remotelog.ErrInvalidArgument, fmt.Sprintf(format, args...))
	}
	f, fi, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		return md, bad("%v", err)
	}
	if err != nil {
		return md, err
	}
	defer func() { _ = f.Close() }() // read only
	if fi.Size() > maxOrder {
		return md, bad("it has more than %d bytes", maxOrder)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxOrder))
	if err != nil {
		return md, err
	}
	md, err = parseOrder(data)
	if err == nil && filepath.Base(path) != md.ID.String()+journalSuffix {
		err = bad("it orders about segment %s", md.ID)
	}
	return md, err
}

func parseOrder(data []byte) (md remotelog.SegmentMetadata, err error) {
	var file orderFile
	if err := json.Unmarshal(data, &file); err != nil {
		return md, fmt.Errorf("%w: %v", remotelog.ErrInvalidArgument, err) //nolint:errorlint // of no use to anybody
	}
	if file.Version != journalVersion {
		return md, fmt.Errorf("%w: version %d, known is %d", remotelog.ErrInvalidArgument, file.Version, journalVersion)
	}
	return segmentjson.Parse(file.Segment)
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
