package gcs

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/storage"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/internal/transport"
	"github.com/tierkit/tierkit/membudget"
)

// Bounds of the service: cloud.google.com/storage/quotas.
const (
	maxKeyBytes = 1024
	maxObject   = 5 << 40
	maxPage     = 1000
	pending     = 7 * 24 * time.Hour // a session of an upload that was not finished expires after it
	chunkUnit   = 256 << 10          // cloud.google.com/storage/docs/performing-resumable-uploads
	copyBytes   = 64 << 10           // of the body at a time

	defaultChunkBytes    = 8 << 20
	defaultAttempts      = 5
	defaultRetryDeadline = 2 * time.Minute
	defaultChunkTimeout  = time.Minute
	cleanupTimeout       = 30 * time.Second
)

// Options of a driver. Bucket is needed; the zero value of everything else is the default of its setting, see docs/configuration.md.
type Options struct {
	Bucket, Endpoint string
	ChunkBytes       int64 // a multiple of 256 KiB
	StorageClass     string
	UserProject      string

	// One of these; none: application default credentials.
	CredentialsJSON backends.Secret
	CredentialsFile string
	Anonymous       bool

	MaxAttempts                                   int
	RetryDeadline, ChunkTimeout                   time.Duration
	ResponseTimeout, StallTimeout, ConnectTimeout time.Duration
	RetryDelay                                    time.Duration // the longest between two attempts
	MaxConns                                      int
	CAFile                                        string
	SkipVerify                                    bool
	Proxy                                         *url.URL
}

func (o *Options) withDefaults() {
	if o.ChunkBytes <= 0 {
		o.ChunkBytes = defaultChunkBytes
	}
	o.ChunkBytes = (o.ChunkBytes + chunkUnit - 1) / chunkUnit * chunkUnit
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = defaultAttempts
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = defaultRetryDelay
	}
	if o.RetryDeadline <= 0 {
		o.RetryDeadline = defaultRetryDeadline
	}
	if o.ChunkTimeout <= 0 {
		o.ChunkTimeout = defaultChunkTimeout
	}
}

// Driver stores objects in one bucket.
type Driver struct {
	client *storage.Client
	bucket *storage.BucketHandle
	http   *transport.Transport
	gate   *httpstore.Gate
	o      Options
	log    *slog.Logger
	now    func() time.Time
}

var (
	_ backends.Driver   = (*Driver)(nil)
	_ backends.Prober   = (*Driver)(nil)
	_ backends.PutSizer = (*Driver)(nil)
)

// Open makes a driver. It sends nothing to the bucket: see Probe.
func Open(ctx context.Context, o Options, env backends.Env) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Bucket == "" {
		return nil, backends.Errorf(backends.InvalidArgument, "%s is empty", keyBucket)
	}
	o.withDefaults()
	env = withDefaults(env)
	t, err := o.newTransport(env)
	if err != nil {
		return nil, err
	}
	src, err := o.newSource(t, env)
	if err != nil {
		return nil, asInvalid(err)
	}
	client, err := o.newClient(ctx, t, src, env)
	if err != nil {
		return nil, asInvalid(err)
	}
	if o.SkipVerify {
		env.Log.WarnContext(ctx, "the certificate of the store is not checked", "setting", keyVerify)
	}
	bucket := client.Bucket(o.Bucket)
	if o.UserProject != "" {
		bucket = bucket.UserProject(o.UserProject)
	}
	return &Driver{client: client, bucket: bucket, http: t, gate: httpstore.NewGate(ctx), o: o, log: env.Log, now: env.Now}, nil
}

func asInvalid(err error) error {
	if backends.CodeOf(err) == backends.Unknown {
		return &backends.Error{Code: backends.InvalidArgument, Err: err}
	}
	return err
}

// withDefaults is for drivers that are opened from code.
func withDefaults(env backends.Env) backends.Env {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.WrapTransport == nil {
		env.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	if env.UserAgent == "" {
		env.UserAgent = "tierkit"
	}
	if env.Now == nil {
		env.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	return env
}

// Properties implements backends.Driver.
func (d *Driver) Properties() backends.Properties {
	return backends.Properties{
		Name: "gcs", MaxKeyBytes: maxKeyBytes, MaxObjectBytes: maxObject,
		IfAbsent: true, FlatKeys: true, Versions: true, UserMeta: true, PendingExpires: pending, HTTP: true,
	}
}

// chunkFor is the buffer of an upload: no larger than the body needs, so that a body that fits one is one request. The SDK sees that a body has ended
// only if its buffer has room left.
func (d *Driver) chunkFor(size int64) int64 {
	if size < 0 || size > d.o.ChunkBytes {
		return d.o.ChunkBytes
	}
	return (size/chunkUnit + 1) * chunkUnit
}

// PutMemory implements backends.PutSizer: the SDK's buffer, and ours to read the body with. There is nothing to be sent in parallel.
func (d *Driver) PutMemory(size int64) (least, want int64) {
	n := d.chunkFor(size) + membudget.Capacity(copyBytes)
	return n, n
}

// Close implements backends.Driver. Calls in flight and open bodies fail with Closed.
func (d *Driver) Close() error {
	d.gate.Close()
	d.http.CloseIdleConnections()
	return nil
}

// checkKey refuses what the service does: cloud.google.com/storage/docs/objects#naming.
func checkKey(key string) error {
	switch {
	case strings.ContainsAny(key, "\r\n"):
		return backends.Errorf(backends.InvalidArgument, "the key has a line break, which Google Cloud Storage refuses")
	case key == "." || key == "..":
		return backends.Errorf(backends.InvalidArgument, "the key is . or .., which Google Cloud Storage refuses")
	case strings.HasPrefix(key, ".well-known/acme-challenge/"):
		return backends.Errorf(backends.InvalidArgument, "the key begins with .well-known/acme-challenge/, which Google Cloud Storage refuses")
	}
	return nil
}

// enter is the first step of what is asked for a key.
func (d *Driver) enter(ctx context.Context, key string) error {
	if err := d.gate.Check(ctx); err != nil {
		return err
	}
	return checkKey(key)
}

// call runs one request, with all its attempts.
func call[T any](ctx context.Context, d *Driver, s step, f func(ctx context.Context) (T, error)) (T, error) {
	var none T
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer c.End()
	out, err := f(c.Context())
	if err != nil {
		return none, d.classify(c, err, s)
	}
	return out, nil
}

// present tells a missing object from a missing bucket, for which the service has the same answer: only a listing differs.
func (d *Driver) present(ctx context.Context, err error) error {
	if backends.CodeOf(err) != backends.NotFound {
		return err
	}
	_, lerr := d.list(ctx, &storage.Query{Prefix: probePrefix}, 1)
	if backends.CodeOf(lerr) == backends.InvalidArgument || ctx.Err() != nil {
		return lerr
	}
	return err
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	if err := d.enter(ctx, key); err != nil {
		return backends.Info{}, err
	}
	attrs, err := d.attrs(ctx, key)
	if err != nil {
		return backends.Info{}, d.present(ctx, err)
	}
	return infoOf(attrs), nil
}

func (d *Driver) attrs(ctx context.Context, key string) (*storage.ObjectAttrs, error) {
	return call(ctx, d, stepStat, func(ctx context.Context) (*storage.ObjectAttrs, error) { return d.bucket.Object(key).Attrs(ctx) })
}

// Delete implements backends.Driver.
func (d *Driver) Delete(ctx context.Context, key string) error {
	if err := d.enter(ctx, key); err != nil {
		return err
	}
	_, err := call(ctx, d, stepDelete, func(ctx context.Context) (struct{}, error) { return struct{}{}, d.bucket.Object(key).Delete(ctx) })
	if err = d.present(ctx, err); backends.CodeOf(err) == backends.NotFound {
		return nil
	}
	return err
}
