package rsm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/remotelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testRing is a key ring whose one key pair all tests share: making one takes a moment.
var testRing = sync.OnceValues(func() (*crypto.KeyRing, error) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	pair, err := crypto.NewKeyPair("k1", &k.PublicKey, k)
	if err != nil {
		return nil, err
	}
	return crypto.NewKeyRing("k1", pair)
})

// rig is a manager over a driver in memory whose calls a test can change.
type rig struct {
	*Manager
	driver *stub
	space  *mem.Space
	logs   *bytes.Buffer
}

func newRig(t testing.TB, c Config) *rig {
	t.Helper()
	r := &rig{space: new(mem.Space), logs: new(bytes.Buffer)}
	r.driver = &stub{Driver: r.space.Client(mem.Options{})}
	r.Manager = manager(t, r.driver, c, r.logs)
	return r
}

// manager makes a manager over a driver and checks at the end of the test that nothing is held any more.
func manager(t testing.TB, d backends.Driver, c Config, logs io.Writer) *Manager {
	t.Helper()
	store, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := testRing()
	if err != nil {
		t.Fatal(err)
	}
	return managerWith(t, store, c, ring, logs)
}

// managerWith is manager over a store, with keys of the test's own or none.
func managerWith(t testing.TB, store *backends.Store, c Config, keys crypto.KeyWrapper, logs io.Writer) *Manager {
	t.Helper()
	budget, err := NewBudget(c, store)
	if err != nil {
		t.Fatal(err)
	}
	store.UseBudget(budget)
	m, err := New(Options{Store: store, Budget: budget, Keys: keys, Config: c, Logger: slog.New(slog.NewTextHandler(&locked{w: logs}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if s := budget.Stats(); s.CopyBytes != 0 || s.FetchBytes != 0 || s.InUseBytes != 0 {
			t.Errorf("after Close copies hold %d bytes, fetches %d, and %d are in use", s.CopyBytes, s.FetchBytes, s.InUseBytes)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// keys lists what is in the store.
func (r *rig) keys(t testing.TB) (keys []string) {
	t.Helper()
	page, err := r.driver.List(context.Background(), backends.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range page.Infos {
		keys = append(keys, i.Key)
	}
	return keys
}

// stub is a driver whose calls can be replaced, each by itself.
type stub struct {
	backends.Driver
	put    func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error)
	get    func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error)
	stat   func(ctx context.Context, key string) (backends.Info, error)
	delete func(ctx context.Context, key string) error
	list   func(ctx context.Context, o backends.ListOptions) (backends.Page, error)
	sizes  func(size int64) (int64, int64)
}

func (s *stub) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	if s.put != nil {
		return s.put(ctx, key, body, o)
	}
	return s.Driver.Put(ctx, key, body, o)
}

func (s *stub) Get(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
	if s.get != nil {
		return s.get(ctx, key, o)
	}
	return s.Driver.Get(ctx, key, o)
}

func (s *stub) Stat(ctx context.Context, key string) (backends.Info, error) {
	if s.stat != nil {
		return s.stat(ctx, key)
	}
	return s.Driver.Stat(ctx, key)
}

func (s *stub) Delete(ctx context.Context, key string) error {
	if s.delete != nil {
		return s.delete(ctx, key)
	}
	return s.Driver.Delete(ctx, key)
}

func (s *stub) List(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
	if s.list != nil {
		return s.list(ctx, o)
	}
	return s.Driver.List(ctx, o)
}

// PutMemory implements backends.PutSizer.
func (s *stub) PutMemory(size int64) (int64, int64) {
	if s.sizes != nil {
		return s.sizes(size)
	}
	return 4096, 8192
}

// segmentOf makes a segment of size random bytes, half of them redundant, with all indexes.
func segmentOf(seed uint64, size int) (remotelog.SegmentMetadata, remotelog.SegmentData, []byte) {
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	log := make([]byte, (size+7)/8*8)
	for i := 0; i < size; i += 8 { // a byte at a time it takes longer than the test, under the race detector
		binary.LittleEndian.PutUint64(log[i:], r.Uint64()&0x1f1f1f1f1f1f1f1f)
	}
	log = log[:size:size]
	var id, topic remotelog.UUID
	for i := range id {
		id[i], topic[i] = byte(r.Uint32()), 7
	}
	index := func(name string, n int) remotelog.Bytes {
		return remotelog.Bytes(bytes.Repeat(fmt.Appendf(nil, "%s-%d;", name, seed), n))
	}
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{
			TopicIDPartition: remotelog.TopicIDPartition{TopicID: topic, Topic: "orders", Partition: 3}, ID: id,
		},
		StartOffset: 23, EndOffset: 1234, LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: 23}, {Epoch: 4, StartOffset: 100}},
		MaxTimestampMs: 1700000000000, BrokerID: 7, EventTimestampMs: 1700000000001, SizeBytes: int64(size),
	}
	data := remotelog.SegmentData{
		Log: remotelog.Bytes(log), OffsetIndex: index("offset", 20), TimeIndex: index("time", 10), ProducerSnapshot: index("producers", 3),
		TransactionIndex: index("txn", 2), LeaderEpochs: []byte("0\n2\n0 23\n4 100\n"),
	}
	return md, data, log
}

// finished is md as it is after a copy.
func finished(md remotelog.SegmentMetadata, cm remotelog.CustomMetadata) remotelog.SegmentMetadata {
	md.State, md.CustomMetadata = remotelog.CopySegmentFinished, cm
	return md
}

// mustCopy copies a segment and returns its metadata as they are then.
func (r *rig) mustCopy(t testing.TB, md remotelog.SegmentMetadata, data remotelog.SegmentData) remotelog.SegmentMetadata {
	t.Helper()
	cm, err := r.Copy(t.Context(), md, data)
	if err != nil {
		t.Fatalf("Copy: %v", err)
	}
	return finished(md, cm)
}

// read fetches a range.
func read(ctx context.Context, m *Manager, md remotelog.SegmentMetadata, start, end int64) ([]byte, error) {
	rc, err := m.Fetch(ctx, md, start, end)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(rc)
	if cerr := rc.Close(); err == nil {
		err = cerr
	}
	return got, err
}

// readIndex fetches an index.
func readIndex(ctx context.Context, m *Manager, md remotelog.SegmentMetadata, t remotelog.IndexType) ([]byte, error) {
	rc, err := m.FetchIndex(ctx, md, t)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(rc)
	if cerr := rc.Close(); err == nil {
		err = cerr
	}
	return got, err
}

// transforms are the four ways to store a segment, with small chunks.
func transforms(chunk int) map[string]Config {
	return map[string]Config{
		"plain":                 {ChunkBytes: chunk},
		"compressed":            {ChunkBytes: chunk, Compression: true},
		"encrypted":             {ChunkBytes: chunk, Encryption: true},
		"compressed, encrypted": {ChunkBytes: chunk, Compression: true, Encryption: true},
	}
}
