package s3

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"golang.org/x/sync/errgroup"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/membudget"
)

const (
	benchPart    = 16 << 20
	benchWorkers = 4
	benchSize    = 1 << 30
	benchRounds  = 3
)

// noise is a body of so many random bytes, made of one block so that making it costs nothing.
type noise struct {
	block []byte
	left  int64
}

func newNoise(n int64) *noise {
	b := make([]byte, 8<<20+7)
	_, _ = rand.NewChaCha8([32]byte{9}).Read(b)
	return &noise{b, n}
}

func (s *noise) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	at := int((benchSize - s.left) % int64(len(s.block)))
	n := copy(p[:min(int64(len(p)), s.left)], s.block[max(0, at):])
	s.left -= int64(n)
	return n, nil
}

// cost is what one transfer took.
type cost struct {
	took  time.Duration
	fresh uint64 // bytes allocated
}

func measure(t *testing.T, do func() error) cost {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return cost{took, after.TotalAlloc - before.TotalAlloc}
}

// best returns the fastest of several rounds: what else the machine does only makes one slower.
func best(all []cost) cost {
	return slices.MinFunc(all, func(a, b cost) int { return int(a.took - b.took) })
}

// TestBench_AgainstTheTransferManager sends and reads 1 GiB with the driver and with the SDK's own transfer manager, in turns, with the same parts, at the
// same time, over the same client.
func TestBench_AgainstTheTransferManager(t *testing.T) {
	need.Bench(t)
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	o := at(srv, bucket)
	o.PartBytes, o.Concurrency, o.Checksum = benchPart, benchWorkers, "crc32c"
	d := mustOpen(t, o, backends.Env{})
	_, want := d.PutMemory(benchSize)
	b, err := membudget.New(2*want, membudget.Needs{Copy: want, Fetch: want})
	if err != nil {
		t.Fatal(err)
	}
	tm := transfermanager.New(d.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.Concurrency, o.ChecksumAlgorithm = benchPart, benchWorkers, tmtypes.ChecksumAlgorithmCrc32c
	})
	ours := func(ctx context.Context) error {
		r, err := b.Reserve(ctx, membudget.Copy, want)
		if err != nil {
			return err
		}
		defer r.Release()
		_, err = d.Put(ctx, "ours", newNoise(benchSize), backends.PutOptions{Size: backends.SizeUnknown, Memory: r})
		return err
	}
	theirs := func(ctx context.Context) error {
		_, err := tm.UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &bucket, Key: aws.String("theirs"), Body: newNoise(benchSize)})
		return err
	}
	compare(t, "put", ours, theirs)
	compare(t, "get", func(ctx context.Context) error { return readInRanges(ctx, d, "ours") }, func(ctx context.Context) error {
		_, err := tm.DownloadObject(ctx, &transfermanager.DownloadObjectInput{Bucket: &bucket, Key: aws.String("theirs"), WriterAt: discardAt{}}, func(o *transfermanager.Options) {
			o.GetObjectType = tmtypes.GetObjectRanges
		})
		return err
	})
	empty(t, srv, bucket)
}

func compare(t *testing.T, what string, ours, theirs func(ctx context.Context) error) {
	t.Helper()
	var a, b []cost
	for range benchRounds + 1 {
		a = append(a, measure(t, func() error { return ours(t.Context()) }))
		b = append(b, measure(t, func() error { return theirs(t.Context()) }))
	}
	mine, other := best(a[1:]), best(b[1:]) // the first round warms up
	ratio := float64(other.took) / float64(mine.took)
	t.Logf("%s 1 GiB: %.0f MB/s, allocated %d MiB; transfer manager %.0f MB/s, %d MiB; ratio %.2f", what,
		benchSize/mine.took.Seconds()/1e6, mine.fresh>>20, benchSize/other.took.Seconds()/1e6, other.fresh>>20, ratio)
	if ratio < 0.95 {
		t.Errorf("%s: %.2f of the transfer manager's speed, want 0.95 or more", what, ratio)
	}
	if what == "put" && mine.fresh > other.fresh { // a get of either holds no part
		t.Errorf("%s: allocated %d bytes, the transfer manager %d", what, mine.fresh, other.fresh)
	}
}

type discardAt struct{}

func (discardAt) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// readInRanges reads an object as the engine does, in ranges, several at a time.
func readInRanges(ctx context.Context, d *Driver, key string) error {
	var g errgroup.Group
	g.SetLimit(benchWorkers)
	for off := int64(0); off < benchSize; off += benchPart {
		g.Go(func() error {
			obj, err := d.Get(ctx, key, backends.GetOptions{Range: backends.Range{Offset: off, Length: benchPart}})
			if err != nil {
				return err
			}
			defer obj.Body.Close()
			_, err = io.Copy(io.Discard, obj.Body)
			return err
		})
	}
	return g.Wait()
}

const sinkBurst = 100 * time.Millisecond

// sink is a store that takes so many bytes per second, all connections together.
type sink struct {
	mu    sync.Mutex
	next  time.Time
	speed float64
	got   atomic.Int64
	sizes map[string]int64 // of the objects, by path
}

func (s *sink) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		buf := make([]byte, 256<<10)
		for {
			n, err := r.Body.Read(buf)
			s.took(r, int64(n))
			if werr := s.wait(r.Context(), n); werr != nil {
				return nil, werr
			}
			if err != nil {
				break
			}
		}
		_ = r.Body.Close()
	}
	w := &wire{do: func(r *http.Request) answer {
		if r.Method == http.MethodHead {
			return s.head(r)
		}
		switch operation(r) {
		case "uploads":
			return answer{status: 200, body: stringBody("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")}
		case "uploadId":
			return answer{status: 200, body: stringBody(`<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)}
		}
		return answer{status: 200, header: http.Header{"Etag": {`"e"`}}}
	}}
	r.Body = nil
	return w.RoundTrip(r)
}

// took accounts for n bytes of an object; what completes an upload is none.
func (s *sink) took(r *http.Request, n int64) {
	s.got.Add(n)
	if r.Method != http.MethodPut {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sizes == nil {
		s.sizes = make(map[string]int64)
	}
	s.sizes[r.URL.Path] += n
}

func (s *sink) head(r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.sizes[r.URL.Path]
	if !ok && strings.Trim(r.URL.Path, "/") != "b" { // the bucket itself is there
		return answer{status: 404}
	}
	return answer{status: 200, header: http.Header{"Content-Length": {strconv.FormatInt(size, 10)}, "Etag": {`"e"`}}}
}

func stringBody(s string) io.Reader { return io.NewSectionReader(readerAt(s), 0, int64(len(s))) }

type readerAt string

func (s readerAt) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, s[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// wait takes the time that n bytes need after those before.
func (s *sink) wait(ctx context.Context, n int) error {
	s.mu.Lock()
	if late := time.Now().Add(-sinkBurst); s.next.Before(late) { // a timer that fires late is made up for, an idle time is not
		s.next = late
	}
	s.next = s.next.Add(time.Duration(float64(n) / s.speed * float64(time.Second)))
	until := s.next
	s.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowly is a body whose bytes take their time to make, as those of an encoder do.
type slowly struct {
	r     io.Reader
	speed *sink
}

func (s slowly) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if werr := s.speed.wait(context.Background(), n); werr != nil {
		return n, werr
	}
	return n, err
}

// TestBench_EncodingAndSendingOverlap: a source and a wire of 100 MB/s each together make nearly 100, not 50.
func TestBench_EncodingAndSendingOverlap(t *testing.T) {
	need.Bench(t)
	const speed, size = 100e6, 512 << 20
	s := &sink{speed: speed}
	o := Options{Bucket: "b", Region: "r", Endpoint: "http://sink.invalid", PartBytes: 8 << 20, Credentials: Credentials{AccessKey: backends.NewSecret("a"), SecretKey: backends.NewSecret("b")}}
	d := mustOpen(t, o, backends.Env{WrapTransport: func(http.RoundTripper) http.RoundTripper { return s }})
	_, want := d.PutMemory(backends.SizeUnknown)
	b, err := membudget.New(2*want, membudget.Needs{Copy: want, Fetch: want})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reserve(t.Context(), membudget.Copy, want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	began := time.Now()
	body := slowly{newNoise(size), &sink{speed: speed}}
	if _, err := d.Put(t.Context(), "k", body, backends.PutOptions{Size: backends.SizeUnknown, Memory: r}); err != nil {
		t.Fatal(err)
	}
	got := size / time.Since(began).Seconds()
	t.Logf("%.1f MB/s of %.0f", got/1e6, speed/1e6)
	if got < 0.9*speed || s.got.Load() < size {
		t.Errorf("%.1f MB/s, want 90 or more", got/1e6)
	}
}
