package backends

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is the only error type that leaves a Store, besides context errors and the body's own. There is exactly one in a chain.
//
// A Driver returns it with Code, Err and what the store's answer tells (Status, RequestID, RetryAfter, Attempts, Ambiguous,
// Restart); the Store fills in Op, Driver and Key.
type Error struct {
	Op         Op
	Driver     string
	Key        string // already masked if masking is on; "" where the call has none
	Code       Code
	Status     int           // HTTP status, 0 if none
	RequestID  string        // provider's request id
	RetryAfter time.Duration // provider's hint
	Attempts   int           // requests sent, 0 if not counted
	Ambiguous  bool          // the store may have carried the call out
	Restart    bool          // of a Put: the upload was lost at its commit, nothing of it is left, and sending the body again may do
	Err        error         // the cause; nil where the code says all

	mask masker
}

// Error is one line: driver, operation, key, what happened, and what support asks for.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Driver != "" {
		b.WriteString(e.Driver + " ")
	}
	if e.Op != "" {
		b.WriteString(string(e.Op) + " ")
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%q", e.Key)
	}
	if s := strings.TrimRight(b.String(), " "); s != "" {
		b.Reset()
		b.WriteString(s + ": ")
	}
	text := e.Code.Error()
	if c, bare := e.Err.(Code); e.Err != nil && (!bare || c != e.Code) { //nolint:errorlint // the cause itself
		why := e.mask.text(e.Err.Error())
		if strings.HasPrefix(why, text) { // a driver's *Error that a join or a wrapping hides says it already
			text = why
		} else {
			text += ": " + why
		}
	}
	b.WriteString(text)
	if d := e.details(); !strings.Contains(text, d) {
		b.WriteString(d)
	}
	return strings.NewReplacer("\r\n", " ", "\n", "; ", "\r", " ").Replace(b.String())
}

func (e *Error) details() string {
	var parts []string
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	if e.RequestID != "" {
		parts = append(parts, "request id "+e.RequestID)
	}
	if e.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", e.Attempts))
	}
	if e.Ambiguous {
		parts = append(parts, "the store may have carried it out")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the Code, and what the Code matches.
func (e *Error) Is(target error) bool { return target == error(e.Code) || e.Code.Is(target) }

// Temporary reports whether the same call may succeed later.
func (e *Error) Temporary() bool { return e.Code.Temporary() }

// coder is an *Error or a Code.
type coder interface {
	error
	code() Code
}

func (e *Error) code() Code { return e.Code }
func (c Code) code() Code   { return c }

// CodeOf returns the Code of err: of the first *Error or Code in its chain, else Unknown. It is what a metric of errors counts; nil
// and context errors are the caller's to tell apart.
func CodeOf(err error) Code {
	if c, ok := errors.AsType[coder](err); ok {
		return c.code()
	}
	return Unknown
}

// Errorf returns an *Error with a code and a cause made of format, for drivers.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Err: fmt.Errorf(format, args...)}
}
