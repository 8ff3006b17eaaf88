package rsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/flight"
	"github.com/tierkit/tierkit/remotelog"
)

// errShort: the store has fewer bytes of an object than the manifest says.
var errShort = errors.New("object is shorter than its manifest says")

// timeoutError is a load that took too long by our own clock, not by the caller's context.
type timeoutError struct {
	what  string
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s took longer than %v", e.what, e.after)
}

// Temporary makes remotelog.Retriable say yes.
func (e *timeoutError) Temporary() bool { return true }

// classify gives an error the kind of package remotelog that it has. Errors of a context, of configuration and of a store that
// may recover stay as they are.
func classify(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || hasKind(err) {
		return err
	}
	switch {
	case errors.Is(err, cache.ErrClosed), errors.Is(err, flight.ErrClosed), errors.Is(err, backends.Closed):
		return fmt.Errorf("%w: %w", remotelog.ErrClosed, err)
	case errors.Is(err, backends.NotFound):
		return fmt.Errorf("%w: %w", remotelog.ErrNotFound, err)
	case damaged(err), errors.Is(err, backends.SizeMismatch):
		return fmt.Errorf("%w: %w", remotelog.ErrCorrupt, err)
	case errors.Is(err, backends.InvalidArgument), errors.Is(err, chunking.ErrSourceSize):
		return fmt.Errorf("%w: %w", remotelog.ErrInvalidArgument, err)
	}
	return err
}

// hasKind says that err has a kind already.
func hasKind(err error) bool {
	for _, kind := range []error{remotelog.ErrNotFound, remotelog.ErrCorrupt, remotelog.ErrInvalidArgument, remotelog.ErrClosed, remotelog.ErrConflict} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// damaged says that stored bytes are not what the manifest at hand describes: damage, or a manifest that is out of date.
func damaged(err error) bool {
	for _, kind := range []error{
		chunking.ErrChecksum, chunking.ErrBadFrame, chunking.ErrBadIndex, crypto.ErrAuthentication, crypto.ErrMalformed,
		backends.Corrupt, backends.InvalidRange, errShort, remotelog.ErrCorrupt,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// suspicious says that an error of reading an object may come from a manifest that is out of date.
func suspicious(err error) bool {
	return damaged(err) || errors.Is(err, backends.NotFound) || errors.Is(err, backends.Precondition)
}

// contain makes an error of a panic in somebody else's reader.
func contain(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return f()
}

// contained is a reader whose panics are errors: a copy that panicked would leave objects behind.
type contained struct {
	what string
	r    io.Reader
}

func (c *contained) Read(p []byte) (n int, err error) {
	err = contain(c.what, func() (err error) {
		n, err = c.r.Read(p)
		return err
	})
	return n, err
}
