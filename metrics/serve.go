package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierkit/tierkit/serve"
)

// Calls counts the calls of a daemon's API, and its copies.
type Calls struct {
	group
	calls       *prometheus.CounterVec
	callSeconds *prometheus.HistogramVec
	copies      *prometheus.CounterVec
	copySeconds *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Calls)(nil)

// NewCalls returns a Calls at zero.
func NewCalls() *Calls {
	c := new(Calls)
	c.calls = c.counter("tierkit_serve_calls_total", "Calls of the API that were answered, by how.", "call", "error")
	c.callSeconds = c.seconds("tierkit_serve_call_seconds", "How long calls took, until the last byte of the answer.", "call")
	c.copies = c.counter("tierkit_serve_copies_total", "Copies that ended, by how; closed: cancelled.", "error")
	c.copySeconds = c.seconds("tierkit_serve_copy_seconds", "How long copies took, from the first call about them.")
	for _, k := range errorLabels() {
		c.copies.WithLabelValues(k)
		for _, call := range serve.Calls() {
			c.calls.WithLabelValues(string(call), k)
		}
	}
	for _, call := range serve.Calls() {
		c.callSeconds.WithLabelValues(string(call))
	}
	c.copySeconds.WithLabelValues()
	return c
}

// errorLabel is the kind of an error, or that there was none.
func errorLabel(k serve.Kind) string {
	if k == "" {
		return "none"
	}
	return string(k)
}

// errorLabels returns every value of label error.
func errorLabels() []string {
	out := []string{errorLabel("")}
	for _, k := range serve.Kinds() {
		out = append(out, errorLabel(k))
	}
	return out
}

// Hooks returns what to put into serve.Options.Hooks.
func (c *Calls) Hooks() serve.Hooks {
	return serve.Hooks{
		Call: func(call serve.Call, kind serve.Kind, took time.Duration) {
			c.calls.WithLabelValues(string(call), errorLabel(kind)).Inc()
			c.callSeconds.WithLabelValues(string(call)).Observe(max(0, took.Seconds()))
		},
		Copied: func(kind serve.Kind, took time.Duration) {
			c.copies.WithLabelValues(errorLabel(kind)).Inc()
			c.copySeconds.WithLabelValues().Observe(max(0, took.Seconds()))
		},
	}
}

// NewServe returns a collector of the state of a daemon: stats is the Stats of a serve.Server.
func NewServe(stats func() serve.Stats) prometheus.Collector { return newServe(stats) }

func newServe(stats func() serve.Stats) *polled[serve.Stats] {
	type st = serve.Stats
	p := &polled[st]{take: stats}
	gauge := func(name, help string, value func(st) int64) {
		p.number(Gauge, name, help, func(s st) float64 { return float64(value(s)) })
	}
	count := func(name, help string, value func(st) int64) {
		p.number(Counter, name, help, func(s st) float64 { return float64(value(s)) })
	}
	p.number(Gauge, "tierkit_serve_ready", "1: the store is usable and the state directory can be written.", func(s st) float64 {
		if s.Ready {
			return 1
		}
		return 0
	})
	p.family(Gauge, "tierkit_serve_copies_active", "Copies that have not ended, by what they do.", []string{"stage"},
		func(s st, put func(float64, ...string)) {
			put(float64(s.CopiesRunning), "running")
			put(float64(s.CopiesWanting), "wants_files")
		})
	gauge("tierkit_serve_spool_bytes", "Bytes on disk of files that clients sent.", func(s st) int64 { return s.SpoolBytes })
	count("tierkit_serve_spooled_bytes_total", "Bytes of files that clients sent.", func(s st) int64 { return s.SpooledBytes })
	gauge("tierkit_serve_journal_deletes", "Orders to delete that are not done yet.", func(s st) int64 { return s.DeletesJournaled })
	p.number(Gauge, "tierkit_serve_journal_oldest_seconds", "Age of the oldest of them; 0: there is none.",
		func(s st) float64 { return s.DeletesOldest.Seconds() })
	count("tierkit_serve_journal_bad_total", "Files of the journal that are no orders and were set aside.", func(s st) int64 { return s.DeletesBad })
	gauge("tierkit_serve_interrupted_copies", "Copies that were interrupted and are still to be cleaned up.", func(s st) int64 { return s.Orphans })
	gauge("tierkit_serve_failure_entries", "Ranges and indexes that failed when they were asked for last.", func(s st) int64 { return s.FailureEntries })
	count("tierkit_serve_failure_answers_total", "Calls that were answered from them, without asking the store.", func(s st) int64 { return s.FailureAnswers })
	count("tierkit_serve_failure_held_total", "Of these, answers that were held for a moment.", func(s st) int64 { return s.FailureHeld })
	count("tierkit_serve_late_total", "Calls that waited in vain for bytes that another one waited for.", func(s st) int64 { return s.Late })
	gauge("tierkit_serve_custom_metadata_bytes", "Largest custom metadata of a copy so far.", func(s st) int64 { return s.CustomBytes })
	gauge("tierkit_serve_custom_metadata_limit_bytes", "What the broker takes; above it it deletes the copy and stops the partition.",
		func(s st) int64 { return s.CustomLimit })
	count("tierkit_serve_custom_metadata_too_long_total", "Copies above that limit.", func(s st) int64 { return s.CustomTooLong })
	return p
}

// Handler answers scrapes with what the collectors show, and with the Go runtime and the process.
func Handler(cs ...prometheus.Collector) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	for _, c := range append(cs, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), nil
}
