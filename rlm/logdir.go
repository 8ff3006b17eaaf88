package rlm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/remotelog"
)

// Names inside a log directory and a partition directory, as Kafka gives them.
const (
	metaFile        = "meta.properties"
	highWatermarks  = "replication-offset-checkpoint"
	logStarts       = "log-start-offset-checkpoint"
	cleanedUpTo     = "cleaner-offset-checkpoint"
	partitionFile   = "partition.metadata"
	leaderEpochFile = "leader-epoch-checkpoint"
)

// maxSideFile bounds what is read of a checkpoint, properties file or snapshot.
const maxSideFile = 256 << 20

// dying matches the directories of partitions that are being deleted, moved here, or were found where they do not belong
// (LogLoader and UnifiedLog: <name>.<uuid>-delete, -future, -stray).
var dying = regexp.MustCompile(`\.[0-9a-f]{32}-(delete|future|stray)$`)

// legalTopic is what Kafka takes for a topic's name (Topic.validate), but for "." and "..".
var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// internalTopics are never tiered by Kafka.
var internalTopics = []string{"__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"}

// FindPartitions returns the partition directories at path, which is one itself or a log directory above many, in order of
// their names. Of a log directory, internal topics and partitions that are being deleted or moved are left out.
func FindPartitions(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if isPartitionDir(entries) {
		return []string{filepath.Clean(path)}, nil
	}
	var dirs []string
	logDir := false
	for _, e := range entries {
		logDir = logDir || e.Name() == metaFile
		topic, _, ok := splitPartition(e.Name())
		if !ok || dying.MatchString(e.Name()) || !leadsToDir(path, e) {
			continue
		}
		children, err := os.ReadDir(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		if !isPartitionDir(children) {
			continue
		}
		logDir = true
		if !slices.Contains(internalTopics, topic) {
			dirs = append(dirs, filepath.Join(path, e.Name()))
		}
	}
	if !logDir {
		return nil, fmt.Errorf("%w: %s is no Kafka directory: it holds neither segments nor partition directories", remotelog.ErrInvalidArgument, path)
	}
	return dirs, nil
}

// leadsToDir reports whether the entry is a directory or a link to one, which serves a broker as well.
func leadsToDir(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	fi, err := os.Stat(filepath.Join(path, e.Name()))
	return err == nil && fi.IsDir()
}

func isPartitionDir(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, isLog := baseOffset(e.Name(), ".log")
		return !e.IsDir() && (isLog || e.Name() == partitionFile || e.Name() == leaderEpochFile)
	})
}

// splitPartition splits a directory name "topic-partition" at the last dash, as Kafka does.
func splitPartition(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], int32(n), true
}

// baseOffset reads the offset of a file name of 20 digits and that suffix.
func baseOffset(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= 0 && digits[0] != '+'
}

func fileName(dir string, offset int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", offset, suffix))
}

// logDir is what the files of a log directory say about its partitions.
type logDir struct {
	path     string
	brokerID int32
	highs    map[logfiles.Partition]int64 // nil: no checkpoint, as in a partition directory that was copied away
	starts   map[logfiles.Partition]int64
	cleaned  map[logfiles.Partition]int64 // compaction has been through what is below
}

func loadLogDir(path string) (*logDir, error) {
	d := &logDir{path: path, brokerID: -1}
	var err error
	if d.highs, err = loadCheckpoint(path, highWatermarks); err != nil {
		return nil, err
	}
	if d.starts, err = loadCheckpoint(path, logStarts); err != nil {
		return nil, err
	}
	if d.cleaned, err = loadCheckpoint(path, cleanedUpTo); err != nil {
		return nil, err
	}
	b, err := readSideFile(filepath.Join(path, metaFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err != nil:
		return nil, err
	}
	id, ok, err := logfiles.ParseMetaProperties(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if ok {
		d.brokerID = id
	}
	return d, nil
}

func loadCheckpoint(dir, name string) (map[logfiles.Partition]int64, error) {
	b, err := readSideFile(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	m, err := logfiles.ParseOffsetCheckpoint(name, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// readSideFile reads a small regular file.
func readSideFile(path string) ([]byte, error) {
	f, fi, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if fi.Size() > maxSideFile {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read", remotelog.ErrCorrupt, path, fi.Size(), maxSideFile)
	}
	return io.ReadAll(io.LimitReader(f, maxSideFile))
}

// openRegular opens a file of a log directory. What is no regular file was put there by somebody else than Kafka.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, fi, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		err = fmt.Errorf("%w: %w", remotelog.ErrCorrupt, err)
	}
	return f, fi, err
}
