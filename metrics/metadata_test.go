package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
)

func TestMetadata_EventsRaiseTheirSeries(t *testing.T) {
	inDoubt := fmt.Errorf("write: %w", remotelog.ErrOutcomeUnknown)
	for _, tc := range []struct {
		name  string
		event func(rlmm.Hooks)
		want  map[string]float64
	}{
		{"applied", func(h rlmm.Hooks) { h.Applied(3, 5) }, map[string]float64{"applied_total{}": 5}},
		{"dropped", func(h rlmm.Hooks) { h.Dropped(3, 9, rlmm.DropInvalidTransition) },
			map[string]float64{"dropped_total{reason=invalid-transition}": 1}},
		{"head gone", func(h rlmm.Hooks) { h.Lost(rlmm.Loss{Kind: rlmm.HeadGone}) }, map[string]float64{"lost_total{kind=head_gone}": 1}},
		{"truncated", func(h rlmm.Hooks) { h.Lost(rlmm.Loss{Kind: rlmm.Truncated}) }, map[string]float64{"lost_total{kind=truncated}": 1}},
		{"wrote", func(h rlmm.Hooks) { h.Wrote(time.Second, nil) }, map[string]float64{"write_seconds_count{result=ok}": 1}},
		{"write failed", func(h rlmm.Hooks) { h.Wrote(0, errors.New("no")) }, map[string]float64{"write_seconds_count{result=error}": 1}},
		{"write in doubt", func(h rlmm.Hooks) { h.Wrote(0, inDoubt) }, map[string]float64{"write_seconds_count{result=in_doubt}": 1}},
		{"snapshot", func(h rlmm.Hooks) { h.Snapshot(time.Second, 42, nil) },
			map[string]float64{"snapshot_seconds_count{result=ok}": 1, "snapshot_bytes{}": 42}},
		{"snapshot failed", func(h rlmm.Hooks) { h.Snapshot(time.Second, 42, errors.New("no")) },
			map[string]float64{"snapshot_seconds_count{result=error}": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := metrics.NewMetadata()
			reg := registry(t, m)
			before := series(t, reg)
			tc.event(m.Hooks())
			after := series(t, reg)
			wantNoNew(t, before, after)
			want := map[string]float64{}
			for k, v := range tc.want {
				want["tierkit_rlmm_"+k] = v
			}
			if diff := cmp.Diff(want, changes(before, after)); diff != "" {
				t.Errorf("changed series, want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestPartitions_ShowTheStatus(t *testing.T) {
	status := rlmm.Status{}
	reg := registry(t, metrics.NewPartitions(func() rlmm.Status { return status }))
	if got := series(t, reg); len(got) != 0 {
		t.Errorf("without a partition: %v, want nothing", got)
	}
	status.Partitions = []rlmm.PartitionStatus{
		{Partition: 2, Next: -1, Target: -1, LastEventMs: -1, Assigned: 1, Loading: 1},
		{Partition: 3, Next: 7, Target: 5, LastEventMs: 1500, Assigned: 4, Ready: 3, InDoubt: 2, Stale: errors.New("no")},
	}
	want := map[string]float64{}
	for name, v := range map[string]float64{
		"assigned_partitions": 1, "ready_partitions": 0, "loading_partitions": 1, "in_doubt_writes": 0, "stale": 0,
	} {
		want["tierkit_rlmm_"+name+"{metadata_partition=2}"] = v
	}
	for name, v := range map[string]float64{
		"next_offset": 7, "target_offset": 5, "assigned_partitions": 4, "ready_partitions": 3, "loading_partitions": 0, "in_doubt_writes": 2,
		"last_event_timestamp_seconds": 1.5, "stale": 1,
	} {
		want["tierkit_rlmm_"+name+"{metadata_partition=3}"] = v
	}
	if diff := cmp.Diff(want, series(t, reg)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestMetadata_CountsWhatAManagerDoes(t *testing.T) {
	ctx := t.Context()
	log := memlog.New(memlog.Options{})
	defer func() { _ = log.Close() }()
	metadata := metrics.NewMetadata()
	m, err := rlmm.New(log, rlmm.Options{Hooks: metadata.Hooks()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	reg := registry(t, metadata, metrics.NewPartitions(m.Status))
	tp := remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders", Partition: 3}
	md := remotelog.SegmentMetadata{
		SegmentID: remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.NewUUID()}, EndOffset: 99, SizeBytes: 4096,
		LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 2}},
	}
	if err := m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(ctx, tp); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(ctx, md); err != nil {
		t.Fatal(err)
	}
	if err := m.Update(ctx, remotelog.SegmentUpdate{SegmentID: md.SegmentID, State: remotelog.CopySegmentFinished}); err != nil {
		t.Fatal(err)
	}
	// The hooks may be called after the write has returned; Close ends the goroutine that calls them.
	got := series(t, reg)
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for name, v := range series(t, reg) {
		if !strings.Contains(name, "metadata_partition") {
			got[name] = v
		}
	}
	for name, want := range map[string]float64{
		"tierkit_rlmm_applied_total{}":                           2,
		"tierkit_rlmm_write_seconds_count{result=ok}":            2,
		"tierkit_rlmm_next_offset{metadata_partition=0}":         2,
		"tierkit_rlmm_target_offset{metadata_partition=0}":       0,
		"tierkit_rlmm_assigned_partitions{metadata_partition=0}": 1,
		"tierkit_rlmm_ready_partitions{metadata_partition=0}":    1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v, %v, want %v", name, v, ok, want)
		}
	}
}
