package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
)

// scope is what objects are read, written and listed with.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// recheck is how often a file of credentials is looked at, as the plug-in does.
const recheck = 10 * time.Second

// maxCredentials bounds a file of credentials.
const maxCredentials = 1 << 20

// source gives tokens. It is the one owner of credentials.
type source struct {
	client *http.Client // for token requests: the same transport as everything else
	log    *slog.Logger
	now    func() time.Time
	path   string // "": the credentials do not change

	mu      sync.Mutex
	creds   *auth.Credentials
	text    []byte // of the file
	checked time.Time
}

// newSource returns nil where requests are not signed.
func (o *Options) newSource(base http.RoundTripper, env backends.Env) (*source, error) {
	s := &source{client: &http.Client{Transport: base}, log: env.Log, now: env.Now, path: o.CredentialsFile}
	var err error
	switch {
	case o.Anonymous:
		return nil, nil
	case s.path != "":
		if s.text, err = readFile(s.path); err == nil {
			s.creds, err = s.parse(s.text)
		}
		s.checked = s.now()
		if err != nil {
			return nil, settings.Problemf(keyPath, s.path, "%v", err)
		}
	case !o.CredentialsJSON.IsZero():
		if s.creds, err = s.parse([]byte(o.CredentialsJSON.Reveal())); err != nil {
			return nil, settings.Missing(keyJSON, "%v", err)
		}
	default:
		s.creds, err = credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{scope}, Client: s.client})
		if err != nil {
			return nil, &backends.Error{Code: backends.Unauthenticated, Err: fmt.Errorf("no default credentials, see %s, %s and %s: %w", keyPath, keyJSON, keyDefault, err)}
		}
	}
	return s, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	text := make([]byte, maxCredentials+1)
	n := 0
	for n < len(text) {
		k, err := f.Read(text[n:])
		n += k
		if err != nil {
			break
		}
	}
	if n > maxCredentials {
		return nil, errors.New("is too large for a file of credentials")
	}
	return text[:n], nil
}

// parse makes credentials of a JSON text. No error shows a part of the text.
func (s *source) parse(text []byte) (*auth.Credentials, error) {
	var doc struct {
		Type  string
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("is no JSON object")
	}
	if doc.Type == "" && doc.Token != "" {
		return auth.NewCredentials(&auth.CredentialsOptions{TokenProvider: fixed(doc.Token)}), nil
	}
	switch t := credentials.CredType(doc.Type); t {
	case credentials.ServiceAccount, credentials.AuthorizedUser, credentials.ExternalAccount, credentials.ImpersonatedServiceAccount,
		credentials.GDCHServiceAccount, credentials.ExternalAccountAuthorizedUser:
		creds, err := credentials.NewCredentialsFromJSON(t, text, &credentials.DetectOptions{Scopes: []string{scope}, Client: s.client})
		if err != nil {
			return nil, fmt.Errorf("the %s in it cannot be used", t)
		}
		return creds, nil
	}
	return nil, errors.New("has neither an access_token nor a type that is known")
}

// fixed is a token that somebody else has got.
type fixed string

// Token implements auth.TokenProvider.
func (f fixed) Token(context.Context) (*auth.Token, error) {
	return &auth.Token{Value: string(f), Type: "Bearer"}, nil
}

// token returns a valid token.
func (s *source) token(ctx context.Context) (string, error) {
	t, err := s.current(ctx).Token(ctx)
	if err != nil {
		return "", &tokenError{err}
	}
	return t.Value, nil
}

// current looks at the file from time to time. A file that cannot be read, perhaps because it is being written, leaves the credentials as
// they were.
func (s *source) current(ctx context.Context) *auth.Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.path == "" || now.Sub(s.checked) < recheck {
		return s.creds
	}
	s.checked = now
	text, err := readFile(s.path)
	if err == nil && bytes.Equal(text, s.text) {
		return s.creds
	}
	var creds *auth.Credentials
	if err == nil {
		creds, err = s.parse(text)
	}
	if err != nil {
		s.log.WarnContext(ctx, "the file of credentials cannot be used, they stay as they were", "file", s.path, "error", err)
		return s.creds
	}
	s.log.InfoContext(ctx, "new credentials from the file", "file", s.path)
	s.creds, s.text = creds, text
	return creds
}

// tokenError is that no token could be had to sign a request with.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token for the store: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// signer adds the token, and our name.
type signer struct {
	next   http.RoundTripper
	source *source // nil: requests go unsigned
	agent  string
}

var _ http.RoundTripper = (*signer)(nil)

// RoundTrip implements http.RoundTripper.
func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", s.agent+" "+req.UserAgent())
	if s.source != nil {
		token, err := s.source.token(req.Context())
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close() // a RoundTripper closes it in any case
			}
			return nil, err
		}
		out.Header.Set("Authorization", "Bearer "+token)
	}
	return s.next.RoundTrip(out)
}
