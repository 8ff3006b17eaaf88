package s3

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

const (
	copyBytes = 512 << 20
	copyPart  = 8 << 20
)

// copier copies one big segment, compressed and encrypted, into one store, again and again.
type copier struct {
	m      *rsm.Manager
	budget *membudget.Budget
	log    string
}

func newCopier(t *testing.T, d backends.Driver, log string) *copier {
	t.Helper()
	store, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	kp, err := crypto.NewKeyPair("k", &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := crypto.NewKeyRing("k", kp)
	if err != nil {
		t.Fatal(err)
	}
	c := rsm.Config{Compression: true, Encryption: true, ActiveKey: "k", MemoryBudgetBytes: 256 << 20}
	budget, err := rsm.NewBudget(c, store)
	if err != nil {
		t.Fatal(err)
	}
	store.UseBudget(budget)
	m, err := rsm.New(rsm.Options{Store: store, Budget: budget, Config: c, Keys: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return &copier{m, budget, log}
}

// copy copies the segment under a new id, which it returns.
func (c *copier) copy(t *testing.T) (remotelog.SegmentMetadata, time.Duration) {
	t.Helper()
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID()},
		EndOffset: 1, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: copyBytes,
	}
	index := remotelog.Bytes(make([]byte, 1000))
	began := time.Now()
	if _, err := c.m.Copy(t.Context(), md, remotelog.SegmentData{Log: remotelog.File(c.log), OffsetIndex: index, TimeIndex: index, ProducerSnapshot: index}); err != nil {
		t.Fatal(err)
	}
	return md, time.Since(began)
}

// segmentFile is a file of which zstd leaves about a third, as of a log of JSON.
func segmentFile(t *testing.T) string {
	t.Helper()
	block := make([]byte, 8<<20)
	_, _ = mrand.NewChaCha8([32]byte{9}).Read(block)
	const letters = `{"id":0123456789,"name":"abcdef"}`
	for i := range block {
		if i%16 < 11 {
			block[i] = letters[(i+int(block[i]>>6))%len(letters)]
		}
	}
	path := filepath.Join(t.TempDir(), "segment.log")
	if err := os.WriteFile(path, bytes.Repeat(block, copyBytes/len(block)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBench_CopyAgainstItsParts: compressing, encrypting and sending take no longer than a copy into a directory and a raw put of the stored bytes, one
// after the other.
func TestBench_CopyAgainstItsParts(t *testing.T) {
	need.Bench(t)
	srv, log, root := testbed.MinIO(t), segmentFile(t), t.TempDir()
	bucket := srv.Bucket(t)
	o := at(srv, bucket)
	o.PartBytes = copyPart
	local, err := fs.Open(t.Context(), fs.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	toDir, toBucket, raw := newCopier(t, local, log), newCopier(t, mustOpen(t, o, backends.Env{}), log), mustOpen(t, o, backends.Env{})
	var dir, put, whole []time.Duration
	for range benchRounds + 1 {
		md, took := toDir.copy(t)
		dir = append(dir, took)
		put = append(put, putStored(t, toDir.budget, raw, stored(t, root, md)))
		_, took = toBucket.copy(t)
		whole = append(whole, took)
		if err := toDir.m.Delete(t.Context(), md); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := fastest(dir), fastest(put), fastest(whole)
	ratio := c.Seconds() / (a + b).Seconds()
	t.Logf("copy of %d MiB: to a directory %.2f s, raw put of what is stored %.2f s, to the bucket %.2f s; ratio %.2f", copyBytes>>20, a.Seconds(), b.Seconds(), c.Seconds(), ratio)
	if ratio > 1.1 {
		t.Errorf("a copy takes %.2f times its parts, want 1.1 at most", ratio)
	}
	empty(t, srv, bucket)
}

// fastest leaves out the first one, which warms up.
func fastest(all []time.Duration) time.Duration {
	out := all[1]
	for _, d := range all[2:] {
		out = min(out, d)
	}
	return out
}

// stored is the file that the log of a segment became.
func stored(t *testing.T, root string, md remotelog.SegmentMetadata) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*", "*", "*"+md.SegmentID.ID.String()+".log"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	return found[0]
}

func putStored(t *testing.T, b *membudget.Budget, d *Driver, path string) time.Duration {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, want := d.PutMemory(backends.SizeUnknown)
	r, err := b.Reserve(t.Context(), membudget.Copy, want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	began := time.Now()
	if _, err := d.Put(t.Context(), "raw", f, backends.PutOptions{Size: backends.SizeUnknown, Memory: r}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// TestBench_CopyToASlowWire: with a wire of 100 MB/s a copy takes hardly longer than the slower of the two stages, encoding and sending.
func TestBench_CopyToASlowWire(t *testing.T) {
	need.Bench(t)
	log := segmentFile(t)
	open := func(speed float64) (*copier, *sink) {
		s := &sink{speed: speed}
		d := mustOpen(t, Options{
			Bucket: "b", Region: "r", Endpoint: "http://sink.invalid", PartBytes: copyPart,
			Credentials: Credentials{AccessKey: backends.NewSecret("a"), SecretKey: backends.NewSecret("b")},
		}, backends.Env{WrapTransport: func(http.RoundTripper) http.RoundTripper { return s }})
		return newCopier(t, d, log), s
	}
	free, _ := open(1e15)
	slow, wire := open(100e6)
	var alone, both []time.Duration
	for range benchRounds {
		_, took := free.copy(t)
		alone = append(alone, took)
		_, took = slow.copy(t)
		both = append(both, took)
	}
	sent := float64(wire.got.Load()) / benchRounds
	encode, took := fastest(alone), fastest(both)
	slower := max(encode.Seconds(), sent/100e6)
	t.Logf("%.0f MB to send: encoding %.2f s, wire %.2f s, copy %.2f s: %.0f %% of the slower stage's speed", sent/1e6, encode.Seconds(), sent/100e6, took.Seconds(), 100*slower/took.Seconds())
	if slower < 0.9*took.Seconds() {
		t.Errorf("%.2f s, want %.2f at most", took.Seconds(), slower/0.9)
	}
}
