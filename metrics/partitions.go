package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/rlmm"
)

// NewPartitions returns a collector of where a metadata manager stands on each metadata partition that it follows: status is the Status
// of an rlmm.Manager, or a function that returns the zero Status while there is none. What is not known yet has no series.
func NewPartitions(status func() rlmm.Status) prometheus.Collector { return newPartitions(status) }

func newPartitions(status func() rlmm.Status) *polled[rlmm.Status] {
	p := &polled[rlmm.Status]{take: status}
	each := func(name, help string, value func(rlmm.PartitionStatus) (v float64, known bool)) {
		p.family(Gauge, name, help, []string{"metadata_partition"}, func(s rlmm.Status, put func(float64, ...string)) {
			for _, ps := range s.Partitions {
				if v, known := value(ps); known {
					put(v, partitionLabel(ps.Partition))
				}
			}
		})
	}
	each("tierkit_rlmm_next_offset", "How far the metadata partition has been read.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.Next), s.Next >= 0 })
	each("tierkit_rlmm_target_offset", "How far it had to be read when following it began.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.Target), s.Target >= 0 })
	each("tierkit_rlmm_assigned_partitions", "Partitions of topics that are followed on it.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.Assigned), true })
	each("tierkit_rlmm_ready_partitions", "How many of them can answer.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.Ready), true })
	each("tierkit_rlmm_loading_partitions", "How many of them are read up on from the beginning.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.Loading), true })
	each("tierkit_rlmm_in_doubt_writes", "Writes to it whose outcome is not known.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.InDoubt), true })
	each("tierkit_rlmm_last_event_timestamp_seconds", "When the last record that was read had been written, in Unix time.",
		func(s rlmm.PartitionStatus) (float64, bool) { return float64(s.LastEventMs) / 1000, s.LastEventMs >= 0 })
	each("tierkit_rlmm_stale", "1 while the metadata partition cannot be read on, else 0.",
		func(s rlmm.PartitionStatus) (float64, bool) {
			if s.Stale != nil {
				return 1, true
			}
			return 0, true
		})
	return p
}
