package azure

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
	"github.com/tierkit/tierkit/backends/parts"
	"github.com/tierkit/tierkit/internal/transport"
)

// Bounds of the service: learn.microsoft.com/rest/api/storageservices/put-block and scalability-targets.
const (
	maxKeyBytes = 1024
	maxSegments = 254
	maxBlocks   = 50_000
	maxBlock    = 4000 << 20
	maxObject   = maxBlocks * maxBlock // 190.7 TiB
	maxPage     = 5000
	pending     = 7 * 24 * time.Hour // uncommitted blocks are dropped after it

	defaultBlockBytes  = 26214400 // Aiven's
	defaultConcurrency = 4
	defaultAttempts    = 5
)

// Options of a driver. Container is needed, and an account, an endpoint or a connection string; the zero value of everything else is the default
// of its setting, see docs/configuration.md.
type Options struct {
	Container, Account, Endpoint string
	Key, SAS, ConnectionString   backends.Secret // none of them: DefaultAzureCredential

	BlockBytes  int64
	Concurrency int
	Checksum    string // auto, crc64, md5, none
	Tier        string // Hot, Cool, Cold; "": the account's default

	ResponseTimeout, StallTimeout, ConnectTimeout time.Duration
	MaxAttempts                                   int
	RetryDelay                                    time.Duration // the longest between two attempts
	MaxConns                                      int
	CAFile                                        string
	SkipVerify                                    bool
	Proxy                                         *url.URL
}

func (o *Options) withDefaults() {
	if o.BlockBytes <= 0 {
		o.BlockBytes = defaultBlockBytes
	}
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = defaultAttempts
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = defaultRetryDelay
	}
}

// Driver stores objects as block blobs of one container.
type Driver struct {
	client   *container.Client
	http     *transport.Transport
	gate     *httpstore.Gate
	o        Options
	checksum checksumMode
	log      *slog.Logger
	now      func() time.Time
}

var (
	_ backends.Driver       = (*Driver)(nil)
	_ backends.UploadLister = (*Driver)(nil)
	_ backends.Prober       = (*Driver)(nil)
	_ backends.PutSizer     = (*Driver)(nil)
)

// Open makes a driver. It sends nothing: see Probe.
func Open(ctx context.Context, o Options, env backends.Env) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Container == "" {
		return nil, backends.Errorf(backends.InvalidArgument, "%s is empty", keyContainer)
	}
	o.withDefaults()
	env = withDefaults(env)
	t, err := o.newTransport(env)
	if err != nil {
		return nil, err
	}
	client, err := o.newClient(t, env)
	if err != nil {
		if backends.CodeOf(err) == backends.Unknown {
			err = &backends.Error{Code: backends.InvalidArgument, Err: err}
		}
		return nil, err
	}
	if o.SkipVerify {
		env.Log.WarnContext(ctx, "the certificate of the store is not checked", "setting", keyVerify)
	}
	return &Driver{
		client: client, http: t, gate: httpstore.NewGate(ctx), o: o, checksum: chooseChecksum(o.Checksum, client.URL()), log: env.Log, now: env.Now,
	}, nil
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
		Name: "azure", MaxKeyBytes: maxKeyBytes, MaxObjectBytes: maxObject, MinPartBytes: 1, MaxPartBytes: maxBlock, MaxParts: maxBlocks,
		IfAbsent: true, FlatKeys: true, Versions: true, UserMeta: true, PendingExpires: pending, HTTP: true,
	}
}

func (d *Driver) partOptions(size int64) parts.Options {
	return parts.Options{
		Size: size, PartBytes: d.o.BlockBytes, Concurrency: d.o.Concurrency,
		Limits: parts.Limits{MaxPartBytes: maxBlock, MaxParts: maxBlocks, MaxObjectBytes: maxObject},
	}
}

// PutMemory implements backends.PutSizer.
func (d *Driver) PutMemory(size int64) (least, want int64) { return parts.Memory(d.partOptions(size)) }

// Close implements backends.Driver. Calls in flight and open bodies fail with Closed.
func (d *Driver) Close() error {
	d.gate.Close()
	d.http.CloseIdleConnections()
	return nil
}

// checkKey refuses what the service takes but does not keep as it is: learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata.
func checkKey(key string) error {
	if strings.Contains(key, `\`) {
		return backends.Errorf(backends.InvalidArgument, "the key has a backslash, which Azure turns into a slash")
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return backends.Errorf(backends.InvalidArgument, "the key has a control character, which Azure does not allow")
	}
	n := 0
	for segment := range strings.SplitSeq(key, "/") {
		if strings.HasSuffix(segment, ".") {
			return backends.Errorf(backends.InvalidArgument, "a segment of the key ends with a dot, which Azure may cut off")
		}
		n++
	}
	if n > maxSegments {
		return backends.Errorf(backends.InvalidArgument, "the key has %d segments, Azure takes %d", n, maxSegments)
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

// call runs one request, with all its attempts. What f returned as an answer is complete: bodies that go on are Get's.
func call[T any](ctx context.Context, d *Driver, s step, f func(ctx context.Context) (T, error)) (T, int, error) {
	var none T
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return none, 0, err
	}
	defer c.End()
	out, err := f(c.Context())
	if err != nil {
		return none, c.Attempts(), d.classify(c, err, s)
	}
	return out, c.Attempts(), nil
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	if err := d.enter(ctx, key); err != nil {
		return backends.Info{}, err
	}
	p, err := d.properties(ctx, key)
	if err != nil {
		return backends.Info{}, err
	}
	return p.info, nil
}

// Delete implements backends.Driver. Snapshots go too: with them the service refuses to delete.
func (d *Driver) Delete(ctx context.Context, key string) error {
	if err := d.enter(ctx, key); err != nil {
		return err
	}
	_, _, err := call(ctx, d, stepDelete, func(ctx context.Context) (struct{}, error) {
		_, err := d.client.NewBlobClient(key).Delete(ctx, withSnapshots())
		return struct{}{}, err
	})
	if backends.CodeOf(err) == backends.NotFound {
		return nil
	}
	return err
}
