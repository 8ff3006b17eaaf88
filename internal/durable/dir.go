package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir makes dir and what is missing above it, with mode 0700, and makes the entries durable.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		if err := MakeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700) // once: in /proc the answer stays the same
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// SyncDir makes the entries of dir durable: what was created, renamed or removed in it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteFile puts a file with this content at path, replacing what is there, so that after a crash at any moment there is the old file or
// the new one, and after a return without an error the new one. The temporary file is in the same directory; its name begins with a dot
// and ends in ".tmp".
func WriteFile(path string, content []byte) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(dir, "."+name+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
}

// Remove removes the file at path and makes that durable. One that is not there is success.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return SyncDir(filepath.Dir(path))
}
