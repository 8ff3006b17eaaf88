package rlmm

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// targetEvery is how often the end of the log is asked for again while a partition is not ready: a log that was cut and
	// is shorter now must not keep it waiting for the old end.
	targetEvery = 5 * time.Second
	// boundsTimeout ends one question, so that one partition without a leader does not keep the others from being asked.
	boundsTimeout = 10 * time.Second
	boundsFirst   = 100 * time.Millisecond
	boundsAtOnce  = 8
)

// askBounds makes keepTargets ask.
func (m *Manager) askBounds() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// keepTargets is the goroutine that asks the log for its bounds: at once for what was added, again after an error, and every
// few seconds while something is not ready.
func (m *Manager) keepTargets(ctx context.Context) {
	every := time.NewTicker(targetEvery)
	defer every.Stop()
	pause := boundsFirst
	var retry <-chan time.Time // set after an error
	for {
		which := thoseAdded
		select {
		case <-ctx.Done():
			return
		case <-m.kick:
		case <-retry:
		case <-every.C:
			which = allNotReady
		}
		if m.askTargets(ctx, which) {
			retry = time.NewTimer(pause).C
			pause = min(2*pause, targetEvery)
		} else {
			retry, pause = nil, boundsFirst
		}
	}
}

// whom says for which metadata partitions the log is asked.
type whom uint8

const (
	thoseAdded  whom = iota // those that wait for an answer
	allNotReady             // and those that are not ready, again
)

// askTargets asks for the bounds of metadata partitions.
func (m *Manager) askTargets(ctx context.Context, which whom) (failed bool) {
	var ask []int32
	for _, mp := range m.parts {
		mp.mu.Lock()
		if mp.ask || which == allNotReady && (mp.unready > 0 || mp.all && !mp.ready) {
			mp.ask = false
			ask = append(ask, mp.index)
			for _, u := range mp.users {
				u.asking = u.asking || u.target < 0
			}
		}
		mp.mu.Unlock()
	}
	if len(ask) == 0 {
		return false
	}
	m.restore(ask)
	if bounds, err := m.bounds(ctx, ask); err == nil {
		m.verify(ctx, bounds)
		for p, b := range bounds {
			m.answered(m.parts[p], b, nil)
		}
		return false
	} else if len(ask) == 1 {
		m.answered(m.parts[ask[0]], Bounds{}, err)
		return true
	}
	// One partition that cannot be asked fails the whole question: ask for each alone.
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(boundsAtOnce)
	for _, p := range ask {
		g.Go(func() error {
			bounds, err := m.bounds(ctx, []int32{p})
			if err == nil {
				m.verify(ctx, bounds)
			}
			m.answered(m.parts[p], bounds[p], err)
			mu.Lock()
			defer mu.Unlock()
			failed = failed || err != nil
			return nil
		})
	}
	_ = g.Wait() // every error was taken where it arose
	return failed
}

func (m *Manager) bounds(ctx context.Context, ps []int32) (map[int32]Bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	return m.log.Bounds(ctx, ps)
}

// answered takes the answer for one partition of the log.
func (m *Manager) answered(mp *metaPartition, b Bounds, err error) {
	mp.mu.Lock()
	var changed bool
	if err != nil {
		changed = mp.cause == nil || mp.cause.Error() != err.Error()
		mp.cause = err
		mp.ask = true
	} else {
		m.resume(mp)
		changed = mp.begin(b)
	}
	for _, u := range mp.users {
		if u.asking || u.target >= 0 {
			u.answered(err)
		}
	}
	changed = mp.settle() || changed
	mp.mu.Unlock()
	if err != nil && changed {
		m.opts.Logger.Warn("metadata log does not tell how far to read; asking again", "metadataPartition", mp.index, "error", err)
	}
	if err == nil {
		m.live.wake()
		m.loader.wake()
	}
	if changed {
		m.changed.raise()
	}
}

// answered tells Reconcile, once, that the log was asked.
func (u *partition) answered(err error) {
	select {
	case <-u.asked:
	default:
		u.askErr = err
		close(u.asked)
	}
}
