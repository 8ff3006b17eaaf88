package dialect

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tierkit/tierkit/conformance/fault"
)

// Azure is the REST API of Azure Blob Storage: learn.microsoft.com/rest/api/storageservices/blob-service-rest-api.
type Azure struct{}

var _ fault.Dialect = Azure{}

// Step implements fault.Dialect.
func (Azure) Step(r *http.Request) string {
	q := r.URL.Query()
	comp := q.Get("comp")
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") || strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		return fault.Discovery
	case strings.Contains(r.URL.Path, "/oauth2/") || strings.HasPrefix(r.URL.Host, "169.254.") || q.Has("resource") || r.Method == http.MethodPost && comp == "":
		return fault.Token
	case comp == "list":
		return fault.List
	case q.Get("restype") == "container":
		return fault.Bucket
	case comp == "block" && r.Method == http.MethodPut:
		return fault.BlockStage
	case comp == "blocklist":
		return map[string]string{http.MethodPut: fault.BlockCommit, http.MethodGet: fault.BlockList}[r.Method]
	case comp == "batch":
		return fault.Bulk
	case comp != "":
		return ""
	}
	return map[string]string{
		http.MethodPut: fault.Put, http.MethodGet: fault.Get, http.MethodHead: fault.Stat, http.MethodDelete: fault.Delete,
	}[r.Method]
}

// azureErrors are status and code: learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
func azureErrors() map[fault.ErrorKind]providerError {
	return map[fault.ErrorKind]providerError{
		fault.Internal: {500, "InternalError"}, fault.BadGateway: {502, ""}, fault.Unavailable: {503, "SystemInUse"}, fault.GatewayTimeout: {504, ""},
		fault.TooManyRequests: {429, "TooManyRequests"}, fault.SlowDown: {503, "ServerBusy"}, fault.BadRequest: {400, "InvalidInput"},
		fault.Unauthenticated: {403, "AuthenticationFailed"}, fault.ExpiredToken: {401, "InvalidAuthenticationInfo"}, fault.Denied: {403, "AuthorizationPermissionMismatch"},
		fault.NotFound: {404, "BlobNotFound"}, fault.NoBucket: {404, "ContainerNotFound"}, fault.NoUpload: {400, "InvalidBlockList"},
		fault.Conflict: {409, "ContainerBeingDeleted"}, fault.Precondition: {412, "ConditionNotMet"}, fault.InvalidRange: {416, "InvalidRange"},
		fault.BadChecksum: {400, "Md5Mismatch"}, fault.Quota: {409, "AccountFull"}, fault.Archived: {409, "BlobArchived"},
		fault.RequestTimeout: {408, "RequestBodyIncomplete"},
	}
}

// Error implements fault.Dialect.
func (Azure) Error(_ string, kind fault.ErrorKind) *http.Response {
	e, ok := azureErrors()[kind]
	if !ok {
		return nil
	}
	if e.code == "" {
		return fault.NewResponse(e.status, "", "X-Ms-Request-Id", requestID)
	}
	body := fmt.Sprintf("\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>Something happened.\nRequestId:%s</Message></Error>", e.code, requestID)
	return fault.NewResponse(e.status, body, "Content-Type", "application/xml", "X-Ms-Request-Id", requestID, "X-Ms-Error-Code", e.code)
}
