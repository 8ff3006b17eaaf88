package rlmm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/regular"
)

// snapTempAge is the age from which a temporary file is taken for what a crash left, and not for one that another process writes.
const snapTempAge = time.Hour

// SnapshotFile returns the path of the snapshot of a log below dir. The name is made of a hash, since an identity may have
// characters that a file name cannot; the file itself has the identity.
func SnapshotFile(dir string, id LogID) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(dir, "metadata-"+hex.EncodeToString(sum[:12])+".snapshot")
}

// snapTemp is what a snapshot is written to.
type snapTemp interface {
	io.WriteCloser
	Sync() error
	Name() string
}

// createTemp makes a temporary file with a name of its own: two processes with one directory do not disturb each other, and the
// one that ends last wins.
func createTemp(path string) (snapTemp, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		return nil, err
	}
	return f, nil
}

// writeSnapshot puts the snapshot at path so that after a crash at any moment there is the old file or the new one.
func writeSnapshot(path string, s *snapshot, create func(path string) (snapTemp, error)) (size int64, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	f, err := create(path)
	if err != nil {
		return 0, err
	}
	size, err = s.encode(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return size, durable.SyncDir(dir)
}

// sweepTemps removes what a crash left of earlier attempts.
func sweepTemps(path string, now time.Time) error {
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), filepath.Base(path)+".*.tmp"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && now.Sub(info.ModTime()) > snapTempAge {
			errs = append(errs, os.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// loadSnapshot reads the file at path. os.ErrNotExist: there is none.
func loadSnapshot(path string, want func(p int32) bool) (c *snapContent, err error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return readSnapshot(f, info.Size(), want)
}
