package rlmm

import (
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
)

// What may be published, by the state at the moment before. A record that real brokers die of, or that would certainly be
// dropped, never reaches the log (it would end the metadata consumer of a real broker). All of these run under metaPartition.mu, so nothing is applied
// meanwhile.

func (u *partition) checkAdd(md *remotelog.SegmentMetadata) (Record, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if err := u.checkDeleted(); err != nil {
		return nil, err
	}
	if s := u.cache.byID[md.ID]; s != nil {
		return nil, fmt.Errorf("%w: segment %v exists already, in state %v", remotelog.ErrInvalidArgument, md.SegmentID, s.state)
	}
	return &SegmentRecord{Metadata: *md}, nil
}

func (u *partition) checkUpdate(up remotelog.SegmentUpdate) (Record, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if err := u.checkDeleted(); err != nil {
		return nil, err
	}
	s := u.cache.byID[up.ID]
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: segment %v is not known", remotelog.ErrNotFound, up.SegmentID)
	case !up.State.CanFollow(s.state):
		return nil, fmt.Errorf("%w: segment %v is in state %v and cannot go to %v", remotelog.ErrInvalidArgument, up.SegmentID, s.state, up.State)
	}
	if up.CustomMetadata == nil && up.State != remotelog.CopySegmentFinished {
		up.CustomMetadata = s.custom
	}
	return &UpdateRecord{Update: up}, nil
}

func (u *partition) checkDelete(d remotelog.PartitionDelete) (Record, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	at := u.cache.deletes
	switch {
	case at.set && !d.State.CanFollow(at.state), !at.set && !d.State.CanBegin():
		return nil, fmt.Errorf("%w: partition %v is %v and cannot go to %v", remotelog.ErrInvalidArgument, u.tp, at, d.State)
	case d.State == remotelog.DeletePartitionFinished && len(u.cache.byID) > 0:
		return nil, fmt.Errorf("%w: partition %v still has %d segments; delete them before %v", remotelog.ErrInvalidArgument, u.tp,
			len(u.cache.byID), d.State)
	}
	return &PartitionDeleteRecord{Delete: d}, nil
}

// checkDeleted needs u.mu.
func (u *partition) checkDeleted() error {
	if u.cache.deletes.finished() {
		return fmt.Errorf("%w: partition %v was deleted; brokers do not survive another record of it", remotelog.ErrInvalidArgument, u.tp)
	}
	return nil
}

// outcome is what applying an event did, for the write that published it.
func (u *partition) outcome(id remotelog.SegmentID, reason DropReason) error {
	if reason == 0 {
		return nil
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	if id.ID.IsZero() {
		return fmt.Errorf("%w: partition %v was found %v when the write was applied", remotelog.ErrConflict, u.tp, u.cache.deletes)
	}
	found := "unknown: another write has deleted it"
	if s := u.cache.byID[id.ID]; s != nil {
		found = "in state " + s.state.String()
	}
	return fmt.Errorf("%w: segment %v was found %s when the write was applied", remotelog.ErrConflict, id, found)
}

// String says which delete state a partition has.
func (d deleteMark) String() string {
	if !d.set {
		return "not marked for deletion"
	}
	return "in state " + d.state.String()
}
