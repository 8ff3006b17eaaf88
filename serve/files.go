package serve

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tierkit/tierkit/remotelog"
)

// fileKind is one of the files that a segment is made of.
type fileKind int

const (
	fileLog fileKind = iota
	fileOffsetIndex
	fileTimeIndex
	fileSnapshot
	fileTxnIndex
	fileKinds
)

// fileFacts are the names of the kinds: in JSON, in paths of the API and lists of what is wanted, and at the end of the broker's files.
var fileFacts = [fileKinds]struct{ field, name, suffix string }{
	{"log", "log", ".log"},
	{"offsetIndex", "offset-index", ".index"},
	{"timeIndex", "time-index", ".timeindex"},
	{"producerSnapshot", "producer-snapshot", ".snapshot"},
	{"transactionIndex", "transaction-index", ".txnindex"},
}

func (k fileKind) String() string { return fileFacts[k].name }

// parseFileKind reads the name in a path.
func parseFileKind(name string) (fileKind, error) {
	for k := range fileKinds {
		if fileFacts[k].name == name {
			return k, nil
		}
	}
	return 0, errorf(KindInvalidArgument, "%.40q is no file of a segment", name)
}

// specs checks the files of a request.
func (q *copyRequest) specs() ([fileKinds]*fileSpec, error) {
	var out [fileKinds]*fileSpec
	for k := range fileKinds {
		f := q.Files[fileFacts[k].field]
		switch {
		case f == nil && k == fileTxnIndex:
			continue // the segment has none
		case f == nil:
			return out, errorf(KindInvalidArgument, "files.%s is missing", fileFacts[k].field)
		case f.Size == nil || *f.Size < 0 || *f.Size > math.MaxInt32:
			return out, errorf(KindInvalidArgument, "files.%s.size is missing, or outside 0..%d", fileFacts[k].field, math.MaxInt32)
		}
		f.kind = k
		out[k] = f
	}
	if size := *out[fileLog].Size; size != q.Segment.md.SizeBytes {
		return out, errorf(KindInvalidArgument, "files.log.size is %d, the metadata of the segment say %d", size, q.Segment.md.SizeBytes)
	}
	return out, nil
}

// held is a file that stays open for a copy.
type held struct {
	f       *os.File
	size    int64
	spooled *counts // of the server, for a file that was sent
}

func (h *held) close() error {
	if h.spooled != nil {
		h.spooled.spoolNow.Add(-h.size)
	}
	return h.f.Close()
}

var _ remotelog.Source = (*held)(nil)

// Open implements remotelog.Source.
func (h *held) Open(ctx context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(io.NewSectionReader(h.f, 0, h.size)), h.size, ctx.Err()
}

// logDirs are where files of segments may be opened.
type logDirs struct {
	dirs   []string
	derive bool // the directory is the one that the path shows
}

// open opens a file of a segment if it is, here, the very file that the client means. The error says why it is not, for the log: the client
// sends the file then.
func (l *logDirs) open(spec *fileSpec, tp remotelog.TopicIDPartition) (*held, error) {
	dir, name, err := l.locate(spec, tp)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()                              // a directory
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer; of no meaning for a file
	if err != nil {
		return nil, err
	}
	if err := same(f, spec); err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	return &held{f: f, size: *spec.Size}, nil
}

// locate splits a path into the log directory and what is below it: the partition's directory and the file. Nothing else is opened, so
// that a client with a token reads segments and not whatever the daemon may read.
func (l *logDirs) locate(spec *fileSpec, tp remotelog.TopicIDPartition) (dir, name string, err error) {
	if spec.Device == 0 && spec.Inode == 0 {
		return "", "", fmt.Errorf("the client does not know which file it is")
	}
	path := spec.Path
	if !filepath.IsAbs(path) || path != filepath.Clean(path) || !strings.HasSuffix(path, fileFacts[spec.kind].suffix) {
		return "", "", fmt.Errorf("%.200q is no path of a %s", path, spec.kind)
	}
	part := filepath.Dir(path)
	if filepath.Base(part) != tp.String() {
		return "", "", fmt.Errorf("%.200q is not in the directory of partition %s", path, tp)
	}
	dir = filepath.Dir(part)
	if !l.derive && !l.has(dir) {
		return "", "", fmt.Errorf("%.200q is in none of %s", path, keyLogDirs)
	}
	return dir, filepath.Join(tp.String(), filepath.Base(path)), nil
}

func (l *logDirs) has(dir string) bool {
	for _, d := range l.dirs {
		if abs, err := filepath.Abs(d); err == nil && abs == dir {
			return true
		}
	}
	return false
}

// same compares an open file with what the client knows of it.
func same(f *os.File, spec *fileSpec) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.Mode().IsRegular() || !ok:
		return fmt.Errorf("%s is not a regular file", spec.Path)
	case bits(st.Dev) != spec.Device || bits(st.Ino) != spec.Inode: //nolint:unconvert // of another size on darwin
		return fmt.Errorf("%s is another file here", spec.Path)
	case fi.Size() != *spec.Size:
		return fmt.Errorf("%s has %d bytes, not %d", spec.Path, fi.Size(), *spec.Size)
	}
	return nil
}
