package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	probeTime  = 10 * time.Second // for one probe
	probeFirst = time.Second      // until the next one; doubles
	probeLast  = 30 * time.Second
	probeAgain = 10 * time.Second // between two of a store that is usable, whatever calls say
)

// health is what is known of the daemon's surroundings.
type health struct {
	mu    sync.Mutex
	probe error              // of the store, at the last probe; nil: it was usable
	begun bool               // a probe has ended
	state map[string]trouble // by directory of the state: those that cannot be written
	tried time.Time          // since when they are tried; zero: they are not
	stop  bool

	doubts chan struct{} // one: a call could not use the store since the last probe
}

// Check probes the store once. The error says what is missing.
func (s *Server) Check(ctx context.Context) error {
	if s.o.Probe == nil {
		s.health.probed(nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := s.o.Probe(ctx)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("no answer within %v: %w", probeTime, err)
	}
	s.health.probed(err)
	return err
}

func (h *health) probed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probe, h.begun = err, true
}

func (h *health) stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = true
}

// doubt makes the store be probed soon: a call could not use it.
func (h *health) doubt() {
	select {
	case h.doubts <- struct{}{}:
	default: // it will be already
	}
}

func (h *health) usable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun && h.probe == nil
}

// run probes the store until it is usable, and again when a call could not use it.
func (h *health) run(ctx context.Context, s *Server) {
	for delay := probeFirst; ; {
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		was := h.usable()
		if was {
			select {
			case <-h.doubts:
			case <-ctx.Done():
				return
			}
		}
		err := s.Check(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if delay = probeAgain; !was {
				s.log.InfoContext(ctx, "the store is usable")
			}
		default:
			if delay = min(2*delay, probeLast); was {
				delay = probeFirst
			}
			s.log.WarnContext(ctx, "the store is not usable", "again", delay, "error", err)
		}
	}
}

// reasons are why the daemon is not ready.
func (h *health) reasons(s *Server) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []string{}
	if !h.begun {
		out = append(out, "store: it was not probed yet")
	}
	if h.probe != nil {
		out = append(out, "store: "+oneLine(h.probe.Error()))
	}
	out = append(out, h.stateReasons(s)...)
	if h.stop {
		out = append(out, "the daemon stops")
	}
	return out
}

// healthAnswer tells who answers.
type healthAnswer struct {
	Version  string `json:"version,omitempty"`
	Protocol int    `json:"protocol"`
	BrokerID *int32 `json:"brokerId,omitempty"`
	Deletes  string `json:"deletes,omitempty"`
}

// serveHealth is GET /v1/health.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) error {
	a := healthAnswer{Protocol: Protocol}
	if s.token.shown(r) {
		a.Version, a.BrokerID, a.Deletes = s.o.Version, &s.o.BrokerID, s.state.deletes
	}
	return s.answer(w, http.StatusOK, a)
}

// readyAnswer says why the daemon is not ready.
type readyAnswer struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// serveReady is GET /v1/ready.
func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) error {
	a := readyAnswer{Reasons: s.health.reasons(s)}
	a.Ready = len(a.Reasons) == 0
	status := http.StatusOK
	if !a.Ready {
		status = http.StatusServiceUnavailable
	}
	return s.answer(w, status, a)
}

// serveMetrics is GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if s.o.Metrics == nil {
		return errorf(KindUnknownPath, "this daemon has no metrics")
	}
	s.mayTake(w)
	s.o.Metrics.ServeHTTP(w, r)
	return nil
}
