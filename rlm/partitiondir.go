package rlm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// localLog is a partition directory: what lies in it, and how far its content is final.
type localLog struct {
	dir       string
	tp        remotelog.TopicIDPartition
	lineage   Lineage
	segments  []localFile // by base offset; the last one is active
	snapshots []int64     // offsets of the .snapshot files, ascending
	indexes   []localIndex
}

// localIndex is an index file.
type localIndex struct {
	base   int64
	suffix string
}

// localFile is a .log file.
type localFile struct {
	base int64
	size int64
}

// PartitionOf returns which partition a directory holds: its name says topic and number, partition.metadata the topic id. A
// directory that is no partition's, or of one that is never tiered, is ErrInvalidArgument.
func PartitionOf(dir string) (remotelog.TopicIDPartition, error) {
	none := remotelog.TopicIDPartition{}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return none, err
	}
	topic, partition, ok := splitPartition(filepath.Base(abs))
	switch {
	case dying.MatchString(filepath.Base(abs)):
		return none, fmt.Errorf("%w: %s belongs to a partition that is being deleted or moved", remotelog.ErrInvalidArgument, dir)
	case !ok:
		return none, fmt.Errorf("%w: %s is no partition directory: its name is not <topic>-<partition>", remotelog.ErrInvalidArgument, dir)
	case !legalTopic.MatchString(topic) || topic == "." || topic == "..":
		return none, fmt.Errorf("%w: %s is no partition directory: %q is no topic name that Kafka allows", remotelog.ErrInvalidArgument, dir, topic)
	case slices.Contains(internalTopics, topic):
		return none, fmt.Errorf("%w: %s belongs to an internal topic, which Kafka never tiers", remotelog.ErrInvalidArgument, dir)
	}
	b, err := readSideFile(filepath.Join(dir, partitionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return none, fmt.Errorf("%w: %s has no %s, so its topic id is not known: start the broker (2.8 or newer) once, it writes the file",
			remotelog.ErrInvalidArgument, dir, partitionFile)
	}
	if err != nil {
		return none, err
	}
	id, err := logfiles.ParsePartitionMetadata(b)
	if err != nil {
		return none, fmt.Errorf("%s: %w", dir, err)
	}
	return remotelog.TopicIDPartition{TopicID: id, Topic: topic, Partition: partition}, nil
}

func loadLocalLog(dir string, tp remotelog.TopicIDPartition) (*localLog, error) {
	l := &localLog{dir: dir, tp: tp}
	b, err := readSideFile(filepath.Join(dir, leaderEpochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s: start the broker once, it writes the file", remotelog.ErrInvalidArgument, dir, leaderEpochFile)
	}
	if err != nil {
		return nil, err
	}
	epochs, err := logfiles.ParseLeaderEpochs(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	l.lineage = epochs
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := l.add(e); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.segments, func(a, b localFile) int { return int(min(1, max(-1, a.base-b.base))) })
	slices.Sort(l.snapshots)
	if err := l.checkComplete(); err != nil {
		return nil, err
	}
	if len(epochs) == 0 && slices.ContainsFunc(l.segments, func(f localFile) bool { return f.size > 0 }) {
		return nil, fmt.Errorf("%w: the %s of %s names no leader epoch: start the broker once, its recovery fills it", remotelog.ErrInvalidArgument,
			leaderEpochFile, dir)
	}
	return l, nil
}

// add takes in one directory entry. Files that Kafka marked for deletion (.deleted) and unfinished compactions (.cleaned) are not part
// of the log; a .swap file is, but only the broker's recovery can tell which files it stands for.
func (l *localLog) add(e fs.DirEntry) error {
	name := e.Name()
	if strings.HasSuffix(name, ".swap") {
		return fmt.Errorf("%w: %s is left of an interrupted compaction: start the broker once, its recovery finishes it",
			remotelog.ErrInvalidArgument, filepath.Join(l.dir, name))
	}
	if base, ok := baseOffset(name, ".log"); ok {
		fi, err := os.Stat(filepath.Join(l.dir, name)) // through links, as a broker does
		if err != nil {
			return err
		}
		if !fi.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is no regular file", remotelog.ErrInvalidArgument, filepath.Join(l.dir, name))
		}
		l.segments = append(l.segments, localFile{base: base, size: fi.Size()})
	}
	if offset, ok := baseOffset(name, ".snapshot"); ok {
		l.snapshots = append(l.snapshots, offset)
	}
	for _, suffix := range []string{".index", ".timeindex", ".txnindex"} {
		if base, ok := baseOffset(name, suffix); ok {
			l.indexes = append(l.indexes, localIndex{base, suffix})
		}
	}
	return nil
}

// checkComplete finds a .log that was lost between two others by an index that it left: the segment before it would be taken as if
// it reached over the hole. Below the first .log lies what retention is removing, above the last one nothing is taken. (A
// .snapshot says nothing: an orderly stop leaves one inside a segment.)
func (l *localLog) checkComplete() error {
	bases := make([]int64, len(l.segments))
	for i, s := range l.segments {
		bases[i] = s.base
	}
	for _, x := range l.indexes {
		if i, found := slices.BinarySearch(bases, x.base); !found && i > 0 && i < len(bases) {
			return fmt.Errorf("%w: %s is missing, its %s is there: let the broker's replica restore it; if no record was lost, remove the %s",
				remotelog.ErrCorrupt, fileName(l.dir, x.base, ".log"), x.suffix, x.suffix)
		}
	}
	return nil
}

// producersAt returns the producers as they are before the batch at offset. It begins with the newest readable snapshot at or below
// offset and reads the batches behind it; without one it reads all. The caller closes what it gets.
func (l *localLog) producersAt(ctx context.Context, offset int64) (*logfiles.Producers, error) {
	from := int64(-1)
	var states []logfiles.ProducerState
	for _, at := range slices.Backward(l.snapshots) {
		if at > offset {
			continue
		}
		// A snapshot that does not parse is passed over as the broker does it: an older one and more batches say the same.
		if s, err := l.snapshot(at); err == nil {
			from, states = at, s
			break
		} else if !errors.Is(err, remotelog.ErrCorrupt) {
			return nil, err
		}
	}
	p := logfiles.NewProducers(states)
	for i, s := range l.segments {
		if s.base >= offset {
			break
		}
		if i+1 < len(l.segments) && l.segments[i+1].base <= from {
			continue
		}
		if err := l.apply(ctx, p, s, from, offset, i+1 == len(l.segments)); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

func (l *localLog) snapshot(offset int64) ([]logfiles.ProducerState, error) {
	b, err := readSideFile(fileName(l.dir, offset, ".snapshot"))
	if err != nil {
		return nil, err
	}
	return logfiles.ParseSnapshot(b)
}

// apply feeds the batches of one segment in [from, to) to p. The torn end of an active segment ends the log, as in Kafka's recovery.
func (l *localLog) apply(ctx context.Context, p *logfiles.Producers, s localFile, from, to int64, active bool) error {
	path := fileName(l.dir, s.base, ".log")
	return eachBatch(ctx, path, func(b recordbatch.Batch, err error) (bool, error) {
		switch {
		case err != nil && active && errors.Is(err, remotelog.ErrCorrupt):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("%s: %w", path, err)
		case b.BaseOffset >= to:
			return false, nil
		case b.BaseOffset < from:
			return true, nil
		}
		if _, _, err := p.Apply(b); err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		return true, nil
	})
}

// eachBatch calls f for each batch of a .log file, and once with the error that ends it early. f says whether to go on.
func eachBatch(ctx context.Context, path string, f func(recordbatch.Batch, error) (bool, error)) error {
	file, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	r := recordbatch.NewReader(file, recordbatch.ReaderOptions{})
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if goOn, ferr := f(b, err); ferr != nil || !goOn || err != nil {
			return ferr
		}
	}
}
