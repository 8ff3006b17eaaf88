package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/backends"
)

// NewLoad returns a collector of what a store is doing: load is the Load of a backends.Store, of rsm.Manager.Store for one.
func NewLoad(load func() backends.Load) prometheus.Collector { return newLoad(load) }

func newLoad(load func() backends.Load) *polled[backends.Load] {
	p := &polled[backends.Load]{take: load}
	p.family(Gauge, "tierkit_backend_in_flight_ops", "Operations that have not ended, those that wait included, and streams that are open.",
		[]string{"driver", "op"}, func(l backends.Load, put func(float64, ...string)) {
			for _, op := range backends.Ops() {
				put(float64(l.InFlight[op]), l.Driver, string(op))
			}
		})
	p.family(Gauge, "tierkit_backend_waiting_ops", "Operations that wait because as many as allowed are running.",
		[]string{"driver", "direction"}, func(l backends.Load, put func(float64, ...string)) {
			put(float64(l.WaitingWrites), l.Driver, dirUp)
			put(float64(l.WaitingReads), l.Driver, dirDown)
		})
	return p
}
