package rlmm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/remotelog"
)

// IsReady reports whether the partition is followed and has been read far enough to answer.
func (m *Manager) IsReady(tp remotelog.TopicIDPartition) bool {
	if m.closed.Load() {
		return false
	}
	u := m.user(tp)
	return u != nil && u.isReady()
}

// WaitReady waits until all of ps are ready; without ps, until all that is followed is (with Options.All: the whole log). If ctx
// ends before, the error matches ErrNotReady and ctx's, and names what lags, by how much and why. A partition that is not
// followed is ErrNotAssigned.
func (m *Manager) WaitReady(ctx context.Context, ps ...remotelog.TopicIDPartition) error {
	for {
		changed := m.changed.wait()
		if m.closed.Load() {
			return errClosed()
		}
		lagging, err := m.lagging(ps)
		if err != nil || len(lagging) == 0 {
			return err
		}
		select {
		case <-changed:
		case <-m.life.done():
		case <-ctx.Done():
			return lateError(lagging, ctx.Err())
		}
	}
}

// lagging returns, for each of ps that is not ready, why.
func (m *Manager) lagging(ps []remotelog.TopicIDPartition) (late []error, err error) {
	us := make([]*partition, 0, len(ps))
	for _, tp := range ps {
		if u := m.user(tp); u != nil {
			us = append(us, u)
		} else if err := m.noUser(tp); errors.Is(err, remotelog.ErrNotAssigned) {
			return nil, err
		} else {
			late = append(late, err)
		}
	}
	if len(ps) == 0 {
		us = m.assigned()
		if m.opts.All {
			if err := m.logNotReady(); err != nil {
				late = append(late, err)
			}
		}
	}
	for _, u := range us {
		if u.isReady() {
			continue
		}
		u.meta.mu.Lock()
		late = append(late, u.meta.notReady(u.tp, u.next(), u.target, m.causeFor(u)))
		u.meta.mu.Unlock()
	}
	return late, nil
}

// lateError names the first few of those that lag.
func lateError(late []error, cause error) error {
	const most = 5
	n := len(late)
	if n > most {
		late = late[:most]
	}
	err := fmt.Errorf("%d not ready when the wait ended: %w: %w", n, cause, errors.Join(late...))
	if n > most {
		err = fmt.Errorf("%w\nand %d more", err, n-most)
	}
	return err
}
