package rlm

import (
	"context"

	"github.com/tierkit/tierkit/remotelog"
)

// RecoverOptions configures Recover.
type RecoverOptions struct {
	DeleteOptions
	// OwnLog: no other process writes this metadata log (the file log's lock proves it) and this one has not begun to. Then whatever
	// is unfinished is left of a crash and is removed. Without it Recover only lists: on a shared log an unfinished segment may be
	// the work of a live broker.
	OwnLog bool
}

// Recover finds the segments of all partitions that a crash left between two phases, and on a log of one's own removes them. A segment
// whose copy reached FINISHED is never touched, so nothing that was acknowledged is lost. It returns what was found, in the state it
// was found in; the error joins what could not be removed.
func Recover(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, o RecoverOptions) ([]remotelog.SegmentMetadata, error) {
	var found []remotelog.SegmentMetadata
	for tp, err := range mm.Partitions(ctx) {
		if err != nil {
			return found, err
		}
		for md, err := range mm.Segments(ctx, tp) {
			if err != nil {
				return found, err
			}
			if unfinished(&md) {
				found = append(found, md)
			}
		}
	}
	if !o.OwnLog || len(found) == 0 {
		return found, nil
	}
	_, err := DeleteSegments(ctx, mm, sm, found, o.DeleteOptions)
	return found, err
}
