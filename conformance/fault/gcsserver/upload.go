package gcsserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// session is a resumable upload.
type session struct {
	bucket, name string
	query        url.Values
	meta         metadata
	data         []byte
	done         *object
	gone         bool
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, bucket string) *failure {
	q := r.URL.Query()
	switch {
	case q.Get("upload_id") != "":
		return s.resume(w, r, q.Get("upload_id"))
	case q.Get("uploadType") == "resumable":
		return s.begin(w, r, bucket)
	case q.Get("uploadType") == "multipart":
		return s.single(w, r, bucket)
	}
	return &failure{http.StatusBadRequest, "invalid"}
}

// single is an upload in one request: metadata and bytes in a multipart/related body.
func (s *Server) single(w http.ResponseWriter, r *http.Request, bucket string) *failure {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return &failure{http.StatusBadRequest, "invalid"}
	}
	body := multipart.NewReader(r.Body, params["boundary"])
	var m metadata
	part, err := body.NextPart()
	if err == nil {
		err = json.NewDecoder(part).Decode(&m)
	}
	var data []byte
	if err == nil {
		part, err = body.NextPart()
	}
	if err == nil {
		data, err = io.ReadAll(part)
	}
	if err == nil {
		_, err = body.NextPart() // the end, without which the body was cut
	}
	if !errors.Is(err, io.EOF) {
		return &failure{http.StatusBadRequest, "invalid"}
	}
	if name := r.URL.Query().Get("name"); name != "" {
		m.Name = name
	}
	o, fail := s.store(bucket, r.URL.Query(), m, data)
	if fail == nil {
		writeJSON(w, http.StatusOK, o.resource())
	}
	return fail
}

// begin opens a session.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, bucket string) *failure {
	var m metadata
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return &failure{http.StatusBadRequest, "invalid"}
	}
	q := r.URL.Query()
	if name := q.Get("name"); name != "" {
		m.Name = name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !allows(q, s.buckets[bucket][m.Name]) {
		return &failure{http.StatusPreconditionFailed, "conditionNotMet"}
	}
	s.made++
	id := fmt.Sprintf("session-%d", s.made)
	s.sessions[id] = &session{bucket: bucket, name: m.Name, query: q, meta: m}
	w.Header().Set("Location", fmt.Sprintf("http://%s/upload/storage/v1/b/%s/o?uploadType=resumable&upload_id=%s", r.Host, url.PathEscape(bucket), id))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return nil
}

// Expire makes every session that is open one that the service does not know any more.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, up := range s.sessions {
		up.gone = up.done == nil
	}
}

// resume takes a piece, tells how far the session is, or ends it.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, id string) *failure {
	body, berr := io.ReadAll(r.Body) // what came before the connection broke is kept
	s.mu.Lock()
	up := s.sessions[id]
	s.mu.Unlock()
	switch {
	case up == nil || up.gone:
		return &failure{http.StatusGone, "gone"}
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, id)
		s.mu.Unlock()
		w.WriteHeader(499) // as documented
		return nil
	}
	at, total, ok := parseContentRange(r.Header.Get("Content-Range"))
	if !ok {
		return &failure{http.StatusBadRequest, "invalid"}
	}
	s.mu.Lock()
	done := up.done
	if done == nil && at >= 0 && at <= len(up.data) && at+len(body) > len(up.data) {
		up.data = append(up.data, body[len(up.data)-at:]...)
	}
	have := len(up.data)
	s.mu.Unlock()
	switch {
	case done != nil:
		writeJSON(w, http.StatusOK, done.resource())
	case berr != nil:
		return &failure{http.StatusServiceUnavailable, "backendError"} // nobody hears it
	case total < 0 || have < total:
		s.incomplete(w, r, have)
	case have > total:
		return &failure{http.StatusBadRequest, "invalid"}
	default:
		return s.finish(w, r, up)
	}
	return nil
}

// finish makes the object. Its checksum may come with the last piece.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, up *session) *failure {
	if sum, ok := strings.CutPrefix(r.Header.Get("X-Goog-Hash"), "crc32c="); ok {
		up.meta.CRC32C = sum
	}
	o, fail := s.store(up.bucket, up.query, up.meta, up.data)
	s.mu.Lock()
	up.done, up.gone = o, fail != nil
	s.mu.Unlock()
	if fail != nil {
		return fail
	}
	writeJSON(w, http.StatusOK, o.resource())
	return nil
}

// incomplete is "308 Resume Incomplete", or what a client gets in its place that has asked for another status.
func (s *Server) incomplete(w http.ResponseWriter, r *http.Request, have int) {
	if have > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", have-1))
	}
	w.Header().Set("Content-Length", "0")
	if r.Header.Get("X-Guploader-No-308") == "yes" {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}

// parseContentRange reads "bytes 0-9/20", "bytes 0-9/*", "bytes */20" and "bytes */*". at is -1 without a span, total -1 without a total.
func parseContentRange(s string) (at, total int, ok bool) {
	at, total = -1, -1
	span, size, ok := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	if !ok {
		return at, total, false
	}
	var err error
	if size != "*" {
		if total, err = strconv.Atoi(size); err != nil {
			return -1, -1, false
		}
	}
	if span != "*" {
		from, _, _ := strings.Cut(span, "-")
		if at, err = strconv.Atoi(from); err != nil {
			return -1, -1, false
		}
	}
	return at, total, true
}
