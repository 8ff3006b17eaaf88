package rlmm_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// The golden README says up to which record of the topic the answers of the brokers, and the files in the tier, were taken.
func goldenCuts() map[string]struct{ truth, files int64 } {
	return map[string]struct{ truth, files int64 }{
		"4.4.0": {truth: 1795984729000, files: 1795984705000},
		"3.9.2": {truth: 1795986480000, files: 1795986477000},
	}
}

// replayed is a manager that has read a golden topic up to a moment.
func replayed(t *testing.T, version string, before int64) *rlmm.Manager {
	t.Helper()
	log := memlogtest.New(5)
	for _, r := range goldenValues(t, version) {
		if r.timestampMs >= before {
			continue
		}
		if _, err := log.Put(r.partition, nil, r.value); err != nil {
			t.Fatal(err)
		}
	}
	m := newManager(t, log, rlmm.Options{All: true})
	if err := m.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	return m
}

// What a real broker answered to ListOffsets is what the manager knows: latestTiered is the highest offset of the highest epoch,
// earliest the lowest start of a finished segment.
func TestGolden_AnswersAreTheBrokers(t *testing.T) {
	managers := map[string]*rlmm.Manager{}
	for version, cut := range goldenCuts() {
		managers[version] = replayed(t, version, cut.truth)
	}
	compared := 0
	for _, name := range golden.Partitions() {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		m := managers[truth.KafkaVersion]
		id, err := remotelog.ParseUUID(truth.TopicID)
		if err != nil {
			t.Fatal(err)
		}
		tp := remotelog.TopicIDPartition{TopicID: id, Topic: truth.Topic, Partition: truth.Partition}
		answer := truth.ListOffsets["read_uncommitted"]
		if answer.LatestTiered.Offset < 0 { // nothing in the tier: the topic does not mention it
			wantErr(t, name, listErr(m.Segments(t.Context(), tp)), remotelog.ErrNotAssigned)
			continue
		}
		compared++
		lowest, epoch := int64(-1), int32(-1)
		for _, md := range list(t, m.Segments(t.Context(), tp)) {
			if md.State == finished && (lowest < 0 || md.StartOffset < lowest) {
				lowest = md.StartOffset
			}
			epoch = max(epoch, md.LeaderEpochs[len(md.LeaderEpochs)-1].Epoch)
		}
		highest, ok, err := m.HighestOffset(t.Context(), tp, epoch)
		if err != nil || !ok || highest != answer.LatestTiered.Offset || epoch != answer.LatestTiered.LeaderEpoch || lowest != answer.Earliest.Offset {
			t.Errorf("%s: highest %d of epoch %d (%v), lowest %d; the broker has %+v and %+v", name, highest, epoch, err, lowest,
				answer.LatestTiered, answer.Earliest)
		}
	}
	if compared != 13 {
		t.Errorf("%d partitions compared, want 13", compared)
	}
}

func TestGolden_FinishedSegmentsAreTheFilesOfTheTier(t *testing.T) {
	managers := map[string]*rlmm.Manager{}
	for version, cut := range goldenCuts() {
		managers[version] = replayed(t, version, cut.files)
	}
	files := 0
	for _, name := range golden.Partitions() {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		if truth.ListOffsets["read_uncommitted"].LatestTiered.Offset < 0 {
			continue
		}
		dir, err := golden.Tiered(truth)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, e := range entries {
			if segment, ok := strings.CutSuffix(e.Name(), ".log"); ok {
				want = append(want, segment[len("00000000000000000000-"):])
			}
		}
		for _, tp := range list(t, managers[truth.KafkaVersion].Partitions(t.Context())) {
			if tp.Topic != truth.Topic || tp.Partition != truth.Partition {
				continue
			}
			for _, md := range list(t, managers[truth.KafkaVersion].Segments(t.Context(), tp)) {
				if md.State == finished {
					got = append(got, md.ID.String())
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		files += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: finished %v, files %v", name, got, want)
		}
	}
	if files < 40 {
		t.Errorf("%d files compared", files)
	}
}
