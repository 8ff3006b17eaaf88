package rlm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/remotelog"
)

// Result is what became of one segment.
type Result string

// The results of offload and delete.
const (
	Copied  Result = "copied"
	Skipped Result = "skipped" // it was copied already
	Deleted Result = "deleted"
	Failed  Result = "failed"
)

// SegmentResult is the outcome for one segment. A segment that failed before it got an id has a zero one.
type SegmentResult struct {
	Segment  remotelog.SegmentMetadata // with the custom metadata that Copy returned; of a skipped one: the remote segment that was found
	Result   Result
	Duration time.Duration
	Err      error
}

// Notice is something that a person should know about a partition and that is no failure.
type Notice struct {
	Dir  string // partition directory; empty when reading
	Text string
}

// Protocol is what every write of the two-phase protocol needs. The zero value works.
type Protocol struct {
	BrokerID *int32           // recorded with every event; nil: that of the segment
	Now      func() time.Time // nil: the wall clock
	// WriteTimeout bounds a write that must not be lost to a cancelled context: STARTED before a copy, FINISHED after it, and the
	// clean-up after a failed one. 0: one minute.
	WriteTimeout time.Duration
}

// OffloadOptions configures Offload. The zero value works.
type OffloadOptions struct {
	Protocol
	IncludeActive bool // the active segment too
	Parallel      int  // partitions at a time; 0: 4
	// The callbacks are never called at the same time, and hold up the copy while they run. nil: none.
	OnStart  func(remotelog.SegmentMetadata)
	OnResult func(SegmentResult)
	OnNotice func(Notice)
}

// Summary counts what Offload or a delete did.
type Summary struct {
	Copied, Skipped, Deleted, Failed int
	Bytes                            int64 // of the .log files copied or deleted
}

// PartitionError is why a partition was not, or not to its end, offloaded.
type PartitionError struct {
	Dir string
	Err error
}

func (e *PartitionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PartitionError) Unwrap() error { return e.Err }

// Offload copies every segment that may be taken from the directories, each a partition directory or a log directory above many. What
// is in the tier already (a finished segment with the same offsets in the same epochs) is skipped. Segments of a partition are copied
// in order, and a failure ends that partition; the others go on. The error joins one *PartitionError for each that failed.
//
// A failed copy is cleaned up: DELETE_SEGMENT_STARTED, the bytes, DELETE_SEGMENT_FINISHED. A write with unknown outcome is reported and
// nothing is deleted: [Recover] decides at the next start. The context is honoured everywhere; a segment whose bytes are all stored
// is still finished when it ends.
func Offload(ctx context.Context, mm remotelog.MetadataManager, sm remotelog.StorageManager, dirs []string, o OffloadOptions) (Summary, error) {
	j := &offload{mm: mm, sm: sm, o: o, logDirs: map[string]*logDir{}}
	groups, errs := j.group(dirs)
	var g errgroup.Group // not its context: one partition's failure is not the others'
	g.SetLimit(max(1, orDefault(o.Parallel, 4)))
	for _, group := range groups {
		g.Go(func() error {
			for _, dir := range group {
				if !j.directory(ctx, dir) {
					break // the next replica of the same partition would meet the same trouble
				}
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return j.sum, errors.Join(append(errs, j.errs...)...)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// offload is one call of Offload.
type offload struct {
	mm remotelog.MetadataManager
	sm remotelog.StorageManager
	o  OffloadOptions

	loadMu  sync.Mutex
	logDirs map[string]*logDir // guarded by loadMu: their files name every partition, and are read once

	mu   sync.Mutex // guards what follows, and serialises the callbacks
	sum  Summary
	errs []error
}

// group finds the partition directories and puts the replicas of a partition (of several brokers) into one group, so that the second
// one finds what the first has copied.
func (j *offload) group(paths []string) (groups [][]string, errs []error) {
	at := map[remotelog.TopicIDPartition]int{}
	seen := map[string]bool{}
	for _, path := range paths {
		dirs, err := FindPartitions(path)
		if err != nil {
			errs = append(errs, &PartitionError{Dir: path, Err: err})
			continue
		}
		for _, dir := range dirs {
			if seen[absolute(dir)] {
				continue
			}
			seen[absolute(dir)] = true
			tp, err := PartitionOf(dir)
			if err != nil {
				errs = append(errs, &PartitionError{Dir: dir, Err: err})
				continue
			}
			i, ok := at[tp]
			if !ok {
				i = len(groups)
				at[tp] = i
				groups = append(groups, nil)
			}
			groups[i] = append(groups[i], dir)
		}
	}
	return groups, errs
}

// directory copies from one directory and keeps its error.
func (j *offload) directory(ctx context.Context, dir string) bool {
	err := j.partition(ctx, dir)
	if err == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.errs = append(j.errs, &PartitionError{Dir: dir, Err: err})
	return false
}

// partition copies what may be taken from one directory.
func (j *offload) partition(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	plan, err := planPartition(ctx, dir, PlanOptions{IncludeActive: j.o.IncludeActive, BrokerID: j.o.BrokerID}, j.logDir)
	if err != nil {
		return err
	}
	for _, text := range plan.Notices {
		j.notice(plan.Dir, text)
	}
	remote, err := finished(ctx, j.mm, plan.TopicIDPartition)
	if err != nil {
		return fmt.Errorf("listing the remote segments of %s: %w", plan.TopicIDPartition, err)
	}
	for _, s := range plan.Segments {
		if i := slices.IndexFunc(remote, func(md remotelog.SegmentMetadata) bool { return sameEpochs(&md, s.Epochs, s.StartOffset, s.EndOffset) }); i >= 0 {
			j.result(SegmentResult{Segment: remote[i], Result: Skipped})
			continue
		}
		if err := j.segment(ctx, s, remote); err != nil {
			return err
		}
	}
	return nil
}

// logDir is loadLogDir, once for each directory.
func (j *offload) logDir(path string) (*logDir, error) {
	j.loadMu.Lock()
	defer j.loadMu.Unlock()
	if d := j.logDirs[path]; d != nil {
		return d, nil
	}
	d, err := loadLogDir(path)
	if err == nil {
		j.logDirs[path] = d
	}
	return d, err
}

func (j *offload) notice(dir, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.o.OnNotice != nil {
		j.o.OnNotice(Notice{Dir: filepath.Clean(dir), Text: text})
	}
}

func (j *offload) result(r SegmentResult) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sum.add(r)
	if j.o.OnResult != nil {
		j.o.OnResult(r)
	}
}

func (s *Summary) add(r SegmentResult) {
	switch r.Result {
	case Copied:
		s.Copied++
		s.Bytes += r.Segment.SizeBytes
	case Deleted:
		s.Deleted++
		s.Bytes += r.Segment.SizeBytes
	case Skipped:
		s.Skipped++
	case Failed:
		s.Failed++
	}
}

// finished lists the finished segments of a partition.
func finished(ctx context.Context, r remotelog.MetadataReader, tp remotelog.TopicIDPartition) ([]remotelog.SegmentMetadata, error) {
	var list []remotelog.SegmentMetadata
	for md, err := range r.Segments(ctx, tp) {
		if err != nil {
			return nil, err
		}
		if md.State == remotelog.CopySegmentFinished {
			list = append(list, md)
		}
	}
	return list, nil
}
