package httpstore

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxErrorBody bounds what is read of an answer that is an error: SDKs read it whole.
const maxErrorBody = 64 << 10

// Transport counts the attempts of calls, marks errors of the network as such, and bounds the bodies of errors.
type Transport struct {
	Next http.RoundTripper

	// Patience bounds how long the next attempt of a call waits because the answer to the last one wished it (Retry-After), for SDKs that do not
	// look at that. 0: it is not waited for.
	Patience time.Duration
}

var _ http.RoundTripper = Transport{}

// TransportError is an error with which no answer came.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *TransportError) Unwrap() error { return e.Err }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, _ := req.Context().Value(callKey{}).(*Call)
	if c != nil {
		if err := c.leftAlone(req.Context()); err != nil {
			closeBody(req)
			return nil, err
		}
		c.sent.Add(1)
	}
	resp, err := t.Next.RoundTrip(req)
	if err != nil {
		return nil, &TransportError{err}
	}
	if c != nil && resp.StatusCode >= 400 {
		c.leaveAlone(min(RetryAfter(resp.Header), t.Patience))
	}
	if resp.StatusCode >= 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, nil
}

// closeBody is for requests that are not sent: a RoundTripper closes the body in any case.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nothing was read
	}
}

// RetryAfter is how long a store wishes to be left alone, an hour at most; 0: it says nothing, or a date.
func RetryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
