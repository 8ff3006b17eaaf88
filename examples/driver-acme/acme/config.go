package acme

import (
	"context"
	"errors"
	"net/url"

	"github.com/tierkit/tierkit/backends"
)

// The settings.
const (
	keyURL         = "storage.acme.url"
	keyBucket      = "storage.acme.bucket"
	keyKeyID       = "storage.acme.key.id"
	keySecret      = "storage.acme.secret"
	keyCredentials = "storage.acme.credentials.file" //nolint:gosec // a name
	keyTokenURL    = "storage.acme.token.url"
	keyPartSize    = "storage.acme.part.size"
	keyConcurrency = "storage.acme.upload.concurrency"
	keyAttempts    = "storage.acme.max.attempts"
	keyDelay       = "storage.acme.max.retry.delay"
	keyResponse    = "storage.acme.response.timeout"
	keyStall       = "storage.acme.stall.timeout"
	keyConnect     = "storage.acme.connect.timeout"
	keyMaxConns    = "storage.acme.max.connections"
	keyCAFile      = "storage.acme.ca.file"
)

// Factory returns the driver's entry for a Registry. The table is all there is to say about settings: reading them, their documentation and the help on
// the command line come from it.
func Factory() backends.Factory {
	return backends.Factory{
		Name: "acme",
		Settings: []backends.Setting{
			{Name: keyURL, Type: backends.TypeString, Required: true, Doc: "Where the store is, such as `https://store.example.com`."},
			{Name: keyBucket, Type: backends.TypeString, Required: true, Doc: "The bucket. It must exist."},
			{Name: keyKeyID, Type: backends.TypeString, Doc: "The id of the key."},
			{Name: keySecret, Type: backends.TypeSecret, Doc: "The secret that belongs to the key."},
			{
				Name: keyCredentials, Type: backends.TypeFile,
				Doc: "A file with the key, in place of `" + keyKeyID + "` and `" + keySecret + "`: `{\"key_id\": \"...\", \"secret\": \"...\"}`. It is read again for each token, so that a key can be replaced without a restart.",
			},
			{Name: keyTokenURL, Type: backends.TypeString, Doc: "Where tokens come from, if not from the store itself."},
			{
				Name: keyPartSize, Type: backends.TypeBytes, Default: "8MiB", Min: "1024", Max: "1GiB",
				Doc: "Size of the parts of an upload, and of each buffer that a copy needs. It becomes larger for objects that would have too many parts.",
			},
			{Name: keyConcurrency, Type: backends.TypeInt, Default: "4", Min: "1", Max: "100", Doc: "How many parts of a body are sent at the same time at most."},
			{Name: keyAttempts, Type: backends.TypeInt, Default: "5", Min: "1", Max: "100", Doc: "How often a request is sent at most."},
			{Name: keyDelay, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long the pause between two attempts becomes at most."},
			{Name: keyResponse, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long the answer's header may take after the request was sent."},
			{Name: keyStall, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long no byte may move, in either direction."},
			{Name: keyConnect, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long a connection may take."},
			{Name: keyMaxConns, Type: backends.TypeInt, Default: "64", Min: "1", Max: "10000", Doc: "How many connections are open at the same time at most."},
			{Name: keyCAFile, Type: backends.TypeFile, Doc: "Certificates in PEM form that are trusted beside those of the system."},
		},
		Open: func(ctx context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			o, err := parse(c)
			if err != nil {
				return nil, err
			}
			return Open(ctx, o, env)
		},
	}
}

func parse(c *backends.Config) (Options, error) {
	o := Options{
		URL: c.String(keyURL), Bucket: c.String(keyBucket), KeyID: c.String(keyKeyID), Secret: c.Secret(keySecret),
		CredentialsFile: c.File(keyCredentials), TokenURL: c.String(keyTokenURL),
		PartBytes: c.Bytes(keyPartSize), Concurrency: int(c.Int(keyConcurrency)), MaxAttempts: int(c.Int(keyAttempts)), RetryDelay: c.Duration(keyDelay),
		ResponseTimeout: c.Duration(keyResponse), StallTimeout: c.Duration(keyStall), ConnectTimeout: c.Duration(keyConnect),
		MaxConns: int(c.Int(keyMaxConns)), CAFile: c.File(keyCAFile),
	}
	if err := errors.Join(checkURL(keyURL, o.URL), checkCredentials(o)); err != nil {
		return o, err
	}
	if o.TokenURL != "" {
		if err := checkURL(keyTokenURL, o.TokenURL); err != nil {
			return o, err
		}
	}
	if o.Bucket == "" || url.PathEscape(o.Bucket) != o.Bucket {
		return o, backends.Errorf(backends.InvalidArgument, "%s=%q is not the name of a bucket", keyBucket, o.Bucket)
	}
	return o, nil
}

func checkURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return backends.Errorf(backends.InvalidArgument, "%s must be a URL such as https://store.example.com", name)
	}
	return nil
}

// checkCredentials wants a key in one of the two places.
func checkCredentials(o Options) error {
	inSettings := o.KeyID != "" || o.Secret.Reveal() != ""
	switch {
	case inSettings && o.CredentialsFile != "":
		return backends.Errorf(backends.InvalidArgument, "%s: not together with %s and %s", keyCredentials, keyKeyID, keySecret)
	case o.CredentialsFile == "" && (o.KeyID == "" || o.Secret.Reveal() == ""):
		return backends.Errorf(backends.InvalidArgument, "no credentials: set %s and %s, or %s", keyKeyID, keySecret, keyCredentials)
	}
	return nil
}
