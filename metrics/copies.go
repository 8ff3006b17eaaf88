package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// Copies counts the segments that were copied.
type Copies struct {
	group
	segments, bytes, stored *prometheus.CounterVec
	took                    *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Copies)(nil)

// NewCopies returns a Copies at zero.
func NewCopies() *Copies {
	c := new(Copies)
	c.segments = c.counter("tierkit_rsm_copied_segments_total", "Segments copied to the store.")
	c.bytes = c.counter("tierkit_rsm_copied_bytes_total", "Bytes of these segments as the broker has them, without indexes.")
	c.stored = c.counter("tierkit_rsm_copied_stored_bytes_total",
		"Bytes of their objects in the store: compressed, encrypted, with indexes and manifests.")
	c.took = c.seconds("tierkit_rsm_copy_seconds", "How long copies took.", "result")
	c.took.WithLabelValues(resultOK)
	c.took.WithLabelValues(resultError)
	return c
}

// Hooks returns what to put into rsm.OpenOptions.Hooks or rsm.Options.Hooks, together with others: rsm.Hooks.And.
func (c *Copies) Hooks() rsm.Hooks {
	segments, bytes, stored := c.segments.WithLabelValues(), c.bytes.WithLabelValues(), c.stored.WithLabelValues()
	return rsm.Hooks{
		Copied: func(md remotelog.SegmentMetadata, storedBytes int64) {
			segments.Inc()
			add(bytes, float64(md.SizeBytes))
			add(stored, float64(storedBytes))
		},
		CopyEnded: func(took time.Duration, err error) { c.took.WithLabelValues(plainResult(err)).Observe(took.Seconds()) },
	}
}

// plainResult is the label of what went well or failed.
func plainResult(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}
