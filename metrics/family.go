package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is the Prometheus type of a family.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Family describes the series of one name.
type Family struct {
	Name, Help string
	Type       Type
	Labels     []string
}

// Families returns what the collectors of this package can show, in order.
func Families() []Family {
	return slices.Concat(NewBackend().families, newLoad(nil).families, newMemory(nil).families, newCaches(nil).families, NewCopies().families, NewFetches().families,
		newReadAhead(nil).families, NewMetadata().families,
		newPartitions(nil).families, NewCalls().families, newServe(nil).families)
}

// group is a collector made of others, and the families that they show.
type group struct {
	families   []Family
	collectors []prometheus.Collector
}

var _ prometheus.Collector = (*group)(nil)

// Describe implements prometheus.Collector.
func (g *group) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range g.collectors {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (g *group) Collect(ch chan<- prometheus.Metric) {
	for _, c := range g.collectors {
		c.Collect(ch)
	}
}

func (g *group) add(t Type, name, help string, labels []string, c prometheus.Collector) {
	g.families = append(g.families, Family{Name: name, Help: help, Type: t, Labels: labels})
	g.collectors = append(g.collectors, c)
}

// counter is a CounterVec of g; without labels it has one series, made at once.
func (g *group) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	if len(labels) == 0 {
		c.WithLabelValues()
	}
	g.add(Counter, name, help, labels, c)
	return c
}

func (g *group) gauge(name, help string) prometheus.Gauge {
	c := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	g.add(Gauge, name, help, nil, c)
	return c
}

// seconds is a histogram of durations: buckets from the fastest answer of a disk to the upload of a big segment, and a native histogram
// of at most 160 buckets, which is what OpenTelemetry takes for one.
func (g *group) seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	c := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets:                         []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	g.add(Histogram, name, help, labels, c)
	return c
}

// add raises a counter. A negative v, as of a clock that was set back, is nothing: Prometheus would panic.
func add(c prometheus.Counter, v float64) { c.Add(max(0, v)) }

// polled is a collector of what S says at the moment of a scrape.
type polled[S any] struct {
	families []Family
	take     func() S
	readings []reading[S]
}

// reading makes series of one family of an S.
type reading[S any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s S, put func(v float64, labels ...string))
}

func (p *polled[S]) family(t Type, name, help string, labels []string, read func(s S, put func(v float64, labels ...string))) {
	kind := prometheus.GaugeValue
	if t == Counter {
		kind = prometheus.CounterValue
	}
	p.families = append(p.families, Family{Name: name, Help: help, Type: t, Labels: labels})
	p.readings = append(p.readings, reading[S]{prometheus.NewDesc(name, help, labels, nil), kind, read})
}

// number is a family with one series.
func (p *polled[S]) number(t Type, name, help string, value func(S) float64) {
	p.family(t, name, help, nil, func(s S, put func(v float64, labels ...string)) { put(value(s)) })
}

// Describe implements prometheus.Collector.
func (p *polled[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range p.readings {
		ch <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (p *polled[S]) Collect(ch chan<- prometheus.Metric) {
	s := p.take()
	for _, r := range p.readings {
		r.read(s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(r.desc, r.kind, v, labels...) })
	}
}

func partitionLabel(p int32) string { return strconv.Itoa(int(p)) }
