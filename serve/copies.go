package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	// silence ends an operation that nobody asks about: the broker is gone, or has given up.
	silence = 30 * time.Second
	// keepResult is how long a result can be asked for.
	keepResult = 10 * time.Minute
	// maxCopies bounds the operations that run; a broker has ten threads that copy, by default.
	maxCopies = 256
	// maxOpening bounds the copies whose files are being opened: on a disk that hangs each one holds a thread of the process for as long as it does.
	maxOpening = 64
	// openTime is how long that may take: POST is answered within 5 s.
	openTime = 4 * time.Second
	// lastWord is how long a daemon that stops waits for the results of its last copies to be asked for.
	lastWord = 2 * time.Second
	// orphanGrace is how long the copies of the process before are left alone: their broker may be about to ask for them again.
	orphanGrace = time.Minute
)

// The causes that end the context of a copy.
var (
	errCopyCancelled = errorf(KindClosed, "the copy was cancelled")
	errSilence       = errorf(KindClosed, "nobody asked about the copy for %v", silence)
	errDeleted       = errorf(KindClosed, "the segment is deleted")
)

// copies are the operations, by segment id.
type copies struct {
	s *Server

	mu       sync.Mutex
	ops      map[remotelog.UUID]*copyOp
	active   int
	spool    int64 // bytes that live operations want sent, or were
	stopping bool
	ended    chan struct{} // closed and replaced when an operation ends or is told
	opening  chan struct{} // has one for each operation whose files are being opened
	make     func(c *copies, q *copyRequest, specs [fileKinds]*fileSpec) *copyOp
	running  sync.WaitGroup
}

func (c *copies) init(s *Server) {
	c.s, c.ops, c.ended = s, map[remotelog.UUID]*copyOp{}, make(chan struct{})
	c.opening, c.make = make(chan struct{}, maxOpening), newCopyOp
}

func (c *copies) find(id remotelog.UUID) (*copyOp, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op := c.ops[id]; op != nil {
		return op, nil
	}
	return nil, errorf(KindUnknownOperation, "no copy of segment %s is known here: ask for it again", id)
}

// begin returns the operation of the segment, a new one if there is none.
func (c *copies) begin(q *copyRequest, specs [fileKinds]*fileSpec) (*copyOp, error) {
	op, err := c.opened(q, specs) // off the lock: a disk may be slow
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch other := c.ops[op.md.ID]; {
	case other != nil:
		op.close()
		return other, nil
	case c.stopping:
		err = errStopping
	case c.active >= maxCopies:
		err = errorf(KindThrottled, "%d copies run at a time already", maxCopies)
	default:
		err = c.roomFor(op)
	}
	if err != nil {
		op.close()
		return nil, err
	}
	c.ops[op.md.ID] = op
	c.active++
	c.spool += op.spool
	ctx, cancel := context.WithCancelCause(c.s.ctx)
	op.cancel = cancel
	op.silence = time.AfterFunc(silence, func() { cancel(errSilence) })
	c.running.Go(func() { op.run(ctx) })
	return op, nil
}

// opened makes an operation. Where the disk of its files hangs the caller gets an error, and the files are closed once they are open.
func (c *copies) opened(q *copyRequest, specs [fileKinds]*fileSpec) (*copyOp, error) {
	select {
	case c.opening <- struct{}{}:
	default:
		return nil, errorf(KindUnavailable, "the disk of the segments does not answer: %d copies wait for their files to be opened", maxOpening)
	}
	made, left := make(chan *copyOp), make(chan struct{})
	go func() {
		op := c.make(c, q, specs)
		<-c.opening
		select {
		case made <- op:
		case <-left:
			op.close()
		}
	}()
	t := time.NewTimer(openTime)
	defer t.Stop()
	select {
	case op := <-made:
		return op, nil
	case <-t.C:
		close(left)
		return nil, errorf(KindUnavailable, "the files of the segment could not be opened in %v: their disk does not answer", openTime)
	}
}

// roomFor says whether the files that an operation wants sent fit beside those of others: all of them, so that no two copies wait for
// each other with half of theirs. Called with mu held.
func (c *copies) roomFor(op *copyOp) error {
	most := c.s.o.SpoolBytes
	switch {
	case op.spool > most:
		return errorf(KindFailed, "the files of the segment have %d bytes, and %s=%d keeps no more of what is sent: raise it, or let the daemon read them in %s", op.spool, keySpool, most, keyLogDirs)
	case c.spool+op.spool > most:
		return errorf(KindThrottled, "the files of running copies that were sent take %d bytes, another %d are more than %s=%d", c.spool, op.spool, keySpool, most)
	}
	return nil
}

// over is called when an operation has its result.
func (c *copies) over(op *copyOp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
	c.spool -= op.spool
	op.expiry = time.AfterFunc(keepResult, func() { c.expire(op) })
	c.changed()
}

// changed wakes who waits for the end of operations. Called with mu held.
func (c *copies) changed() {
	close(c.ended)
	c.ended = make(chan struct{})
}

func (c *copies) expire(op *copyOp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops[op.md.ID] == op {
		delete(c.ops, op.md.ID)
	}
}

// forget cancels the copy of a segment, waits for its end and drops its result: the segment is to be deleted.
func (c *copies) forget(ctx context.Context, id remotelog.UUID) error {
	c.mu.Lock()
	op := c.ops[id]
	c.mu.Unlock()
	if op == nil {
		return nil
	}
	op.cancel(errDeleted)
	select {
	case <-op.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.expire(op)
	return nil
}

// refuse lets no new operation begin.
func (c *copies) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
}

// drain waits until no operation runs, or ctx ends, and then for a moment until the last results were asked for.
func (c *copies) drain(ctx context.Context) {
	c.until(ctx, func() bool { return c.active == 0 })
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	c.until(ctx, func() bool {
		for _, op := range c.ops {
			if !op.told() {
				return false
			}
		}
		return true
	})
}

// until waits for a condition that is looked at with mu held.
func (c *copies) until(ctx context.Context, holds func() bool) {
	for {
		c.mu.Lock()
		ok, changed := holds(), c.ended
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// stop cancels every operation, and lets no new one begin.
func (c *copies) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, op := range c.ops {
		op.cancel(errStopping)
	}
}

// wait returns when no operation runs. Called after stop.
func (c *copies) wait() {
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range c.ops {
		op.expiry.Stop()
	}
}

// live are the segments of operations that have no result.
func (c *copies) live() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, op := range c.ops {
		if !op.state().final() {
			ids = append(ids, id.String())
		}
	}
	return ids
}

type copyStats struct{ running, wanting int64 }

func (c *copies) stats() (s copyStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range c.ops {
		switch op.state() {
		case copyRunning:
			s.running++
		case copyWants:
			s.wanting++
		case copyDone, copyFailed, copyCancelled:
		}
	}
	return s
}

// copyAnswer is the state of an operation as a client gets it.
type copyAnswer struct {
	State  copyState `json:"state"`
	Files  []string  `json:"files,omitempty"`
	Custom *[]byte   `json:"customMetadata,omitempty"`
	Error  *problem  `json:"error,omitempty"`
}

// doneAnswer has its field even where there are no custom metadata.
type doneAnswer struct {
	State  copyState `json:"state"`
	Custom *[]byte   `json:"customMetadata"`
}

// tell sends the state of an operation.
func (s *Server) tell(w http.ResponseWriter, op *copyOp) error {
	op.mu.Lock()
	a := copyAnswer{State: op.at}
	for k := range fileKinds {
		if op.wants(k) {
			a.Files = append(a.Files, k.String())
		}
	}
	if op.at == copyFailed {
		p := problemOf(op.err)
		a.Error = &p
	}
	custom := op.custom
	op.mu.Unlock()
	defer func() {
		if a.State.final() {
			op.setTold()
		}
	}()
	if a.State == copyDone {
		return s.answer(w, http.StatusOK, doneAnswer{State: a.State, Custom: segmentjson.Custom(custom)})
	}
	return s.answer(w, http.StatusOK, a)
}

// serveCopy is POST /v1/copies.
func (s *Server) serveCopy(w http.ResponseWriter, r *http.Request) error {
	var q copyRequest
	if err := s.readJSON(w, r, &q); err != nil {
		return err
	}
	if err := q.Segment.check(); err != nil {
		return err
	}
	op, err := s.copies.find(q.Segment.md.ID)
	if err != nil {
		if op, err = s.beginCopy(&q); err != nil {
			return err
		}
	}
	op.asked()
	return s.tell(w, op)
}

func (s *Server) beginCopy(q *copyRequest) (*copyOp, error) {
	if err := q.Segment.md.Validate(); err != nil {
		return nil, err
	}
	if q.Segment.md.State != remotelog.CopySegmentStarted {
		return nil, errorf(KindInvalidArgument, "copy of a segment in state %s", q.Segment.md.State)
	}
	specs, err := q.specs()
	if err != nil {
		return nil, err
	}
	return s.copies.begin(q, specs)
}

// serveCopyState is GET /v1/copies/{segmentId}.
func (s *Server) serveCopyState(w http.ResponseWriter, r *http.Request, id remotelog.UUID) error {
	op, err := s.copies.find(id)
	if err != nil {
		return err
	}
	ms, err := strconv.ParseInt(r.URL.Query().Get("waitMs"), 10, 64)
	if err != nil {
		if ms = 0; !errors.Is(err, strconv.ErrSyntax) || r.URL.Query().Get("waitMs") != "" {
			return errorf(KindInvalidArgument, "waitMs is no number of milliseconds")
		}
	}
	op.asked()
	op.wait(r.Context(), wait(ms))
	op.asked()
	return s.tell(w, op)
}

// serveCopyCancel is DELETE /v1/copies/{segmentId}.
func (s *Server) serveCopyCancel(w http.ResponseWriter, _ *http.Request, id remotelog.UUID) error {
	op, err := s.copies.find(id)
	if err != nil {
		return err
	}
	op.cancel(errCopyCancelled)
	return s.answer(w, http.StatusAccepted, struct{}{})
}
