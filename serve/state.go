package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
)

// lockPatience is how long a start waits for the daemon before it to end: that one may be removing what a cancelled copy stored.
const lockPatience = 40 * time.Second

// state is the directory of one broker below tierkit.state.dir, locked. The lock is also why two daemons never copy one segment id at once, and
// remove each other's objects when they clean up: a broker makes an id anew for each attempt (org.apache.kafka.server.log.remote.storage.RemoteLogManager),
// its plug-in repeats a POST to the one daemon of that broker, and the next daemon answers only when the one before has cleaned up and ended.
type state struct {
	dir                    string
	deletes, copies, spool string
	lock                   *os.File
}

// stateDir is where the state of a broker is: clients know it too.
func stateDir(base string, broker int32) string {
	return filepath.Join(base, fmt.Sprintf("broker-%d", broker))
}

// DeletesDir is the journal of deletes of a broker.
func DeletesDir(base string, broker int32) string {
	return filepath.Join(stateDir(base, broker), "deletes")
}

// openState makes and locks the directories, and removes what a crash left of files that were sent.
func openState(ctx context.Context, base string, broker int32, log *slog.Logger) (_ *state, err error) {
	base, err = filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	dir := stateDir(base, broker)
	s := &state{dir: dir, deletes: DeletesDir(base, broker), copies: filepath.Join(dir, "copies"), spool: filepath.Join(dir, "spool")}
	if err := durable.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", keyStateDir, err)
	}
	if s.lock, err = waitForLock(ctx, dir, log); err != nil {
		return nil, fmt.Errorf("%s: %w", keyStateDir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", keyStateDir, err), s.lock.Close())
		}
	}()
	if err := os.RemoveAll(s.spool); err != nil {
		return nil, err
	}
	for _, d := range s.dirs() {
		if err := durable.MakeDir(d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// keep makes sure that the lock is the one that another daemon would find. Who removes the directory removes the lock with it: it is taken
// anew then (lost is true), unless another daemon was faster, which is durable.ErrLocked.
func (s *state) keep() (lost bool, err error) {
	mine, err := s.lock.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(s.lock.Name())
	if err == nil && os.SameFile(mine, there) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := durable.MakeDir(s.dir); err != nil {
		return true, err
	}
	lock, err := durable.Lock(s.dir)
	if err != nil {
		return true, err
	}
	err = s.lock.Close() // of a file that is gone
	s.lock = lock
	return true, err
}

// dirs are the directories in it.
func (s *state) dirs() []string { return []string{s.deletes, s.copies, s.spool} }

// waitForLock takes the lock of the directory, which the daemon before this one may hold for a while yet.
func waitForLock(ctx context.Context, dir string, log *slog.Logger) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for said := false; ; said = true {
		f, err := durable.Lock(dir)
		if !errors.Is(err, durable.ErrLocked) {
			return f, err
		}
		if !said {
			log.WarnContext(ctx, "waiting for the daemon before this one to end", "dir", dir, "atMost", lockPatience, "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: two daemons for one broker would undo each other's work; stop that one, or give this one another directory or node.id", err)
		}
	}
}

func (s *state) close() error { return s.lock.Close() }
