package acme

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// tokens keeps one token and gets the next one when it is needed: once, however many calls wait for it.
type tokens struct {
	get  func(ctx context.Context) (token string, life time.Duration, err error)
	now  func() time.Time
	lock chan struct{} // a mutex that a context can leave

	token string
	until time.Time
}

func newTokens(get func(context.Context) (string, time.Duration, error), now func() time.Time) *tokens {
	return &tokens{get: get, now: now, lock: make(chan struct{}, 1)}
}

// valid returns a token, another one than refused. The call that gets a new one does so on its own context; if that ends, the next in line tries.
func (t *tokens) valid(ctx context.Context, refused string) (string, error) {
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-t.lock }()
	if t.token != "" && t.token != refused && t.now().Before(t.until) {
		return t.token, nil
	}
	token, life, err := t.get(ctx)
	if err != nil {
		return "", err
	}
	// A tenth of its life early: the request that it is for has to arrive, too.
	t.token, t.until = token, t.now().Add(life-life/10)
	return token, nil
}

// newToken asks the store. What goes wrong here is not the object's: 403 and 404 are Unauthenticated, too.
func (d *Driver) newToken(ctx context.Context) (string, time.Duration, error) {
	var out struct {
		Token   string  `json:"access_token"`
		Expires float64 `json:"expires_in"`
	}
	in, err := d.credentials()
	if err != nil {
		return "", 0, err
	}
	err = d.call(ctx, request{step: stepToken, method: http.MethodPost, json: in, decode: &out})
	if err == nil && (out.Token == "" || out.Expires <= 0) {
		err = backends.Errorf(backends.Corrupt, "the answer to a token request has none")
	}
	return out.Token, time.Duration(out.Expires * float64(time.Second)), err
}

// key is what a token request has, and a file with credentials.
type key struct {
	ID     string `json:"key_id"`
	Secret string `json:"secret"`
}

// credentials are read when they are needed: the file may be another one by then. Its content is in no error.
func (d *Driver) credentials() (key, error) {
	if d.o.CredentialsFile == "" {
		return key{d.o.KeyID, d.o.Secret.Reveal()}, nil
	}
	text, err := os.ReadFile(d.o.CredentialsFile)
	if err != nil {
		return key{}, backends.Errorf(backends.Unauthenticated, "%s: %w", keyCredentials, err)
	}
	var k key
	if json.Unmarshal(text, &k) != nil || k.ID == "" || k.Secret == "" {
		return key{}, backends.Errorf(backends.Unauthenticated, "%s: %s is no JSON object with key_id and secret", keyCredentials, d.o.CredentialsFile)
	}
	return k, nil
}
