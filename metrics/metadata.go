package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// The values of label result.
const (
	resultOK      = "ok"
	resultError   = "error"
	resultInDoubt = "in_doubt" // the record may be in the log, or come into it
)

// Metadata counts what a metadata manager does. See NewPartitions for where it stands.
type Metadata struct {
	group
	applied, dropped, lost *prometheus.CounterVec
	writes, snapshots      *prometheus.HistogramVec
	snapshotBytes          prometheus.Gauge
}

var _ prometheus.Collector = (*Metadata)(nil)

// NewMetadata returns a Metadata at zero.
func NewMetadata() *Metadata {
	m := new(Metadata)
	m.applied = m.counter("tierkit_rlmm_applied_total", "Records of the metadata log that changed something.")
	m.dropped = m.counter("tierkit_rlmm_dropped_total", "Records that changed nothing, by why.", "reason")
	m.lost = m.counter("tierkit_rlmm_lost_total", "Positions that were not on the metadata log any more.", "kind")
	m.writes = m.seconds("tierkit_rlmm_write_seconds", "How long writes of metadata took, until they had come back.", "result")
	m.snapshots = m.seconds("tierkit_rlmm_snapshot_seconds", "How long snapshots took.", "result")
	m.snapshotBytes = m.gauge("tierkit_rlmm_snapshot_bytes", "The size of the last snapshot that was written.")
	for _, r := range rlmm.DropReasons() {
		m.dropped.WithLabelValues(r.String())
	}
	for _, k := range lossKinds() {
		m.lost.WithLabelValues(lossLabel(k))
	}
	for _, r := range []string{resultOK, resultError, resultInDoubt} {
		m.writes.WithLabelValues(r)
	}
	for _, r := range []string{resultOK, resultError} {
		m.snapshots.WithLabelValues(r)
	}
	return m
}

// Hooks returns what to put into rlmm.Options.Hooks. Several managers, one after the other behind a Swappable, may share a Metadata.
func (m *Metadata) Hooks() rlmm.Hooks {
	applied := m.applied.WithLabelValues()
	return rlmm.Hooks{
		Applied: func(_ int32, n int) { add(applied, float64(n)) },
		Dropped: func(_ int32, _ int64, r rlmm.DropReason) { m.dropped.WithLabelValues(r.String()).Inc() },
		Lost:    func(l rlmm.Loss) { m.lost.WithLabelValues(lossLabel(l.Kind)).Inc() },
		Wrote: func(d time.Duration, err error) {
			m.writes.WithLabelValues(writeResult(err)).Observe(max(0, d.Seconds()))
		},
		Snapshot: func(d time.Duration, bytes int64, err error) {
			if err != nil {
				m.snapshots.WithLabelValues(resultError).Observe(max(0, d.Seconds()))
				return
			}
			m.snapshots.WithLabelValues(resultOK).Observe(max(0, d.Seconds()))
			m.snapshotBytes.Set(float64(bytes))
		},
	}
}

func writeResult(err error) string {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, remotelog.ErrOutcomeUnknown):
		return resultInDoubt
	}
	return resultError
}

func lossKinds() []rlmm.LossKind { return []rlmm.LossKind{rlmm.HeadGone, rlmm.Truncated} }

// lossLabel is the kind without spaces.
func lossLabel(k rlmm.LossKind) string {
	switch k {
	case rlmm.HeadGone:
		return "head_gone"
	case rlmm.Truncated:
		return "truncated"
	}
	return "other"
}
