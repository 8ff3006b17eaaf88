package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// errStoreClosed is the cause with which Store.Close ends calls in flight.
var errStoreClosed = errors.New("the store was closed")

// callerError is what belongs to the caller rather than to the store: the end of its context, an error of its body. It carries no
// Code. Its text is made once, masked.
type callerError struct {
	text string
	errs []error
}

func (e *callerError) Error() string   { return e.text }
func (e *callerError) Unwrap() []error { return e.errs }

// hidden keeps an error's text and what errors.Is and errors.As find in it, but for *Error: so that exactly one *Error is in a chain.
type hidden struct{ err error }

func (h hidden) Error() string        { return h.err.Error() }
func (h hidden) Is(target error) bool { return errors.Is(h.err, target) }

func (h hidden) As(target any) bool {
	if _, ok := target.(**Error); ok {
		return false
	}
	return errors.As(h.err, target)
}

// hide wraps err unless there is nothing to hide.
func hide(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return hidden{err}
	}
	return err
}

// wrap is the one place where an error of a call gets its final form. caller is the context as it came in, ctx the call's own.
func (r *run) wrap(caller, ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ended && caller.Err() != nil {
		return r.callerError(contextErrors(caller, err))
	}
	if ended && ctx != nil && errors.Is(context.Cause(ctx), errStoreClosed) {
		err = &Error{Code: Closed, Err: errStoreClosed}
	}
	if r.bodyErr != nil && errors.Is(err, r.bodyErr) {
		return r.callerError([]error{hide(err)})
	}
	return r.coded(err)
}

// contextErrors are the error of the context, its cause, and what the driver made of it (a failed clean-up may be joined to it).
func contextErrors(caller context.Context, err error) []error {
	errs := []error{caller.Err()}
	if cause := context.Cause(caller); cause != nil && !errors.Is(caller.Err(), cause) {
		errs = append(errs, cause)
	}
	if !errors.Is(caller.Err(), err) {
		errs = append(errs, hide(err))
	}
	return errs
}

func (r *run) callerError(errs []error) error {
	last := errs[len(errs)-1]
	text := fmt.Sprintf("%s %s %q: %s", r.s.props.Name, r.op, r.shown, r.s.mask.text(last.Error()))
	return &callerError{text: text, errs: errs}
}

func (r *run) coded(err error) error {
	out := Error{Code: codeFor(err), Err: err}
	if e, ok := errors.AsType[*Error](err); ok {
		out = *e
		if error(e) != err {
			out.Err = err
		}
	}
	if out.Err != nil {
		out.Err = hide(out.Err)
	}
	out.Op, out.Driver, out.Key, out.mask = r.op, r.s.props.Name, r.shown, r.s.mask
	out.Attempts = max(out.Attempts, r.attempts)
	return &out
}

// codeFor gives an error without a code one where its type leaves no doubt.
func codeFor(err error) Code {
	if c := CodeOf(err); c != Unknown {
		return c
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Unavailable
	case errors.Is(err, context.DeadlineExceeded): // of an attempt: the caller's context lives
		return Timeout
	}
	return Unknown
}
