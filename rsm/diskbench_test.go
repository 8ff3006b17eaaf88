package rsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

// TestBench_DiskTier measures what the tier on disk costs while it is filled, and what it gives after a restart, beside reading from a store that
// costs nothing. The memory tier is too small to help.
func TestBench_DiskTier(t *testing.T) {
	need.Bench(t)
	const size, rounds = 512 << 20, 4
	path := kafkaFile(t, kafkaData(42, speedUnit), size)
	plain := Config{ChunkBytes: speedChunk, Compression: true, Encryption: true, MemoryBudgetBytes: 256 << 20}
	plain.Chunks.Max = AtMost(64 << 20)
	without := newRig(t, plain)
	md, data, _ := segmentOf(1, 0)
	md.SizeBytes, data.Log = size, remotelog.File(path)
	fin := without.mustCopy(t, md, data)
	var none, filling, after []sample
	var written, hits uint64
	var dropped uint64
	for range rounds {
		without = without.again(t, plain)
		none = append(none, fetchAll(t, without.Manager, fin))
		conf := withDisk(plain, t.TempDir())
		r := &rig{space: without.space, driver: &stub{Driver: without.space.Client(mem.Options{})}, logs: without.logs}
		r.Manager = manager(t, r.driver, conf, r.logs)
		filling = append(filling, fetchAll(t, r.Manager, fin))
		s := diskWritten(r)
		written, dropped = s.Written, s.Dropped
		for s.Entries < size/speedChunk { // what was dropped is read again, so that the next round finds all
			fetchAll(t, r.Manager, fin)
			s = diskWritten(r)
		}
		r = r.again(t, conf)
		after = append(after, fetchAll(t, r.Manager, fin))
		hits = r.CacheStats().Disk.Hits
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d MiB, chunks of %d MiB, zstd + AES-256-GCM, store in memory; MB/s of plain bytes, median of %d rounds\n", size>>20, speedChunk>>20, rounds-1)
	for _, l := range []struct {
		name   string
		rounds []sample
	}{{"no disk tier", none}, {"while it is filled", filling}, {"after a restart, from disk", after}} {
		m := median(l.rounds)
		fmt.Fprintf(&b, "%-28s %6.0f MB/s, processor time %.2f s\n", l.name, rate(size, m.wall), m.cpu.Seconds())
	}
	fmt.Fprintf(&b, "written %d, dropped %d of %d chunks; %d hits after the restart\n", written, dropped, size/speedChunk, hits)
	t.Log(b.String())
	if hits != size/speedChunk {
		t.Errorf("%d hits after a restart, want %d", hits, size/speedChunk)
	}
}
