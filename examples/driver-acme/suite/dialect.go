package suite

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tierkit/tierkit/conformance/fault"
)

// Dialect tells the suite what each request is for, and what the store's errors look like. With it the suite runs the matrix of faults.
type Dialect struct{}

var _ fault.Dialect = Dialect{}

// Step implements fault.Dialect. A request that it does not know fails the run.
func (Dialect) Step(r *http.Request) string {
	path, inBucket := strings.CutPrefix(r.URL.Path, "/v1/b/")
	if !inBucket && r.Method == http.MethodPost {
		return fault.Token // at the store, or at another token server
	}
	_, what, _ := strings.Cut(path, "/") // behind the bucket
	return map[string]string{
		"PUT object": fault.Put, "GET object": fault.Get, "HEAD object": fault.Stat, "DELETE object": fault.Delete,
		"GET list": fault.List, "POST delete": fault.Bulk,
		"PUT upload": fault.MPUBegin, "PUT upload/part": fault.MPUPart, "POST upload/commit": fault.MPUCommit, "DELETE upload": fault.MPUAbort, "GET uploads": fault.MPUList,
	}[r.Method+" "+what]
}

// Error implements fault.Dialect. Nil: this store has no such answer.
func (Dialect) Error(_ string, kind fault.ErrorKind) *http.Response {
	e, ok := map[fault.ErrorKind]struct {
		status int
		code   string
	}{
		fault.Internal: {500, "internal"}, fault.BadGateway: {502, ""}, fault.Unavailable: {503, "unavailable"}, fault.GatewayTimeout: {504, ""},
		fault.TooManyRequests: {429, "slow_down"}, fault.SlowDown: {503, "slow_down"}, fault.BadRequest: {400, "bad_request"},
		fault.Unauthenticated: {401, "bad_credentials"}, fault.ExpiredToken: {401, "token_expired"}, fault.Denied: {403, "denied"},
		fault.NotFound: {404, "no_such_object"}, fault.NoBucket: {404, "no_such_bucket"}, fault.NoUpload: {404, "no_such_upload"},
		fault.Precondition: {412, "changed"}, fault.InvalidRange: {416, "bad_range"}, fault.BadChecksum: {400, "checksum_mismatch"},
		fault.Quota: {507, "quota_exceeded"},
	}[kind]
	if !ok {
		return nil
	}
	if e.code == "" { // a proxy before the store
		return fault.NewResponse(e.status, "")
	}
	body := fmt.Sprintf(`{"error":{"code":%q,"message":"Something happened."}}`, e.code)
	return fault.NewResponse(e.status, body, "Content-Type", "application/json", "Acme-Error", e.code, "Acme-Request-Id", "acme-forged")
}

// BulkFailed implements conformance.BulkForger: the answer to a bulk delete of which some keys could not be deleted.
func (Dialect) BulkFailed(keys []string) *http.Response {
	type failed struct {
		Key  string `json:"key"`
		Code string `json:"code"`
	}
	out := struct {
		Failed []failed `json:"failed"`
	}{[]failed{}}
	for _, key := range keys {
		out.Failed = append(out.Failed, failed{key, "denied"})
	}
	text, _ := json.Marshal(out) // texts alone
	return fault.NewResponse(http.StatusOK, string(text), "Content-Type", "application/json")
}
