package rsm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// manifestReaders is how many manifests a StoreIndex reads at the same time. A request takes tens of milliseconds in an object store, and
// a partition may have thousands.
const manifestReaders = 16

func (x *StoreIndex) notice(kind StoreNoticeKind, key, format string, args ...any) {
	x.o.OnNotice(StoreNotice{Kind: kind, Key: key, Text: fmt.Sprintf(format, args...)})
}

// scanPartitions lists the partitions that have a manifest.
func (x *StoreIndex) scanPartitions(ctx context.Context) (_ []remotelog.TopicIDPartition, err error) {
	inner, done, err := x.m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() { err = x.m.ended(ctx, err) }()
	found := map[remotelog.TopicIDPartition]bool{}
	var out []remotelog.TopicIDPartition
	for k, err := range x.manifestKeys(inner, x.m.config.KeyPrefix) {
		if err != nil {
			return nil, err
		}
		if !found[k.TopicIDPartition] {
			found[k.TopicIDPartition] = true
			out = append(out, k.TopicIDPartition)
		}
	}
	slices.SortFunc(out, remotelog.TopicIDPartition.Compare)
	return out, nil
}

// manifestKey is a manifest as a listing shows it.
type manifestKey struct {
	manifest.KeyInfo
	key  string
	size int64
}

// manifestKeys lists the manifests whose keys begin with prefix. What only ends like one gives a notice.
func (x *StoreIndex) manifestKeys(ctx context.Context, prefix string) func(yield func(manifestKey, error) bool) {
	return func(yield func(manifestKey, error) bool) {
		for info, err := range x.m.store.List(ctx, prefix) {
			if err != nil {
				yield(manifestKey{}, err)
				return
			}
			if !strings.HasSuffix(info.Key, "."+string(manifest.ManifestSuffix)) {
				continue
			}
			k, err := manifest.ParseKey(x.m.config.KeyPrefix, info.Key)
			if err != nil {
				x.notice(NoticeManifest, info.Key, "passed over: %v", err)
				continue
			}
			if !yield(manifestKey{KeyInfo: k, key: info.Key, size: info.Size}, nil) {
				return
			}
		}
	}
}

// scan lists a partition and reads its manifests, in parallel. The result is in the order of SegmentMetadata.Compare.
func (x *StoreIndex) scan(ctx context.Context, tp remotelog.TopicIDPartition) (_ []StoredSegment, err error) {
	inner, done, err := x.m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	defer func() { err = x.m.ended(ctx, err) }()
	keys, err := x.segmentKeys(inner, tp)
	if err != nil {
		return nil, err
	}
	found := make([]*StoredSegment, len(keys))
	group, inner := errgroup.WithContext(inner)
	group.SetLimit(manifestReaders)
	for i, k := range keys {
		group.Go(func() error {
			s, err := x.stored(inner, k)
			if err != nil && inner.Err() == nil && errors.Is(err, remotelog.ErrCorrupt) {
				x.notice(NoticeManifest, k.key, "passed over: %v", err)
				return nil
			}
			found[i] = s
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []StoredSegment
	for _, s := range found {
		if s != nil {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b StoredSegment) int { return a.Compare(&b.SegmentMetadata) })
	return out, nil
}

// segmentKeys lists the manifests of a partition, one for each segment: where one was written in the digits of several locales, the one that
// reads look at first.
func (x *StoreIndex) segmentKeys(ctx context.Context, tp remotelog.TopicIDPartition) ([]manifestKey, error) {
	at := map[remotelog.UUID]int{}
	var keys []manifestKey
	for k, err := range x.manifestKeys(ctx, x.m.config.KeyPrefix+manifest.PartitionPath(tp)) {
		if err != nil {
			return nil, err
		}
		if k.TopicIDPartition != tp {
			continue // a prefix of ours may be the beginning of another's key
		}
		i, twice := at[k.ID]
		switch {
		case !twice:
			at[k.ID] = len(keys)
			keys = append(keys, k)
		case k.StartOffset != keys[i].StartOffset:
			x.notice(NoticeManifest, k.key, "passed over: segment %s has another manifest, at offset %d", k.SegmentID, keys[i].StartOffset)
		case cmp.Compare(k.Digits, keys[i].Digits) < 0:
			keys[i] = k
		}
	}
	return keys, nil
}

// stored reads one manifest. nil: it is gone. ErrCorrupt: it cannot be used.
func (x *StoreIndex) stored(ctx context.Context, k manifestKey) (*StoredSegment, error) {
	m, size, err := x.m.readManifest(ctx, k.key, k.size)
	if errors.Is(err, backends.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	md, err := describes(m, k.KeyInfo)
	if err != nil {
		return nil, fmt.Errorf("%w: manifest %q: %w", remotelog.ErrCorrupt, k.key, err)
	}
	return &StoredSegment{
		SegmentMetadata: md, Key: strings.TrimSuffix(k.key, "."+string(manifest.ManifestSuffix)),
		StoredBytes: m.Chunks.StoredSize() + m.Indexes.StoredSize() + size,
	}, nil
}

// describes returns the metadata of the segment that a manifest describes, if they are those of its key.
func describes(m *manifest.Manifest, k manifest.KeyInfo) (remotelog.SegmentMetadata, error) {
	if m.Metadata == nil {
		return remotelog.SegmentMetadata{}, errors.New(m.MetadataProblem)
	}
	md := m.Metadata.Segment(m.Chunks.FileSize())
	if md.SegmentID != k.SegmentID || md.StartOffset != k.StartOffset {
		return md, fmt.Errorf("it describes segment %s of topic id %s from offset %d, its key says %s of %s from %d",
			md.SegmentID, md.TopicID, md.StartOffset, k.SegmentID, k.TopicID, k.StartOffset)
	}
	// Epochs that begin behind the segment's end say nothing about it.
	n := len(md.LeaderEpochs)
	for n > 0 && md.LeaderEpochs[n-1].StartOffset > md.EndOffset {
		n--
	}
	md.LeaderEpochs = md.LeaderEpochs[:n:n]
	txn, ok := m.Indexes.Part(remotelog.TransactionIndex)
	md.TxnIndexEmpty = !ok || txn.Size == 0
	return md, md.Validate()
}

// readManifest reads and parses a manifest without opening its data key, in memory of its own. size is what the listing said. It returns
// the size of the object.
func (m *Manager) readManifest(ctx context.Context, key string, size int64) (*manifest.Manifest, int64, error) {
	const tries = 3 // one for an unknown size, one for an object that was replaced in between
	need := max(size, manifestGuess)
	for range tries {
		man, n, err := m.tryManifest(ctx, key, need)
		if err != nil || man != nil {
			return man, n, err
		}
		need = n
	}
	return nil, 0, fmt.Errorf("manifest %q changes its size while it is read", key)
}

// tryManifest reads a manifest with memory for n bytes. Without a manifest or an error: it has size bytes.
func (m *Manager) tryManifest(ctx context.Context, key string, n int64) (_ *manifest.Manifest, size int64, err error) {
	if n > manifest.MaxBytes {
		return nil, 0, tooLarge(key, n)
	}
	res, err := m.budget.Reserve(ctx, membudget.Fetch, manifestNeed(n))
	if err != nil {
		return nil, 0, fmt.Errorf("manifest %q: %w", key, err)
	}
	defer res.Release()
	ctx, stop := withTimeout(ctx, m.manifests.timeout, "loading a manifest")
	defer stop(&err)
	obj, err := m.store.Get(ctx, key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = obj.Body.Close() }() // read only
	if obj.Length > manifest.MaxBytes {
		return nil, 0, tooLarge(key, obj.Length)
	}
	if obj.Length > n {
		return nil, obj.Length, nil
	}
	buf := res.Buffer(int(obj.Length))
	if _, err := io.ReadFull(obj.Body, buf); err != nil {
		return nil, 0, fmt.Errorf("manifest %q: %w", key, err)
	}
	man, err := manifest.Parse(buf)
	if err != nil {
		return nil, 0, fmt.Errorf("manifest %q: %w", key, err)
	}
	return man, obj.Length, nil
}

func tooLarge(key string, n int64) error {
	return fmt.Errorf("%w: manifest %q has %d bytes, at most %d are read", remotelog.ErrCorrupt, key, n, manifest.MaxBytes)
}
