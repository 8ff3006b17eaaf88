package filelog

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
)

// BenchmarkAppend is the rate of durable appends, by one caller and by 64 that share fsyncs. It depends on the disk.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			l := mustOpen(b, b.TempDir(), Options{}, nil)
			event := bytes.Repeat([]byte("e"), 140)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						if _, err := l.Append(b.Context(), 0, event); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// benchLog writes a log of n events of 140 bytes, in groups of a given number.
func benchLog(b *testing.B, n, perGroup int) (dir string, size int) {
	b.Helper()
	h, _ := example()
	file := h.marshal()
	_, crc, err := parseHeader("x", file)
	if err != nil {
		b.Fatal(err)
	}
	st := newState(h, crc)
	values := make([]string, perGroup)
	for i := range values {
		values[i] = string(bytes.Repeat([]byte("e"), 140))
	}
	for i := 0; i < n; i += perGroup {
		file = grow(b, file, &st, 7, uint32(perGroup), values...)
	}
	dir, _ = writeLog(b, file)
	return dir, len(file)
}

// BenchmarkReplay reads a log of 200,000 events from the start, and BenchmarkOpen verifies it.
func BenchmarkReplay(b *testing.B) {
	const n = 200_000
	for _, perGroup := range []int{1, 50} {
		b.Run(fmt.Sprint(perGroup, "-per-group"), func(b *testing.B) {
			dir, size := benchLog(b, n, perGroup)
			l := mustOpen(b, dir, Options{}, nil)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
				for read := 0; read < n; {
					batch, err := f.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					read += len(batch.Events)
				}
				_ = f.Close()
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir, size := benchLog(b, 200_000, 1)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		mustClose(b, mustOpenReadOnly(b, dir))
	}
}
