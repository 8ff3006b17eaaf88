package rlm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

func (p *Protocol) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return wallClock()
}

// detached returns a context for a write that must not be lost because ctx ended.
func (p *Protocol) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), orDefault(p.WriteTimeout, time.Minute))
}

// update is the event that moves md to state, as this process writes it.
func (p *Protocol) update(md *remotelog.SegmentMetadata, state remotelog.State) remotelog.SegmentUpdate {
	u := remotelog.SegmentUpdate{SegmentID: md.SegmentID, EventTimestampMs: p.now().UnixMilli(), CustomMetadata: md.CustomMetadata,
		State: state, BrokerID: md.BrokerID}
	if p.BrokerID != nil {
		u.BrokerID = *p.BrokerID
	}
	return u
}

// segment takes one segment through the protocol and reports its result. remote are the partition's finished segments.
func (j *offload) segment(ctx context.Context, s *LocalSegment, remote []remotelog.SegmentMetadata) error {
	start := j.o.now()
	md := remotelog.SegmentMetadata{SegmentID: remotelog.SegmentID{TopicIDPartition: s.plan.TopicIDPartition},
		StartOffset: s.StartOffset, EndOffset: s.EndOffset, SizeBytes: s.SizeBytes, BrokerID: s.plan.BrokerID}
	prepared, data, err := j.prepare(ctx, s, remote)
	if err == nil {
		md = prepared
		md.ID = remotelog.NewUUID()
		err = j.copySegment(ctx, s, &md, data)
	}
	r := SegmentResult{Segment: md, Result: Copied, Duration: j.o.now().Sub(start), Err: err}
	if err != nil {
		r.Result = Failed
	}
	j.result(r)
	return err
}

// copySegment is STARTED, copy, FINISHED. What each failure leaves behind:
//
//	STARTED fails, or its outcome is unknown   nothing in the store; perhaps a STARTED record, for Recover
//	copy fails                                 cleaned up, see cleanUp
//	FINISHED fails for sure                    cleaned up: nobody will ever see this copy
//	FINISHED has an unknown outcome            everything stays: the record may say FINISHED, then it must be readable
//	FINISHED lost against another write        everything stays: whoever wrote owns the segment now
func (j *offload) copySegment(ctx context.Context, s *LocalSegment, md *remotelog.SegmentMetadata, data remotelog.SegmentData) error {
	if err := checkNotInUse(filepath.Dir(absolute(s.plan.Dir))); err != nil {
		return err
	}
	md.State = remotelog.CopySegmentStarted
	md.EventTimestampMs = j.o.now().UnixMilli()
	if j.o.OnStart != nil {
		j.mu.Lock()
		j.o.OnStart(*md)
		j.mu.Unlock()
	}
	if err := j.begin(ctx, md); err != nil {
		return fmt.Errorf("recording that the copy of %s begins: %w", md.SegmentID, err)
	}
	custom, err := j.sm.Copy(ctx, *md, data)
	if err == nil {
		md.CustomMetadata = custom
		err = s.unchanged()
	}
	if err != nil {
		return j.cleanUp(ctx, md, fmt.Errorf("copying %s: %w", md.SegmentID, err))
	}
	wctx, cancel := j.o.detached(ctx)
	defer cancel()
	u := j.o.update(md, remotelog.CopySegmentFinished)
	switch err := j.mm.Update(wctx, u); {
	case err == nil:
		md.State, md.EventTimestampMs = u.State, u.EventTimestampMs
		return nil
	case errors.Is(err, remotelog.ErrOutcomeUnknown):
		return fmt.Errorf("recording that %s is copied: %w: its bytes are kept, copy again to find out", md.SegmentID, err)
	case errors.Is(err, remotelog.ErrConflict):
		return fmt.Errorf("recording that %s is copied: %w: its bytes are kept", md.SegmentID, err)
	default:
		return j.cleanUp(ctx, md, fmt.Errorf("recording that %s is copied: %w", md.SegmentID, err))
	}
}

// begin records STARTED, all or nothing: interrupted in between nobody would know whether there is something to clean up.
func (j *offload) begin(ctx context.Context, md *remotelog.SegmentMetadata) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wctx, cancel := j.o.detached(ctx)
	defer cancel()
	return j.mm.Add(wctx, *md)
}

// cleanUp removes a copy that failed, and returns why it failed joined with what went wrong here.
func (j *offload) cleanUp(ctx context.Context, md *remotelog.SegmentMetadata, cause error) error {
	wctx, cancel := j.o.detached(ctx)
	defer cancel()
	if err := j.o.remove(wctx, j.mm, j.sm, *md); err != nil {
		return errors.Join(cause, fmt.Errorf("removing the failed copy: %w", err))
	}
	return cause
}

// remove is the two-phase delete of one segment. It goes on where an earlier one stopped.
func (p *Protocol) remove(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, md remotelog.SegmentMetadata) error {
	if md.State != remotelog.DeleteSegmentStarted {
		if err := mm.Update(ctx, p.update(&md, remotelog.DeleteSegmentStarted)); err != nil {
			return fmt.Errorf("recording that the delete of %s begins: %w", md.SegmentID, err)
		}
		md.State = remotelog.DeleteSegmentStarted
	}
	if err := sm.Delete(ctx, md); err != nil {
		return fmt.Errorf("deleting %s: %w", md.SegmentID, err)
	}
	if err := mm.Update(ctx, p.update(&md, remotelog.DeleteSegmentFinished)); err != nil {
		return fmt.Errorf("recording that %s is deleted: %w", md.SegmentID, err)
	}
	return nil
}
