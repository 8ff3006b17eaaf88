package acme

import (
	"context"
	"net/http"
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
	in := map[string]string{"key_id": d.o.KeyID, "secret": d.o.Secret.Reveal()}
	err := d.call(ctx, request{step: stepToken, method: http.MethodPost, path: "/v1/token", json: in, decode: &out})
	if err == nil && (out.Token == "" || out.Expires <= 0) {
		err = backends.Errorf(backends.Corrupt, "the answer to a token request has none")
	}
	return out.Token, time.Duration(out.Expires * float64(time.Second)), err
}
