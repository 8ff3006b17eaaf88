package httpstore

import (
	"io"
	"net/http"
)

// maxErrorBody bounds what is read of an answer that is an error: SDKs read it whole.
const maxErrorBody = 64 << 10

// Transport counts the attempts of calls, marks errors of the network as such, and bounds the bodies of errors.
type Transport struct{ Next http.RoundTripper }

var _ http.RoundTripper = Transport{}

// TransportError is an error with which no answer came.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *TransportError) Unwrap() error { return e.Err }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if c, ok := req.Context().Value(callKey{}).(*Call); ok {
		c.sent.Add(1)
	}
	resp, err := t.Next.RoundTrip(req)
	if err != nil {
		return nil, &TransportError{err}
	}
	if resp.StatusCode >= 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, nil
}
