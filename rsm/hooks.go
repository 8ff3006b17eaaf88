package rsm

import (
	"context"
	"errors"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// Hooks tell what happened. They are called off locks, from several goroutines at once, and must not block.
type Hooks struct {
	// Copied: a segment was copied; its three objects have that many bytes.
	Copied func(md remotelog.SegmentMetadata, storedBytes int64)
	// CopyEnded: a copy has ended, well or not.
	CopyEnded func(took time.Duration, err error)
	// Fetched: a stream of a segment was closed, or could not be opened.
	Fetched func(f FetchEnd)
}

// FetchEnd is what became of a fetch.
type FetchEnd struct {
	FirstByte time.Duration // that the caller waited for the first byte, in Fetch and in Read; 0: it read none
	Took      time.Duration // from Fetch to Close
	Bytes     int64         // that it read
	Err       error         // that Fetch or a Read failed with. That the caller's context ended is no failure.
}

// And returns hooks that call h's and then o's.
func (h Hooks) And(o Hooks) Hooks {
	out := h
	switch {
	case h.Copied == nil:
		out.Copied = o.Copied
	case o.Copied != nil:
		out.Copied = func(md remotelog.SegmentMetadata, storedBytes int64) {
			h.Copied(md, storedBytes)
			o.Copied(md, storedBytes)
		}
	}
	switch {
	case h.CopyEnded == nil:
		out.CopyEnded = o.CopyEnded
	case o.CopyEnded != nil:
		out.CopyEnded = func(took time.Duration, err error) {
			h.CopyEnded(took, err)
			o.CopyEnded(took, err)
		}
	}
	switch {
	case h.Fetched == nil:
		out.Fetched = o.Fetched
	case o.Fetched != nil:
		out.Fetched = func(f FetchEnd) {
			h.Fetched(f)
			o.Fetched(f)
		}
	}
	return out
}

// fetched tells the hook how a fetch ended.
func (m *Manager) fetched(caller context.Context, began time.Time, f FetchEnd) {
	if m.hooks.Fetched == nil {
		return
	}
	if caller.Err() != nil && errors.Is(f.Err, caller.Err()) {
		f.Err = nil
	}
	f.Took = m.now().Sub(began)
	m.hooks.Fetched(f)
}
