//go:build linux || darwin

package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrLocked: another process, or another opening in this one, has the lock.
var ErrLocked = errors.New("is in use by another process")

// Lock takes the lock of the one user of dir, or fails at once with ErrLocked; the lock is given up by closing the file. It is flock(2)
// on a file of its own, "lock": flock belongs to the open file, so a second opening in the same process is refused too. The file
// stays when the lock is given up, since removing it would let two users lock two different files of that name.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) // close-on-exec: children do not hold it
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s %w%s", dir, ErrLocked, holder(f))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	writeHolder(f)
	return f, nil
}

// Locked says with ErrLocked that somebody has the lock of dir, or why that cannot be told. It makes and writes nothing; in the moment that
// it looks nobody else gets the lock.
func Locked(dir string) error {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = flock(f)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s %w%s", dir, ErrLocked, holder(f))
	}
	return errors.Join(err, f.Close())
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder names the process that has the lock, for the error's text only.
func holder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // io.EOF always; without an answer the text says less
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// writeHolder is for messages only: where the disk is full the lock is as good without.
func writeHolder(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}
