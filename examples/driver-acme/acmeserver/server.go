package acmeserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of the store.
const (
	MaxKeyBytes  = 1024
	MaxParts     = 1000
	MaxPartBytes = 1 << 30
	MaxBulk      = 500
	MaxPage      = 1000
)

// Options of a Server. The zero value is usable.
type Options struct {
	Bucket       string        // the one bucket there is; "" is "segments"
	KeyID        string        // the key that may do everything; "" is "key"
	Secret       string        // "" is "secret"
	ReaderID     string        // a key that may only read and list; "" is "reader"
	ReaderSecret string        // "" is "reader-secret"
	TokenLife    time.Duration // 0: 15 minutes
	Now          func() time.Time
}

// Server is the store. It is an http.Handler, safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	tokens   map[string]grant
	objects  map[string]*object
	uploads  map[string]*upload
	revision int64
	requests int64
}

// grant is what a token is good for.
type grant struct {
	until    time.Time
	readOnly bool
}

var _ http.Handler = (*Server)(nil)

// New returns an empty store.
func New(o Options) *Server {
	if o.Bucket == "" {
		o.Bucket = "segments"
	}
	if o.KeyID == "" {
		o.KeyID, o.Secret = "key", "secret"
	}
	if o.ReaderID == "" {
		o.ReaderID, o.ReaderSecret = "reader", "reader-secret"
	}
	if o.TokenLife <= 0 {
		o.TokenLife = 15 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	return &Server{o: o, tokens: map[string]grant{}, objects: map[string]*object{}, uploads: map[string]*upload{}}
}

// failure is an answer that is an error.
type failure struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func fail(status int, code, format string, args ...any) *failure {
	return &failure{status, code, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	id := fmt.Sprintf("acme-%08x", s.requests)
	s.mu.Unlock()
	w.Header().Set("Acme-Request-Id", id)
	w.Header().Set("Date", s.o.Now().UTC().Format(http.TimeFormat))
	if f := s.route(w, r); f != nil {
		w.Header().Set("Acme-Error", f.Code)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		_ = json.NewEncoder(w).Encode(map[string]*failure{"error": f}) // the client is gone, or has it
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) *failure {
	if r.URL.Path == "/v1/token" {
		return s.token(w, r)
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/b/")
	bucket, what, _ := strings.Cut(rest, "/")
	if !ok {
		return fail(http.StatusNotFound, "no_such_path", "there is nothing at %s", r.URL.Path)
	}
	if f := s.authorized(r); f != nil {
		return f
	}
	if bucket != s.o.Bucket {
		return fail(http.StatusNotFound, "no_such_bucket", "there is no bucket %q", bucket)
	}
	handlers := map[string]func(http.ResponseWriter, *http.Request) *failure{
		"PUT object": s.put, "GET object": s.get, "HEAD object": s.get, "DELETE object": s.remove,
		"GET list": s.list, "POST delete": s.removeMany,
		"PUT upload": s.begin, "PUT upload/part": s.part, "POST upload/commit": s.commit, "DELETE upload": s.abort, "GET uploads": s.listUploads,
	}
	h, ok := handlers[r.Method+" "+what]
	if !ok {
		return fail(http.StatusMethodNotAllowed, "bad_request", "%s %s is nothing that this store can do", r.Method, what)
	}
	return h(w, r)
}

// token answers with a token for those who know the secret.
func (s *Server) token(w http.ResponseWriter, r *http.Request) *failure {
	var in struct {
		KeyID  string `json:"key_id"`
		Secret string
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil {
		return fail(http.StatusBadRequest, "bad_request", "the body is no JSON object")
	}
	reader := in.KeyID == s.o.ReaderID && in.Secret == s.o.ReaderSecret
	if !reader && (in.KeyID != s.o.KeyID || in.Secret != s.o.Secret) {
		return fail(http.StatusUnauthorized, "bad_credentials", "the key or its secret is wrong")
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	token := hex.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens, func(_ string, g grant) bool { return s.o.Now().After(g.until) })
	s.tokens[token] = grant{s.o.Now().Add(s.o.TokenLife), reader}
	return answer(w, map[string]any{"access_token": token, "expires_in": s.o.TokenLife.Seconds()})
}

func (s *Server) authorized(r *http.Request) *failure {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	g, known := s.tokens[token]
	switch {
	case !ok:
		return fail(http.StatusUnauthorized, "no_token", "the request has no token")
	case !known:
		return fail(http.StatusUnauthorized, "bad_token", "the token is not one of this store")
	case s.o.Now().After(g.until):
		return fail(http.StatusUnauthorized, "token_expired", "the token has expired")
	case g.readOnly && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return fail(http.StatusForbidden, "denied", "the key may read and list, not write")
	}
	return nil
}

// Trust accepts a token that the store has not given out, for as long as one of its own: that of another token server.
func (s *Server) Trust(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = grant{until: s.o.Now().Add(s.o.TokenLife)}
}

// ExpireTokens makes every token invalid, as if the secret had been rotated.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// answer is a JSON answer that went well.
func answer(w http.ResponseWriter, v any) *failure {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or has it
	return nil
}
