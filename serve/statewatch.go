package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
)

const (
	// lockEvery is how often the lock is looked at: for so long there may be two daemons after somebody removed the directory.
	lockEvery = time.Second
	// stateEvery is how often the directories of the state are tried.
	stateEvery = 10 * time.Second
	// stateSlow is how long a try may take before the disk counts as one that hangs.
	stateSlow = 30 * time.Second
	// keepTrouble is how long a write that failed counts although a try succeeds: a file may be too large for a disk that takes the small one.
	keepTrouble = time.Minute
	// trySize is the size of the file that a try writes: a disk that is full takes an empty one.
	trySize = 4 << 10
)

// watchState looks after the lock, and tries the directories of the state, until the context of the server ends: whoever asks whether the
// daemon is ready hears what is wrong before an order to delete is refused for it.
func (s *Server) watchState() {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	next := s.now().Add(stateEvery) // try of the directories
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		began := s.now()
		s.health.trying(began)
		s.keepLock()
		if !began.Before(next) {
			next = began.Add(stateEvery)
			for _, dir := range s.state.dirs() {
				s.stateWrite(s.ctx, dir, s.state.try(dir), keepTrouble)
			}
		}
		s.health.trying(time.Time{})
	}
}

// keepLock ends the server when another daemon has taken its place: two daemons for one broker would undo each other's work.
func (s *Server) keepLock() {
	lost, err := s.state.keep()
	if !errors.Is(err, durable.ErrLocked) {
		s.stateWrite(s.ctx, s.state.dir, err, 0)
	}
	switch {
	case errors.Is(err, durable.ErrLocked):
		s.health.stopping()
		s.log.ErrorContext(s.ctx, "the state directory was removed, and another daemon has taken it: this one ends", "error", err)
		s.copies.stop()
		s.cancel(fmt.Errorf("%s was removed while the daemon used it, and another daemon has taken it since: %w", keyStateDir, err))
	case lost:
		s.log.ErrorContext(s.ctx, "the state directory was removed and is made anew: orders to delete that were in it are lost, their segments stay in the store", "dir", s.state.dir)
	}
}

// stateWrite remembers what became of a write to a directory of the state. Success settles trouble that is older than keep.
func (s *Server) stateWrite(ctx context.Context, dir string, err error, keep time.Duration) {
	if s.health.note(dir, err, s.now(), keep) && ctx.Err() == nil {
		s.log.ErrorContext(ctx, "the state directory cannot be written", "dir", dir, "do", stateAdvice(err), "error", err)
	}
}

// try finds out whether a directory can be written; one that somebody removed is made again. Only the spool gets a file for that: each change
// of the journals makes them be read.
func (s *state) try(dir string) error {
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	if dir != s.spool {
		fi, err := os.Stat(dir)
		if err == nil && !fi.IsDir() {
			err = &fs.PathError{Op: "stat", Path: dir, Err: syscall.ENOTDIR}
		}
		return errors.Join(err, access(dir))
	}
	f, err := os.CreateTemp(dir, "try-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, trySize))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// stateAdvice says what to do about an error of the state directory.
func stateAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on its disk, or set " + keyStateDir + " to one that has some"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO), errors.Is(err, errDiskHangs):
		return "repair its disk, or set " + keyStateDir + " to another one"
	}
	return "make it a directory that the daemon's user may write, or set " + keyStateDir + " to one"
}

// trouble is why a directory of the state could not be written when that was tried last.
type trouble struct {
	err error
	at  time.Time
}

// note remembers what became of a write to a directory of the state. It reports whether that is new trouble.
func (h *health) note(dir string, err error, now time.Time, keep time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, bad := h.state[dir]
	switch {
	case err != nil:
		h.state[dir] = trouble{err, now}
	case bad && now.Sub(before.at) >= keep:
		delete(h.state, dir)
	}
	return err != nil && !bad
}

// trying remembers since when the directories of the state are tried; zero: they are not.
func (h *health) trying(since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = since
}

// stateReasons are what is wrong with the directories. Called with mu held.
func (h *health) stateReasons(s *Server) (out []string) {
	for _, dir := range append(s.state.dirs(), s.state.dir) {
		if t, bad := h.state[dir]; bad {
			out = append(out, fmt.Sprintf("state directory: %s: %s", oneLine(t.err.Error()), stateAdvice(t.err)))
		}
	}
	if took := s.now().Sub(h.tried); !h.tried.IsZero() && took > stateSlow {
		out = append(out, fmt.Sprintf("state directory: %s has not answered for %v: repair its disk, or set %s to another one",
			s.state.dir, took.Round(time.Second), keyStateDir))
	}
	return out
}
