package dialect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tierkit/tierkit/conformance/fault"
)

// GCS is the JSON API of Google Cloud Storage: cloud.google.com/storage/docs/json_api.
type GCS struct{}

var _ fault.Dialect = GCS{}

// Step implements fault.Dialect.
func (GCS) Step(r *http.Request) string {
	q, path := r.URL.Query(), r.URL.Path
	_, object, inObjects := strings.Cut(path, "/o")
	switch {
	case !strings.Contains(path, "/storage/v1/b"):
		return fault.Token // a metadata server, an exchange of tokens
	case q.Has("upload_id"):
		return gcsChunk(r)
	case q.Get("uploadType") == "resumable":
		return fault.ResumableBegin
	case q.Get("uploadType") == "multipart" || q.Get("uploadType") == "media":
		return fault.Put
	case !inObjects:
		return fault.Bucket
	case object == "" && r.Method == http.MethodGet:
		return fault.List
	case r.Method == http.MethodGet && q.Get("alt") == "media":
		return fault.Get
	}
	return map[string]string{http.MethodGet: fault.Stat, http.MethodDelete: fault.Delete}[r.Method]
}

// gcsChunk goes by the Content-Range: "bytes 0-9/*" is a piece, "bytes 10-19/20" and "bytes */20" of a POST are the last one, "bytes */*" asks how far
// the session is.
func gcsChunk(r *http.Request) string {
	_, rng, _ := strings.Cut(r.Header.Get("Content-Range"), " ")
	span, total, _ := strings.Cut(rng, "/")
	switch {
	case r.Method == http.MethodDelete:
		return fault.ResumableCancel
	case span == "*" && (total == "*" || r.Method == http.MethodPut):
		return fault.ResumableQuery
	case total == "*":
		return fault.ResumableChunk
	}
	return fault.ResumableCommit
}

// gcsErrors are status and reason: cloud.google.com/storage/docs/json_api/v1/status-codes.
func gcsErrors() map[fault.ErrorKind]providerError {
	return map[fault.ErrorKind]providerError{
		fault.Internal: {500, "internalError"}, fault.BadGateway: {502, ""}, fault.Unavailable: {503, "backendError"}, fault.GatewayTimeout: {504, ""},
		fault.TooManyRequests: {429, "rateLimitExceeded"}, fault.SlowDown: {429, "rateLimitExceeded"}, fault.RateLimit: {403, "rateLimitExceeded"},
		fault.BadRequest: {400, "invalid"}, fault.Unauthenticated: {401, "authError"}, fault.ExpiredToken: {401, "authError"}, fault.Denied: {403, "forbidden"},
		fault.NotFound: {404, "notFound"}, fault.NoBucket: {404, "notFound"}, fault.NoUpload: {410, "gone"}, fault.Conflict: {409, "conflict"},
		fault.Precondition: {412, "conditionNotMet"}, fault.InvalidRange: {416, "requestedRangeNotSatisfiable"}, fault.BadChecksum: {400, "invalid"},
		fault.Quota: {403, "quotaExceeded"}, fault.RequestTimeout: {408, "uploadBrokenConnection"},
	}
}

// Error implements fault.Dialect.
func (GCS) Error(step string, kind fault.ErrorKind) *http.Response {
	e, ok := gcsErrors()[kind]
	if !ok || step == fault.Token && kind == fault.RateLimit {
		return nil
	}
	if e.code == "" {
		return fault.NewResponse(e.status, "", "X-Guploader-Uploadid", requestID)
	}
	body := fmt.Sprintf(`{"error":{"code":%d,"message":"Something happened.","errors":[{"message":"Something happened.","domain":"global","reason":%q}]}}`, e.status, e.code)
	return fault.NewResponse(e.status, body, "Content-Type", "application/json; charset=UTF-8", "X-Guploader-Uploadid", requestID)
}
