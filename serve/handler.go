package serve

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// Call names a call of the API in metrics. It is a closed enum.
type Call string

// The calls.
const (
	CallCopy       Call = "copy"
	CallCopyState  Call = "copy_state"
	CallCopyFile   Call = "copy_file"
	CallCopyCancel Call = "copy_cancel"
	CallFetch      Call = "fetch"
	CallIndex      Call = "index"
	CallDelete     Call = "delete"
	CallHealth     Call = "health"
	CallReady      Call = "ready"
	CallMetrics    Call = "metrics"
	CallOther      Call = "other" // no such path
)

// Calls returns every call: to make all metric series before the first event.
func Calls() []Call {
	return []Call{
		CallCopy, CallCopyState, CallCopyFile, CallCopyCancel, CallFetch, CallIndex, CallDelete, CallHealth, CallReady, CallMetrics, CallOther,
	}
}

// maxCalls bounds the calls at a time: those that read, and all others, each by themselves, since the latter may hang with the disk of the segments or of the
// state. A broker has some forty threads that call.
const maxCalls = 1024

// route is what a request asks for.
type route struct {
	call   Call
	public bool // without a token
	serve  func(w http.ResponseWriter, r *http.Request) error
}

// route finds it. It is not http.ServeMux's, which redirects some paths.
func (s *Server) route(r *http.Request) route {
	switch p := r.Method + " " + r.URL.Path; p {
	case "PUT /v1/fetch", "POST /v1/fetch":
		return route{CallFetch, false, s.serveFetch}
	case "POST /v1/delete":
		return route{CallDelete, false, s.serveDelete}
	case "POST /v1/copies":
		return route{CallCopy, false, s.serveCopy}
	case "GET /v1/health":
		return route{CallHealth, true, s.serveHealth}
	case "GET /v1/ready":
		return route{CallReady, false, s.serveReady}
	case "GET /metrics":
		return route{CallMetrics, false, s.serveMetrics}
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/index/"); ok && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
		return route{CallIndex, false, func(w http.ResponseWriter, r *http.Request) error { return s.serveIndex(w, r, rest) }}
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/copies/"); ok {
		if found, ok := s.copyRoute(r.Method, rest); ok {
			return found
		}
	}
	return route{CallOther, false, func(http.ResponseWriter, *http.Request) error {
		return errorf(KindUnknownPath, "no such path here: %.100q", r.Method+" "+r.URL.Path)
	}}
}

// copyRoute is about one copy: {segmentId}, or {segmentId}/files/{name}.
func (s *Server) copyRoute(method, rest string) (route, bool) {
	text, file, isFile := strings.Cut(rest, "/files/")
	id, err := remotelog.ParseUUID(text)
	if err != nil {
		return route{}, false
	}
	with := func(f func(w http.ResponseWriter, r *http.Request, id remotelog.UUID) error) func(http.ResponseWriter, *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error { return f(w, r, id) }
	}
	switch {
	case isFile && method == http.MethodPut:
		return route{CallCopyFile, false, func(w http.ResponseWriter, r *http.Request) error { return s.serveFile(w, r, id, file) }}, true
	case isFile:
		return route{}, false
	case method == http.MethodGet:
		return route{CallCopyState, false, with(s.serveCopyState)}, true
	case method == http.MethodDelete:
		return route{CallCopyCancel, false, with(s.serveCopyCancel)}, true
	}
	return route{}, false
}

// Handler answers the API.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handle(w, r, s.route(r))
	})
}

// MetricsHandler answers health, readiness and metrics alone, without a token.
func (s *Server) MetricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := s.route(r)
		switch to.call {
		case CallHealth, CallReady, CallMetrics:
			to.public = true
		default:
			to = route{CallOther, true, func(http.ResponseWriter, *http.Request) error {
				return errorf(KindUnknownPath, "this address has health, readiness and metrics alone")
			}}
		}
		s.handle(w, r, to)
	})
}

// handle is the one path of all calls: token, bound, answer or error, metrics.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, to route) {
	s.handled.Add(1)
	defer s.handled.Done()
	began := s.now()
	w.Header().Set("Tierkit-Protocol", "1")
	s.mayTake(w) // "100 Continue" is an answer too
	if r.ContentLength != 0 {
		// The HTTP server reads what a call has left of a body before it sends the answer. Who waits for a body longer says so.
		_ = http.NewResponseController(w).SetReadDeadline(s.now().Add(bodyTime)) // of a connection; tests have none
	}
	err := s.admitted(w, r, to)
	var kind Kind
	broken := errors.Is(err, http.ErrAbortHandler)
	if err != nil {
		p := problemOf(err)
		kind = p.Kind
		if !broken {
			s.refuse(w, p)
		}
	}
	if f := s.o.Hooks.Call; f != nil {
		f(to.call, kind, s.now().Sub(began))
	}
	if broken {
		panic(http.ErrAbortHandler) // the connection is closed short of the Content-Length
	}
}

func (s *Server) admitted(w http.ResponseWriter, r *http.Request, to route) (err error) {
	if !to.public && !s.token.shown(r) {
		return errorf(KindForbidden, "the request has no token, or a wrong one")
	}
	calls := &s.calls
	if to.call == CallFetch || to.call == CallIndex {
		calls = &s.reads
	}
	defer calls.Add(-1)
	if calls.Add(1) > maxCalls {
		return errorf(KindThrottled, "there are more than %d calls at a time", maxCalls)
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a call panicked", "call", to.call, "panic", p, "stack", string(debug.Stack()))
			err = broken(errorf(KindFailed, "the call panicked; the daemon's log has more"))
		}
	}()
	return to.serve(w, r)
}

// brokenError is an error after the beginning of the answer: all that can be done is to break the connection.
type brokenError struct{ err error }

func broken(err error) error { return &brokenError{err} }

func (e *brokenError) Error() string        { return e.err.Error() }
func (e *brokenError) Unwrap() error        { return e.err }
func (e *brokenError) Is(target error) bool { return target == http.ErrAbortHandler }

// callContext is the context of a call that may be ended by others, and is ended after longCall, or with the server.
func (s *Server) callContext(r *http.Request) (context.Context, context.CancelCauseFunc, *time.Timer) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(s.ctx, func() { cancel(errStopping) })
	timer := time.AfterFunc(longCall, func() { cancel(errSlow) })
	return ctx, func(cause error) {
		stop()
		timer.Stop()
		cancel(cause)
	}, timer
}
