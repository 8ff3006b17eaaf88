package serve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// copyState is where an operation stands. The texts are promised.
type copyState string

const (
	copyWants     copyState = "wants"
	copyRunning   copyState = "running"
	copyDone      copyState = "done"
	copyFailed    copyState = "failed"
	copyCancelled copyState = "cancelled"
)

func (s copyState) final() bool { return s != copyWants && s != copyRunning }

// copyOp is one copy.
type copyOp struct {
	c      *copies
	md     remotelog.SegmentMetadata
	epochs []byte
	specs  [fileKinds]*fileSpec
	began  time.Time
	spool  int64         // bytes of the files that are wanted
	over   chan struct{} // closed when it has its result

	cancel  context.CancelCauseFunc
	silence *time.Timer
	expiry  *time.Timer // set before over is closed

	mu      sync.Mutex
	at      copyState
	files   [fileKinds]*held
	changed chan struct{} // closed and replaced when the state changes, or a file comes
	custom  remotelog.CustomMetadata
	err     error
	heard   bool // somebody was told the result
}

// newCopyOp opens the files that can be opened: renaming and deleting them does no harm from then on.
func newCopyOp(c *copies, q *copyRequest, specs [fileKinds]*fileSpec) *copyOp {
	op := &copyOp{
		c: c, md: q.Segment.md, epochs: q.LeaderEpochs, specs: specs, began: c.s.now(), at: copyRunning,
		over: make(chan struct{}), changed: make(chan struct{}),
	}
	dirs := logDirs{dirs: c.s.o.LogDirs, derive: c.s.o.DeriveLogDirs}
	for k, spec := range specs {
		if spec == nil {
			continue
		}
		f, err := dirs.open(spec, op.md.TopicIDPartition)
		if err != nil {
			op.at = copyWants
			op.spool += *spec.Size
			c.s.log.Debug("a file is asked for as a stream", "segment", op.md.SegmentID.String(), "file", fileKind(k).String(), "error", err)
			continue
		}
		op.files[k] = f
	}
	return op
}

// wants says whether a file is waited for. Called with mu held.
func (op *copyOp) wants(k fileKind) bool {
	return op.at == copyWants && op.specs[k] != nil && op.files[k] == nil
}

func (op *copyOp) state() copyState {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.at
}

// notify wakes who waits for a change. Called with mu held.
func (op *copyOp) notify() {
	close(op.changed)
	op.changed = make(chan struct{})
}

// asked puts the end for want of interest off.
func (op *copyOp) asked() {
	select {
	case <-op.over:
	default:
		op.silence.Reset(silence)
	}
}

// wait returns when the state is another than it is now, or a file came, or after d.
func (op *copyOp) wait(ctx context.Context, d time.Duration) {
	op.mu.Lock()
	changed, final := op.changed, op.at.final()
	op.mu.Unlock()
	if final || d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (op *copyOp) told() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.heard
}

func (op *copyOp) setTold() {
	op.mu.Lock()
	first := !op.heard
	op.heard = true
	op.mu.Unlock()
	if first {
		op.c.mu.Lock()
		op.c.changed()
		op.c.mu.Unlock()
	}
}

// accept takes a file that was sent. It says whether the file is used; else it is the caller's.
func (op *copyOp) accept(k fileKind, f *held) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if !op.wants(k) {
		return false
	}
	op.files[k] = f
	missing := slices.ContainsFunc(slices.Collect(kinds()), op.wants)
	if !missing {
		op.at = copyRunning
	}
	op.notify()
	return true
}

// kinds yields every kind of file.
func kinds() func(yield func(fileKind) bool) {
	return func(yield func(fileKind) bool) {
		for k := range fileKinds {
			if !yield(k) {
				return
			}
		}
	}
}

// run does the copy and keeps its result.
func (op *copyOp) run(ctx context.Context) {
	custom, err := op.copy(ctx)
	op.silence.Stop()
	op.close()
	at := copyDone
	switch {
	case err == nil:
	case ctx.Err() != nil && isContext(err):
		at, err = copyCancelled, because(ctx, err)
	default:
		at = copyFailed
	}
	op.report(at, err)
	op.mu.Lock()
	op.at, op.custom, op.err = at, custom, err
	op.notify()
	op.mu.Unlock()
	op.c.over(op)
	op.cancel(nil)
	close(op.over)
}

// report tells the log and the metrics how it ended.
func (op *copyOp) report(at copyState, err error) {
	s := op.c.s
	took := s.now().Sub(op.began)
	var kind Kind
	switch at {
	case copyFailed:
		kind = kindOf(err)
		s.log.Warn("a copy failed", "segment", op.md.SegmentID.String(), "took", took, "error", err)
	case copyCancelled:
		kind = KindClosed
		s.log.Info("a copy was cancelled", "segment", op.md.SegmentID.String(), "took", took, "because", err)
	case copyDone, copyRunning, copyWants:
		s.log.Debug("copied", "segment", op.md.SegmentID.String(), "bytes", op.md.SizeBytes, "took", took)
	}
	if f := s.o.Hooks.Copied; f != nil {
		f(kind, took)
	}
}

// copy waits for the files and copies. That it runs is on disk before the store is touched: should this process be killed, the next
// one removes what it left.
func (op *copyOp) copy(ctx context.Context) (remotelog.CustomMetadata, error) {
	if err := op.complete(ctx); err != nil {
		return nil, err
	}
	s := op.c.s
	if err := s.orphans.claim(ctx, op.md.ID); err != nil {
		return nil, err
	}
	custom, err := s.segments.CopyNoting(ctx, op.md, op.data(), func() {
		err := s.orphans.note(&op.md)
		if s.stateWrite(ctx, s.state.copies, err, 0); err != nil { // a full disk is no reason to stop tiering, which frees it
			s.log.Warn("that a copy runs cannot be noted", "segment", op.md.SegmentID.String(), "error", err)
		}
	})
	if errors.Is(err, rsm.ErrLeftBehind) {
		s.orphans.release(&op.md)
		return nil, err
	}
	if derr := s.orphans.forget(op.md.ID); derr != nil {
		s.log.Warn("a copy that ended is still noted as running", "segment", op.md.SegmentID.String(), "error", derr)
	}
	if err != nil {
		return nil, err
	}
	s.failures.forget(op.md.ID)
	s.deletes.outdate(op.md.ID)
	s.checkCustom(&op.md, custom)
	return custom, nil
}

// complete waits until every file is there.
func (op *copyOp) complete(ctx context.Context) error {
	for {
		op.mu.Lock()
		at, changed := op.at, op.changed
		op.mu.Unlock()
		if at == copyRunning {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (op *copyOp) data() remotelog.SegmentData {
	op.mu.Lock()
	defer op.mu.Unlock()
	d := remotelog.SegmentData{
		Log: op.files[fileLog], OffsetIndex: op.files[fileOffsetIndex], TimeIndex: op.files[fileTimeIndex],
		ProducerSnapshot: op.files[fileSnapshot], LeaderEpochs: op.epochs,
	}
	if f := op.files[fileTxnIndex]; f != nil { // not a nil pointer in an interface
		d.TransactionIndex = f
	}
	return d
}

// close closes the files. They were only read.
func (op *copyOp) close() {
	op.mu.Lock()
	defer op.mu.Unlock()
	for k, f := range op.files {
		if f != nil {
			_ = f.close()
			op.files[k] = nil
		}
	}
	op.at = copyRunning // none is wanted any more
}
