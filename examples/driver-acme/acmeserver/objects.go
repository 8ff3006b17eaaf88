package acmeserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is one version; it never changes.
type object struct {
	data     []byte
	crc      string
	meta     string
	upload   string // what the client calls this version
	modified time.Time
	revision int64
}

// Info is an object as answers describe it.
type Info struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	Revision int64     `json:"revision"`
	Modified time.Time `json:"modified"`
	CRC32C   string    `json:"crc32c"`
}

func (o *object) info(key string) Info {
	return Info{Key: key, Size: int64(len(o.data)), Revision: o.revision, Modified: o.modified, CRC32C: o.crc}
}

func checksum(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// body reads what a request stores, and holds it against its length and checksum: what breaks off is not stored.
func body(r *http.Request) ([]byte, *failure) {
	if r.ContentLength < 0 || r.ContentLength > MaxPartBytes {
		return nil, fail(http.StatusLengthRequired, "bad_request", "a body needs a length, of at most %d", MaxPartBytes)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil || int64(len(data)) != r.ContentLength {
		return nil, fail(http.StatusBadRequest, "short_body", "the body broke off")
	}
	if want := r.Header.Get("Acme-Crc32c"); want != "" && want != checksum(data) {
		return nil, fail(http.StatusBadRequest, "checksum_mismatch", "the body has CRC-32C %s, announced was %s", checksum(data), want)
	}
	return data, nil
}

func key(r *http.Request) (string, *failure) {
	k := r.URL.Query().Get("key")
	if k == "" || len(k) > MaxKeyBytes {
		return "", fail(http.StatusBadRequest, "bad_key", "a key has 1 to %d bytes", MaxKeyBytes)
	}
	return k, nil
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) *failure {
	k, f := key(r)
	if f != nil {
		return f
	}
	data, f := body(r)
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(w, r, k, &object{data: data, meta: r.Header.Get("Acme-Meta"), upload: r.Header.Get("Acme-Upload")})
}

// store makes o the object of k. s.mu is held.
func (s *Server) store(w http.ResponseWriter, r *http.Request, k string, o *object) *failure {
	if _, there := s.objects[k]; there && r.Header.Get("If-None-Match") == "*" {
		return fail(http.StatusPreconditionFailed, "exists", "there is an object %q", k)
	}
	s.revision++
	o.revision, o.modified, o.crc = s.revision, s.o.Now().UTC(), checksum(o.data)
	s.objects[k] = o
	delete(s.uploads, o.upload)
	return answer(w, o.info(k))
}

// get answers HEAD too.
func (s *Server) get(w http.ResponseWriter, r *http.Request) *failure {
	k, f := key(r)
	if f != nil {
		return f
	}
	s.mu.Lock()
	o, ok := s.objects[k]
	s.mu.Unlock()
	if !ok {
		return fail(http.StatusNotFound, "no_such_object", "there is no object %q", k)
	}
	revision := strconv.FormatInt(o.revision, 10)
	if want := r.Header.Get("If-Match"); want != "" && want != revision {
		return fail(http.StatusPreconditionFailed, "changed", "the object has revision %s, wanted is %s", revision, want)
	}
	data, status := o.data, http.StatusOK
	if spec := r.Header.Get("Range"); spec != "" {
		first, last, f := parseRange(spec, int64(len(o.data)))
		if f != nil {
			return f
		}
		data, status = o.data[first:last+1], http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.data)))
	}
	h := w.Header()
	h.Set("Etag", revision)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Acme-Modified", o.modified.Format(time.RFC3339Nano))
	h.Set("Acme-Crc32c", o.crc)
	h.Set("Acme-Meta", o.meta)
	h.Set("Acme-Upload", o.upload)
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // the client is gone, or has it
	}
	return nil
}

// parseRange reads "bytes=3-" and "bytes=3-7".
func parseRange(spec string, size int64) (first, last int64, f *failure) {
	from, to, ok := strings.Cut(strings.TrimPrefix(spec, "bytes="), "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last = size - 1
	if to != "" {
		var lerr error
		last, lerr = strconv.ParseInt(to, 10, 64)
		err = errors.Join(err, lerr)
	}
	switch {
	case !ok || err != nil || last < first && to != "":
		return 0, 0, fail(http.StatusBadRequest, "bad_request", "the range %q is none", spec)
	case first >= size:
		return 0, 0, fail(http.StatusRequestedRangeNotSatisfiable, "bad_range", "the object has %d bytes", size)
	}
	return first, min(last, size-1), nil
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) *failure {
	k, f := key(r)
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[k]; !ok {
		return fail(http.StatusNotFound, "no_such_object", "there is no object %q", k)
	}
	delete(s.objects, k)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) removeMany(w http.ResponseWriter, r *http.Request) *failure {
	var in struct{ Keys []string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&in); err != nil || len(in.Keys) > MaxBulk {
		return fail(http.StatusBadRequest, "bad_request", "the body is no list of at most %d keys", MaxBulk)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range in.Keys {
		delete(s.objects, k)
	}
	return answer(w, map[string]any{"failed": []any{}})
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) *failure {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := struct {
		Objects []Info `json:"objects"`
		More    bool   `json:"more"`
	}{Objects: []Info{}}
	for _, k := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(k, q.Get("prefix")) || k <= q.Get("after") && q.Has("after") {
			continue
		}
		if len(out.Objects) == limit {
			out.More = true
			break
		}
		out.Objects = append(out.Objects, s.objects[k].info(k))
	}
	return answer(w, out)
}

// upload is one that waits for its commit.
type upload struct {
	key, meta string
	parts     map[int][]byte
	started   time.Time
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request) *failure {
	k, f := key(r)
	id := r.URL.Query().Get("id")
	if f != nil || id == "" {
		return fail(http.StatusBadRequest, "bad_key", "an upload needs a key and an id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads[id] == nil {
		s.uploads[id] = &upload{key: k, meta: r.Header.Get("Acme-Meta"), parts: map[int][]byte{}, started: s.o.Now().UTC()}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noUpload(id string) *failure {
	return fail(http.StatusNotFound, "no_such_upload", "there is no upload %q", id)
}

func (s *Server) part(w http.ResponseWriter, r *http.Request) *failure {
	id := r.URL.Query().Get("id")
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 1 || n > MaxParts {
		return fail(http.StatusBadRequest, "bad_request", "parts have the numbers 1 to %d", MaxParts)
	}
	data, f := body(r)
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[id]
	if u == nil {
		return noUpload(id)
	}
	u.parts[n] = data
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request) *failure {
	id := r.URL.Query().Get("id")
	var in struct {
		Parts  int
		Size   int64
		CRC32C string
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil {
		return fail(http.StatusBadRequest, "bad_request", "the body is no JSON object")
	}
	s.mu.Lock() // to the end: an abort comes before the commit or after it
	defer s.mu.Unlock()
	u := s.uploads[id]
	if u == nil {
		return noUpload(id)
	}
	var data []byte
	for n := 1; n <= in.Parts; n++ {
		data = append(data, u.parts[n]...)
	}
	if len(u.parts) != in.Parts || int64(len(data)) != in.Size || checksum(data) != in.CRC32C {
		return fail(http.StatusBadRequest, "checksum_mismatch", "the parts are not those of this body")
	}
	return s.store(w, r, u.key, &object{data: data, meta: u.meta, upload: id})
}

func (s *Server) abort(w http.ResponseWriter, r *http.Request) *failure {
	id := r.URL.Query().Get("id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads[id] == nil {
		return noUpload(id)
	}
	delete(s.uploads, id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Upload is an unfinished upload as a listing describes it.
type Upload struct {
	Key     string    `json:"key"`
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Bytes   int64     `json:"bytes"`
}

func (s *Server) listUploads(w http.ResponseWriter, r *http.Request) *failure {
	return answer(w, map[string]any{"uploads": s.Uploads(r.URL.Query().Get("prefix"))})
}

// Uploads returns the unfinished uploads, for tests.
func (s *Server) Uploads(prefix string) []Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Upload{}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		u := s.uploads[id]
		if !strings.HasPrefix(u.key, prefix) {
			continue
		}
		n := 0
		for _, p := range u.parts {
			n += len(p)
		}
		out = append(out, Upload{Key: u.key, ID: id, Started: u.started, Bytes: int64(n)})
	}
	return out
}
