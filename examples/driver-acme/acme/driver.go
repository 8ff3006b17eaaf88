package acme

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/backends/parts"
)

// Bounds of the service, from its documentation.
const (
	maxKeyBytes = 1024
	maxParts    = 1000
	maxPart     = 1 << 30
	maxObject   = maxParts * maxPart
	maxBulk     = 500
)

// Options of a driver. URL, Bucket and either KeyID and Secret or CredentialsFile are needed; the zero value of everything else is the default of its
// setting.
type Options struct {
	URL, Bucket, KeyID string
	Secret             backends.Secret
	CredentialsFile    string
	TokenURL           string

	PartBytes   int64
	Concurrency int
	MaxAttempts int
	RetryDelay  time.Duration

	ResponseTimeout, StallTimeout, ConnectTimeout time.Duration
	MaxConns                                      int
	CAFile                                        string
}

func (o *Options) withDefaults() {
	if o.PartBytes <= 0 {
		o.PartBytes = 8 << 20
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 5
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = 5 * time.Second
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 64
	}
}

// Driver stores objects in one bucket.
type Driver struct {
	o    Options
	base *url.URL
	sts  *url.URL // where tokens come from
	pool *httpstore.Pool
	http http.RoundTripper // pool, which counts attempts
	gate *httpstore.Gate
	auth *tokens
	env  backends.Env
}

var (
	_ backends.Driver       = (*Driver)(nil)
	_ backends.BulkDeleter  = (*Driver)(nil)
	_ backends.UploadLister = (*Driver)(nil)
	_ backends.PutSizer     = (*Driver)(nil)
)

// Open makes a driver. No field of env is nil. It sends nothing: the Store's Probe does, which lists one key where a driver has no better idea.
func Open(ctx context.Context, o Options, env backends.Env) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o.withDefaults()
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, backends.Errorf(backends.InvalidArgument, "%s is no URL", keyURL)
	}
	sts := base.JoinPath("/v1/token")
	if o.TokenURL != "" {
		if sts, err = url.Parse(o.TokenURL); err != nil {
			return nil, backends.Errorf(backends.InvalidArgument, "%s is no URL", keyTokenURL)
		}
	}
	pool, err := httpstore.NewPool(httpstore.PoolOptions{
		MaxIdle: o.MaxConns, MaxConns: o.MaxConns, ConnectTimeout: o.ConnectTimeout, HeaderTimeout: o.ResponseTimeout, StallTimeout: o.StallTimeout,
		CAFile: o.CAFile, Wrap: env.WrapTransport,
	})
	if err != nil {
		return nil, backends.Errorf(backends.InvalidArgument, "%s: %w", keyCAFile, err)
	}
	d := &Driver{o: o, base: base, sts: sts, pool: pool, http: httpstore.Transport{Next: pool}, gate: httpstore.NewGate(ctx), env: env}
	d.auth = newTokens(d.newToken, env.Now)
	return d, nil
}

// Properties implements backends.Driver. The conformance suite checks each of them both ways.
func (d *Driver) Properties() backends.Properties {
	return backends.Properties{
		Name: "acme", MaxKeyBytes: maxKeyBytes, MaxObjectBytes: maxObject, MinPartBytes: 1, MaxPartBytes: maxPart, MaxParts: maxParts, MaxBulkDelete: maxBulk,
		IfAbsent: true, FlatKeys: true, Versions: true, UserMeta: true, HTTP: true,
	}
}

func (d *Driver) partOptions(size int64) parts.Options {
	return parts.Options{
		Size: size, PartBytes: d.o.PartBytes, Concurrency: d.o.Concurrency,
		Limits: parts.Limits{MaxPartBytes: maxPart, MaxParts: maxParts, MaxObjectBytes: maxObject},
	}
}

// PutMemory implements backends.PutSizer.
func (d *Driver) PutMemory(size int64) (least, want int64) { return parts.Memory(d.partOptions(size)) }

// Close implements backends.Driver. Calls in flight and open bodies fail with Closed.
func (d *Driver) Close() error {
	d.gate.Close()
	d.pool.CloseIdleConnections()
	return nil
}
