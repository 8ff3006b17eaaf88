package gcsserver

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is an http.Handler. Buckets that were not named do not exist.
type Server struct {
	now func() time.Time

	mu         sync.Mutex
	buckets    map[string]map[string]*object
	sessions   map[string]*session
	generation int64
	made       int // sessions
}

// New returns a server with these buckets.
func New(buckets ...string) *Server {
	s := &Server{now: time.Now, buckets: make(map[string]map[string]*object), sessions: make(map[string]*session)} //nolint:forbidigo // a server's clock
	for _, b := range buckets {
		s.AddBucket(b)
	}
	return s
}

// AddBucket makes a bucket.
func (s *Server) AddBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[name] = make(map[string]*object)
}

// Sessions returns the names of the objects of uploads that were begun and neither finished nor cancelled.
func (s *Server) Sessions(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, up := range s.sessions {
		if up.bucket == bucket && up.done == nil {
			out = append(out, up.name)
		}
	}
	slices.Sort(out)
	return out
}

// object is one version of an object.
type object struct {
	bucket, name string
	data         []byte
	meta         metadata
	generation   int64
	updated      time.Time
}

// metadata is what a client says of an object.
type metadata struct {
	Name        string            `json:"name"`
	ContentType string            `json:"contentType,omitempty"`
	Class       string            `json:"storageClass,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	CRC32C      string            `json:"crc32c,omitempty"`
}

func sumOf(b []byte) string {
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// resource is the JSON of an object.
func (o *object) resource() map[string]any {
	at := o.updated.UTC().Format(time.RFC3339Nano)
	return map[string]any{
		"kind": "storage#object", "bucket": o.bucket, "name": o.name, "size": strconv.Itoa(len(o.data)), "generation": strconv.FormatInt(o.generation, 10),
		"metageneration": "1", "crc32c": sumOf(o.data), "timeCreated": at, "updated": at, "contentType": o.meta.ContentType, "metadata": o.meta.Metadata,
		"storageClass": o.meta.Class, "etag": fmt.Sprintf("CI%d=", o.generation),
	}
}

// failure is an error of the service.
type failure struct {
	status int
	reason string
}

func (f *failure) write(w http.ResponseWriter) {
	writeJSON(w, f.status, map[string]any{"error": map[string]any{
		"code": f.status, "message": f.reason, "errors": []map[string]string{{"message": f.reason, "domain": "global", "reason": f.reason}},
	}})
}

func notFound() *failure { return &failure{http.StatusNotFound, "notFound"} }

func writeJSON(w http.ResponseWriter, status int, doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, upload := strings.CutPrefix(r.URL.EscapedPath(), "/upload")
	rest, ok := strings.CutPrefix(path, "/storage/v1/b/")
	bucket, rest, inside := strings.Cut(rest, "/o")
	bucket, err := url.PathUnescape(bucket)
	name, err2 := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	w.Header().Set("X-Guploader-Uploadid", "own")
	var fail *failure
	switch {
	case emptyToken(r):
		fail = &failure{http.StatusUnauthorized, "authError"}
	case !ok || err != nil || err2 != nil:
		fail = &failure{http.StatusBadRequest, "invalid"}
	case !s.has(bucket):
		fail = notFound()
	case !inside:
		writeJSON(w, http.StatusOK, map[string]string{"kind": "storage#bucket", "name": bucket})
	case upload:
		fail = s.upload(w, r, bucket)
	case name == "" && r.Method == http.MethodGet:
		s.list(w, r, bucket)
	case name != "":
		fail = s.object(w, r, bucket, name)
	default:
		fail = &failure{http.StatusMethodNotAllowed, "invalid"}
	}
	if fail != nil {
		fail.write(w)
	}
}

// emptyToken tells whether the request is signed with nothing. One that is not signed at all is that of a client which knows that this is no real store.
func emptyToken(r *http.Request) bool {
	h := r.Header.Get("Authorization")
	_, token, _ := strings.Cut(h, " ")
	return h != "" && strings.TrimSpace(token) == ""
}

func (s *Server) has(bucket string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.buckets[bucket]
	return ok
}

// allows holds the conditions of a request against what is there now.
func allows(q url.Values, o *object) bool {
	generation := int64(0)
	if o != nil {
		generation = o.generation
	}
	if want := q.Get("ifGenerationMatch"); want != "" && want != strconv.FormatInt(generation, 10) {
		return false
	}
	not := q.Get("ifGenerationNotMatch")
	return not == "" || not != strconv.FormatInt(generation, 10)
}

// store makes a new version, if the conditions and the checksum allow.
func (s *Server) store(bucket string, q url.Values, m metadata, data []byte) (*object, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Name == "":
		return nil, &failure{http.StatusBadRequest, "required"}
	case !allows(q, s.buckets[bucket][m.Name]):
		return nil, &failure{http.StatusPreconditionFailed, "conditionNotMet"}
	case m.CRC32C != "" && m.CRC32C != sumOf(data):
		return nil, &failure{http.StatusBadRequest, "invalid"}
	}
	s.generation = max(s.generation+1, s.now().UnixMicro())
	o := &object{bucket: bucket, name: m.Name, data: data, meta: m, generation: s.generation, updated: s.now()}
	s.buckets[bucket][m.Name] = o
	return o, nil
}

func (s *Server) object(w http.ResponseWriter, r *http.Request, bucket, name string) *failure {
	s.mu.Lock()
	o := s.buckets[bucket][name]
	q := r.URL.Query()
	ok := allows(q, o)
	if ok && o != nil && r.Method == http.MethodDelete {
		delete(s.buckets[bucket], name)
	}
	s.mu.Unlock()
	switch {
	case o == nil && q.Get("ifGenerationMatch") == "":
		return notFound()
	case !ok || o == nil:
		return &failure{http.StatusPreconditionFailed, "conditionNotMet"}
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && q.Get("alt") == "media":
		return media(w, r, o)
	case r.Method == http.MethodGet:
		writeJSON(w, http.StatusOK, o.resource())
	default:
		return &failure{http.StatusMethodNotAllowed, "invalid"}
	}
	return nil
}

// media answers with bytes.
func media(w http.ResponseWriter, r *http.Request, o *object) *failure {
	h := w.Header()
	h.Set("X-Goog-Generation", strconv.FormatInt(o.generation, 10))
	h.Set("X-Goog-Metageneration", "1")
	h.Set("X-Goog-Hash", "crc32c="+sumOf(o.data))
	h.Set("X-Goog-Stored-Content-Length", strconv.Itoa(len(o.data)))
	h.Set("X-Goog-Stored-Content-Encoding", "identity")
	h.Set("Last-Modified", o.updated.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/octet-stream")
	for k, v := range o.meta.Metadata {
		h.Set("X-Goog-Meta-"+k, v)
	}
	data, status := o.data, http.StatusOK
	if rng := r.Header.Get("Range"); rng != "" {
		from, to, ok := parseRange(rng, len(o.data))
		if !ok {
			return &failure{http.StatusRequestedRangeNotSatisfiable, "requestedRangeNotSatisfiable"}
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(o.data)))
		data, status = o.data[from:to], http.StatusPartialContent
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client has gone
	return nil
}

// parseRange reads "bytes=1-2" and "bytes=1-".
func parseRange(s string, size int) (from, to int, ok bool) {
	a, b, _ := strings.Cut(strings.TrimPrefix(s, "bytes="), "-")
	from, err := strconv.Atoi(a)
	if err != nil || from < 0 || from >= size {
		return 0, 0, false
	}
	to = size
	if b != "" {
		last, err := strconv.Atoi(b)
		if err != nil || last < from {
			return 0, 0, false
		}
		to = min(size, last+1)
	}
	return from, to, true
}

// list answers with a page. Its token is the name of the next object.
func (s *Server) list(w http.ResponseWriter, r *http.Request, bucket string) {
	q := r.URL.Query()
	start := max(q.Get("startOffset"), q.Get("pageToken"))
	most, err := strconv.Atoi(q.Get("maxResults"))
	if err != nil || most <= 0 {
		most = 1000
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.buckets[bucket] {
		if strings.HasPrefix(name, q.Get("prefix")) && name >= start {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	doc := map[string]any{"kind": "storage#objects"}
	if len(names) > most {
		doc["nextPageToken"] = names[most]
		names = names[:most]
	}
	items := make([]any, len(names))
	for i, name := range names {
		items[i] = s.buckets[bucket][name].resource()
	}
	doc["items"] = items
	writeJSON(w, http.StatusOK, doc)
}
