package rsm

import (
	"testing"
	"testing/synctest"
	"time"
)

// The disk tier takes nothing from read-ahead: as many requests and as little time while it is filled, and none after a restart.
func TestReadAhead_WithTheDiskTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := withDisk(distantConfig(), t.TempDir())
		d := newDistant(t, conf)
		md, log := d.kafkaSegment(t, 1, 1024*sixtyFourth)
		d.slow.Reset()
		const overlap = 20 << 10 / 64
		began := time.Now()
		brokerReads(t, d.Manager, md, log, md.SizeBytes, sixtyFourth, overlap, func(time.Duration) {})
		took := time.Since(began)
		n, read := len(d.g.ranges), d.g.bytes
		plan := ideal(t, d.slow, d.logKey(t), d.g.ranges, int(d.slow.Stats().Peak))
		synctest.Wait()
		s := d.CacheStats().Disk
		t.Logf("256 chunks with %d requests in %v; without pauses %v; %+v", n, took, plan, s)
		if stored := d.stored(t, md); n > 40 || read != stored || took > plan*13/10 {
			t.Errorf("%d requests for %d bytes of %d in %v, want at most 40, each byte once, and at most 1.3 of %v", n, read, stored, took, plan)
		}
		if s.Written != 256 || s.Dropped != 0 {
			t.Errorf("%+v, want all chunks written", s)
		}
		r := d.again(t, conf)
		var g gets
		g.watch(r)
		brokerReads(t, r.Manager, md, log, md.SizeBytes, sixtyFourth, overlap, func(time.Duration) {})
		if n, _ := g.take(); n != 0 {
			t.Errorf("%d requests after the restart, want none", n)
		}
		_ = r.Close() // in the bubble
	})
}
