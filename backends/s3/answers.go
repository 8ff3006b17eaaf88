package s3

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/tierkit/tierkit/backends"
)

// maxErrorBody bounds what is read of an answer that is an error: the SDK reads it whole.
const maxErrorBody = 64 << 10

// answers looks whether an answer that says success comes from a store at all: of a proxy's page, or of nothing, the SDK makes an empty listing, or the
// success of a removal.
type answers struct {
	next  http.RoundTripper
	sight *sight
}

var _ http.RoundTripper = answers{}

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.sight.saw(r, resp)
	if resp.StatusCode/100 != 2 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
		return resp, nil
	}
	q := r.URL.Query()
	root := ""
	switch {
	case q.Has("delete"):
		root = "<DeleteResult"
	case q.Has("list-type"):
		root = "<ListBucketResult"
	case q.Has("uploads") && r.Method == http.MethodGet:
		root = "<ListMultipartUploadsResult"
	case r.Method == http.MethodDelete && resp.StatusCode == http.StatusOK && resp.ContentLength != 0:
		root = "<Error" // the one body that the SDK reads
	default:
		return resp, nil
	}
	err = begins(resp, root, "<Error")
	if err != nil {
		_ = resp.Body.Close() // it is of no use
		return nil, err
	}
	return resp, nil
}

// begins looks for one of the roots at the start of an answer's body.
func begins(resp *http.Response, roots ...string) error {
	const prolog = 1024 // more than any declaration and space before the root
	buffered := bufio.NewReaderSize(resp.Body, prolog)
	start, err := buffered.Peek(prolog)
	if err != nil && err != io.EOF {
		return err
	}
	for _, root := range roots {
		if bytes.Contains(start, []byte(root)) {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{buffered, resp.Body}
			return nil
		}
	}
	return foreign("has not the content of one")
}

// foreign is an answer that says success and cannot be a store's. At a commit nobody knows then what was done.
func foreign(why string) error {
	return &backends.Error{Code: backends.Corrupt, Status: http.StatusOK, Err: errors.New("the answer says success, but " + why)}
}

// etagged refuses an answer about an object's bytes that has no ETag: every store sends one.
func etagged(etag *string) error {
	if etag == nil {
		return foreign("has no ETag")
	}
	return nil
}
