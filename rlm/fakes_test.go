package rlm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/remotelog"
)

// lockEnv makes the test binary a child process that holds a lock: see holdLock.
const lockEnv = "RLM_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockEnv); path != "" {
		if err := holdLock(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeMeta is a MetadataManager in memory. before runs before each call that writes or looks up, after once a write was applied; an
// error of before means that nothing happened, one of after that the caller does not learn what did.
type fakeMeta struct {
	mu       sync.Mutex
	segments map[remotelog.UUID]remotelog.SegmentMetadata
	events   []string
	before   func(op string) error
	after    func(op string) error
}

var _ remotelog.MetadataManager = (*fakeMeta)(nil)

func newFakeMeta() *fakeMeta {
	return &fakeMeta{segments: map[remotelog.UUID]remotelog.SegmentMetadata{}}
}

func (m *fakeMeta) call(ctx context.Context, op string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.before != nil {
		if err := m.before(op); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := f()
	if err == nil {
		m.events = append(m.events, op)
	}
	m.mu.Unlock()
	if err == nil && m.after != nil {
		return m.after(op)
	}
	return err
}

func (m *fakeMeta) Add(ctx context.Context, md remotelog.SegmentMetadata) error {
	return m.call(ctx, "add", func() error {
		if err := md.Validate(); err != nil {
			return err
		}
		if _, ok := m.segments[md.ID]; ok || !md.State.CanBegin() || md.ID.IsZero() || md.EventTimestampMs == 0 {
			return fmt.Errorf("%w: add %+v", remotelog.ErrInvalidArgument, md)
		}
		m.segments[md.ID] = md
		return nil
	})
}

func (m *fakeMeta) Update(ctx context.Context, u remotelog.SegmentUpdate) error {
	return m.call(ctx, u.State.String(), func() error {
		md, ok := m.segments[u.ID]
		if !ok {
			return fmt.Errorf("%w: segment %s", remotelog.ErrNotFound, u.ID)
		}
		if !u.State.CanFollow(md.State) {
			return fmt.Errorf("%w: %s is %s, not to be %s", remotelog.ErrConflict, u.ID, md.State, u.State)
		}
		md.State, md.EventTimestampMs, md.BrokerID = u.State, u.EventTimestampMs, u.BrokerID
		if u.CustomMetadata != nil {
			md.CustomMetadata = u.CustomMetadata
		}
		m.segments[u.ID] = md
		return nil
	})
}

func (m *fakeMeta) PutPartitionDelete(context.Context, remotelog.PartitionDelete) error {
	return fmt.Errorf("%w: not used by rlm", remotelog.ErrInvalidArgument)
}

func (m *fakeMeta) list(keep func(*remotelog.SegmentMetadata) bool) []remotelog.SegmentMetadata {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []remotelog.SegmentMetadata
	for _, md := range m.segments {
		if md.State != remotelog.DeleteSegmentFinished && keep(&md) {
			list = append(list, md)
		}
	}
	slices.SortFunc(list, func(a, b remotelog.SegmentMetadata) int { return a.Compare(&b) })
	return list
}

func (m *fakeMeta) Segment(ctx context.Context, tp remotelog.TopicIDPartition, epoch int32, offset int64) (md remotelog.SegmentMetadata, ok bool, err error) {
	err = m.call(ctx, "segment", func() error { return nil })
	if err != nil {
		return md, false, err
	}
	for _, s := range m.list(func(s *remotelog.SegmentMetadata) bool {
		return s.TopicIDPartition == tp && s.State == remotelog.CopySegmentFinished
	}) {
		for i, e := range s.LeaderEpochs {
			if e.Epoch == epoch && e.StartOffset <= offset && offset <= s.EpochEnd(i) {
				md, ok = s, true
			}
		}
	}
	return md, ok, nil
}

func (m *fakeMeta) NextSegmentWithTxnIndex(context.Context, remotelog.TopicIDPartition, int32, int64) (remotelog.SegmentMetadata, bool, error) {
	return remotelog.SegmentMetadata{}, false, nil
}

func (m *fakeMeta) HighestOffset(_ context.Context, _ remotelog.TopicIDPartition, epoch int32) (int64, bool, error) {
	high, ok := int64(-1), false
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.segments {
		for i, e := range s.LeaderEpochs {
			if e.Epoch == epoch && s.State != remotelog.CopySegmentStarted {
				high, ok = max(high, s.EpochEnd(i)), true
			}
		}
	}
	return high, ok, nil
}

func (m *fakeMeta) Partitions(context.Context) iter.Seq2[remotelog.TopicIDPartition, error] {
	return func(yield func(remotelog.TopicIDPartition, error) bool) {
		var last remotelog.TopicIDPartition
		for _, md := range m.list(func(*remotelog.SegmentMetadata) bool { return true }) {
			if md.TopicIDPartition != last && !yield(md.TopicIDPartition, nil) {
				return
			}
			last = md.TopicIDPartition
		}
	}
}

func (m *fakeMeta) Segments(ctx context.Context, tp remotelog.TopicIDPartition) iter.Seq2[remotelog.SegmentMetadata, error] {
	return func(yield func(remotelog.SegmentMetadata, error) bool) {
		if err := m.call(ctx, "list", func() error { return nil }); err != nil {
			yield(remotelog.SegmentMetadata{}, err)
			return
		}
		for _, md := range m.list(func(s *remotelog.SegmentMetadata) bool { return s.TopicIDPartition == tp }) {
			if !yield(md, nil) {
				return
			}
		}
	}
}

func (m *fakeMeta) SegmentsOfEpoch(ctx context.Context, tp remotelog.TopicIDPartition, _ int32) iter.Seq2[remotelog.SegmentMetadata, error] {
	return m.Segments(ctx, tp)
}

// stored is what fakeStore keeps of a segment; a nil part is absent.
type stored struct {
	log   []byte
	index [5][]byte
}

// fakeStore is a StorageManager in memory, with the same hooks as fakeMeta.
type fakeStore struct {
	mu       sync.Mutex
	segments map[remotelog.UUID]*stored
	calls    []string
	before   func(op string, md remotelog.SegmentMetadata) error
	after    func(op string, md remotelog.SegmentMetadata) error
	fetched  int64 // bytes read from Fetch
}

var _ remotelog.StorageManager = (*fakeStore)(nil)

func newFakeStore() *fakeStore { return &fakeStore{segments: map[remotelog.UUID]*stored{}} }

func (s *fakeStore) hook(h func(string, remotelog.SegmentMetadata) error, op string, md remotelog.SegmentMetadata) error {
	s.mu.Lock()
	s.calls = append(s.calls, op)
	s.mu.Unlock()
	if h == nil {
		return nil
	}
	return h(op, md)
}

func readSource(ctx context.Context, src remotelog.Source) ([]byte, error) {
	r, n, err := src.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err == nil && int64(len(b)) != n {
		err = fmt.Errorf("%d bytes, %d announced", len(b), n)
	}
	return b, err
}

func (s *fakeStore) Copy(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData) (remotelog.CustomMetadata, error) {
	if err := s.hook(s.before, "copy", md); err != nil {
		return nil, err
	}
	if md.State != remotelog.CopySegmentStarted {
		return nil, fmt.Errorf("%w: state %s", remotelog.ErrInvalidArgument, md.State)
	}
	st := &stored{}
	st.index[remotelog.LeaderEpochIndex] = data.LeaderEpochs
	parts := map[*[]byte]remotelog.Source{&st.log: data.Log, &st.index[remotelog.OffsetIndex]: data.OffsetIndex, &st.index[remotelog.TimestampIndex]: data.TimeIndex,
		&st.index[remotelog.ProducerSnapshotIndex]: data.ProducerSnapshot, &st.index[remotelog.TransactionIndex]: data.TransactionIndex}
	for dst, src := range parts {
		if src == nil && dst == &st.index[remotelog.TransactionIndex] {
			continue
		}
		b, err := readSource(ctx, src)
		if err != nil {
			return nil, err
		}
		*dst = append([]byte{}, b...)
	}
	if int64(len(st.log)) != md.SizeBytes {
		return nil, fmt.Errorf("log has %d bytes, metadata %d", len(st.log), md.SizeBytes)
	}
	s.mu.Lock()
	s.segments[md.ID] = st
	s.mu.Unlock()
	return remotelog.CustomMetadata("cm:" + md.ID.String()), s.hook(s.after, "copy", md)
}

func (s *fakeStore) get(md remotelog.SegmentMetadata) (*stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.segments[md.ID]
	if st == nil {
		return nil, fmt.Errorf("%w: segment %s", remotelog.ErrNotFound, md.ID)
	}
	return st, nil
}

type countingReader struct {
	io.Reader
	s *fakeStore
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.s.mu.Lock()
	r.s.fetched += int64(n)
	r.s.mu.Unlock()
	return n, err
}

func (s *fakeStore) Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error) {
	if err := s.hook(s.before, "fetch", md); err != nil {
		return nil, err
	}
	st, err := s.get(md)
	if err != nil {
		return nil, err
	}
	if start < 0 || start > int64(len(st.log)) || end < start {
		return nil, fmt.Errorf("%w: [%d, %d] of %d", remotelog.ErrInvalidArgument, start, end, len(st.log))
	}
	return io.NopCloser(&countingReader{bytes.NewReader(st.log[start : min(end, int64(len(st.log)-1))+1]), s}), ctx.Err()
}

func (s *fakeStore) FetchIndex(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (io.ReadCloser, error) {
	if err := s.hook(s.before, "index "+t.String(), md); err != nil {
		return nil, err
	}
	st, err := s.get(md)
	if err != nil {
		return nil, err
	}
	if st.index[t] == nil {
		return nil, fmt.Errorf("%w: %s of %s", remotelog.ErrNoIndex, t, md.ID)
	}
	return io.NopCloser(bytes.NewReader(st.index[t])), ctx.Err()
}

func (s *fakeStore) Delete(ctx context.Context, md remotelog.SegmentMetadata) error {
	if err := s.hook(s.before, "delete", md); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.segments, md.ID)
	s.mu.Unlock()
	return s.hook(s.after, "delete", md)
}
