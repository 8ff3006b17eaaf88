package s3

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
)

// Credentials say where the keys come from. The zero value is the SDK's default chain.
type Credentials struct {
	Class                              string // of the Java SDK
	AccessKey, SecretKey, SessionToken backends.Secret
	File                               string // properties, read again when it changes
	Profile                            string
	Role, RoleSession, ExternalID      string // assumed with what the others give
	STSEndpoint                        string
}

// source is where credentials come from.
type source string

const (
	sourceChain     source = "chain"
	sourceStatic    source = "static"
	sourceEnv       source = "environment"
	sourceProfile   source = "profile"
	sourceWeb       source = "web identity"
	sourceContainer source = "container"
	sourceInstance  source = "instance"
	sourceAnonymous source = "anonymous"
)

const javaPackage = "software.amazon.awssdk.auth.credentials."

// classes maps providers of the Java SDK to the same source.
func classes() map[string]source {
	return map[string]source{
		javaPackage + "DefaultCredentialsProvider":              sourceChain,
		javaPackage + "StaticCredentialsProvider":               sourceStatic,
		javaPackage + "EnvironmentVariableCredentialsProvider":  sourceEnv,
		javaPackage + "ProfileCredentialsProvider":              sourceProfile,
		javaPackage + "WebIdentityTokenFileCredentialsProvider": sourceWeb,
		javaPackage + "ContainerCredentialsProvider":            sourceContainer,
		javaPackage + "InstanceProfileCredentialsProvider":      sourceInstance,
		javaPackage + "AnonymousCredentialsProvider":            sourceAnonymous,
	}
}

func classNames() []string { return slices.Sorted(maps.Keys(classes())) }

func checkClass(c Credentials) error {
	from, ok := classes()[c.Class]
	switch {
	case c.Class == "":
		return nil
	case !ok:
		return settings.Problemf(keyClass, c.Class, "a Java class cannot be loaded here; these have a counterpart: %s", strings.Join(classNames(), ", "))
	case from == sourceStatic && c.AccessKey.IsZero():
		return settings.Problemf(keyClass, c.Class, "needs %s and %s", keyAccessKey, keySecretKey)
	case from != sourceStatic && (!c.AccessKey.IsZero() || c.File != ""):
		return settings.Problemf(keyClass, c.Class, "not together with keys or a credentials file")
	}
	return nil
}

// load makes the SDK's configuration: region, credentials, certificates of AWS_CA_BUNDLE. Token requests go through h.
func (o *Options) load(ctx context.Context, h *holder, env backends.Env) (aws.Config, error) {
	opts := []func(*config.LoadOptions) error{
		config.WithAPIOptions(h.apiOptions()), config.WithLogger(logger(env)),
	}
	if o.Region != "" {
		opts = append(opts, config.WithRegion(o.Region))
	}
	if o.Credentials.Profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(o.Credentials.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		if ctx.Err() != nil {
			return cfg, ctx.Err()
		}
		return cfg, backends.Errorf(backends.InvalidArgument, "configuration of the AWS SDK (environment, shared files): %w", err)
	}
	cfg.APIOptions = nil // ours are set on the client itself
	return cfg, nil
}

// provider returns the credentials that the settings choose.
func (c *Credentials) provider(cfg aws.Config, h *holder, env backends.Env) (aws.CredentialsProvider, error) {
	cfg.APIOptions = h.apiOptions()
	base, err := c.base(cfg, env)
	if err != nil {
		return nil, err
	}
	if c.Role == "" {
		return base, nil
	}
	cfg.Credentials = base
	client := sts.NewFromConfig(cfg, func(o *sts.Options) {
		if c.STSEndpoint != "" {
			o.BaseEndpoint = &c.STSEndpoint
		}
	})
	role := stscreds.NewAssumeRoleProvider(client, c.Role, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = c.RoleSession
		if o.RoleSessionName == "" {
			o.RoleSessionName = "tierkit"
		}
		if c.ExternalID != "" {
			o.ExternalID = &c.ExternalID
		}
	})
	return aws.NewCredentialsCache(&lasting{next: role, log: env.Log, now: env.Now}), nil
}

// renewBefore is how long before their end keys are renewed; renewAgain is how long after a renewal that failed the next one comes.
const (
	renewBefore = time.Minute
	renewAgain  = 10 * time.Second
)

// lasting renews keys ahead of their end. While that fails, those that still hold are used: the SDK's cache would take them for gone.
type lasting struct {
	next aws.CredentialsProvider
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	last aws.Credentials
}

var _ aws.CredentialsProvider = (*lasting)(nil)

// Retrieve implements aws.CredentialsProvider. What it returns counts as expired when it is to be renewed.
func (l *lasting) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := l.next.Retrieve(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if err != nil {
		if !l.last.HasKeys() || !now.Before(l.last.Expires) {
			return aws.Credentials{}, &keysError{err}
		}
		l.log.WarnContext(ctx, "temporary keys cannot be renewed, those that there are hold until "+l.last.Expires.Format(time.RFC3339), "error", err)
		got = l.last
		got.Expires = earlier(now.Add(renewAgain), got.Expires)
		return got, nil
	}
	l.last = got
	if got.CanExpire {
		got.Expires = got.Expires.Add(-min(renewBefore, got.Expires.Sub(now)/2))
	}
	return got, nil
}

// marked marks errors as those of a provider whose own errors cannot be told from those of the store.
type marked struct{ next aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (m marked) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := m.next.Retrieve(ctx)
	if err != nil {
		return got, &keysError{err}
	}
	return got, nil
}

type keysError struct{ err error }

func (e *keysError) Error() string { return e.err.Error() }
func (e *keysError) Unwrap() error { return e.err }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (c *Credentials) base(cfg aws.Config, env backends.Env) (aws.CredentialsProvider, error) {
	if c.File != "" {
		f := &fileProvider{path: c.File, every: credentialsEvery, log: env.Log, now: env.Now}
		if _, err := f.read(); err != nil {
			return nil, settings.Problemf(keyCredFile, c.File, "%v", err)
		}
		return aws.NewCredentialsCache(f), nil
	}
	from := classes()[c.Class]
	if c.Class == "" && !c.AccessKey.IsZero() {
		from = sourceStatic
	}
	envs, err := config.NewEnvConfig()
	if err != nil {
		return nil, backends.Errorf(backends.InvalidArgument, "environment of the AWS SDK: %w", err)
	}
	switch from {
	case sourceStatic:
		return credentials.NewStaticCredentialsProvider(c.AccessKey.Reveal(), c.SecretKey.Reveal(), c.SessionToken.Reveal()), nil
	case sourceAnonymous:
		return aws.AnonymousCredentials{}, nil
	case sourceEnv:
		if !envs.Credentials.HasKeys() {
			return nil, settings.Problemf(keyClass, c.Class, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
		}
		return credentials.StaticCredentialsProvider{Value: envs.Credentials}, nil
	case sourceWeb:
		if envs.WebIdentityTokenFilePath == "" || envs.RoleARN == "" {
			return nil, settings.Problemf(keyClass, c.Class, "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not set")
		}
		client := sts.NewFromConfig(cfg)
		p := stscreds.NewWebIdentityRoleProvider(client, envs.RoleARN, stscreds.IdentityTokenFile(envs.WebIdentityTokenFilePath))
		return aws.NewCredentialsCache(p), nil
	case sourceContainer:
		url := envs.ContainerCredentialsEndpoint
		if envs.ContainerCredentialsRelativePath != "" {
			url = "http://169.254.170.2" + envs.ContainerCredentialsRelativePath // docs.aws.amazon.com: task IAM roles
		}
		if url == "" {
			return nil, settings.Problemf(keyClass, c.Class, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not set")
		}
		p := endpointcreds.New(url, func(o *endpointcreds.Options) { o.AuthorizationToken = envs.ContainerAuthorizationToken })
		return aws.NewCredentialsCache(marked{p}), nil
	case sourceInstance:
		client := imds.NewFromConfig(cfg)
		return aws.NewCredentialsCache(ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client })), nil
	case sourceChain, sourceProfile:
	}
	return cfg.Credentials, nil
}

// fileProvider reads keys from a properties file; the cache in front of it asks again when they "expire".
type fileProvider struct {
	path  string
	every time.Duration
	log   *slog.Logger
	now   func() time.Time

	mu   sync.Mutex
	last aws.Credentials
}

var _ aws.CredentialsProvider = (*fileProvider)(nil)

// Retrieve implements aws.CredentialsProvider. A file that cannot be read, perhaps because it is being written, leaves the keys as they were.
func (f *fileProvider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && !f.last.HasKeys():
		return aws.Credentials{}, err
	case err != nil:
		f.log.WarnContext(ctx, "the credentials file cannot be read, the keys stay as they were", "file", f.path, "error", err)
		got = f.last
	case f.last.HasKeys() && (got.AccessKeyID != f.last.AccessKeyID || got.SecretAccessKey != f.last.SecretAccessKey || got.SessionToken != f.last.SessionToken):
		f.log.InfoContext(ctx, "new keys from the credentials file", "file", f.path)
	}
	got.CanExpire, got.Expires = true, f.now().Add(f.every)
	f.last = got
	return got, nil
}

func (f *fileProvider) read() (aws.Credentials, error) {
	p, err := props.Pairs(f.path)
	if err != nil {
		return aws.Credentials{}, err
	}
	get := func(name string) string {
		if v := p["rsm.config."+name]; v != "" {
			return v
		}
		return p[strings.TrimPrefix(name, "storage.")]
	}
	c := aws.Credentials{AccessKeyID: get(keyAccessKey), SecretAccessKey: get(keySecretKey), SessionToken: get(keySession), Source: "credentials file"}
	if !c.HasKeys() {
		return c, errors.New("it has no aws.access.key.id and aws.secret.access.key")
	}
	return c, nil
}
