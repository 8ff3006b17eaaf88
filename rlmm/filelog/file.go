package filelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/regular"
)

// file is what the log needs of an *os.File; tests put faults in between.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
}

// opener opens an existing partition file.
type opener func(path string, flag int) (file, error)

func openOS(path string, flag int) (file, error) {
	f, _, err := regular.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	return f, nil
}

const tempSuffix = ".tmp"

func partitionFile(dir string, p int32) string {
	return filepath.Join(dir, "partition-"+strconv.Itoa(int(p))+".log")
}

// lock takes the lock of the one writer.
func lock(dir string) (*os.File, error) {
	f, err := durable.Lock(dir)
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("%w: %w: stop that one, or open the log for reading only", ErrLocked, err)
	}
	return f, err
}

// writeNew makes a file with this content so that after a crash it is there whole or not at all.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path+tempSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// create makes the files of an empty log. The caller holds the lock and has seen that partition 0 is not there.
func create(dir string, h header) error {
	if err := removeUnfinished(dir); err != nil {
		return err
	}
	for p := h.partitions - 1; p >= 0; p-- { // partition 0 last: with it the log exists
		h.partition = p
		if err := writeNew(partitionFile(dir, p), h.marshal()); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes what an interrupted create left, unless events are in it.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		if !isPartitionFile(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() > headerSize {
			return &CorruptError{File: partitionFile(dir, 0), Reason: fmt.Sprintf("the file is missing, and %s has events", e.Name())}
		}
		found = append(found, filepath.Join(dir, e.Name()))
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func isPartitionFile(name string) bool {
	number, ok := strings.CutPrefix(strings.TrimSuffix(name, tempSuffix), "partition-")
	number, ok2 := strings.CutSuffix(number, ".log")
	_, err := strconv.ParseUint(number, 10, 31)
	return ok && ok2 && err == nil
}
