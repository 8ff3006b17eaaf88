package logfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/remotelog"
)

// lockFile is the file that a broker holds locked in each of its log directories while it runs (LogManager.LockFileName).
const lockFile = ".lock"

// CheckNotInUse refuses a log directory whose .lock another process holds. The JVM takes an fcntl lock, which flock does not see, so
// fcntl is asked. Asking takes no lock: a broker can start at any moment, so long work asks again.
//
// By POSIX, closing the file drops fcntl locks that this very process holds on it: a program that is itself the broker must not
// ask about its own live directories.
func CheckNotInUse(logDir string) error {
	path := filepath.Join(logDir, lockFile)
	f, _, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, regular.ErrNot) {
		err = fmt.Errorf("%w: %w", remotelog.ErrCorrupt, err)
	}
	if err != nil {
		return fmt.Errorf("cannot tell whether a broker uses %s: %w", logDir, err)
	}
	defer func() { _ = f.Close() }() // read only
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: 0, Start: 0, Len: 0}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil {
		return fmt.Errorf("cannot tell whether a broker uses %s: asking for the lock on %s: %w", logDir, path, err)
	}
	if l.Type != syscall.F_UNLCK {
		return fmt.Errorf("%w: %s is in use by process %d, which holds %s: stop the broker, or copy from a snapshot of its disk",
			remotelog.ErrInvalidArgument, logDir, l.Pid, path)
	}
	return nil
}
