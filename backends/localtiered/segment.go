package localtiered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// chunkBytes is the chunk size of the manifests: how much is fetched and cached at a time.
const chunkBytes = 4 << 20

// maxCheckpoint bounds a leader epoch checkpoint, some 40,000 epochs.
const maxCheckpoint = 1 << 20

// segment is one fileset.
type segment struct {
	id    remotelog.SegmentID
	start int64
	path  string // without ending
}

// object is what a key stands for: files one behind the other, or bytes.
type object struct {
	info  backends.Info
	files []file
	bytes []byte
}

type file struct {
	path string
	size int64
}

var (
	directoryName = regexp.MustCompile(`^(.+)-(\d+)-([A-Za-z0-9_-]{22})$`)
	logName       = regexp.MustCompile(`^(\d{20})-([A-Za-z0-9_-]{22})\.log$`)
)

func (d *Driver) directoryOf(tp remotelog.TopicIDPartition) string {
	return filepath.Join(d.root, fmt.Sprintf("%s-%d-%s", tp.Topic, tp.Partition, tp.TopicID))
}

func (d *Driver) pathOf(id remotelog.SegmentID, start int64) string {
	return filepath.Join(d.directoryOf(id.TopicIDPartition), fmt.Sprintf("%020d-%s", start, id.ID))
}

func (s *segment) key(suffix manifest.Suffix) string {
	return manifest.Key("", manifest.MainPath(s.id, s.start, manifest.ASCIIDigits), suffix)
}

// ending is how the file of an index ends.
func ending(t remotelog.IndexType) string {
	switch t {
	case remotelog.OffsetIndex:
		return ".index"
	case remotelog.TimestampIndex:
		return ".timeindex"
	case remotelog.ProducerSnapshotIndex:
		return ".snapshot"
	case remotelog.TransactionIndex:
		return ".txnindex"
	default:
		return ".leader_epoch_checkpoint"
	}
}

// segments finds what has a log file. Names that are not LocalTieredStorage's are passed over.
func (d *Driver) segments(ctx context.Context) ([]segment, error) {
	dirs, err := os.ReadDir(d.root)
	if err != nil {
		return nil, failure(err)
	}
	var out []segment
	for _, dir := range dirs {
		tp, ok := parsePartition(dir.Name())
		if !ok || !dir.IsDir() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		of, err := d.segmentsOf(tp)
		if errors.Is(err, backends.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, of...)
	}
	return out, nil
}

// partition is the listing of a partition's directory, which holds until the directory changes.
type partition struct {
	modTime  time.Time
	segments []segment // by start offset
}

// segmentsOf lists the segments of a partition by start offset.
func (d *Driver) segmentsOf(tp remotelog.TopicIDPartition) ([]segment, error) {
	path := d.directoryOf(tp)
	info, err := os.Stat(path)
	if err != nil {
		return nil, failure(err)
	}
	d.mu.Lock()
	known, ok := d.partitions[tp]
	d.mu.Unlock()
	if ok && known.modTime.Equal(info.ModTime()) {
		return known.segments, nil
	}
	files, err := os.ReadDir(path) // by name, which begins with the start offset
	if err != nil {
		return nil, failure(err)
	}
	known = partition{modTime: info.ModTime()}
	for _, f := range files {
		if s, ok := parseLog(tp, f.Name()); ok {
			s.path = d.pathOf(s.id, s.start)
			known.segments = append(known.segments, s)
		}
	}
	d.mu.Lock()
	d.partitions[tp] = known
	d.mu.Unlock()
	return known.segments, nil
}

func parsePartition(name string) (tp remotelog.TopicIDPartition, ok bool) {
	m := directoryName.FindStringSubmatch(name)
	if m == nil {
		return tp, false
	}
	n, err := strconv.ParseInt(m[2], 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != m[2] {
		return tp, false
	}
	id, err := remotelog.ParseUUID(m[3])
	return remotelog.TopicIDPartition{TopicID: id, Topic: m[1], Partition: int32(n)}, err == nil
}

func parseLog(tp remotelog.TopicIDPartition, name string) (s segment, ok bool) {
	m := logName.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	start, err1 := strconv.ParseInt(m[1], 10, 64)
	id, err2 := remotelog.ParseUUID(m[2])
	return segment{id: remotelog.SegmentID{TopicIDPartition: tp, ID: id}, start: start}, err1 == nil && err2 == nil
}

// load finds out what an object is.
func (d *Driver) load(ctx context.Context, s segment, suffix manifest.Suffix) (*object, error) {
	log, err := os.Stat(s.path + ".log")
	if err != nil {
		return nil, failure(err)
	}
	o := &object{info: backends.Info{Key: s.key(suffix), ModTime: log.ModTime()}}
	switch suffix {
	case manifest.LogSuffix:
		o.files = []file{{s.path + ".log", log.Size()}}
	case manifest.IndexesSuffix:
		if o.files, _, err = s.indexes(); err != nil {
			return nil, err
		}
	default:
		if o.bytes, err = d.manifest(ctx, s, log); err != nil {
			return nil, err
		}
		o.info.Size = int64(len(o.bytes))
	}
	for _, f := range o.files {
		o.info.Size += f.size
	}
	return o, nil
}

// indexes returns the files of the .indexes object and their places in it.
func (s *segment) indexes() (files []file, parts manifest.Indexes, err error) {
	for _, t := range manifest.StoredOrder() {
		path := s.path + ending(t)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && t == remotelog.TransactionIndex {
			continue
		}
		if err != nil {
			return nil, manifest.Indexes{}, failure(err)
		}
		parts.Append(t, info.Size())
		files = append(files, file{path, info.Size()})
	}
	return files, parts, nil
}

// manifest describes a segment.
func (d *Driver) manifest(ctx context.Context, s segment, log fs.FileInfo) ([]byte, error) {
	m, err := d.describe(ctx, s, log)
	var raw []byte
	if err == nil {
		raw, err = m.Marshal()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, backends.Denied), errors.Is(err, backends.Unavailable):
		return nil, err
	case err != nil:
		// It is no manifest, so that whoever reads it passes the segment over and says why.
		return fmt.Appendf(nil, "{%q:%q}", "localTieredStorage", err.Error()), nil
	}
	return raw, nil
}

// describe reads a segment.
func (d *Driver) describe(ctx context.Context, s segment, log fs.FileInfo) (*manifest.Manifest, error) {
	_, parts, err := s.indexes()
	if err != nil {
		return nil, err
	}
	held, err := d.contentOf(ctx, s, log)
	if err != nil {
		return nil, err
	}
	checkpoint, err := s.checkpoint()
	if err != nil {
		return nil, err
	}
	end, err := d.end(ctx, s, held, checkpoint)
	if err != nil {
		return nil, err
	}
	md := remotelog.SegmentMetadata{
		SegmentID: s.id, StartOffset: s.start, EndOffset: end, MaxTimestampMs: held.maxTimestamp, BrokerID: -1,
		EventTimestampMs: log.ModTime().UnixMilli(), SizeBytes: log.Size(), State: remotelog.CopySegmentFinished,
	}
	if md.LeaderEpochs = epochsIn(checkpoint, s.start, end); len(md.LeaderEpochs) == 0 {
		return nil, backends.Errorf(backends.Corrupt, "%s%s has no epoch of offsets %d to %d: %v", filepath.Base(s.path),
			ending(remotelog.LeaderEpochIndex), s.start, end, checkpoint)
	}
	txn, ok := parts.Part(remotelog.TransactionIndex)
	md.TxnIndexEmpty = !ok || txn.Size == 0
	chunks, err := chunking.Layout(chunkBytes, log.Size(), false)
	if err != nil {
		return nil, err
	}
	return &manifest.Manifest{Chunks: chunks, Indexes: parts, Metadata: manifest.MetadataOf(&md)}, nil
}

// checkpoint reads the leader epoch checkpoint.
func (s *segment) checkpoint() ([]remotelog.LeaderEpoch, error) {
	name := s.path + ending(remotelog.LeaderEpochIndex)
	f, _, err := regular.Open(name)
	if err != nil {
		return nil, failure(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCheckpoint))
	if err != nil {
		return nil, failure(err)
	}
	all, err := logfiles.ParseLeaderEpochs(text)
	if err != nil {
		return nil, backends.Errorf(backends.Corrupt, "%s: %w", filepath.Base(name), err)
	}
	return all, nil
}

// epochsIn returns the entries that reach into the segment, the first one from its start on
// (LeaderEpochFileCache.epochEntriesInRange).
func epochsIn(all []remotelog.LeaderEpoch, start, end int64) (out []remotelog.LeaderEpoch) {
	for i, e := range all {
		if e.StartOffset > end || i+1 < len(all) && all[i+1].StartOffset <= start {
			continue
		}
		e.StartOffset = max(e.StartOffset, start)
		out = append(out, e)
	}
	return out
}
