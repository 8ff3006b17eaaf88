package httpstore

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

// Fault says what kind of mistake of the user's lies behind an error of the network.
type Fault int

// The faults.
const (
	NoFault     Fault = iota
	Certificate       // the server's certificate is not accepted, or one side speaks TLS and the other does not
	HostName          // there is no such host
)

// NetworkCode returns the code of an error from below an SDK: of connections, certificates, names, timeouts. Unknown means that it is none of
// these. The end of the caller's context is not looked at here: see Call.Ended.
func NetworkCode(err error) (backends.Code, Fault) {
	if isTLSMistake(err) {
		return backends.InvalidArgument, Certificate
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsNotFound && !e.IsTemporary:
			return backends.InvalidArgument, HostName
		case e.IsTimeout:
			return backends.Timeout, NoFault
		}
		return backends.Unavailable, NoFault
	}
	if timedOut(err) || errors.Is(err, context.DeadlineExceeded) {
		return backends.Timeout, NoFault
	}
	if _, ok := errors.AsType[*TransportError](err); ok {
		return backends.Unavailable, NoFault
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return backends.Unavailable, NoFault
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, gone) {
			return backends.Unavailable, NoFault
		}
	}
	return backends.Unknown, NoFault
}

// timedOut looks through the whole chain: a *url.Error answers for the error right below it and for no other.
func timedOut(err error) bool {
	for {
		e, ok := errors.AsType[net.Error](err)
		if !ok || e.Timeout() {
			return ok
		}
		err = errors.Unwrap(e)
	}
}

func isTLSMistake(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}
