package acme

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// step is what a request was for; it decides what an answer means.
type step string

const (
	stepToken      step = "token"
	stepPut        step = "put"
	stepBegin      step = "begin"
	stepPart       step = "part"
	stepCommit     step = "commit"
	stepAbort      step = "abort"
	stepGet        step = "get"
	stepStat       step = "stat"
	stepDelete     step = "delete"
	stepDeleteMany step = "delete many"
	stepList       step = "list"
	stepUploads    step = "uploads"
)

const (
	maxErrorText      = 64 << 10 // read of an answer that is an error
	maxErrorTextShown = 300

	noSuchUpload = "no_such_upload"
	badToken     = "bad_token"
	tokenExpired = "token_expired"
)

// creates reports whether the step makes an object visible.
func (s step) creates() bool { return s == stepPut || s == stepCommit }

// codes are the errors of the service. What is not here goes by its status.
func codes() map[string]backends.Code {
	return map[string]backends.Code{
		"no_such_object": backends.NotFound, noSuchUpload: backends.Unavailable, "no_such_bucket": backends.InvalidArgument,
		"exists": backends.Precondition, "changed": backends.Precondition, "bad_range": backends.InvalidRange,
		"bad_key": backends.InvalidArgument, "bad_request": backends.InvalidArgument,
		"bad_credentials": backends.Unauthenticated, "no_token": backends.Unauthenticated, badToken: backends.Unauthenticated, tokenExpired: backends.Unauthenticated,
		"denied": backends.Denied, "slow_down": backends.Throttled, "quota_exceeded": backends.Exhausted,
		"checksum_mismatch": backends.Corrupt, "short_body": backends.Unavailable,
	}
}

// codeOfStatus is for answers without a code that we know: those of a proxy, say.
func codeOfStatus(status int, s step) backends.Code {
	switch status {
	case http.StatusUnauthorized:
		return backends.Unauthenticated
	case http.StatusForbidden:
		return backends.Denied
	case http.StatusNotFound:
		if s == stepGet || s == stepStat || s == stepDelete {
			return backends.NotFound
		}
		return backends.InvalidArgument
	case http.StatusPreconditionFailed:
		return backends.Precondition
	case http.StatusRequestedRangeNotSatisfiable:
		return backends.InvalidRange
	case http.StatusRequestTimeout:
		return backends.Timeout
	case http.StatusTooManyRequests:
		return backends.Throttled
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return backends.Unsupported
	case http.StatusInsufficientStorage:
		return backends.Exhausted
	}
	if status >= 500 {
		return backends.Unavailable
	}
	return backends.InvalidArgument
}

// answer is an error that the service answered with.
type answer struct{ code, message string }

func (a *answer) Error() string { return a.code + ": " + a.message }

func isAnswer(err error, code string) bool {
	a, ok := errors.AsType[*answer](err)
	return ok && a.code == code
}

// answerError makes an error of an answer. No more than a bounded part of it is read.
func (d *Driver) answerError(resp *http.Response, s step) *backends.Error {
	var doc struct {
		Error struct{ Code, Message string }
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText)) // what cannot be read is no JSON
	_ = json.Unmarshal(text, &doc)                                 // nor need it be
	name := resp.Header.Get("Acme-Error")
	if name == "" {
		name = doc.Error.Code
	}
	code, known := codes()[name]
	if !known {
		code = codeOfStatus(resp.StatusCode, s)
		name = http.StatusText(resp.StatusCode)
	}
	if s == stepToken && !code.Temporary() && code != backends.Corrupt {
		code = backends.Unauthenticated
	}
	var cause error = &answer{name, doc.Error.Message[:min(len(doc.Error.Message), maxErrorTextShown)]}
	switch {
	case code == backends.Unauthenticated && d.o.CredentialsFile != "":
		cause = fmt.Errorf("see %s: %w", keyCredentials, cause)
	case code == backends.Unauthenticated:
		cause = fmt.Errorf("see %s and %s: %w", keyKeyID, keySecret, cause)
	case name == "no_such_bucket":
		cause = fmt.Errorf("there is no bucket %q, see %s: %w", d.o.Bucket, keyBucket, cause)
	}
	return &backends.Error{Code: code, Status: resp.StatusCode, RequestID: resp.Header.Get("Acme-Request-Id"), RetryAfter: retryAfter(resp.Header), Err: cause}
}

// networkError makes an error of what came instead of an answer.
func networkError(err error) *backends.Error {
	code, fault := httpstore.NetworkCode(err)
	switch fault {
	case httpstore.Certificate:
		err = fmt.Errorf("the server's certificate or protocol is not accepted, see %s and %s: %w", keyCAFile, keyURL, err)
	case httpstore.HostName:
		err = fmt.Errorf("there is no such host, see %s: %w", keyURL, err)
	case httpstore.NoFault:
	}
	if code == backends.Unknown {
		code = backends.Unavailable // it came from below: no answer was understood
	}
	return &backends.Error{Code: code, Err: err}
}

// mayHaveHappened reports whether a request that failed with e may have been carried out: it was sent, and no answer refused it.
func mayHaveHappened(e *backends.Error) bool {
	switch e.Code { //nolint:exhaustive // those that say nothing about it
	case backends.Unavailable, backends.Timeout, backends.Unknown:
		return true
	case backends.Corrupt:
		return e.Status == 0 || e.Status < 300
	}
	return false
}
