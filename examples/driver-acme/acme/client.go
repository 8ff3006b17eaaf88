package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/backends/parts"
)

// firstDelay is the pause after the first attempt. It doubles each time.
const firstDelay = 200 * time.Millisecond

// maxAnswer bounds what is read of an answer that is no object: the largest is a page of 1,000 long keys.
const maxAnswer = 16 << 20

// request is one request of the API, with all its attempts.
type request struct {
	step   step
	method string
	path   string
	query  url.Values
	header http.Header
	body   []byte // it is sent as it is
	json   any    // or this, encoded
	decode any    // what to decode the answer into, nil for nothing
}

// call sends a request until it is answered, as a call of its own, and reads the answer to its end.
func (d *Driver) call(ctx context.Context, r request) error {
	_, err := d.head(ctx, r)
	return err
}

// head is call for those who want the answer's header.
func (d *Driver) head(ctx context.Context, r request) (http.Header, error) {
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer c.End()
	resp, err := d.send(c, r) //nolint:bodyclose,contextcheck // only that of a Get is left open; the context is the call's
	if err != nil {
		return nil, err
	}
	return resp.Header, nil
}

// send makes the attempts. This is the one place that retries: a request that could not be sent, was not answered, or whose answer says that
// the same may succeed later. Of a step that creates an object it also keeps in mind whether an attempt may have done so.
func (d *Driver) send(c *httpstore.Call, r request) (*http.Response, error) {
	if r.json != nil {
		r.body, _ = json.Marshal(r.json) // maps of strings and numbers
	}
	maybe, refused := false, ""
	for attempt := 1; ; attempt++ {
		token, err := d.token(c.Context(), r.step, refused)
		final := err != nil // the token request has made its own attempts
		var resp *http.Response
		if !final {
			resp, err = d.attempt(c.Context(), r, token)
		}
		if err == nil {
			return resp, nil
		}
		if why := c.Ended(); why != nil { // before anything that the error says
			return nil, why
		}
		e, ok := errors.AsType[*backends.Error](err)
		if !ok {
			return nil, err
		}
		maybe = maybe || !final && r.step.creates() && mayHaveHappened(e)
		e.Attempts, e.Ambiguous = c.Attempts(), maybe
		again := (e.Code.Temporary() || e.Code == backends.Corrupt) && !isAnswer(e, noSuchUpload)
		if (isAnswer(e, badToken) || isAnswer(e, tokenExpired)) && refused == "" {
			refused, again = token, true // one more, with another token
		}
		if final || !again || attempt >= d.o.MaxAttempts {
			return nil, e
		}
		if err := pause(c.Context(), d.delay(attempt, e.RetryAfter)); err != nil {
			return nil, errors.Join(c.Ended(), err)
		}
	}
}

// token is what a request is signed with; that for a token is not.
func (d *Driver) token(ctx context.Context, s step, refused string) (string, error) {
	if s == stepToken {
		return "", nil
	}
	return d.auth.valid(ctx, refused)
}

// delay grows from attempt to attempt and is different for everyone, so that those who failed together do not come back together. What the store wishes
// counts as far as the setting allows.
func (d *Driver) delay(attempt int, wish time.Duration) time.Duration {
	most := min(firstDelay<<min(attempt-1, 20), d.o.RetryDelay)
	return max(most/2+rand.N(most/2+1), min(wish, d.o.RetryDelay)) //nolint:gosec // no secret
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends a request once. The body of the answer was read and closed, but for that of a Get.
func (d *Driver) attempt(ctx context.Context, r request, token string) (*http.Response, error) {
	u := *d.sts
	if r.step != stepToken {
		u = *d.base
		u.Path, u.RawQuery = r.path, r.query.Encode()
	}
	body := parts.NewReader(r.body)
	defer body.Close() // net/http may hold it for longer than the buffer is ours
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return nil, backends.Errorf(backends.Internal, "a request that cannot be made: %w", err)
	}
	if len(r.body) > 0 {
		req.Body, req.ContentLength = body, int64(len(r.body))
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	req.Header.Set("User-Agent", d.env.UserAgent)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := d.http.RoundTrip(req) // no client: it would follow redirects, and take the token along
	if err != nil {
		return nil, networkError(err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, d.answerError(resp, r.step)
	}
	if r.step == stepGet {
		return resp, nil
	}
	defer resp.Body.Close()
	if r.decode == nil && r.step != stepStat && resp.StatusCode != http.StatusNoContent {
		return nil, strange(resp) // the page of a proxy, say: the store has nothing to say here
	}
	return resp, decode(resp, r.decode)
}

// decode reads an answer to its end, so that its connection can be used again. One that is not what was promised is Corrupt.
func decode(resp *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return networkError(err)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(into); err != nil {
		return strange(resp)
	}
	return nil
}

// strange is an answer under a status of success that is none of the store's.
func strange(resp *http.Response) error {
	return &backends.Error{
		Code: backends.Corrupt, Status: resp.StatusCode, RequestID: resp.Header.Get("Acme-Request-Id"), Err: errors.New("the answer is not what the store promises"),
	}
}

func retryAfter(h http.Header) time.Duration {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	return 0
}
