package rsm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// seekPause is how long no successor is looked for after the store has refused to list.
const seekPause = 10 * time.Minute

// successor is the segment behind that of a scan, before the reader comes there. Without it a reader would wait at each border for what it cannot do
// without, one request after the other: manifest, indexes, first chunk. Nobody tells the name of that segment beforehand, but its key begins with its
// first offset, so a listing of that prefix shows it. It is looked for once the read-ahead reaches over the end of the scan's segment.
//
// The successor has a scan of its own with chunks on their way, until the first fetch comes to it (come) or one of the two scans is forgotten. What
// is there of it is a guess: which segment is read is said by its reader alone. All fields are guarded by chunkLoads.mu.
type successor struct {
	sought bool               // asked for; it is not asked for again if there was none
	cancel context.CancelFunc // of the search; nil: none runs
	sc     *scan              // nil: not known
	r      *reader            // of the same
}

// busy says whether something goes on for it.
func (a *successor) busy() bool {
	return a.cancel != nil || a.sc != nil && (len(a.sc.loads.loads)+a.sc.unread > 0 || a.sc.after.busy())
}

// spill sees that the start of the segment behind that of sc is on its way, as far as depth reaches over sc's own.
func (c *chunkLoads) spill(ctx context.Context, sc *scan, depth int) {
	left := depth - (sc.last - sc.at)
	if !sc.followed || sc.edge < sc.last || left <= 0 || c.closed {
		return
	}
	after := &sc.after
	if after.sc == nil {
		if !after.sought && !c.now().Before(c.seekAgain) {
			c.seek(ctx, sc)
		}
		return
	}
	seg := after.r.there()
	if seg == nil {
		return // its memory was needed; the reader will find it again
	}
	h := after.sc
	chunks := func(n int) int { return int(int64(n) * sc.chunk / h.chunk) }
	h.asleep = false
	c.fill(ctx, &expected{after.r, h}, seg, h, stretch{upto: chunks(left) - 1, last: h.last, depth: chunks(depth)})
	c.spill(ctx, h, chunks(left)) // into what follows that, if that is short
}

// spillFrom is spill, called when the depth is not known.
func (c *chunkLoads) spillFrom(ctx context.Context, sc *scan) {
	for sc.before != nil {
		sc = sc.before
	}
	c.spill(ctx, sc, c.depth(sc, 0))
}

// seek begins to look for the successor of sc.
func (c *chunkLoads) seek(ctx context.Context, sc *scan) {
	sc.after.sought = true
	// It is for all streams of the scan, so it does not end with the one that came here.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	sc.after.cancel = cancel
	c.running.Go(func() {
		defer cancel()
		r, err := c.m.following(ctx, sc.tp, sc.endOffset+1)
		if c.sought(ctx, sc, r, err) {
			if x, err := c.m.FetchIndex(ctx, *r.md, remotelog.OffsetIndex); err == nil { // else its reader will find out
				_ = x.Close() // read only
			}
		}
	})
}

// sought is told what a search has found, and says whether it is the successor now. Else it releases r.
func (c *chunkLoads) sought(ctx context.Context, sc *scan, r *reader, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	stopped := ctx.Err() != nil
	if !stopped {
		sc.after.cancel = nil
	}
	if err != nil {
		if errors.Is(err, backends.Denied) {
			c.seekAgain = c.now().Add(seekPause)
		}
		return false
	}
	seg := r.there()
	if stopped || seg == nil || c.scanAt(r.md, 0) != nil { // at last: its reader has come already, or another one was there
		r.release()
		return false
	}
	h := newScan(r.md, 0)
	h.followed, h.inOrder, h.before = true, true, sc
	c.adopt(h, seg)
	c.remember(h)
	sc.after.sc, sc.after.r = h, r
	c.spillFrom(ctx, sc)
	return true
}

// come makes sc, to which a fetch comes, a scan like others.
func (c *chunkLoads) come(sc *scan) {
	if before := sc.before; before != nil {
		sc.before = nil
		before.bequeath(sc)
		c.letGo(before)
	}
}

// letGo forgets the successor of sc.
func (c *chunkLoads) letGo(sc *scan) {
	if a := &sc.after; a.r != nil {
		a.r.release()
		a.sc, a.r = nil, nil
	}
}

// restAfter stops what goes on for the successor of sc. It stays known.
func (c *chunkLoads) restAfter(sc *scan) {
	a := &sc.after
	if a.cancel != nil {
		a.cancel()
		a.cancel, a.sought = nil, false
	}
	if a.sc != nil {
		a.sc.asleep = true
		a.sc.loads.end(c)
		c.restAfter(a.sc)
	}
}

// following opens the segment of a partition that begins at an offset, if the store shows one: of several copies the latest.
func (m *Manager) following(ctx context.Context, tp remotelog.TopicIDPartition, offset int64) (*reader, error) {
	// Nobody waits for it, so nothing makes way for it.
	res := m.budget.TryReserve(membudget.Ahead, manifestNeed(manifestGuess))
	if res == nil {
		return nil, errors.New("there is no memory to look ahead")
	}
	res.Release()
	var found manifestKey
	var modified time.Time
	for info, err := range m.store.List(ctx, m.config.KeyPrefix+manifest.OffsetPath(tp, offset)) {
		if err != nil {
			return nil, err
		}
		k, err := manifest.ParseKey(m.config.KeyPrefix, info.Key)
		if err != nil || k.Suffix != manifest.ManifestSuffix || k.TopicIDPartition != tp || info.ModTime.Before(modified) {
			continue
		}
		found, modified = manifestKey{KeyInfo: k, key: info.Key}, info.ModTime
	}
	if found.key == "" {
		return nil, fmt.Errorf("%w: %s has no segment from offset %d on", remotelog.ErrNotFound, tp, offset)
	}
	at := stem(strings.TrimSuffix(found.key, "."+string(manifest.ManifestSuffix)))
	h, err := m.manifests.get(ctx, &remotelog.SegmentMetadata{SegmentID: found.SegmentID}, []stem{at})
	if err != nil {
		return nil, err
	}
	defer h.Release()
	md, err := describes(h.Value().Manifest, found.KeyInfo)
	if err != nil {
		return nil, err
	}
	return m.open(ctx, &md)
}
