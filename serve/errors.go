package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// Kind says to a client what an error means. The texts are promised.
type Kind string

// The kinds.
const (
	KindNotFound         Kind = "not_found"
	KindNoIndex          Kind = "no_index"
	KindUnknownOperation Kind = "unknown_operation"
	KindUnknownPath      Kind = "unknown_path"
	KindInvalidArgument  Kind = "invalid_argument"
	KindForbidden        Kind = "forbidden"
	KindCorrupt          Kind = "corrupt"
	KindFailed           Kind = "failed"
	KindDenied           Kind = "denied"
	KindUnavailable      Kind = "unavailable"
	KindThrottled        Kind = "throttled"
	KindLate             Kind = "late"
	KindClosed           Kind = "closed"
	KindTimeout          Kind = "timeout"
)

// kindFacts are the status of each kind, and whether the same call may succeed later.
var kindFacts = []struct {
	kind      Kind
	status    int
	retriable bool
}{
	{KindNotFound, http.StatusNotFound, false},
	{KindNoIndex, http.StatusNotFound, false},
	{KindUnknownOperation, http.StatusNotFound, true},
	{KindUnknownPath, http.StatusNotFound, false},
	{KindInvalidArgument, http.StatusBadRequest, false},
	{KindForbidden, http.StatusForbidden, false},
	{KindCorrupt, http.StatusInternalServerError, false},
	{KindFailed, http.StatusInternalServerError, false},
	{KindDenied, http.StatusBadGateway, false},
	{KindUnavailable, http.StatusServiceUnavailable, true},
	{KindThrottled, http.StatusServiceUnavailable, true},
	{KindLate, http.StatusServiceUnavailable, true},
	{KindClosed, http.StatusServiceUnavailable, true},
	{KindTimeout, http.StatusGatewayTimeout, true},
}

// Kinds returns every kind: to make all metric series before the first event.
func Kinds() []Kind {
	out := make([]Kind, len(kindFacts))
	for i := range kindFacts {
		out[i] = kindFacts[i].kind
	}
	return out
}

// kinded is an error of this package that has its kind already. Status 0 is the kind's.
type kinded struct {
	kind   Kind
	status int
	text   string
}

func (e *kinded) Error() string { return e.text }

func errorf(kind Kind, format string, args ...any) error {
	return &kinded{kind: kind, text: fmt.Sprintf(format, args...)}
}

// The errors that end the context of a call, as its cause.
var (
	errLate     = errorf(KindLate, "another call waits for these bytes, and they did not come in %v", joinerPatience)
	errStopping = errorf(KindClosed, "the daemon stops")
	errSlow     = errorf(KindTimeout, "it takes longer than %v", longCall)
)

// problem is an error as a client sees it.
type problem struct {
	Kind      Kind   `json:"kind"`
	Message   string `json:"message"`
	Retriable bool   `json:"retriable"`
	// RetryAfterMs is for how long the answer to the same call is this one, from memory; 0: it is looked at anew.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	status       int
}

// maxMessage bounds the text of an error that a client gets.
const maxMessage = 2 << 10

// problemOf classifies an error.
func problemOf(err error) problem {
	kind := kindOf(err)
	p := problem{Kind: kind, Message: oneLine(err.Error())}
	if own, ok := errors.AsType[*kinded](err); ok {
		p.status = own.status
	}
	if k, ok := errors.AsType[*known](err); ok {
		p.RetryAfterMs = max(1, k.lasts.Milliseconds())
	}
	for _, f := range kindFacts {
		if f.kind == kind {
			p.Retriable = f.retriable || remotelog.Retriable(err)
			if p.status == 0 {
				p.status = f.status
			}
		}
	}
	return p
}

// because puts what ended the context of a call in the place of the bare cancellation that it brought about.
func because(ctx context.Context, err error) error {
	if cause, ok := errors.AsType[*kinded](context.Cause(ctx)); ok && isContext(err) {
		return cause
	}
	return err
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// kindOf decides by type and code, never by text.
func kindOf(err error) Kind {
	if own, ok := errors.AsType[*kinded](err); ok {
		return own.kind
	}
	for _, c := range []struct {
		target error
		kind   Kind
	}{
		{remotelog.ErrNoIndex, KindNoIndex},
		{remotelog.ErrNotFound, KindNotFound},
		{remotelog.ErrCorrupt, KindCorrupt},
		{backends.Denied, KindDenied},
		{backends.Unauthenticated, KindDenied},
		{backends.ClockSkew, KindDenied},
		{backends.Throttled, KindThrottled},
		{backends.Timeout, KindTimeout},
		{backends.Unavailable, KindUnavailable},
		{backends.Exhausted, KindUnavailable},
		{syscall.ENOSPC, KindUnavailable},
		{remotelog.ErrInvalidArgument, KindInvalidArgument},
		{remotelog.ErrClosed, KindClosed},
		{context.Canceled, KindClosed},
		{context.DeadlineExceeded, KindTimeout},
	} {
		if errors.Is(err, c.target) {
			return c.kind
		}
	}
	if remotelog.Retriable(err) {
		return KindUnavailable
	}
	return KindFailed
}

// oneLine makes a message of an error, which may join several.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
