package azure

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/internal/transport"
)

// Pauses between attempts. The SDK's own defaults begin at 0.8 s and go up to a minute.
const (
	retryDelay        = 200 * time.Millisecond // the first
	defaultRetryDelay = 5 * time.Second        // the longest
)

// sender is the SDK's way to the network, for token requests too. It follows no redirects, and its errors hold no URL: a URL may hold a signature.
type sender struct{ next http.RoundTripper }

var _ policy.Transporter = sender{}

// Do implements policy.Transporter. What cannot get better by itself is not to be tried again.
func (s sender) Do(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		if _, fault := httpstore.NetworkCode(err); fault != httpstore.NoFault {
			return nil, permanent{err}
		}
		return nil, err
	}
	return resp, nil
}

// complete hands on the answer to a token request when all of it has come. MSAL (microsoft-authentication-library-for-go 1.x), which reads those to an application or a
// workload, does so behind the policy that tries again: an answer that broke there would be taken for credentials that are refused.
type complete struct{ next policy.Transporter }

var _ policy.Transporter = complete{}

// maxTokenAnswer is far above what tokens have, some KiB.
const maxTokenAnswer = 1 << 20

// Do implements policy.Transporter.
func (w complete) Do(req *http.Request) (*http.Response, error) {
	resp, err := w.next.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // read side
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// permanent tells the SDK's retry policy to stop.
type permanent struct{ error }

// NonRetriable makes it an errorinfo.NonRetriable of the SDK.
func (permanent) NonRetriable() {}

func (p permanent) Unwrap() error { return p.error }

func (o *Options) newTransport(env backends.Env) (*transport.Transport, error) {
	t, err := transport.New(transport.Options{
		MaxIdle: o.MaxConns, MaxConns: o.MaxConns, ConnectTimeout: o.ConnectTimeout, HeaderTimeout: o.ResponseTimeout, StallTimeout: o.StallTimeout,
		CAFile: o.CAFile, SkipVerify: o.SkipVerify, Proxy: o.Proxy, Wrap: env.WrapTransport,
	})
	if err != nil {
		return nil, &backends.Error{Code: backends.InvalidArgument, Err: settings.Problemf(keyCAFile, o.CAFile, "%v", err)}
	}
	return t, nil
}

// newClient makes the SDK's client of the container. The SDK is the one owner of retries of requests.
func (o *Options) newClient(t http.RoundTripper, env backends.Env) (*container.Client, error) {
	opts := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: sender{httpstore.Transport{Next: t}},
		Telemetry: policy.TelemetryOptions{ApplicationID: env.UserAgent},
		Retry:     policy.RetryOptions{MaxRetries: int32(o.MaxAttempts - 1), RetryDelay: min(retryDelay, o.RetryDelay), MaxRetryDelay: o.RetryDelay, ShouldRetry: retryable},
	}}
	if o.MaxAttempts == 1 {
		opts.Retry.MaxRetries = -1 // 0 would be the SDK's default
	}
	if !o.ConnectionString.IsZero() {
		c, err := container.NewClientFromConnectionString(o.ConnectionString.Reveal(), o.Container, opts)
		if err != nil {
			return nil, settings.Missing(keyConnection, "cannot be understood: %v", err)
		}
		return c, nil
	}
	service, err := o.service()
	if err != nil {
		return nil, err
	}
	at := service + "/" + url.PathEscape(o.Container)
	switch {
	case !o.SAS.IsZero():
		return container.NewClientWithNoCredential(at+"?"+strings.TrimPrefix(o.SAS.Reveal(), "?"), opts)
	case !o.Key.IsZero():
		cred, err := container.NewSharedKeyCredential(o.Account, o.Key.Reveal())
		if err != nil {
			return nil, settings.Missing(keyKey, "is not base64")
		}
		return container.NewClientWithSharedKeyCredential(at, cred, opts)
	}
	return o.tokenClient(at, opts)
}

// retryable is the SDK's question whether to send a request again. To its own answer (runtime/policy_retry.go of azcore 1.23) it adds bytes that changed on
// their way, which the service has refused.
func retryable(resp *http.Response, err error) bool {
	if err != nil {
		return true // but for NonRetriable, which the SDK has seen to
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return resp.StatusCode == http.StatusBadRequest && isMismatch(bloberror.Code(resp.Header.Get("X-Ms-Error-Code")), resp.Request)
}

// isMismatch reports whether the service says that it received other bytes than were sent. Azurite up to 3.35 has another word for it, which means nothing
// else for what carries bytes.
func isMismatch(code bloberror.Code, req *http.Request) bool {
	switch code { //nolint:exhaustive // the others are none
	case bloberror.MD5Mismatch, bloberror.CRC64Mismatch:
		return true
	case bloberror.InvalidOperation:
		return req != nil && req.Method == http.MethodPut
	}
	return false
}

// tokenClient signs requests with tokens of Entra ID.
func (o *Options) tokenClient(at string, opts *container.ClientOptions) (*container.Client, error) {
	if strings.HasPrefix(at, "http://") {
		return nil, settings.Problemf(keyEndpoint, o.Endpoint, "tokens are not sent without TLS: use https, or %s or %s", keyKey, keySAS)
	}
	cred, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: azcore.ClientOptions{Transport: complete{opts.Transport}, Telemetry: opts.Telemetry, Retry: opts.Retry},
	})
	if err != nil {
		return nil, &backends.Error{Code: backends.Unauthenticated, Err: err}
	}
	return container.NewClient(at, tokens{cred}, opts)
}

// tokens marks the errors of a credential as such: their types say no more than that they are errors.
type tokens struct{ next azcore.TokenCredential }

var _ azcore.TokenCredential = tokens{}

// GetToken implements azcore.TokenCredential.
func (t tokens) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := t.next.GetToken(ctx, o)
	if err != nil {
		return token, &tokenError{err}
	}
	return token, nil
}

type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token for the store: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }
