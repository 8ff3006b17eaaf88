package gcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"google.golang.org/api/googleapi"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// step is what a request was for; it decides what an answer means, and which permission is missing.
type step string

const (
	stepPut         step = "put"
	stepPutIfAbsent step = "put if absent"
	stepGet         step = "get"
	stepStat        step = "stat"
	stepDelete      step = "delete"
	stepList        step = "list"
)

func (s step) commits() bool { return s == stepPut || s == stepPutIfAbsent }

// permission names what the step needs.
func (s step) permission() string {
	switch s {
	case stepPut, stepPutIfAbsent:
		return "storage.objects.create (and storage.objects.delete to overwrite)"
	case stepGet, stepStat:
		return "storage.objects.get"
	case stepDelete:
		return "storage.objects.delete"
	case stepList:
		return "storage.objects.list"
	}
	return "a permission"
}

// reasons are those of the service that say more than the status: cloud.google.com/storage/docs/json_api/v1/status-codes.
func reasons() map[string]backends.Code {
	return map[string]backends.Code{
		"rateLimitExceeded": backends.Throttled, "userRateLimitExceeded": backends.Throttled, "dailyLimitExceeded": backends.Exhausted,
		"quotaExceeded": backends.Exhausted, "storageQuotaExceeded": backends.Exhausted, "insufficientQuota": backends.Exhausted,
		"authError": backends.Unauthenticated, "expired": backends.Unauthenticated,
		"conditionNotMet": backends.Precondition, "notModified": backends.Precondition,
		"requestedRangeNotSatisfiable": backends.InvalidRange,
		"retentionPolicyNotMet":        backends.Denied, "objectUnderActiveHold": backends.Denied, "accountDisabled": backends.Denied,
		"userProjectMissing": backends.InvalidArgument, "userProjectAccessDenied": backends.Denied,
		"backendError": backends.Unavailable, "internalError": backends.Unavailable,
	}
}

// decoded adds what the SDK leaves undecoded: of an error of a download it keeps the body alone, which may be JSON or text.
func decoded(e *googleapi.Error) *googleapi.Error {
	if len(e.Errors) > 0 || e.Body == "" {
		return e
	}
	var doc struct {
		Error struct {
			Message string
			Errors  []googleapi.ErrorItem
		}
	}
	if json.Unmarshal([]byte(e.Body), &doc) != nil {
		return e
	}
	out := *e
	out.Message, out.Errors = doc.Error.Message, doc.Error.Errors
	return &out
}

// codeOf goes by the first reason that is known, then by the status.
func codeOf(e *googleapi.Error, s step) backends.Code {
	for _, item := range e.Errors {
		if c, ok := reasons()[item.Reason]; ok {
			return c
		}
	}
	switch e.Code {
	case http.StatusUnauthorized:
		return backends.Unauthenticated
	case http.StatusForbidden:
		return backends.Denied
	case http.StatusNotFound:
		if s == stepList {
			return backends.InvalidArgument
		}
		return backends.NotFound
	case http.StatusNotModified, http.StatusPreconditionFailed:
		return backends.Precondition
	case http.StatusRequestedRangeNotSatisfiable:
		return backends.InvalidRange
	case http.StatusRequestTimeout:
		return backends.Timeout
	case http.StatusConflict, http.StatusGone: // of an upload: begin again
		return backends.Unavailable
	case http.StatusTooManyRequests:
		return backends.Throttled
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return backends.Unsupported
	case http.StatusInsufficientStorage:
		return backends.Exhausted
	}
	switch {
	case e.Code >= 500:
		return backends.Unavailable
	case e.Code >= 300:
		return backends.InvalidArgument
	}
	return backends.Unknown
}

// answer is an error that the service answered with, in one line.
type answer struct {
	text string
	err  error
}

func (a *answer) Error() string { return a.text }
func (a *answer) Unwrap() error { return a.err }

// classify is the one place where errors get their code.
func (d *Driver) classify(c *httpstore.Call, err error, s step) error {
	if why := c.Ended(); why != nil {
		return why
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // the address of an upload's session is as good as a password
	}
	if own, ok := errors.AsType[*backends.Error](err); ok { // see answers
		e := *own
		e.Attempts = c.Attempts()
		refine(&e, s)
		return &e
	}
	e := &backends.Error{Err: err, Attempts: c.Attempts()}
	fault := httpstore.NoFault
	if ge, ok := errors.AsType[*googleapi.Error](err); ok {
		ge = decoded(ge)
		e.Code = codeOf(ge, s)
		describe(e, ge)
	} else {
		e.Code, fault = httpstore.NetworkCode(err)
	}
	if e.Code == backends.Unknown && e.Status == 0 {
		d.classifyOther(e, err)
	}
	refine(e, s)
	d.hint(e, s, fault)
	return e
}

// isTemporary tells of an error of who gives tokens whether the same may succeed later. To the SDK's own answer it adds what a load balancer says of a server
// that is gone.
func isTemporary(e *auth.Error) bool {
	if e.Temporary() {
		return true
	}
	return e.Response != nil && (e.Response.StatusCode == http.StatusBadGateway || e.Response.StatusCode == http.StatusGatewayTimeout)
}

// classifyOther is for errors that are neither an answer of the store nor of the network.
func (d *Driver) classifyOther(e *backends.Error, err error) {
	if _, ok := errors.AsType[*tokenError](err); ok {
		e.Code = backends.Unauthenticated
		ae, ok := errors.AsType[*auth.Error](err)
		if !ok || ae.Response == nil {
			return
		}
		e.Status = ae.Response.StatusCode
		if isTemporary(ae) {
			e.Code = backends.Unavailable
		} else if off := d.skew(ae.Response.Header); off > maxSkew {
			e.Code = backends.ClockSkew
			e.Err = fmt.Errorf("the clocks differ by %s: %w", off.Round(time.Second), err)
		}
		return
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Code = backends.Corrupt
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.Code = backends.Corrupt
	}
}

// maxSkew is how far the clock of one who signs a request for a token may be off: tokens are made to be valid for an hour, some minutes are forgiven.
const maxSkew = 5 * time.Minute

// skew is how far our clock and that of an answer are apart.
func (d *Driver) skew(h http.Header) time.Duration {
	server, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return d.now().Sub(server).Abs()
}

// describe takes from an answer what support asks for.
func describe(e *backends.Error, ge *googleapi.Error) {
	e.Status = ge.Code
	e.RequestID = ge.Header.Get("X-Guploader-Uploadid")
	e.RetryAfter = httpstore.RetryAfter(ge.Header)
	text, _, _ := strings.Cut(strings.TrimSpace(ge.Message), "\n")
	if text == "" {
		text = http.StatusText(ge.Code)
	}
	if len(text) > 1000 {
		text = text[:1000]
	}
	if len(ge.Errors) > 0 && ge.Errors[0].Reason != "" {
		text = ge.Errors[0].Reason + ": " + text
	}
	e.Err = &answer{text: text, err: ge}
}

// refine adds what the step makes of a code.
func refine(e *backends.Error, s step) {
	if e.Code == backends.Precondition && s == stepPutIfAbsent {
		e.Code = backends.Exists
	}
	if !s.commits() {
		return
	}
	again := e.Attempts > 1 // an attempt before may have been carried out
	switch {
	case e.Code == backends.Exists:
		e.Ambiguous = again
	case e.Status == http.StatusGone || e.Status == http.StatusConflict:
		e.Restart, e.Ambiguous = true, again
	case e.Code == backends.Throttled && e.Status != 0:
		e.Ambiguous = again
	case e.Code.Temporary() || e.Code == backends.Unknown || e.Code == backends.Corrupt:
		e.Ambiguous = e.Attempts > 0
	}
}

// hint says what to do, where that is a setting or a permission.
func (d *Driver) hint(e *backends.Error, s step, fault httpstore.Fault) {
	text := ""
	_, forToken := errors.AsType[*tokenError](e.Err)
	switch {
	case forToken && fault != httpstore.NoFault:
		text = fmt.Sprintf("who gives tokens cannot be reached, see %s, %s and %s", keyPath, keyJSON, keyDefault)
	case fault == httpstore.Certificate:
		text = fmt.Sprintf("the server's certificate or protocol is not accepted, see %s, %s and %s", keyCAFile, keyVerify, keyEndpoint)
	case fault == httpstore.HostName:
		text = fmt.Sprintf("there is no such host, see %s", keyEndpoint)
	case s == stepList && e.Status == http.StatusNotFound:
		text = fmt.Sprintf("bucket %q does not exist there, see %s and %s", d.o.Bucket, keyBucket, keyEndpoint)
	case e.Code == backends.Denied:
		text = "the credentials lack " + s.permission() + ", or a policy of the bucket forbids it"
	case e.Code == backends.Unauthenticated:
		text = fmt.Sprintf("the credentials are not accepted, see %s, %s and %s", keyPath, keyJSON, keyDefault)
	case e.Code == backends.ClockSkew:
		text = "set this machine's clock"
	}
	if text != "" {
		e.Err = fmt.Errorf("%s: %w", text, e.Err)
	}
}
