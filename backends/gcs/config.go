package gcs

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/proxyurl"
	"github.com/tierkit/tierkit/internal/settings"
)

// The settings. Those marked A are Aiven's.
const (
	keyBucket     = "storage.gcs.bucket.name"                 // A
	keyEndpoint   = "storage.gcs.endpoint.url"                // A
	keyChunkSize  = "storage.gcs.resumable.upload.chunk.size" // A
	keyJSON       = "storage.gcs.credentials.json"            // A
	keyPath       = "storage.gcs.credentials.path"            // A
	keyDefault    = "storage.gcs.credentials.default"         // A
	keyClass      = "storage.gcs.storage.class"               //
	keyProject    = "storage.gcs.user.project"                //
	keyDeadline   = "storage.gcs.retry.deadline"              //
	keyTransfer   = "storage.gcs.chunk.timeout"               //
	keyHeader     = "storage.gcs.response.timeout"            //
	keyStall      = "storage.gcs.stall.timeout"               //
	keyConnect    = "storage.gcs.connect.timeout"             //
	keyAttempts   = "storage.gcs.max.attempts"                //
	keyRetryDelay = "storage.gcs.max.retry.delay"             //
	keyMaxConns   = "storage.gcs.max.connections"             //
	keyCAFile     = "storage.gcs.ca.file"                     //
	keyVerify     = "storage.gcs.certificate.check.enabled"   //
)

// Factory returns the driver's entry for a Registry.
func Factory() backends.Factory {
	return backends.Factory{
		Name:     "gcs",
		Aliases:  []string{"io.aiven.kafka.tieredstorage.storage.gcs.GcsStorage"},
		Settings: append(storeSettings(), requestSettings()...),
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
		{Name: keyBucket, Type: backends.TypeString, Required: true, Doc: "The bucket. It must exist."},
		{Name: keyEndpoint, Type: backends.TypeString, Doc: "The URL of a server other than Google's: an emulator, or a private endpoint."},
		{
			Name: keyChunkSize, Type: backends.TypeBytes, Default: "8388608", Min: "262144", Max: "1073741824",
			Doc: "Size of the pieces of an upload, a multiple of 262144, and of the one buffer that each copy needs. The plug-in's default is 26214400.",
		},
		{
			Name: keyJSON, Type: backends.TypeSecret, Conflicts: []string{keyPath},
			Doc: "Credentials as the JSON text of a key file (service account, external account, authorized user, ...), or `{\"access_token\": \"...\"}`.",
		},
		{Name: keyPath, Type: backends.TypeFile, Doc: "A file of such JSON. It is read again when it changes."},
		{
			Name: keyDefault, Type: backends.TypeBool, Conflicts: []string{keyJSON, keyPath},
			Doc: "`true`: application default credentials (environment, gcloud, workload identity, metadata server), as without any of the three settings. `false`: none, for public buckets and emulators.",
		},
		{Name: keyClass, Type: backends.TypeString, Doc: "The storage class of new objects (`STANDARD`, `NEARLINE`, `COLDLINE`, `ARCHIVE`). Without it the bucket's default."},
		{Name: keyProject, Type: backends.TypeString, Doc: "The project that pays for requests to a requester-pays bucket."},
	}
}

func requestSettings() []backends.Setting {
	return append([]backends.Setting{
		{Name: keyAttempts, Type: backends.TypeInt, Default: "5", Min: "1", Max: "100", Doc: "How often a request is sent at most; of an upload, how often without progress. Pauses between attempts grow."},
		{Name: keyRetryDelay, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long the pause between two attempts becomes at most."},
		{Name: keyDeadline, Type: backends.TypeDuration, Default: "2m", Min: "1s", Doc: "After how long a request, or one piece of an upload, is not tried again."},
		{Name: keyTransfer, Type: backends.TypeDuration, Default: "1m", Min: "1s", Doc: "How long one attempt to send a piece of an upload may take."},
		{Name: keyHeader, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long the answer's header may take after the request was sent."},
		{Name: keyStall, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long no byte may move, in either direction. In four times as long 1 KiB a second has to move on average: what is slower is ended too."},
		{Name: keyConnect, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long a connection may take."},
		{Name: keyMaxConns, Type: backends.TypeInt, Default: "128", Min: "1", Max: "10000", Doc: "How many connections are open at the same time at most."},
		{Name: keyCAFile, Type: backends.TypeFile, Doc: "Certificates in PEM form that are trusted beside those of the system."},
		{Name: keyVerify, Type: backends.TypeBool, Default: "true", Doc: "Whether the server's certificate is checked. `false` lets anybody on the way read and change everything."},
	}, proxyurl.Settings()...)
}

func parse(c *backends.Config) (Options, error) {
	o := Options{
		Bucket: c.String(keyBucket), Endpoint: c.String(keyEndpoint), ChunkBytes: c.Bytes(keyChunkSize),
		CredentialsJSON: c.Secret(keyJSON), CredentialsFile: c.File(keyPath), Anonymous: c.IsSet(keyDefault) && !c.Bool(keyDefault),
		StorageClass: c.String(keyClass), UserProject: c.String(keyProject), RetryDeadline: c.Duration(keyDeadline), ChunkTimeout: c.Duration(keyTransfer),
		ResponseTimeout: c.Duration(keyHeader), StallTimeout: c.Duration(keyStall), ConnectTimeout: c.Duration(keyConnect),
		MaxAttempts: int(c.Int(keyAttempts)), RetryDelay: c.Duration(keyRetryDelay), MaxConns: int(c.Int(keyMaxConns)), CAFile: c.File(keyCAFile), SkipVerify: !c.Bool(keyVerify),
	}
	var err error
	o.Proxy, err = proxyurl.Parse(c)
	if o.ChunkBytes%chunkUnit != 0 {
		err = errors.Join(err, settings.Problemf(keyChunkSize, strconv.FormatInt(o.ChunkBytes, 10), "must be a multiple of %d", chunkUnit))
	}
	_, eerr := o.endpoint()
	return o, errors.Join(err, eerr)
}

// endpoint returns the base of the JSON API.
func (o *Options) endpoint() (string, error) {
	const path = "/storage/v1/"
	if o.Endpoint == "" {
		return "https://storage.googleapis.com" + path, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return "", settings.Problemf(keyEndpoint, o.Endpoint, "must be a URL such as https://storage.googleapis.com")
	}
	if p := strings.Trim(u.Path, "/"); p != "" && p != strings.Trim(path, "/") {
		return "", settings.Problemf(keyEndpoint, o.Endpoint, "must have no path")
	}
	return u.Scheme + "://" + u.Host + path, nil
}
