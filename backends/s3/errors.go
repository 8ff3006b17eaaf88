package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/internal/transport"
)

// step is what a request was for; it decides what an answer means, and which permission is missing.
type step string

const (
	stepPut         step = "put"
	stepPutIfAbsent step = "put if absent"
	stepBegin       step = "begin upload"
	stepPart        step = "part"
	stepCommit      step = "commit"
	stepCommitNew   step = "commit if absent"
	stepAbort       step = "abort"
	stepParts       step = "list parts"
	stepGet         step = "get"
	stepStat        step = "stat"
	stepBucket      step = "bucket"
	stepDelete      step = "delete"
	stepDeleteMany  step = "delete many"
	stepList        step = "list"
	stepUploads     step = "list uploads"
)

// commits reports whether the step makes the object visible.
func (s step) commits() bool {
	return s == stepPut || s == stepPutIfAbsent || s == stepCommit || s == stepCommitNew
}

func (s step) ifAbsent() bool { return s == stepPutIfAbsent || s == stepCommitNew }

// permission names what the step needs.
func (s step) permission() string {
	switch s {
	case stepPut, stepPutIfAbsent, stepBegin, stepPart, stepCommit, stepCommitNew:
		return "s3:PutObject on the object"
	case stepAbort:
		return "s3:AbortMultipartUpload on the object"
	case stepParts:
		return "s3:ListMultipartUploadParts on the object"
	case stepGet:
		return "s3:GetObject on the object (and s3:ListBucket on the bucket: without it objects that do not exist look like this)"
	case stepStat:
		return "s3:GetObject on the object (and s3:ListBucket on the bucket: without it objects that do not exist look like this), or other credentials"
	case stepBucket, stepList:
		return "s3:ListBucket on the bucket"
	case stepUploads:
		return "s3:ListBucketMultipartUploads on the bucket"
	case stepDelete, stepDeleteMany:
		return "s3:DeleteObject on the object"
	}
	return "a permission"
}

var errDriverClosed = errors.New("the driver was closed")

func errClosed() error { return &backends.Error{Code: backends.Closed, Err: errDriverClosed} }

// codes are the error codes of S3 and of servers that speak its protocol: docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. What is not here
// goes by its status.
func codes() map[string]backends.Code {
	return map[string]backends.Code{
		"NoSuchKey": backends.NotFound, "NoSuchBucket": backends.InvalidArgument, "NoSuchUpload": backends.Unavailable,
		"PreconditionFailed": backends.Precondition, "ConditionalRequestConflict": backends.Unavailable, "OperationAborted": backends.Unavailable,
		"InvalidRange": backends.InvalidRange,

		"AccessDenied": backends.Denied, "AllAccessDisabled": backends.Denied, "AccountProblem": backends.Denied, "Forbidden": backends.Denied,
		"InvalidAccessKeyId": backends.Unauthenticated, "SignatureDoesNotMatch": backends.Unauthenticated, "ExpiredToken": backends.Unauthenticated,
		"ExpiredTokenException": backends.Unauthenticated, "InvalidToken": backends.Unauthenticated, "InvalidTokenId": backends.Unauthenticated,
		"TokenRefreshRequired": backends.Unauthenticated, "InvalidSecurity": backends.Unauthenticated, "UnrecognizedClientException": backends.Unauthenticated,
		"InvalidClientTokenId": backends.Unauthenticated, "NotSignedUp": backends.Unauthenticated, "InvalidIdentityToken": backends.Unauthenticated,
		"RequestTimeTooSkewed": backends.ClockSkew, "RequestExpired": backends.ClockSkew, "RequestInTheFuture": backends.ClockSkew,

		"SlowDown": backends.Throttled, "SlowDownRead": backends.Throttled, "SlowDownWrite": backends.Throttled, "Throttling": backends.Throttled,
		"ThrottlingException": backends.Throttled, "RequestLimitExceeded": backends.Throttled, "TooManyRequests": backends.Throttled,
		"BandwidthLimitExceeded": backends.Throttled, "RequestThrottled": backends.Throttled,
		"InternalError": backends.Unavailable, "ServiceUnavailable": backends.Unavailable, "ServerBusy": backends.Throttled,
		"RequestTimeout": backends.Timeout, "RequestTimeoutException": backends.Timeout,

		"BadDigest": backends.Corrupt, "XAmzContentChecksumMismatch": backends.Corrupt, "XAmzContentSHA256Mismatch": backends.Corrupt,
		"QuotaExceeded": backends.Exhausted, "XMinioStorageFull": backends.Exhausted, "XMinioAdminBucketQuotaExceeded": backends.Exhausted,
		"InsufficientStorage": backends.Exhausted,
		"InvalidObjectState":  backends.Unsupported, "NotImplemented": backends.Unsupported, "MethodNotAllowed": backends.Unsupported,

		"PermanentRedirect": backends.InvalidArgument, "TemporaryRedirect": backends.InvalidArgument, "MovedPermanently": backends.InvalidArgument,
		"AuthorizationHeaderMalformed": backends.InvalidArgument, "IllegalLocationConstraintException": backends.InvalidArgument,
		"KMS.DisabledException": backends.Denied, "KMS.NotFoundException": backends.InvalidArgument, "KMS.KMSInvalidStateException": backends.Denied,
		"kms:KeyNotFound": backends.InvalidArgument, "KMSNotConfigured": backends.InvalidArgument, // MinIO's
	}
}

// codeOfStatus is for answers without a code that we know. That 404 is NotFound is said where the request asked for an object.
func codeOfStatus(status int) backends.Code {
	switch status {
	case http.StatusBadRequest, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusLengthRequired, http.StatusRequestEntityTooLarge:
		return backends.InvalidArgument
	case http.StatusUnauthorized:
		return backends.Unauthenticated
	case http.StatusForbidden:
		return backends.Denied
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return backends.Unsupported
	case http.StatusPreconditionFailed:
		return backends.Precondition
	case http.StatusRequestedRangeNotSatisfiable:
		return backends.InvalidRange
	case http.StatusTooManyRequests:
		return backends.Throttled
	case http.StatusInsufficientStorage:
		return backends.Exhausted
	case http.StatusRequestTimeout:
		return backends.Timeout
	}
	if status >= 500 {
		return backends.Unavailable
	}
	return backends.Unknown
}

// classify is the one place where errors get their code. ctx is the caller's, inner the call's own.
func (d *Driver) classify(ctx, inner context.Context, err error, s step, n *transport.Count) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cause := context.Cause(inner); cause != nil {
		err = cause // our own timeout, or Close
	}
	if e, ok := errors.AsType[*backends.Error](err); ok { // ours: see answers
		out := *e
		out.Attempts = n.Requests
		d.refine(&out, s, n)
		return &out
	}
	e := &backends.Error{Err: err, Attempts: n.Requests}
	d.describe(e, err)
	api, hasCode := errors.AsType[smithy.APIError](err)
	switch {
	case errors.Is(err, errDriverClosed):
		e.Code = backends.Closed
	case hasCode && e.Status != 0:
		e.Code = codeOf(api.ErrorCode(), e.Status, s)
	case e.Status != 0 && e.Status/100 != 2:
		e.Code = codeOfStatus(e.Status)
	default:
		e.Code = codeOfLocal(err)
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); ok && isAboutKeys(op.Err) && !e.Code.Temporary() && e.Code != backends.ClockSkew {
		e.Code = backends.Unauthenticated // above all, what is not found there is not an object
	}
	d.refine(e, s, n)
	d.hint(e, s, api)
	return e
}

// describe takes from the answer what support asks for.
func (d *Driver) describe(e *backends.Error, err error) {
	re, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || re.Response == nil {
		return
	}
	e.Status, e.RequestID = re.HTTPStatusCode(), re.ServiceRequestID()
	e.RetryAfter = httpstore.RetryAfter(re.Response.Header)
}

func codeOf(code string, status int, s step) backends.Code {
	if c, ok := codes()[code]; ok {
		return c
	}
	if status == http.StatusNotFound && (s == stepStat || s == stepGet) && code == "NotFound" {
		return backends.NotFound // a HEAD has no body that could say more
	}
	if status == http.StatusNotFound && s == stepBucket {
		return backends.InvalidArgument
	}
	return codeOfStatus(status)
}

// codeOfLocal is for errors that no answer came with.
func codeOfLocal(err error) backends.Code {
	if isTLSMistake(err) {
		return backends.InvalidArgument
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return backends.Timeout
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return backends.Unavailable
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return backends.Unavailable
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, gone) {
			return backends.Unavailable
		}
	}
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
		return backends.Corrupt
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return backends.InvalidArgument
	}
	if ce, ok := errors.AsType[interface {
		error
		ConnectionError() bool
	}](err); ok && ce.ConnectionError() {
		return backends.Unavailable
	}
	return backends.Unknown
}

// refine adds what the step makes of a code.
func (d *Driver) refine(e *backends.Error, s step, n *transport.Count) {
	if e.Code == backends.Precondition && s.ifAbsent() {
		e.Code = backends.Exists
		e.Ambiguous = n.Requests > 1 // an attempt before may have been ours
		return
	}
	if !s.commits() {
		return
	}
	gone := isCode(e.Err, "NoSuchUpload") // at a commit: done by an attempt before, or aborted by somebody
	conflict := e.Status == http.StatusConflict
	switch {
	case conflict:
		e.Restart = true
	case e.Code.Temporary() || gone || e.Code == backends.Unknown || e.Code == backends.Corrupt && e.Status/100 == 2:
		e.Ambiguous = n.Requests > n.Unsent
		e.Restart = gone
	}
}

func isCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}

func isExpired(err error) bool {
	return isCode(err, "ExpiredToken") || isCode(err, "ExpiredTokenException")
}

// hint says what to do, where that is a setting or a permission.
func (d *Driver) hint(e *backends.Error, s step, api smithy.APIError) {
	code := ""
	if api != nil {
		code = api.ErrorCode()
	}
	text := ""
	switch {
	case isTLSMistake(e.Err):
		text = fmt.Sprintf("the server's certificate or protocol is not accepted, see %s, %s and %s", keyCAFile, keyVerify, keyEndpoint)
	case isResolve(e.Err):
		text = fmt.Sprintf("the host is not known, see %s, %s and %s", keyEndpoint, keyRegion, keyPathStyle)
	case isDial(e.Err):
		text = fmt.Sprintf("nobody answers at the store's address, see %s", keyEndpoint)
	case code == "NoSuchBucket" || s == stepBucket && e.Status == http.StatusNotFound:
		text = fmt.Sprintf("bucket %q does not exist there, see %s and %s", d.o.Bucket, keyBucket, keyEndpoint)
	case code == "PermanentRedirect" || code == "TemporaryRedirect" || code == "AuthorizationHeaderMalformed" || e.Status/100 == 3:
		text = fmt.Sprintf("the bucket is in another region than %q, see %s", d.region(), keyRegion)
		if r := regionOf(e.Err); r != "" {
			text += ": it should be " + r
		}
	case e.Code == backends.Denied && !strings.HasPrefix(code, "KMS."):
		text = "the credentials lack " + s.permission()
	case e.Code == backends.Unauthenticated:
		text = fmt.Sprintf("the credentials are not accepted, see %s, %s or the default chain", keyAccessKey, keyCredFile)
	case e.Code == backends.ClockSkew:
		text = "set this machine's clock"
	case code == "InvalidObjectState":
		text = "the object is in an archive tier"
	case strings.HasPrefix(strings.ToLower(code), "kms"):
		text = fmt.Sprintf("the key management does not take part, see %s and %s", keySSE, keyKMSKey)
	case code == "InvalidStorageClass":
		text = "see " + keyStorageClass
	}
	if text != "" {
		e.Err = fmt.Errorf("%s: %w", text, e.Err)
	}
}

func (d *Driver) region() string { return d.client.Options().Region }

// regionOf returns the region that an answer names.
func regionOf(err error) string {
	re, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || re.Response == nil {
		return ""
	}
	return re.Response.Header.Get("X-Amz-Bucket-Region")
}
