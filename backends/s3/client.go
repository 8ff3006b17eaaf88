package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/internal/transport"
)

// defaultRetryDelay bounds the pause between two attempts.
const defaultRetryDelay = 5 * time.Second

// holder is the HTTP client of all requests, those for tokens included. It is filled once the SDK's configuration is loaded, which tells the
// certificates of AWS_CA_BUNDLE.
//
// Token requests cannot be given a client through the configuration: with AWS_CA_BUNDLE set the SDK accepts none but its own type there
// (config v1.33.18, resolveCustomCABundle). So every client made from the configuration gets a middleware that sends the request itself.
type holder struct {
	client atomic.Pointer[http.Client]
	sight  sight
}

func (h *holder) apiOptions() []func(*middleware.Stack) error {
	return []func(*middleware.Stack) error{func(s *middleware.Stack) error {
		return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tierkit-transport", h.send), middleware.After)
	}}
}

// send stands where the SDK's own client is.
func (h *holder) send(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, md middleware.Metadata, err error) {
	client := h.client.Load()
	if client == nil {
		return next.HandleDeserialize(ctx, in)
	}
	out.RawResponse, md, err = smithyhttp.NewClientHandlerWithOptions(client).Handle(ctx, in.Request)
	return out, md, err
}

// fill makes the client: certificates of the SDK's configuration, everything else from the settings.
func (h *holder) fill(o *Options, cfg aws.Config, env backends.Env) (*transport.Transport, error) {
	to := transport.Options{
		MaxIdle: o.MaxConns, MaxConns: o.MaxConns, ConnectTimeout: o.ConnectTimeout, HeaderTimeout: o.ResponseTimeout,
		StallTimeout: o.StallTimeout, AttemptTimeout: o.AttemptTimeout, CAFile: o.CAFile, SkipVerify: o.SkipVerify, Proxy: o.Proxy,
		RootCAs: bundleOf(cfg), Wrap: env.WrapTransport,
	}
	t, err := transport.New(to)
	if err != nil {
		return nil, &backends.Error{Code: backends.InvalidArgument, Err: settings.Problemf(keyCAFile, o.CAFile, "%v", err)}
	}
	h.client.Store(&http.Client{
		Transport: answers{t, &h.sight},
		// A redirect would carry a signature for another host; the error says where the bucket is.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return t, nil
}

func bundleOf(cfg aws.Config) *x509.CertPool {
	b, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return nil
	}
	if c := b.GetTransport().TLSClientConfig; c != nil {
		return c.RootCAs
	}
	return nil
}

// newClient makes the SDK's client.
func (o *Options) newClient(cfg aws.Config, h *holder, creds aws.CredentialsProvider, p *provider, env backends.Env) *s3.Client {
	return s3.NewFromConfig(cfg, func(so *s3.Options) {
		so.HTTPClient = h.client.Load()
		so.Credentials = creds
		so.HTTPSignerV4 = newSigner()
		so.AppID = env.UserAgent
		if o.Endpoint != "" {
			so.BaseEndpoint = &o.Endpoint
		}
		so.UsePathStyle = p.pathStyle
		if o.PathStyle != nil {
			so.UsePathStyle = *o.PathStyle
		}
		so.UseARNRegion = true
		if o.DualStack {
			so.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
		}
		if o.FIPS {
			so.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		}
		// Our uploads carry checksums of their own (headers, not trailers, which many servers do not know). What the user asked for in the
		// environment or the shared files stays. The SDK's loader has put its own default there where nothing was asked for.
		so.RequestChecksumCalculation, so.ResponseChecksumValidation = chosenChecksums(cfg)
		so.DisableLogOutputChecksumValidationSkipped = true
		so.Retryer = o.retryer()
		so.Logger = logger(env)
	})
}

// chosenChecksums returns what the environment or the shared files ask for, else "when required".
func chosenChecksums(cfg aws.Config) (aws.RequestChecksumCalculation, aws.ResponseChecksumValidation) {
	request, response := aws.RequestChecksumCalculationUnset, aws.ResponseChecksumValidationUnset
	for _, source := range cfg.ConfigSources { // the first one that says something counts
		var r aws.RequestChecksumCalculation
		var v aws.ResponseChecksumValidation
		switch s := source.(type) {
		case config.EnvConfig:
			r, v = s.RequestChecksumCalculation, s.ResponseChecksumValidation
		case config.SharedConfig:
			r, v = s.RequestChecksumCalculation, s.ResponseChecksumValidation
		}
		if request == aws.RequestChecksumCalculationUnset {
			request = r
		}
		if response == aws.ResponseChecksumValidationUnset {
			response = v
		}
	}
	if request == aws.RequestChecksumCalculationUnset {
		request = aws.RequestChecksumCalculationWhenRequired
	}
	if response == aws.ResponseChecksumValidationUnset {
		response = aws.ResponseChecksumValidationWhenRequired
	}
	return request, response
}

// retryer is the one owner of retries of requests. Its token bucket is off: shared by all requests, it is empty after some 35 retries, and from then on
// everything fails at once.
func (o *Options) retryer() aws.Retryer {
	attempts := o.MaxAttempts
	if attempts <= 0 {
		attempts = defaultAttempts
	}
	longest := o.RetryDelay
	if longest <= 0 {
		longest = defaultRetryDelay
	}
	return patient{longest, retry.NewStandard(func(so *retry.StandardOptions) {
		so.MaxAttempts = attempts
		so.MaxBackoff = longest
		so.RateLimiter = ratelimit.None
		so.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(retryable)}, so.Retryables...)
	})}
}

// patient heeds how long the store wishes to be left alone, as far as the longest pause allows: the SDK does not look at it.
type patient struct {
	longest time.Duration
	*retry.Standard
}

var _ aws.RetryerV2 = patient{}

// RetryDelay implements aws.Retryer.
func (p patient) RetryDelay(attempt int, err error) (time.Duration, error) {
	d, derr := p.Standard.RetryDelay(attempt, err)
	if re, ok := errors.AsType[*awshttp.ResponseError](err); ok && re.Response != nil && re.Response.Response != nil {
		d = max(d, min(httpstore.RetryAfter(re.Response.Header), p.longest))
	}
	return d, derr
}

// retryable is what the SDK does not know. Certificates, and TLS spoken to a server that has none, do not get better by themselves. The other way round pass:
//   - an answer that broke in its middle (the SDK takes it for one that cannot be decoded),
//   - bytes that changed on their way, which the store has refused,
//   - whatever our own table calls throttled or timed out, 429 among it,
//   - AccessDenied of MinIO to a PUT while the directory of the key is removed by a DELETE of its last object (seen with 2026-02-12).
func retryable(err error) aws.Ternary {
	if isTLSMistake(err) || isAboutKeys(err) {
		return aws.FalseTernary
	}
	re, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || re.Response == nil || re.Response.Response == nil {
		return aws.UnknownTernary
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	status, code := re.HTTPStatusCode(), ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	switch c := codeOf(code, status, ""); {
	case c == backends.Throttled, c == backends.Timeout, c == backends.Corrupt && status == http.StatusBadRequest:
		return aws.TrueTernary
	case code == "AccessDenied" && isMinIOPut(re.Response):
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// isAboutKeys reports whether a request for keys failed, of which the attempts have been made already.
func isAboutKeys(err error) bool {
	if _, ok := errors.AsType[*keysError](err); ok {
		return true
	}
	_, ok := errors.AsType[*smithy.OperationError](err) // that of our own request is put around it later
	return ok
}

func isTLSMistake(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}

func isMinIOPut(resp *smithyhttp.Response) bool {
	return resp != nil && resp.Response != nil && resp.Header.Get("Server") == "MinIO" && resp.Request != nil && resp.Request.Method == http.MethodPut
}

// isResolve reports whether the name of a host could not be found.
func isResolve(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// isDial reports whether no connection could be made.
func isDial(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// logger passes the SDK's own messages on.
func logger(env backends.Env) logging.Logger {
	return logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
		if c == logging.Warn {
			env.Log.Warn("message of the AWS SDK", "message", sprintf(format, v))
			return
		}
		env.Log.Debug("message of the AWS SDK", "message", sprintf(format, v))
	})
}
