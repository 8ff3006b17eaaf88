package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// step is what a request was for; it decides what an answer means, and which permission is missing.
type step string

const (
	stepPut            step = "put"
	stepPutIfAbsent    step = "put if absent"
	stepBlock          step = "put block"
	stepBlocks         step = "get block list"
	stepCommit         step = "commit"
	stepCommitIfAbsent step = "commit if absent"
	stepGet            step = "get"
	stepStat           step = "stat"
	stepDelete         step = "delete"
	stepList           step = "list"
)

// commits reports whether the step makes the object visible.
func (s step) commits() bool {
	return s == stepPut || s == stepPutIfAbsent || s == stepCommit || s == stepCommitIfAbsent
}

func (s step) ifAbsent() bool { return s == stepPutIfAbsent || s == stepCommitIfAbsent }

// permission names what the step needs: the letter of a signature, and the action of a role.
func (s step) permission() string {
	const blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/"
	switch s {
	case stepPut, stepPutIfAbsent, stepBlock, stepCommit, stepCommitIfAbsent:
		return "w (" + blobs + "write)"
	case stepGet, stepStat, stepBlocks:
		return "r (" + blobs + "read)"
	case stepDelete:
		return "d (" + blobs + "delete)"
	case stepList:
		return "l (" + blobs + "read)"
	}
	return "a permission"
}

// codes are the error codes of the service: learn.microsoft.com/rest/api/storageservices/blob-service-error-codes and common-rest-api-error-codes. What is
// not here goes by its status.
func codes() map[bloberror.Code]backends.Code {
	return map[bloberror.Code]backends.Code{
		bloberror.BlobNotFound: backends.NotFound, bloberror.ResourceNotFound: backends.NotFound,
		bloberror.ContainerNotFound: backends.InvalidArgument, bloberror.ContainerDisabled: backends.InvalidArgument,
		bloberror.ContainerBeingDeleted: backends.Unavailable, bloberror.AccountBeingCreated: backends.Unavailable,
		bloberror.BlobAlreadyExists: backends.Exists, bloberror.ResourceAlreadyExists: backends.Exists,
		bloberror.ConditionNotMet: backends.Precondition, bloberror.TargetConditionNotMet: backends.Precondition,
		bloberror.InvalidRange: backends.InvalidRange,

		bloberror.AuthenticationFailed: backends.Unauthenticated, bloberror.InvalidAuthenticationInfo: backends.Unauthenticated,
		bloberror.NoAuthenticationInformation: backends.Unauthenticated,
		bloberror.AuthorizationFailure:        backends.Denied, bloberror.AuthorizationPermissionMismatch: backends.Denied,
		bloberror.AuthorizationProtocolMismatch: backends.Denied, bloberror.AuthorizationResourceTypeMismatch: backends.Denied,
		bloberror.AuthorizationServiceMismatch: backends.Denied, bloberror.AuthorizationSourceIPMismatch: backends.Denied,
		bloberror.InsufficientAccountPermissions: backends.Denied, bloberror.AccountIsDisabled: backends.Denied,
		bloberror.BlobImmutableDueToPolicy: backends.Denied, bloberror.UnauthorizedBlobOverwrite: backends.Denied,
		bloberror.LeaseIDMissing: backends.Denied,

		bloberror.ServerBusy: backends.Throttled, "TooManyRequests": backends.Throttled, "IngressOverAccountLimit": backends.Throttled,
		"EgressOverAccountLimit": backends.Throttled, "OperationsPerSecondOverAccountLimit": backends.Throttled, bloberror.SnapshotOperationRateExceeded: backends.Throttled,
		bloberror.InternalError: backends.Unavailable, bloberror.OperationTimedOut: backends.Unavailable, bloberror.SystemInUse: backends.Unavailable,

		bloberror.MD5Mismatch: backends.Corrupt, bloberror.CRC64Mismatch: backends.Corrupt,
		bloberror.BlockCountExceedsLimit: backends.Exhausted, "AccountFull": backends.Exhausted, "AccountLimitExceeded": backends.Exhausted,
		bloberror.InvalidBlockList: backends.Unavailable,
		bloberror.BlobArchived:     backends.Unsupported, bloberror.BlobBeingRehydrated: backends.Unsupported, bloberror.InvalidBlobType: backends.Unsupported,
		bloberror.BlobUsesCustomerSpecifiedEncryption: backends.Unsupported, "FeatureNotSupported": backends.Unsupported,
		bloberror.FeatureVersionMismatch: backends.Unsupported,
	}
}

// codeOfStatus is for answers without a code that we know.
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
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return backends.Unsupported
	case http.StatusPreconditionFailed:
		return backends.Precondition
	case http.StatusRequestedRangeNotSatisfiable:
		return backends.InvalidRange
	case http.StatusTooManyRequests:
		return backends.Throttled
	case http.StatusRequestTimeout:
		return backends.Timeout
	case http.StatusInsufficientStorage:
		return backends.Exhausted
	}
	switch {
	case status >= 500:
		return backends.Unavailable
	case status >= 300:
		return backends.InvalidArgument
	case status >= 200: // another one than that of the operation: not the service's answer
		return backends.Corrupt
	}
	return backends.Unknown
}

// answer is an error that the service answered with, in one line. The SDK's own text has many, the address among them.
type answer struct {
	code, message string
	err           error
}

func (a *answer) Error() string {
	if a.message == "" {
		return a.code
	}
	return a.code + ": " + a.message
}

func (a *answer) Unwrap() error { return a.err }

// classify is the one place where errors get their code.
func (d *Driver) classify(c *httpstore.Call, err error, s step) error {
	if why := c.Ended(); why != nil {
		return why
	}
	e := &backends.Error{Err: err, Attempts: c.Attempts()}
	fault := httpstore.NoFault
	if re, ok := errors.AsType[*azcore.ResponseError](err); ok && !isToken(err) {
		d.describe(e, re, s)
	} else {
		e.Code, fault = httpstore.NetworkCode(err)
	}
	if e.Code == backends.Unknown && e.Status == 0 {
		switch {
		case isToken(err):
			e.Code = backends.Unauthenticated
		case e.Attempts > 0: // an answer came that the SDK cannot decode: its error has no type
			e.Code = backends.Corrupt
		}
	}
	refine(e, s)
	d.hint(e, s, fault)
	return e
}

// isToken reports whether no token could be had to sign the request with.
func isToken(err error) bool {
	_, ok := errors.AsType[*tokenError](err)
	return ok
}

// describe takes code, text and what support asks for from an answer.
func (d *Driver) describe(e *backends.Error, re *azcore.ResponseError, s step) {
	e.Status = re.StatusCode
	known := false
	if e.Code, known = codes()[bloberror.Code(re.ErrorCode)]; !known {
		e.Code = codeOfStatus(re.StatusCode, s)
	}
	if re.RawResponse != nil && isMismatch(bloberror.Code(re.ErrorCode), re.RawResponse.Request) {
		e.Code = backends.Corrupt
	}
	a := &answer{code: re.ErrorCode, err: re}
	if a.code == "" {
		a.code = http.StatusText(re.StatusCode)
	}
	e.Err = a
	resp := re.RawResponse
	if resp == nil {
		return
	}
	e.RequestID = resp.Header.Get("X-Ms-Request-Id")
	e.RetryAfter = retryAfter(resp.Header)
	if body, err := runtime.Payload(resp); err == nil {
		a.message = messageOf(body)
	}
	// The service allows a quarter of an hour: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
	if server, err := http.ParseTime(resp.Header.Get("Date")); err == nil && (e.Code == backends.Unauthenticated || e.Code == backends.Denied) {
		if off := d.now().Sub(server).Abs(); off > maxSkew {
			e.Code = backends.ClockSkew
			a.message = fmt.Sprintf("%s (the clocks differ by %s)", a.message, off.Round(time.Second))
		}
	}
}

const maxSkew = 15 * time.Minute

// messageOf returns the first line of the text in the body of an error.
func messageOf(body []byte) string {
	var doc struct {
		Message string
		Detail  string `xml:"AuthenticationErrorDetail"`
	}
	if xml.Unmarshal(body, &doc) != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(doc.Message), "\n")
	if doc.Detail != "" {
		first += " " + doc.Detail
	}
	if len(first) > 1000 {
		first = first[:1000]
	}
	return strings.TrimSpace(first)
}

func retryAfter(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n > 0 {
			return time.Duration(min(n, 3600_000)) * time.Millisecond
		}
	}
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	return 0
}

// refine adds what the step makes of a code.
func refine(e *backends.Error, s step) {
	if e.Code == backends.Precondition && s.ifAbsent() {
		e.Code = backends.Exists
	}
	if !s.commits() {
		return
	}
	again := e.Attempts > 1 // an attempt before may have been carried out
	switch {
	case e.Code == backends.Exists:
		e.Ambiguous = again
	case isCode(e.Err, bloberror.InvalidBlockList): // another upload to this key has committed, and its commit dropped our blocks
		e.Restart, e.Ambiguous = true, again
	case e.Code == backends.Throttled && e.Status != 0: // refused, each attempt that was answered like this
		e.Ambiguous = again
	case e.Code.Temporary() || e.Code == backends.Unknown || e.Code == backends.Corrupt && e.Status < 300:
		e.Ambiguous = e.Attempts > 0
	}
}

// mayHappenLater reports whether a commit that failed with err may still be carried out: nothing was answered, or an attempt before the last was not.
func mayHappenLater(err error) bool {
	e, ok := errors.AsType[*backends.Error](err)
	if !ok {
		return true // the caller's context ended
	}
	return e.Ambiguous && e.Code != backends.Exists && !e.Restart || e.Code == backends.Closed
}

func isCode(err error, code bloberror.Code) bool { return bloberror.HasCode(err, code) }

// hint says what to do, where that is a setting or a permission.
func (d *Driver) hint(e *backends.Error, s step, fault httpstore.Fault) {
	text := ""
	switch {
	case fault == httpstore.Certificate:
		text = fmt.Sprintf("the server's certificate or protocol is not accepted, see %s, %s and %s", keyCAFile, keyVerify, keyEndpoint)
	case fault == httpstore.HostName:
		text = fmt.Sprintf("there is no such host, see %s and %s", keyAccount, keyEndpoint)
	case isCode(e.Err, bloberror.ContainerNotFound):
		text = fmt.Sprintf("container %q does not exist there, see %s and %s", d.o.Container, keyContainer, keyAccount)
	case isCode(e.Err, bloberror.InvalidBlobOrBlock) || isCode(e.Err, bloberror.InvalidBlockID):
		text = "another program has left uncommitted blocks of another kind under this key; the service drops them within a week"
	case isCode(e.Err, bloberror.BlockCountExceedsLimit):
		text = "the key has 100,000 uncommitted blocks from uploads that failed; the service drops them within a week"
	case isCode(e.Err, bloberror.BlobArchived) || isCode(e.Err, bloberror.BlobBeingRehydrated):
		text = "the object is in an archive tier"
	case isCode(e.Err, bloberror.BlobImmutableDueToPolicy):
		text = "a policy of the container forbids to change or delete it"
	case e.Code == backends.Denied:
		text = "the credentials lack the permission " + s.permission() + ", or the account's firewall refuses this machine"
	case e.Code == backends.Unauthenticated:
		text = fmt.Sprintf("the credentials are not accepted, see %s, %s, %s or DefaultAzureCredential", keyKey, keySAS, keyConnection)
	case e.Code == backends.ClockSkew:
		text = "set this machine's clock"
	}
	if text != "" {
		e.Err = fmt.Errorf("%s: %w", text, e.Err)
	}
}
