package rsm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/slowstore"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// fetchProbe runs testdata/fetchprobe with the same settings each time: zstd and AES, chunks of 4 MiB, all else as it is by default.
type fetchProbe struct {
	bin, dir string
	props    []string
	env      []string
}

// fetchPass is what one of its passes printed.
type fetchPass struct {
	Gets, Bytes, Plain     int64
	Seconds, P50, P90, P99 float64
	PeakRSS                int64
}

func (p fetchPass) rate() float64 { return float64(p.Plain) / p.Seconds / 1e6 }

func newFetchProbe(t testing.TB, env []string, props ...string) *fetchProbe {
	t.Helper()
	if runtime.GOOS != "linux" {
		need.Never(t, "the peak of a process's memory is read from /proc")
	}
	p := &fetchProbe{dir: t.TempDir(), env: append(os.Environ(), env...)}
	p.bin = filepath.Join(p.dir, "fetchprobe")
	build := exec.CommandContext(t.Context(), need.Command(t, "go", "it comes with Go"), "build", "-o", p.bin, "./testdata/fetchprobe")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, private := p.keys(t)
	for _, s := range append([]string{
		"compression.enabled=true", "encryption.enabled=true", "encryption.key.pair.id=k", "encryption.key.pairs=k",
		"encryption.key.pairs.k.public.key.file=" + public, "encryption.key.pairs.k.private.key.file=" + private,
	}, props...) {
		p.props = append(p.props, "-p", s)
	}
	return p
}

// keys writes a key pair, which all processes must share.
func (p *fetchProbe) keys(t testing.TB) (public, private string) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public, private = filepath.Join(p.dir, "public.pem"), filepath.Join(p.dir, "private.pem")
	for name, block := range map[string]*pem.Block{public: {Type: "PUBLIC KEY", Bytes: pub}, private: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return public, private
}

func (p *fetchProbe) run(t testing.TB, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.bin, append(p.props[:len(p.props):len(p.props)], args...)...)
	cmd.Env = p.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("fetchprobe %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// prepare copies n segments of size bytes and returns the arguments that name them.
func (p *fetchProbe) prepare(t testing.TB, n int, size int64, args ...string) []string {
	t.Helper()
	log := kafkaFile(t, kafkaData(7, 64<<20), size)
	file := filepath.Join(p.dir, fmt.Sprintf("segments-%d-%d.json", n, size))
	if err := os.WriteFile(file, p.run(t, append(args, "-prepare", log, "-copies", fmt.Sprint(n))...), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-segments", file}
}

// passes runs a process and returns what each of its passes took.
func (p *fetchProbe) passes(t testing.TB, args ...string) (out []fetchPass) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(p.run(t, args...))); d.More(); {
		var one fetchPass
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// TestBench_BrokerReadsFromFarAway: MinIO behind a delay of 60 ms for each request, a fresh process with the default settings, and fetches as a broker
// makes them for one consumer.
func TestBench_BrokerReadsFromFarAway(t *testing.T) {
	need.Bench(t)
	const wantRate, wantP90, wantGets = 150, 10, 17
	near := testbed.MinIO(t)
	bucket := near.Bucket(t)
	at := func(s *testbed.S3) []string {
		return []string{"-p", "storage.s3.endpoint.url=" + s.Endpoint}
	}
	p := newFetchProbe(t, []string{"AWS_ACCESS_KEY_ID=" + near.AccessKey, "AWS_SECRET_ACCESS_KEY=" + near.SecretKey},
		"storage.backend=s3", "storage.s3.bucket.name="+bucket, "storage.s3.region=us-east-1", "storage.s3.path.style.access.enabled=true")
	segments := p.prepare(t, 1, 512<<20, at(near)...)
	args := append(append(at(near.Distant(t, 30*time.Millisecond)), segments...), "-scenario", "broker", "-most", fmt.Sprint(256<<20))
	var best fetchPass
	for range 3 { // what else the machine does only makes one slower
		got := p.passes(t, args...)[0]
		t.Logf("%.0f MB/s, %d GETs, a fetch took %.1f ms (median), %.1f ms (p90), %.1f ms (p99), peak RSS %d MiB",
			got.rate(), got.Gets, got.P50, got.P90, got.P99, got.PeakRSS>>20)
		if got.Gets > wantGets {
			t.Errorf("%d GETs for 256 MiB, want at most %d", got.Gets, wantGets)
		}
		if best.Gets == 0 || got.rate() > best.rate() {
			best = got
		}
	}
	if best.rate() < wantRate || best.P90 >= wantP90 {
		t.Errorf("%.0f MB/s and p90 of %.1f ms, want at least %d MB/s and less than %d ms", best.rate(), best.P90, wantRate, wantP90)
	}
}

// distantArgs make a directory as slow as a store at 60 ms to the first byte of each request, with 50 MB/s for each connection.
var distantArgs = []string{"-first-byte", "60ms", "-rate", "50000000"}

// TestBench_FetchTable reads over that store in the ways that consumers do, and writes one table: dist/fetch.txt.
func TestBench_FetchTable(t *testing.T) {
	need.Bench(t)
	const segment = 1 << 30
	disk := t.TempDir()
	p := newFetchProbe(t, nil, "storage.backend=fs", "storage.root="+t.TempDir(), "storage.fs.fsync=false")
	whole, parts := p.prepare(t, 1, segment), p.prepare(t, 64, segment/64)
	var table strings.Builder
	fmt.Fprintf(&table, "%d MiB, chunks of 4 MiB, zstd + AES; 60 ms to the first byte of a request, 50 MB/s a connection; default settings; GOMAXPROCS %d\n",
		segment>>20, runtime.GOMAXPROCS(0))
	fmt.Fprintf(&table, "%-34s %-22s %8s %10s %8s %8s %8s %8s %9s\n", "reads", "", "requests", "wire, MB", "MB/s", "p50, ms", "p99, ms", "s", "RSS, MiB")
	row := func(name, when string, got fetchPass) {
		fmt.Fprintf(&table, "%-34s %-22s %8d %10.0f %8.0f %8.1f %8.1f %8.1f %9d\n",
			name, when, got.Gets, float64(got.Bytes)/1e6, got.rate(), got.P50, got.P99, got.Seconds, got.PeakRSS>>20)
	}
	for _, c := range []struct {
		name     string
		segments []string
		args     []string
	}{
		{"1 MiB after 1 MiB of 1 GiB", whole, []string{"-scenario", "exact", "-most", fmt.Sprint(segment)}},
		{"256 x 1 MiB anywhere in 1 GiB", whole, []string{"-scenario", "random", "-most", fmt.Sprint(segment / 4)}},
		{"64 readers of one segment, 64 MiB", whole, []string{"-readers", "64", "-most", fmt.Sprint(segment / 16)}},
		{"64 readers of 64 segments, 16 MiB", parts, []string{"-readers", "64", "-most", fmt.Sprint(segment / 64)}},
	} {
		args := append(append(append([]string{"-passes", "2"}, distantArgs...), c.segments...), c.args...)
		got := p.passes(t, args...)
		row(c.name, "cold", got[0])
		row(c.name, "warm", got[1])
		dir := filepath.Join(disk, strings.ReplaceAll(c.name, " ", "-"))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-p", "fetch.chunk.cache.class=io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache",
			"-p", "fetch.chunk.cache.path="+dir, "-p", "fetch.chunk.cache.size=4294967296")
		p.passes(t, args...)
		row(c.name, "after restart, disk", p.passes(t, args...)[0])
	}
	t.Log("\n" + table.String())
	out := filepath.Join("..", "dist", "fetch.txt")
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBench_SequentialReadsAgainstTheIdealLoop: a segment of 1 GiB over the distant store, read MiB by MiB, against a loop that makes the same requests
// without a pause, as many at a time as there were at most, and decodes them on all processors.
func TestBench_SequentialReadsAgainstTheIdealLoop(t *testing.T) {
	need.Bench(t)
	const size, wantGets, wantRatio = 1 << 30, 40, 1.3
	d, err := fs.Open(t.Context(), fs.Options{Root: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	slow := slowstore.New(d, slowstore.Options{FirstByte: distantFirst, BytesPerSecond: 50_000_000, Now: time.Now})
	r := &rig{driver: &stub{Driver: slow, sizes: d.PutMemory}}
	conf := Config{ChunkBytes: speedChunk, Compression: true, Encryption: true, MemoryBudgetBytes: 256 << 20}
	r.Manager = manager(t, r.driver, conf, io.Discard)
	var last remotelog.SegmentMetadata
	copyAnew(t, r.Manager, &last, kafkaFile(t, kafkaData(42, speedUnit), size), size)
	best := math.Inf(1)
	for range 3 {
		r.Manager = manager(t, unclosable{r.driver}, conf, io.Discard) // cold
		slow.Reset()
		var g gets
		g.watch(r)
		began := time.Now()
		for at := int64(0); at < size; at += 1 << 20 {
			if _, err := read(t.Context(), r.Manager, last, at, at+1<<20-1); err != nil {
				t.Fatal(err)
			}
		}
		took, peak := time.Since(began), slow.Stats().Peak
		ideal := idealLoop(t, r, last, g.all(), int(peak))
		best = min(best, took.Seconds()/ideal.Seconds())
		t.Logf("%d requests, %d at a time, %.2f s, %.0f MB/s; ideal loop %.2f s; %.2f of it", len(g.all()), peak, took.Seconds(), rate(size, took), ideal.Seconds(), took.Seconds()/ideal.Seconds())
		if n := len(g.all()); n > wantGets {
			t.Errorf("%d requests for 256 chunks, want at most %d", n, wantGets)
		}
	}
	if best > wantRatio {
		t.Errorf("%.2f of the time of the ideal loop, want at most %.2f", best, wantRatio)
	}
}

// idealLoop reads and decodes the ranges of md's .log in order, on so many connections.
func idealLoop(t testing.TB, r *rig, md remotelog.SegmentMetadata, ranges []backends.Range, connections int) time.Duration {
	t.Helper()
	rd, err := r.open(t.Context(), &md)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.release()
	seg, _, err := rd.segment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chunkAt := map[int64]int{}
	for i := range seg.Chunks.Chunks() {
		chunkAt[seg.Chunks.Chunk(i).StoredStart] = i
	}
	budget, err := membudget.New(1<<30, membudget.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	work := make(chan backends.Range)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for want := range work {
				if err := idealRange(r, seg, budget, chunkAt, want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, want := range ranges {
		work <- want
	}
	close(work)
	all.Wait()
	return time.Since(began)
}

func idealRange(r *rig, seg *segment, budget *membudget.Budget, chunkAt map[int64]int, want backends.Range) error {
	o := r.chunks.options(seg, chunkAt[want.Offset], chunkAt[want.Offset])
	for i := o.First; i < seg.Chunks.Chunks() && seg.Chunks.Chunk(i).StoredStart < want.Offset+want.Length; i++ {
		o.Last = i
	}
	res, err := budget.Reserve(context.Background(), membudget.Fetch, loadNeed(o))
	if err != nil {
		return err
	}
	defer res.Release()
	o.Memory = res
	obj, err := r.driver.Driver.Get(context.Background(), string(seg.stem.key(manifest.LogSuffix)), backends.GetOptions{Range: want})
	if err != nil {
		return err
	}
	defer obj.Body.Close()
	n, err := chunking.Decode(context.Background(), obj.Body, o, &discard{budget: budget})
	if err == nil && n != o.Last-o.First+1 {
		err = fmt.Errorf("%d chunks of %d..%d", n, o.First, o.Last)
	}
	return err
}

// discard is a Sink whose chunks go back at once.
type discard struct {
	budget *membudget.Budget
	mu     sync.Mutex
	rooms  map[int]*membudget.Reservation
}

func (d *discard) Room(n, size int) []byte {
	res := d.budget.TryReserve(membudget.Fetch, membudget.Capacity(size))
	if res == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rooms == nil {
		d.rooms = map[int]*membudget.Reservation{}
	}
	d.rooms[n] = res
	return res.Buffer(size)
}

func (d *discard) Done(n int, data []byte, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rooms[n].Return(data)
	d.rooms[n].Release()
	delete(d.rooms, n)
}
