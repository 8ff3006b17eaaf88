package metrics_test

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

func TestMemory_ShowsTheBudget(t *testing.T) {
	stats := membudget.Stats{
		Limit: 1, Fixed: 2, CopyCeiling: 3, FetchCeiling: 4, CopyBytes: 5, FetchBytes: 6, PeakBytes: 7, InUseBytes: 8, IdleBytes: 9,
		CopyWaiters: 10, FetchWaiters: 11, Waits: 12, Cancelled: 13, Refused: 14, Reclaims: 15, ReclaimedBytes: 16,
	}
	want := map[string]float64{
		"tierkit_memory_limit_bytes{}": 1, "tierkit_memory_fixed_bytes{}": 2,
		"tierkit_memory_ceiling_bytes{class=copy}": 3, "tierkit_memory_ceiling_bytes{class=fetch}": 4,
		"tierkit_memory_held_bytes{class=copy}": 5, "tierkit_memory_held_bytes{class=fetch}": 6,
		"tierkit_memory_peak_bytes{}": 7, "tierkit_memory_buffer_bytes{state=in_use}": 8, "tierkit_memory_buffer_bytes{state=idle}": 9,
		"tierkit_memory_waiters{class=copy}": 10, "tierkit_memory_waiters{class=fetch}": 11,
		"tierkit_memory_waits_total{}": 12, "tierkit_memory_waits_cancelled_total{}": 13, "tierkit_memory_refused_total{}": 14,
		"tierkit_memory_reclaims_total{}": 15, "tierkit_memory_reclaimed_bytes_total{}": 16,
	}
	got := series(t, registry(t, metrics.NewMemory(func() membudget.Stats { return stats })))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestMemory_FollowsABudget(t *testing.T) {
	budget, err := membudget.New(1<<20, membudget.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	reg := registry(t, metrics.NewMemory(budget.Stats))
	before := series(t, reg)
	r, err := budget.Reserve(t.Context(), membudget.Copy, 4096)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"tierkit_memory_held_bytes{class=copy}": 4096, "tierkit_memory_peak_bytes{}": 4096}
	if diff := cmp.Diff(want, changes(before, series(t, reg))); diff != "" {
		t.Errorf("changed series, want (-), got (+):\n%s", diff)
	}
	r.Release()
	if got := series(t, reg)["tierkit_memory_held_bytes{class=copy}"]; got != 0 {
		t.Errorf("held after the release: %v, want 0", got)
	}
}

func TestCopies_CountWhatAManagerCopies(t *testing.T) {
	var drivers backends.Registry
	if err := drivers.Register(mem.Factory()); err != nil {
		t.Fatal(err)
	}
	stores, copies := metrics.NewBackend("mem"), metrics.NewCopies()
	m, err := rsm.Open(t.Context(), rsm.OpenOptions{
		Registry: &drivers, Props: map[string]string{"storage.backend": "mem"}, Observer: stores, Hooks: copies.Hooks(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	reg := registry(t, stores, copies, metrics.NewMemory(m.Budget().Stats), metrics.NewCaches(m.CacheStats))
	before := series(t, reg)
	segment := []byte("what a broker calls 00000000000000000000.log")
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{
			TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID(),
		},
		EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: int64(len(segment)),
	}
	if _, err := m.Copy(t.Context(), md, remotelog.SegmentData{
		Log: remotelog.Bytes(segment), OffsetIndex: remotelog.Bytes{}, TimeIndex: remotelog.Bytes{}, ProducerSnapshot: remotelog.Bytes{},
		LeaderEpochs: []byte("0\n1\n0 0\n"),
	}); err != nil {
		t.Fatal(err)
	}
	after := series(t, reg)
	wantNoNew(t, before, after)
	got := changes(before, after)
	if got["tierkit_rsm_copied_segments_total{}"] != 1 || got["tierkit_rsm_copied_bytes_total{}"] != float64(len(segment)) {
		t.Errorf("segments, bytes = %v, %v, want 1, %d", got["tierkit_rsm_copied_segments_total{}"],
			got["tierkit_rsm_copied_bytes_total{}"], len(segment))
	}
	// The objects of the segment are all that went up.
	up, stored := got["tierkit_backend_bytes_total{direction=up,driver=mem}"], got["tierkit_rsm_copied_stored_bytes_total{}"]
	if up != stored || stored < float64(len(segment)) {
		t.Errorf("stored bytes = %v, bytes up = %v, want the same, at least %d", stored, up, len(segment))
	}
}

func TestFetches_MeasureWhatAManagerFetches(t *testing.T) {
	var drivers backends.Registry
	if err := drivers.Register(mem.Factory()); err != nil {
		t.Fatal(err)
	}
	copies, fetches := metrics.NewCopies(), metrics.NewFetches()
	m, err := rsm.Open(t.Context(), rsm.OpenOptions{
		Registry: &drivers, Props: map[string]string{"storage.backend": "mem", "chunk.size": "1000"}, Hooks: copies.Hooks().And(fetches.Hooks()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	reg := registry(t, copies, fetches, metrics.NewReadAhead(m.ReadAhead))
	before := series(t, reg)
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{
			TopicIDPartition: remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}, ID: remotelog.NewUUID(),
		},
		EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: 50_000,
	}
	data := remotelog.SegmentData{
		Log: remotelog.Bytes(make([]byte, 50_000)), OffsetIndex: remotelog.Bytes{}, TimeIndex: remotelog.Bytes{}, ProducerSnapshot: remotelog.Bytes{},
		LeaderEpochs: []byte("0\n1\n0 0\n"),
	}
	if _, err := m.Copy(t.Context(), md, data); err != nil {
		t.Fatal(err)
	}
	md.State = remotelog.CopySegmentFinished
	if _, err := m.Copy(t.Context(), md, data); err == nil {
		t.Fatal("a segment that is finished was copied") // refused before it begins: no copy
	}
	short := data
	short.Log = remotelog.Bytes("short")
	md.State = remotelog.CopySegmentStarted
	if _, err := m.Copy(t.Context(), md, short); err == nil {
		t.Fatal("a log of another size was copied")
	}
	md.State = remotelog.CopySegmentFinished
	for range 2 {
		rc, err := m.Fetch(t.Context(), md, 100, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, rc); n != 49_900 || err != nil {
			t.Fatal(n, err)
		}
		_ = rc.Close()
		_ = rc.Close()
	}
	if rc, err := m.Fetch(t.Context(), md, 0, remotelog.ToEnd); err != nil || rc.Close() != nil { // nothing read
		t.Fatal(err)
	}
	absent := md
	absent.ID = remotelog.NewUUID()
	if _, err := m.Fetch(t.Context(), absent, 0, remotelog.ToEnd); err == nil {
		t.Fatal("a segment that is not there was fetched")
	}
	got := series(t, reg)
	wantNoNew(t, before, got)
	for name, want := range map[string]float64{
		"tierkit_rsm_copy_seconds_count{result=ok}": 1, "tierkit_rsm_copy_seconds_count{result=error}": 1,
		"tierkit_rsm_fetch_seconds_count{result=ok}": 3, "tierkit_rsm_fetch_seconds_count{result=error}": 1,
		"tierkit_rsm_fetch_first_byte_seconds_count{}": 2, "tierkit_rsm_fetched_bytes_total{}": 2 * 49_900,
		"tierkit_rsm_readahead_wasted_bytes_total{}": 0,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	if got["tierkit_rsm_readahead_requests_total{}"] == 0 || got["tierkit_rsm_readahead_readers{}"] != 1 {
		t.Errorf("requests, readers of read-ahead = %v, %v, want some, 1", got["tierkit_rsm_readahead_requests_total{}"], got["tierkit_rsm_readahead_readers{}"])
	}
}
