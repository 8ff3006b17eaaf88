package s3

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/proxyurl"
	"github.com/tierkit/tierkit/internal/settings"
)

// The settings. Those marked A are Aiven's.
const (
	keyBucket       = "storage.s3.bucket.name"                // A
	keyRegion       = "storage.s3.region"                     // A
	keyEndpoint     = "storage.s3.endpoint.url"               // A
	keyPathStyle    = "storage.s3.path.style.access.enabled"  // A
	keyPartSize     = "storage.s3.multipart.upload.part.size" // A
	keyConcurrency  = "storage.s3.upload.concurrency"
	keyStorageClass = "storage.s3.storage.class" // A
	keyProvider     = "storage.s3.provider"
	keyChecksum     = "storage.s3.checksum"
	keyCheck        = "storage.aws.checksum.check.enabled" // A
	keySSE          = "storage.s3.sse"
	keyKMSKey       = "storage.s3.sse.kms.key.id"
	keyCustomerKey  = "storage.s3.sse.customer.key"
	keyTags         = "storage.s3.tags"
	keyCallTimeout  = "storage.s3.api.call.timeout"         // A
	keyTryTimeout   = "storage.s3.api.call.attempt.timeout" // A
	keyHeader       = "storage.s3.response.timeout"
	keyStall        = "storage.s3.stall.timeout"
	keyConnect      = "storage.s3.connect.timeout"
	keyAttempts     = "storage.s3.max.attempts"
	keyRetryDelay   = "storage.s3.max.retry.delay"
	keyMaxConns     = "storage.s3.max.connections"
	keyCAFile       = "storage.s3.ca.file"
	keyVerify       = "storage.aws.certificate.check.enabled"  // A
	keyClass        = "storage.aws.credentials.provider.class" // A
	keyAccessKey    = "storage.aws.access.key.id"              // A
	keySecretKey    = "storage.aws.secret.access.key"          //nolint:gosec // a name (A)
	keySession      = "storage.aws.session.token"              // A
	keyCredFile     = "storage.aws.credentials.file"           //nolint:gosec // a name (A)
	keyProfile      = "storage.aws.profile"
	keyRole         = "storage.aws.role.arn"
	keyRoleSession  = "storage.aws.role.session.name"
	keyExternalID   = "storage.aws.role.external.id"
	keySTSEndpoint  = "storage.aws.sts.endpoint.url"
	keyLegacyMD5    = "storage.s3.legacy.md5.plugin.enabled" // A
	keyDualStack    = "storage.s3.dual.stack"
	keyFIPS         = "storage.s3.fips"
	keyRequestPayer = "storage.s3.requester.pays"
	className       = "io.aiven.kafka.tieredstorage.storage.s3" // + .S3Storage
)

// Factory returns the driver's entry for a Registry.
func Factory() backends.Factory {
	return backends.Factory{
		Name:     "s3",
		Aliases:  []string{className + ".S3Storage"},
		Settings: append(append(storeSettings(), requestSettings()...), credentialSettings()...),
		Open: func(ctx context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			o, err := parse(c)
			if err != nil {
				return nil, err
			}
			return Open(ctx, o, env)
		},
	}
}

func storeSettings() []backends.Setting {
	return []backends.Setting{
		{Name: keyBucket, Type: backends.TypeString, Required: true, Doc: "The bucket. It must exist. Also the ARN of an access point."},
		{Name: keyRegion, Type: backends.TypeString, Doc: "The bucket's region. Without it the environment (`AWS_REGION`) or the profile decides; with an endpoint of one's own `us-east-1` is assumed."},
		{Name: keyEndpoint, Type: backends.TypeString, Doc: "The URL of a server other than Amazon's, `https://host:port`."},
		{Name: keyPathStyle, Type: backends.TypeBool, Doc: "Whether the bucket is part of the path (`https://host/bucket/key`) rather than of the host name. Without it: yes for servers of one's own, no for Amazon and the big services."},
		{
			Name: keyProvider, Type: backends.TypeString, Default: "auto", OneOf: providerNames(),
			Doc: "What kind of server it is, where the protocol has dialects. `auto` goes by the endpoint's host name.",
		},
		{
			Name: keyPartSize, Type: backends.TypeBytes, Default: "26214400", Min: "5242880", Max: "2147483639",
			Doc: "Size of the parts of an upload, and of the buffers for them: each copy needs at least one. It grows by itself where an object would need more than 10,000 parts.",
		},
		{
			Name: keyConcurrency, Type: backends.TypeInt, Default: "4", Min: "1", Max: "64",
			Doc: "How many parts of one object are sent at the same time, if the memory budget has buffers for them.",
		},
		{Name: keyStorageClass, Type: backends.TypeString, Default: "STANDARD", Doc: "The storage class of new objects, any that the server knows. Archive classes that need a restore before reading do not work."},
		{
			Name: keyChecksum, Type: backends.TypeString, Default: "auto", OneOf: []string{"auto", "crc32c", "md5", "none"},
			Doc: "The checksum that goes with each upload. `auto`: crc32c for Amazon, and for MinIO and Versity S3 Gateway from their first answer on; md5 for others. Where auto is crc32c, objects that are read whole are compared with it, too. Stored chunks have checksums of their own in any case.",
		},
		{Name: keyCheck, Type: backends.TypeBool, Doc: "Whether objects that are read whole are compared with the checksum that the store has. Unset: as `storage.s3.checksum` says. Every chunk is checked after reading in any case."},
		{
			Name: keySSE, Type: backends.TypeString, Default: "none", OneOf: []string{"none", "s3", "kms", "customer"},
			Doc: "Encryption by the store: `s3` (SSE-S3), `kms` (SSE-KMS), `customer` (SSE-C, with `" + keyCustomerKey + "`); `none` leaves it to the bucket's default.",
		},
		{Name: keyKMSKey, Type: backends.TypeString, Doc: "The KMS key of SSE-KMS; without it the account's default key for S3."},
		{Name: keyCustomerKey, Type: backends.TypeSecret, Doc: "The key of SSE-C: 32 bytes in base64. Without it nothing that was written with it can be read. Only over TLS."},
		{Name: keyTags, Type: backends.TypeList, Doc: "Tags of new objects, `key=value,key=value`, at most 10."},
		{Name: keyDualStack, Type: backends.TypeBool, Default: "false", Doc: "Amazon's endpoints for IPv4 and IPv6."},
		{Name: keyFIPS, Type: backends.TypeBool, Default: "false", Doc: "Amazon's FIPS endpoints."},
		{Name: keyRequestPayer, Type: backends.TypeBool, Default: "false", Doc: "Accept the costs of a requester-pays bucket."},
		{Name: keyLegacyMD5, Type: backends.TypeBool, NoEffect: "see `" + keyChecksum + "=md5`"},
	}
}

func requestSettings() []backends.Setting {
	return append([]backends.Setting{
		{Name: keyCallTimeout, Type: backends.TypeDuration, Min: "1ms", Doc: "Bound for one call with all its attempts, up to the answer's header. Without it: none."},
		{Name: keyTryTimeout, Type: backends.TypeDuration, Min: "1ms", Doc: "Bound for one attempt, sending included, up to the answer's header. Without it only silence ends an attempt: see the next two."},
		{Name: keyHeader, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long the answer's header may take after the request was sent."},
		{Name: keyStall, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long no byte may move, in either direction. In four times as long 1 KiB a second has to move on average: what is slower is ended too."},
		{Name: keyConnect, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long a connection may take."},
		{Name: keyAttempts, Type: backends.TypeInt, Default: "5", Min: "1", Max: "100", Doc: "How often a request is sent at most. Pauses between attempts grow."},
		{Name: keyRetryDelay, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long the pause between two attempts becomes at most."},
		{Name: keyMaxConns, Type: backends.TypeInt, Default: "128", Min: "1", Max: "10000", Doc: "How many connections are open at the same time at most."},
		{Name: keyCAFile, Type: backends.TypeFile, Doc: "Certificates in PEM form that are trusted beside those of the system (or of `AWS_CA_BUNDLE`)."},
		{Name: keyVerify, Type: backends.TypeBool, Default: "true", Doc: "Whether the server's certificate is checked. `false` lets anybody on the way read and change everything."},
	}, proxyurl.Settings()...)
}

func credentialSettings() []backends.Setting {
	return []backends.Setting{
		{
			Name: keyClass, Type: backends.TypeString,
			Doc: "The Java class of a credentials provider; known are those of the AWS SDK for Java 2 that have a counterpart here: " + strings.Join(classNames(), ", ") + ".",
		},
		{Name: keyAccessKey, Type: backends.TypeSecret, With: []string{keySecretKey}, Doc: "Access key. Keys that do not change are better kept out of settings: leave this to the default chain, or use `" + keyCredFile + "`."},
		{Name: keySecretKey, Type: backends.TypeSecret, With: []string{keyAccessKey}, Doc: "Secret key."},
		{Name: keySession, Type: backends.TypeSecret, With: []string{keyAccessKey}, Doc: "Session token of temporary keys."},
		{
			Name: keyCredFile, Type: backends.TypeFile, Conflicts: []string{keyAccessKey, keySecretKey, keySession},
			Doc: "A properties file with `aws.access.key.id`, `aws.secret.access.key` and perhaps `aws.session.token`, read again at most every 10 s.",
		},
		{Name: keyProfile, Type: backends.TypeString, Doc: "The profile of the shared AWS files to use."},
		{Name: keyRole, Type: backends.TypeString, Doc: "ARN of a role to assume with the credentials."},
		{Name: keyRoleSession, Type: backends.TypeString, Default: "tierkit", With: []string{keyRole}, Doc: "Name of the role's session."},
		{Name: keyExternalID, Type: backends.TypeString, With: []string{keyRole}, Doc: "External id that the role's trust policy asks for."},
		{Name: keySTSEndpoint, Type: backends.TypeString, Doc: "URL of the token service, where it is not Amazon's."},
	}
}

// parse turns settings into Options and reports what a table cannot express, all of it.
func parse(c *backends.Config) (Options, error) {
	o := Options{
		Bucket: c.String(keyBucket), Region: c.String(keyRegion), Endpoint: c.String(keyEndpoint), Provider: c.String(keyProvider),
		PartBytes: c.Bytes(keyPartSize), Concurrency: int(c.Int(keyConcurrency)), StorageClass: c.String(keyStorageClass),
		Checksum: c.String(keyChecksum), CheckReads: c.Bool(keyCheck), UncheckedReads: c.IsSet(keyCheck) && !c.Bool(keyCheck), SSE: c.String(keySSE), KMSKey: c.String(keyKMSKey),
		DualStack: c.Bool(keyDualStack), FIPS: c.Bool(keyFIPS), RequesterPays: c.Bool(keyRequestPayer),
		CallTimeout: c.Duration(keyCallTimeout), AttemptTimeout: c.Duration(keyTryTimeout), ResponseTimeout: c.Duration(keyHeader),
		StallTimeout: c.Duration(keyStall), ConnectTimeout: c.Duration(keyConnect), MaxAttempts: int(c.Int(keyAttempts)), RetryDelay: c.Duration(keyRetryDelay),
		MaxConns: int(c.Int(keyMaxConns)), CAFile: c.File(keyCAFile), SkipVerify: !c.Bool(keyVerify),
		Credentials: Credentials{
			Class: c.String(keyClass), AccessKey: c.Secret(keyAccessKey), SecretKey: c.Secret(keySecretKey), SessionToken: c.Secret(keySession),
			File: c.File(keyCredFile), Profile: c.String(keyProfile), Role: c.String(keyRole), RoleSession: c.String(keyRoleSession),
			ExternalID: c.String(keyExternalID), STSEndpoint: c.String(keySTSEndpoint),
		},
	}
	if c.IsSet(keyPathStyle) {
		b := c.Bool(keyPathStyle)
		o.PathStyle = &b
	}
	var tagErr, proxyErr, keyErr error
	o.Tags, tagErr = parseTags(c.List(keyTags))
	o.Proxy, proxyErr = proxyurl.Parse(c)
	o.CustomerKey, keyErr = parseCustomerKey(o.SSE, c.Secret(keyCustomerKey))
	err := errors.Join(tagErr, proxyErr, keyErr, checkURL(keyEndpoint, o.Endpoint), checkURL(keySTSEndpoint, o.Credentials.STSEndpoint), checkClass(o.Credentials))
	if o.KMSKey != "" && o.SSE != "kms" {
		err = errors.Join(err, settings.Problemf(keyKMSKey, o.KMSKey, "only has a meaning with %s=kms", keySSE))
	}
	return o, err
}

func checkURL(key, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return settings.Problemf(key, text, "must be a URL that begins with http:// or https:// and has a host")
	}
	return nil
}

func parseTags(list []string) (map[string]string, error) {
	tags := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if k = strings.TrimSpace(k); !ok || k == "" || tags[k] != "" {
			return nil, settings.Problemf(keyTags, kv, "must be key=value, each key once")
		}
		tags[k] = strings.TrimSpace(v)
	}
	if len(tags) > 10 {
		return nil, settings.Problemf(keyTags, strconv.Itoa(len(tags))+" tags", "an object can have at most 10")
	}
	return tags, nil
}

func parseCustomerKey(sse string, s backends.Secret) ([]byte, error) {
	switch {
	case sse != "customer" && s.IsZero():
		return nil, nil
	case sse != "customer":
		return nil, settings.Missing(keyCustomerKey, "only has a meaning with %s=customer", keySSE)
	case s.IsZero():
		return nil, settings.Missing(keyCustomerKey, "is required by %s=customer", keySSE)
	}
	key, err := base64.StdEncoding.DecodeString(s.Reveal())
	if err != nil || len(key) != 32 {
		return nil, settings.Missing(keyCustomerKey, "must be 32 bytes in base64")
	}
	return key, nil
}

// credentialsEvery is how long a credentials file is taken to be as it was read.
const credentialsEvery = 10 * time.Second
