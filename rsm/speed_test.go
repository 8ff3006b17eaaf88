package rsm

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

// sample is one measurement: the clock, and the processor time of the whole process.
type sample struct{ wall, cpu time.Duration }

// measure times f.
func measure(f func()) sample {
	began, cpu := time.Now(), cpuTime()
	f()
	return sample{time.Since(began), cpuTime() - cpu}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	speedBytes = 1 << 30
	speedUnit  = 64 << 20
	speedChunk = 4 << 20
)

// plainLoop is what copy and fetch are measured against: as many goroutines as processors, each encoding or decoding its own share of the
// same chunks, with buffers reused and no I/O.
type plainLoop struct {
	unit    []byte
	stored  [][]byte // the chunks of unit, encoded
	codecs  *chunking.Codecs
	key     *crypto.DataKey
	workers int
	bufs    [][]byte
}

func newPlainLoop(t testing.TB, unit []byte, level int) *plainLoop {
	p := &plainLoop{unit: unit, workers: runtime.GOMAXPROCS(0)}
	var err error
	if p.codecs, err = chunking.NewCodecs(chunking.CodecOptions{Level: level, ChunkSize: speedChunk}); err != nil {
		t.Fatal(err)
	}
	if p.key, err = crypto.NewDataKey(); err != nil {
		t.Fatal(err)
	}
	for range 2 * p.workers {
		p.bufs = append(p.bufs, make([]byte, chunking.MaxEncodedSize(speedChunk)+crypto.Overhead))
	}
	codec, err := p.codecs.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.codecs.Release(codec)
	for at := 0; at < len(unit); at += speedChunk {
		out := codec.Compress(p.bufs[0][:0], unit[at:at+speedChunk])
		p.stored = append(p.stored, slices.Clone(p.key.Seal(out[:0], out)))
	}
	return p
}

// run does f for every chunk of size bytes, on all workers.
func (p *plainLoop) run(t testing.TB, size int, f func(codec *chunking.Codec, worker, chunk int) error) sample {
	return measure(func() {
		var all sync.WaitGroup
		for w := range p.workers {
			all.Go(func() {
				codec, err := p.codecs.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer p.codecs.Release(codec)
				for i := w; i < size/speedChunk; i += p.workers {
					if err := f(codec, w, i%len(p.stored)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

func (p *plainLoop) encode(t testing.TB, size int) sample {
	return p.run(t, size, func(codec *chunking.Codec, w, i int) error {
		out := codec.Compress(p.bufs[w][:0], p.unit[i*speedChunk:(i+1)*speedChunk])
		p.key.Seal(out[:0], out)
		return nil
	})
}

func (p *plainLoop) decode(t testing.TB, size int) sample {
	return p.run(t, size, func(codec *chunking.Codec, w, i int) error {
		frame, err := p.key.Open(p.bufs[w][:0], p.stored[i])
		if err == nil {
			_, err = codec.Decompress(p.bufs[len(p.bufs)-1-w][:0], frame, speedChunk)
		}
		return err
	})
}

// fsManager is a manager over a directory, compressing and encrypting.
func fsManager(t testing.TB, noSync bool, c Config) *Manager {
	t.Helper()
	d, err := fs.Open(t.Context(), fs.Options{Root: t.TempDir(), NoSync: noSync})
	if err != nil {
		t.Fatal(err)
	}
	return manager(t, d, c, io.Discard)
}

// copyAnew copies the file under a new id, after it has deleted the last copy, and says how long the copy took.
func copyAnew(t testing.TB, m *Manager, last *remotelog.SegmentMetadata, path string, size int64) (took sample) {
	t.Helper()
	if last.SizeBytes > 0 {
		if err := m.Delete(t.Context(), *last); err != nil {
			t.Fatal(err)
		}
	}
	md, data, _ := segmentOf(1, 0)
	md.ID, md.SizeBytes, data.Log = remotelog.NewUUID(), size, remotelog.File(path)
	took = measure(func() {
		if _, err := m.Copy(t.Context(), md, data); err != nil {
			t.Fatal(err)
		}
	})
	*last = finished(md, nil)
	return took
}

func fetchAll(t testing.TB, m *Manager, md remotelog.SegmentMetadata) sample {
	t.Helper()
	return measure(func() {
		rc, err := m.Fetch(t.Context(), md, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, rc)
		if err != nil || n != md.SizeBytes {
			t.Fatalf("fetched %d bytes, %v", n, err)
		}
		if err := rc.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// median of the rounds behind the first.
func median(rounds []sample) sample {
	of := func(f func(sample) time.Duration) time.Duration {
		var ds []time.Duration
		for _, s := range rounds[1:] {
			ds = append(ds, f(s))
		}
		slices.Sort(ds)
		return (ds[(len(ds)-1)/2] + ds[len(ds)/2]) / 2
	}
	return sample{of(func(s sample) time.Duration { return s.wall }), of(func(s sample) time.Duration { return s.cpu })}
}

func rate(size int, d time.Duration) float64 { return float64(size) / d.Seconds() / 1e6 }

// TestBench_CopyAndFetchAgainstThePlainLoop measures the speed that the project promises: five interleaved rounds, the first dropped, the
// median of the rest.
func TestBench_CopyAndFetchAgainstThePlainLoop(t *testing.T) {
	need.Bench(t)
	const rounds, floor = 5, 0.85
	unit := kafkaData(42, speedUnit)
	path := kafkaFile(t, unit, speedBytes)
	conf := Config{ChunkBytes: speedChunk, Compression: true, Encryption: true}
	loop := newPlainLoop(t, unit, conf.withDefaults().ZstdLevel)
	plain, synced := fsManager(t, true, conf), fsManager(t, false, conf)
	var last, lastSynced remotelog.SegmentMetadata
	var enc, cp, cpSync, dec, ft []sample
	for range rounds {
		enc = append(enc, loop.encode(t, speedBytes))
		cp = append(cp, copyAnew(t, plain, &last, path, speedBytes))
		dec = append(dec, loop.decode(t, speedBytes))
		ft = append(ft, fetchAll(t, plain, last))
		cpSync = append(cpSync, copyAnew(t, synced, &lastSynced, path, speedBytes))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d MiB of JSON events in batches, chunks of %d MiB, zstd level %d + AES-256-GCM, GOMAXPROCS %d; MB/s of plain bytes, median of %d rounds\n",
		speedBytes>>20, speedChunk>>20, conf.withDefaults().ZstdLevel, runtime.GOMAXPROCS(0), rounds-1)
	line := func(name string, rounds, against []sample) float64 {
		m, a := median(rounds), median(against)
		ratio := a.wall.Seconds() / m.wall.Seconds()
		fmt.Fprintf(&b, "%-28s %7.0f MB/s  %5.2f of the plain loop; processor time %6.2f s, %5.2f; rounds:",
			name, rate(speedBytes, m.wall), ratio, m.cpu.Seconds(), a.cpu.Seconds()/m.cpu.Seconds())
		for _, s := range rounds {
			fmt.Fprintf(&b, " %.0f", rate(speedBytes, s.wall))
		}
		b.WriteString("\n")
		return ratio
	}
	line("plain loop, encode", enc, enc)
	copyRatio := line("copy to fs, no fsync", cp, enc)
	line("copy to fs, with fsync", cpSync, enc)
	line("plain loop, decode", dec, dec)
	fetchRatio := line("fetch from fs to io.Discard", ft, dec)
	fmt.Fprintf(&b, "cost of fsync: %.0f ms for each segment\n", 1000*(median(cpSync).wall-median(cp).wall).Seconds())
	t.Log(b.String())
	if copyRatio < floor || fetchRatio < floor {
		t.Errorf("copy is %.2f and fetch %.2f of the plain loop, want %.2f", copyRatio, fetchRatio, floor)
	}
}

// TestBench_ZstdLevels measures what compression.zstd.level costs and gains on Kafka data: docs/performance.md says what was chosen.
func TestBench_ZstdLevels(t *testing.T) {
	need.Bench(t)
	const rounds = 4
	unit := kafkaData(42, speedUnit)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d MiB of JSON events in batches, chunks of %d MiB, one processor (its time, median of %d rounds)\n", speedUnit>>20, speedChunk>>20, rounds-1)
	for _, level := range []int{1, 3, 6, 10} {
		loop := newPlainLoop(t, unit, level)
		loop.workers = 1
		stored := 0
		for _, c := range loop.stored {
			stored += len(c)
		}
		var enc, dec []sample
		for range rounds {
			enc, dec = append(enc, loop.encode(t, speedUnit)), append(dec, loop.decode(t, speedUnit))
		}
		fmt.Fprintf(&b, "level %2d: ratio %.2f, compress and seal %4.0f MB/s, open and decompress %5.0f MB/s, %5.1f MiB for each pair of codecs\n", level,
			float64(speedUnit)/float64(stored), rate(speedUnit, median(enc).cpu), rate(speedUnit, median(dec).cpu), float64(chunking.PairBytes(level, speedChunk))/(1<<20))
	}
	t.Log(b.String())
}
