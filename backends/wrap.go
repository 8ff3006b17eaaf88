package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/tierkit/tierkit/internal/settings"
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

// cause is the error below an *Error or a callerError. It keeps the text and what errors.Is and errors.As find, but for what the one *Error
// on top alone may answer: *Error, Code, and io/fs.ErrNotExist. Otherwise a call that was denied while its clean-up found nothing
// would pass for NotFound, and a missing bucket (ENOENT below InvalidArgument) for a missing object.
type cause struct{ err error }

func (c cause) Error() string { return c.err.Error() }

func (c cause) Is(target error) bool {
	if _, ok := target.(Code); ok || target == fs.ErrNotExist {
		return false
	}
	return errors.Is(c.err, target)
}

func (c cause) As(target any) bool {
	switch target.(type) {
	case **Error, *Code, *coder:
		return false
	}
	return errors.As(c.err, target)
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
		return r.callerError([]error{cause{err}})
	}
	return r.coded(err)
}

// contextErrors are the error of the context, its cause, and what the driver made of it (a failed clean-up may be joined to it).
func contextErrors(caller context.Context, err error) []error {
	errs := []error{caller.Err()}
	if why := context.Cause(caller); why != nil && !errors.Is(caller.Err(), why) {
		errs = append(errs, why)
	}
	if !errors.Is(caller.Err(), err) {
		errs = append(errs, cause{err})
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
	if c, ok := errors.AsType[coder](err); ok {
		if e, ok := c.(*Error); ok {
			out = *e
			if direct, ok := err.(*Error); !ok || direct != e { //nolint:errorlint // err itself, not what it wraps
				out.Err = err
			}
		}
	}
	if bare, ok := out.Err.(Code); ok && bare == out.Code { //nolint:errorlint // the cause itself
		out.Err = nil
	}
	if out.Err != nil {
		out.Err = cause{out.Err}
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
	case settings.Problems(err) != nil:
		return InvalidArgument
	}
	return Unknown
}
