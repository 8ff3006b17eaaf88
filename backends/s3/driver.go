package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // part of the SSE-C protocol
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
	"github.com/tierkit/tierkit/internal/transport"
)

// Bounds of S3: docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html.
const (
	maxKeyBytes  = 1024
	maxObject    = 5 << 40
	minPart      = 5 << 20
	maxPart      = 5 << 30
	maxParts     = 10_000
	maxBulk      = 1000
	pageSize     = 1000
	maxSingle    = 5 << 30
	defaultParts = 4

	defaultPartBytes = 26214400 // Aiven's
	defaultAttempts  = 5
	defaultRegion    = "us-east-1"
	cleanupTimeout   = 30 * time.Second
)

// Options of a driver. Bucket is needed; the zero value of everything else is the default of its setting, see docs/configuration.md.
type Options struct {
	Bucket, Region, Endpoint string
	PathStyle                *bool  // nil: by provider
	Provider                 string // "auto", or one of the table in quirks.go

	PartBytes      int64
	Concurrency    int
	StorageClass   string
	Checksum       string // auto, crc32c, md5, none
	CheckReads     bool
	UncheckedReads bool   // also of servers that are known to have checksums; without either those are checked
	SSE            string // none, s3, kms, customer
	KMSKey         string
	CustomerKey    []byte
	Tags           map[string]string
	DualStack      bool
	FIPS           bool
	RequesterPays  bool
	CallTimeout    time.Duration
	AttemptTimeout time.Duration

	ResponseTimeout, StallTimeout, ConnectTimeout time.Duration
	MaxAttempts                                   int
	RetryDelay                                    time.Duration // the longest between two attempts
	MaxConns                                      int
	CAFile                                        string
	SkipVerify                                    bool
	Proxy                                         *url.URL

	Credentials Credentials
}

// Driver stores objects in one bucket.
type Driver struct {
	client   *s3.Client
	creds    *aws.CredentialsCache // nil: they do not expire
	http     *transport.Transport
	o        Options
	provider provider
	checksum checksumMode
	sight    *sight
	env      backends.Env
	log      *slog.Logger

	sseAlgorithm, customerAlgorithm, customerKey, customerMD5, kmsKey, tagging, storageClass *string

	ctx   context.Context //nolint:containedctx // ends with Close, and with it every call in flight
	close context.CancelCauseFunc
	mu    sync.Mutex
	done  bool
}

var (
	_ backends.Driver       = (*Driver)(nil)
	_ backends.BulkDeleter  = (*Driver)(nil)
	_ backends.UploadLister = (*Driver)(nil)
	_ backends.Prober       = (*Driver)(nil)
	_ backends.PutSizer     = (*Driver)(nil)
)

// Open makes a driver. It sends nothing to the bucket: see Probe.
func Open(ctx context.Context, o Options, env backends.Env) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	env = withDefaults(env)
	if o.Bucket == "" {
		return nil, backends.Errorf(backends.InvalidArgument, "%s is empty", keyBucket)
	}
	h := new(holder)
	cfg, err := o.load(ctx, h, env)
	if err != nil {
		return nil, err
	}
	p := chooseProvider(o.Provider, o.Endpoint)
	h.sight.watch(&o, &p)
	if err := chooseRegion(&cfg, &o, &p); err != nil {
		return nil, err
	}
	t, err := h.fill(&o, cfg, env)
	if err != nil {
		return nil, err
	}
	cfg.Retryer = o.retryer // of requests for keys, too
	creds, err := o.Credentials.provider(cfg, h, env)
	if err != nil {
		return nil, &backends.Error{Code: backends.InvalidArgument, Err: err}
	}
	d := &Driver{
		client: o.newClient(cfg, h, creds, &p, env), http: t, o: o, provider: p, checksum: checksumMode(o.Checksum), sight: &h.sight, env: env, log: env.Log,
	}
	d.creds, _ = creds.(*aws.CredentialsCache)
	d.ctx, d.close = context.WithCancelCause(context.WithoutCancel(ctx))
	d.derive()
	d.warn(ctx)
	return d, nil
}

func chooseRegion(cfg *aws.Config, o *Options, p *provider) error {
	switch {
	case cfg.Region != "":
	case p.region != "":
		cfg.Region = p.region
	case o.Endpoint != "":
		cfg.Region = defaultRegion
	default:
		return backends.Errorf(backends.InvalidArgument, "%s is not set, and neither AWS_REGION nor a profile names the region", keyRegion)
	}
	return nil
}

// derive makes what every request repeats.
func (d *Driver) derive() {
	o := &d.o
	if d.checksum == "" || d.checksum == checksumAuto {
		d.checksum = d.provider.checksum
	}
	if o.PartBytes <= 0 {
		o.PartBytes = defaultPartBytes
	}
	if o.Concurrency <= 0 {
		o.Concurrency = defaultParts
	}
	if o.StorageClass != "" && o.StorageClass != "STANDARD" { // what every server takes if nothing is said
		d.storageClass = &o.StorageClass
	}
	switch o.SSE {
	case "s3":
		d.sseAlgorithm = aws.String("AES256")
	case "kms":
		d.sseAlgorithm = aws.String("aws:kms")
		if o.KMSKey != "" {
			d.kmsKey = &o.KMSKey
		}
	case "customer":
		sum := md5.Sum(o.CustomerKey) //nolint:gosec // part of the protocol
		d.customerAlgorithm = aws.String("AES256")
		d.customerKey = aws.String(base64.StdEncoding.EncodeToString(o.CustomerKey))
		d.customerMD5 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	}
	if len(o.Tags) > 0 {
		v := url.Values{}
		for k, val := range o.Tags {
			v.Set(k, val)
		}
		d.tagging = aws.String(v.Encode())
	}
}

// warn says once what an operator should know.
func (d *Driver) warn(ctx context.Context) {
	c := &d.o.Credentials
	if !c.AccessKey.IsZero() && !(c.AccessKey.Referenced() && c.SecretKey.Referenced()) {
		d.log.WarnContext(ctx, "static keys stand in the settings; the default chain or "+keyCredFile+" can change them without a restart")
	}
	if d.o.SkipVerify {
		d.log.WarnContext(ctx, "certificates are not checked: anybody on the way can read and change everything", "setting", keyVerify)
	}
	if d.o.SSE == "customer" && strings.HasPrefix(d.o.Endpoint, "http:") {
		d.log.WarnContext(ctx, "the customer key of SSE-C is sent without TLS", "setting", keyEndpoint)
	}
	if d.tagging != nil && d.provider.noTagging {
		d.log.WarnContext(ctx, "this kind of server has no tags", "setting", keyTags, "provider", d.provider.name)
	}
}

// Properties implements backends.Driver.
func (d *Driver) Properties() backends.Properties {
	p := backends.Properties{
		Name: "s3", MaxKeyBytes: maxKeyBytes, MaxObjectBytes: maxObject, MinPartBytes: minPart, MaxPartBytes: maxPart, MaxParts: maxParts,
		MaxBulkDelete: maxBulk, IfAbsent: !d.provider.noIfAbsent, FlatKeys: true, Versions: true, UserMeta: true, HTTP: true,
	}
	if d.provider.noBulk {
		p.MaxBulkDelete = 0
	}
	return p
}

// PutMemory implements backends.PutSizer.
func (d *Driver) PutMemory(size int64) (least, want int64) {
	return parts.Memory(d.partOptions(size))
}

func (d *Driver) partOptions(size int64) parts.Options {
	return parts.Options{
		Size: size, PartBytes: d.o.PartBytes, Concurrency: d.o.Concurrency, CleanupTimeout: cleanupTimeout,
		Limits: parts.Limits{MaxPartBytes: maxPart, MaxParts: maxParts, MaxObjectBytes: maxObject, EqualParts: d.provider.equalParts},
	}
}

// call is the frame of every request: it ends with Close, counts attempts, keeps the call's time, has expired credentials renewed once, and
// classifies the error.
func call[T any](ctx context.Context, d *Driver, s step, f func(ctx context.Context) (T, error)) (T, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return callIn(ctx, inner, cancel, d, s, f)
}

// callIn is call for an answer that goes on, under inner, after it.
func callIn[T any](ctx, inner context.Context, cancel context.CancelCauseFunc, d *Driver, s step, f func(ctx context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if ctx.Value(cleaningKey{}) == nil {
		if d.closed() {
			return zero, errClosed()
		}
		stop := context.AfterFunc(d.ctx, func() { cancel(errDriverClosed) })
		defer stop()
	}
	if d.o.CallTimeout > 0 {
		late := time.AfterFunc(d.o.CallTimeout, func() { cancel(&transport.TimeoutError{What: "no answer to the call", After: d.o.CallTimeout}) })
		defer late.Stop()
	}
	for renewed := false; ; renewed = true {
		count := new(transport.Count)
		out, err := f(transport.WithCount(inner, count))
		if err == nil {
			return out, nil
		}
		if renewed || d.creds == nil || !isExpired(err) {
			return zero, d.classify(ctx, inner, err, s, count)
		}
		d.creds.Invalidate()
	}
}

// cleaningKey marks the context of a clean-up, which goes on when the driver is closed: a Put that Close ends leaves nothing either.
type cleaningKey struct{}

func (d *Driver) closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// Close implements backends.Driver. Calls in flight fail with Closed.
func (d *Driver) Close() error {
	d.mu.Lock()
	was := d.done
	d.done = true
	d.mu.Unlock()
	if !was {
		d.close(errDriverClosed)
		d.http.CloseIdleConnections()
	}
	return nil
}

// withDefaults serves those who open a driver without a Registry.
func withDefaults(e backends.Env) backends.Env {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.UserAgent == "" {
		e.UserAgent = "tierkit"
	}
	if e.Now == nil {
		e.Now = time.Now //nolint:forbidigo // the one place where a clock is chosen if the caller has none
	}
	return e
}

func sprintf(format string, v []any) string { return fmt.Sprintf(format, v...) }

// without returns a copy of an SDK metadata map without our own entry.
func without(meta map[string]string, key string) map[string]string {
	var out map[string]string
	for k, v := range meta {
		k = strings.ToLower(k)
		if k == key {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(meta))
		}
		out[k] = v
	}
	return out
}
