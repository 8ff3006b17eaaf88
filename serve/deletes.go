package serve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

const (
	// deleteTime bounds a delete that is done at once.
	deleteTime = time.Minute
	// unjournaledTime bounds one that should have been journaled.
	unjournaledTime = 30 * time.Second
	// keepDelete is how long the result of one that nobody waited for is kept.
	keepDelete = 30 * time.Second
)

// deletes are those that run, by segment id.
type deletes struct {
	s *Server

	mu      sync.Mutex
	ops     map[remotelog.UUID]*deleteOp
	running sync.WaitGroup
}

// deleteOp is one delete.
type deleteOp struct {
	done   chan struct{} // closed when it ended
	err    error
	expiry *time.Timer // set before done is closed
}

func (d *deletes) init(s *Server) { d.s, d.ops = s, map[remotelog.UUID]*deleteOp{} }

// begin returns the delete of the segment: the one that runs or whose result nobody was told, else a new one.
func (d *deletes) begin(md remotelog.SegmentMetadata) (*deleteOp, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if op := d.ops[md.ID]; op != nil {
		return op, nil
	}
	if d.s.ctx.Err() != nil {
		return nil, errStopping
	}
	op := &deleteOp{done: make(chan struct{})}
	d.ops[md.ID] = op
	d.running.Go(func() {
		ctx, cancel := context.WithTimeout(d.s.ctx, deleteTime)
		defer cancel()
		op.err = because(ctx, d.s.remove(ctx, md))
		op.expiry = time.AfterFunc(keepDelete, func() { d.drop(md.ID, op) })
		close(op.done)
	})
	return op, nil
}

// outdate drops the result of a delete that ended: the segment is copied again.
func (d *deletes) outdate(id remotelog.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	op := d.ops[id]
	if op == nil {
		return
	}
	select {
	case <-op.done:
		op.expiry.Stop()
		delete(d.ops, id)
	default: // it goes on: what it finds of the copy it deletes
	}
}

func (d *deletes) drop(id remotelog.UUID, op *deleteOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ops[id] == op {
		delete(d.ops, id)
	}
}

// live are the segments of deletes that run.
func (d *deletes) live() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, op := range d.ops {
		select {
		case <-op.done:
		default:
			ids = append(ids, id.String())
		}
	}
	return ids
}

// wait returns when no delete runs. Called after the context of the server ended.
func (d *deletes) wait() {
	d.running.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, op := range d.ops {
		op.expiry.Stop()
	}
}

// deleteAnswer is what became of a delete.
type deleteAnswer struct {
	State string `json:"state"`
}

// serveDelete is POST /v1/delete.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request) error {
	var q deleteRequest
	if err := s.readJSON(w, r, &q); err != nil {
		return err
	}
	if err := q.Segment.check(); err != nil {
		return err
	}
	patience := wait(q.WaitMs)
	if q.Journal {
		err := s.orders.put(&q.Segment.md)
		s.stateWrite(r.Context(), s.state.deletes, err, 0)
		if err == nil {
			return s.answer(w, http.StatusAccepted, deleteAnswer{"journaled"})
		}
		s.log.Error("an order to delete cannot be journaled, it is done at once", "segment", q.Segment.md.SegmentID.String(), "error", err)
		patience = unjournaledTime
	}
	op, err := s.deletes.begin(q.Segment.md) //nolint:contextcheck // it goes on when the call has ended
	if err != nil {
		return err
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-op.done:
	case <-t.C:
		if q.Journal {
			return errorf(KindTimeout, "the journal cannot be written, and the delete takes longer than %v", unjournaledTime)
		}
		return s.answer(w, http.StatusOK, deleteAnswer{"running"})
	case <-r.Context().Done():
		return r.Context().Err()
	}
	op.expiry.Stop()
	s.deletes.drop(q.Segment.md.ID, op)
	if op.err != nil {
		return op.err
	}
	return s.answer(w, http.StatusOK, deleteAnswer{"done"})
}
