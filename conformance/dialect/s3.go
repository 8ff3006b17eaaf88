package dialect

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"

	"github.com/tierkit/tierkit/conformance/fault"
)

// S3 is the protocol of Amazon S3: docs.aws.amazon.com/AmazonS3/latest/API.
type S3 struct {
	VirtualHost bool // the bucket is in the host name, not in the path
}

var _ fault.Dialect = S3{}

// Step implements fault.Dialect.
func (d S3) Step(r *http.Request) string {
	key := strings.TrimPrefix(r.URL.Path, "/")
	if !d.VirtualHost {
		_, key, _ = strings.Cut(key, "/")
	}
	q := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Host, "sts.") || r.Method == http.MethodPost && len(q) == 0, strings.HasPrefix(r.URL.Host, "169.254."):
		return fault.Token
	case q.Has("uploadId"):
		return map[string]string{
			http.MethodPut: fault.MPUPart, http.MethodPost: fault.MPUCommit, http.MethodDelete: fault.MPUAbort, http.MethodGet: fault.MPUParts,
		}[r.Method]
	case q.Has("uploads"):
		return map[string]string{http.MethodPost: fault.MPUBegin, http.MethodGet: fault.MPUList}[r.Method]
	case q.Has("delete"):
		return fault.Bulk
	case key == "":
		return map[bool]string{true: fault.List, false: fault.Bucket}[q.Has("list-type")]
	}
	return map[string]string{
		http.MethodPut: fault.Put, http.MethodGet: fault.Get, http.MethodHead: fault.Stat, http.MethodDelete: fault.Delete,
	}[r.Method]
}

// s3Errors are status and code: docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html.
func s3Errors() map[fault.ErrorKind]providerError {
	return map[fault.ErrorKind]providerError{
		fault.Internal: {500, "InternalError"}, fault.BadGateway: {502, ""}, fault.Unavailable: {503, "ServiceUnavailable"}, fault.GatewayTimeout: {504, ""},
		fault.TooManyRequests: {429, "TooManyRequests"}, fault.SlowDown: {503, "SlowDown"}, fault.BadRequest: {400, "InvalidRequest"},
		fault.Unauthenticated: {403, "InvalidAccessKeyId"}, fault.ExpiredToken: {400, "ExpiredToken"}, fault.Denied: {403, "AccessDenied"},
		fault.ClockSkew: {403, "RequestTimeTooSkewed"}, fault.NotFound: {404, "NoSuchKey"}, fault.NoBucket: {404, "NoSuchBucket"},
		fault.NoUpload: {404, "NoSuchUpload"}, fault.Conflict: {409, "OperationAborted"}, fault.Precondition: {412, "PreconditionFailed"},
		fault.InvalidRange: {416, "InvalidRange"}, fault.BadChecksum: {400, "BadDigest"}, fault.Quota: {507, "QuotaExceeded"},
		fault.Archived: {403, "InvalidObjectState"}, fault.RequestTimeout: {400, "RequestTimeout"},
	}
}

// providerError is one answer of a provider: its status and its own word.
type providerError struct {
	status int
	code   string
}

// Error implements fault.Dialect.
func (S3) Error(step string, kind fault.ErrorKind) *http.Response {
	e, ok := s3Errors()[kind]
	if !ok {
		return nil
	}
	if e.code == "" {
		return fault.NewResponse(e.status, "", "X-Amz-Request-Id", requestID)
	}
	if step == fault.Token { // docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
		body := fmt.Sprintf("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>%s</Code><Message>Something happened.</Message></Error><RequestId>%s</RequestId></ErrorResponse>", e.code, requestID)
		return fault.NewResponse(e.status, body, "Content-Type", "text/xml", "X-Amzn-Requestid", requestID)
	}
	body := fmt.Sprintf("%s<Error><Code>%s</Code><Message>Something happened.</Message><Resource>/</Resource><RequestId>%s</RequestId></Error>", xml.Header, e.code, requestID)
	return fault.NewResponse(e.status, body, "Content-Type", "application/xml", "X-Amz-Request-Id", requestID)
}

// BulkFailed forges the answer to a DeleteObjects of which some keys could not be deleted.
func (S3) BulkFailed(keys []string) *http.Response {
	var b strings.Builder
	b.WriteString(xml.Header + "<DeleteResult>")
	for _, key := range keys {
		b.WriteString("<Error><Key>")
		_ = xml.EscapeText(&b, []byte(key)) // into memory
		b.WriteString("</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
	}
	b.WriteString("</DeleteResult>")
	return fault.NewResponse(http.StatusOK, b.String(), "Content-Type", "application/xml", "X-Amz-Request-Id", requestID)
}

// requestID is that of every forged answer.
const requestID = "FORGED0000000001"
