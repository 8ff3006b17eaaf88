package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/rsm"
)

// Fetches measures the fetches of segments.
type Fetches struct {
	group
	took, firstByte *prometheus.HistogramVec
	bytes           *prometheus.CounterVec
}

var _ prometheus.Collector = (*Fetches)(nil)

// NewFetches returns a Fetches at zero.
func NewFetches() *Fetches {
	f := new(Fetches)
	f.took = f.seconds("tierkit_rsm_fetch_seconds", "How long fetches took, until the reader closed its stream; one that the reader cut short is ok.", "result")
	f.took.WithLabelValues(resultOK)
	f.took.WithLabelValues(resultError)
	f.firstByte = f.seconds("tierkit_rsm_fetch_first_byte_seconds", "How long readers waited for the first byte of a fetch.")
	f.firstByte.WithLabelValues()
	f.bytes = f.counter("tierkit_rsm_fetched_bytes_total", "Bytes of segments that readers got.")
	return f
}

// Hooks returns what to put into rsm.OpenOptions.Hooks or rsm.Options.Hooks, together with others: rsm.Hooks.And.
func (f *Fetches) Hooks() rsm.Hooks {
	return rsm.Hooks{Fetched: func(e rsm.FetchEnd) {
		f.took.WithLabelValues(plainResult(e.Err)).Observe(e.Took.Seconds())
		if e.Bytes > 0 {
			f.firstByte.WithLabelValues().Observe(e.FirstByte.Seconds())
			add(f.bytes.WithLabelValues(), float64(e.Bytes))
		}
	}}
}

// NewReadAhead returns a collector of read-ahead: stats is rsm.Manager.ReadAhead.
func NewReadAhead(stats func() rsm.ReadAheadStats) prometheus.Collector { return newReadAhead(stats) }

func newReadAhead(stats func() rsm.ReadAheadStats) *polled[rsm.ReadAheadStats] {
	type st = rsm.ReadAheadStats
	p := &polled[st]{take: stats}
	p.number(Gauge, "tierkit_rsm_readahead_readers", "Readers that read in order now.", func(s st) float64 { return float64(s.Readers) })
	p.number(Gauge, "tierkit_rsm_readahead_depth_bytes", "Plain bytes that are there or on their way ahead of them.",
		func(s st) float64 { return float64(s.DepthBytes) })
	p.number(Counter, "tierkit_rsm_readahead_requests_total", "Requests made ahead of readers.", func(s st) float64 { return float64(s.Requests) })
	p.number(Counter, "tierkit_rsm_readahead_loaded_bytes_total", "Plain bytes of chunks that came before anybody waited for them.",
		func(s st) float64 { return float64(s.LoadedBytes) })
	p.number(Counter, "tierkit_rsm_readahead_used_bytes_total", "Of these: what readers came to.", func(s st) float64 { return float64(s.UsedBytes) })
	p.number(Counter, "tierkit_rsm_readahead_wasted_bytes_total", "Of these: what was dropped before.", func(s st) float64 { return float64(s.WastedBytes) })
	return p
}
