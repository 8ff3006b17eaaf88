package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierkit/tierkit/backends"
)

// The values of label code that are no backends.Code.
const (
	codeOK        = "ok"
	codeCancelled = "cancelled" // the caller's context ended
)

// The values of label direction.
const (
	dirUp   = "up"
	dirDown = "down"
)

// Backend counts the operations of stores. Give it to rsm.OpenOptions.Observer or backends.Options.Observer; several stores may share it.
type Backend struct {
	group
	ops, attempts, waited *prometheus.CounterVec
	bytes, resumes        *prometheus.CounterVec
	seconds               *prometheus.HistogramVec
}

var (
	_ backends.Observer    = (*Backend)(nil)
	_ prometheus.Collector = (*Backend)(nil)
)

// NewBackend returns a Backend that shows the series of these drivers from the beginning, about 500 each, and those of others once
// something happens. Name the drivers that are in use.
func NewBackend(drivers ...string) *Backend {
	b := new(Backend)
	b.ops = b.counter("tierkit_backend_ops_total", "Operations on the store that ended, by how.", "driver", "op", "code")
	b.seconds = b.group.seconds("tierkit_backend_op_seconds", "How long operations took, waits and attempts included.", "driver", "op")
	b.bytes = b.counter("tierkit_backend_bytes_total", "Bytes taken for uploads and delivered to readers.", "driver", "direction")
	b.attempts = b.counter("tierkit_backend_attempts_total", "Requests made for the operations, as far as drivers tell.", "driver", "op")
	b.resumes = b.counter("tierkit_backend_resumes_total", "Streams that broke and were opened again where they broke.", "driver")
	b.waited = b.counter("tierkit_backend_waited_seconds_total",
		"Time that operations waited for memory, a slot or the limit of bytes per second.", "driver", "op")
	for _, d := range drivers {
		b.create(d)
	}
	return b
}

func (b *Backend) create(driver string) {
	for _, op := range backends.Ops() {
		for _, code := range opCodes() {
			b.ops.WithLabelValues(driver, string(op), code)
		}
		b.seconds.WithLabelValues(driver, string(op))
		b.attempts.WithLabelValues(driver, string(op))
		b.waited.WithLabelValues(driver, string(op))
	}
	b.bytes.WithLabelValues(driver, dirUp)
	b.bytes.WithLabelValues(driver, dirDown)
	b.resumes.WithLabelValues(driver)
}

// OnOp implements backends.Observer.
func (b *Backend) OnOp(_ context.Context, e backends.OpEvent) {
	op := string(e.Op)
	b.ops.WithLabelValues(e.Driver, op, opCode(e)).Inc()
	b.seconds.WithLabelValues(e.Driver, op).Observe(max(0, e.Took.Seconds()))
	add(b.attempts.WithLabelValues(e.Driver, op), float64(requests(e)))
	add(b.waited.WithLabelValues(e.Driver, op), e.Waited.Seconds())
	add(b.resumes.WithLabelValues(e.Driver), float64(e.Resumes))
	switch e.Op { //nolint:exhaustive // Bytes of others are numbers of keys, or nothing
	case backends.OpPut:
		add(b.bytes.WithLabelValues(e.Driver, dirUp), float64(e.Bytes))
	case backends.OpRead:
		add(b.bytes.WithLabelValues(e.Driver, dirDown), float64(e.Bytes))
	}
}

// requests leaves out the first request of a stream, which is the one of the get that opened it.
func requests(e backends.OpEvent) int {
	if e.Op == backends.OpRead {
		return e.Attempts - 1
	}
	return e.Attempts
}

// opCode tells apart what Code alone does not.
func opCode(e backends.OpEvent) string {
	switch {
	case e.Err == nil:
		return codeOK
	case e.Code == backends.Unknown && (errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)):
		return codeCancelled
	}
	return e.Code.Label()
}

// opCodes returns every value of label code.
func opCodes() []string {
	out := []string{codeOK, codeCancelled}
	for _, c := range backends.Codes() {
		out = append(out, c.Label())
	}
	return out
}
