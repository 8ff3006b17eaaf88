package gcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// maxAnswer bounds an answer that is read whole. A page of a listing has some hundred KB.
const maxAnswer = 64 << 20

// maxError bounds what is read of an error here.
const maxError = 64 << 10

// answers looks whether an answer that says success comes from the service at all. Of a proxy's page, or of an error under a wrong status, the SDK makes an
// empty listing, an object of no bytes, the success of a removal; and success in the middle of an upload keeps its Writer waiting for ever (storage v1.70.0:
// nobody reads the pipe any more).
type answers struct{ next http.RoundTripper }

var _ http.RoundTripper = answers{}

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusForbidden && req.URL.Query().Get("uploadType") != "":
		return throttled(resp), nil
	case resp.StatusCode/100 != 2:
		return resp, nil
	}
	if err := check(req, resp); err != nil {
		_ = resp.Body.Close() // it is of no use
		return nil, err
	}
	return resp, nil
}

func check(req *http.Request, resp *http.Response) error {
	q := req.URL.Query()
	switch {
	case q.Get("alt") == "media":
		return has(resp, "X-Goog-Generation")
	case q.Get("upload_id") != "" && strings.HasSuffix(req.Header.Get("Content-Range"), "/*"):
		return has(resp, "X-Http-Status-Code-Override") // "go on"
	case q.Get("uploadType") == "resumable" && q.Get("upload_id") == "":
		return has(resp, "Location")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &httpstore.TransportError{Err: err}
	}
	_ = resp.Body.Close() // read to its end
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 && req.Method == http.MethodDelete {
		return nil
	}
	var doc struct{ Error json.RawMessage }
	if json.Unmarshal(body, &doc) != nil || doc.Error != nil {
		return foreign("is not what was asked for")
	}
	return nil
}

// throttled makes a 429 of a 403 that means it: of an upload's answers the SDK looks at the status alone to know whether to try again.
func throttled(resp *http.Response) *http.Response {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	_ = resp.Body.Close() // what is behind is of no interest
	resp.Body = io.NopCloser(bytes.NewReader(body))
	e := decoded(&googleapi.Error{Code: resp.StatusCode, Body: string(body)})
	if err == nil && codeOf(e, stepGet) == backends.Throttled {
		resp.StatusCode = http.StatusTooManyRequests
	}
	return resp
}

func has(resp *http.Response, header string) error {
	if resp.Header.Get(header) == "" {
		return foreign("has no " + header)
	}
	return nil
}

// foreign is an answer that says success and cannot be the service's. At a commit nobody knows then what was done.
func foreign(why string) error {
	return &backends.Error{Code: backends.Corrupt, Status: http.StatusOK, Err: errors.New("the answer says success, but " + why)}
}
