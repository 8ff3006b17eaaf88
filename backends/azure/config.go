package azure

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/proxyurl"
	"github.com/tierkit/tierkit/internal/settings"
)

// The settings. Those marked A are Aiven's.
const (
	keyContainer   = "storage.azure.container.name"            // A
	keyAccount     = "storage.azure.account.name"              // A
	keyKey         = "storage.azure.account.key"               // A
	keySAS         = "storage.azure.sas.token"                 // A
	keyConnection  = "storage.azure.connection.string"         // A
	keyEndpoint    = "storage.azure.endpoint.url"              // A
	keyBlockSize   = "storage.azure.upload.block.size"         // A
	keyConcurrency = "storage.azure.upload.concurrency"        //
	keyChecksum    = "storage.azure.checksum"                  //
	keyTier        = "storage.azure.access.tier"               //
	keyHeader      = "storage.azure.response.timeout"          //
	keyStall       = "storage.azure.stall.timeout"             //
	keyConnect     = "storage.azure.connect.timeout"           //
	keyAttempts    = "storage.azure.max.attempts"              //
	keyRetryDelay  = "storage.azure.max.retry.delay"           //
	keyMaxConns    = "storage.azure.max.connections"           //
	keyCAFile      = "storage.azure.ca.file"                   //
	keyVerify      = "storage.azure.certificate.check.enabled" //
)

// Factory returns the driver's entry for a Registry.
func Factory() backends.Factory {
	return backends.Factory{
		Name:     "azure",
		Aliases:  []string{"io.aiven.kafka.tieredstorage.storage.azure.AzureBlobStorage"},
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
		{Name: keyContainer, Type: backends.TypeString, Required: true, Doc: "The container. It must exist."},
		{
			Name: keyAccount, Type: backends.TypeString, Conflicts: []string{keyConnection},
			Doc: "The storage account. Without `" + keyKey + "` and `" + keySAS + "` the credentials are those of DefaultAzureCredential: environment, workload identity, managed identity, Azure CLI.",
		},
		{Name: keyKey, Type: backends.TypeSecret, With: []string{keyAccount}, Conflicts: []string{keyConnection, keySAS}, Doc: "The account's key (shared key). It allows everything in the account; prefer identities."},
		{Name: keySAS, Type: backends.TypeSecret, Conflicts: []string{keyConnection}, Doc: "A shared access signature, with or without the leading question mark. It needs the permissions r, w, c, d and l on the container."},
		{Name: keyConnection, Type: backends.TypeSecret, Doc: "A connection string: account, key or signature, and endpoint in one."},
		{Name: keyEndpoint, Type: backends.TypeString, Conflicts: []string{keyConnection}, Doc: "The URL of the blob service, without the container. Without it `https://ACCOUNT.blob.core.windows.net`."},
		{
			Name: keyBlockSize, Type: backends.TypeBytes, Default: "26214400", Min: "102400", Max: "2147483647",
			Doc: "Size of the blocks of an upload, and of the buffers for them: each copy needs at least one. It grows by itself where an object would need more than 50,000 blocks.",
		},
		{
			Name: keyConcurrency, Type: backends.TypeInt, Default: "4", Min: "1", Max: "64",
			Doc: "How many blocks of one object are sent at the same time, if the memory budget has buffers for them.",
		},
		{
			Name: keyChecksum, Type: backends.TypeString, Default: "auto", OneOf: []string{"auto", "crc64", "md5", "none"},
			Doc: "The checksum that goes with each block. `auto`: crc64 for Microsoft's endpoints, md5 for others. Stored chunks have checksums of their own in any case.",
		},
		{
			Name: keyTier, Type: backends.TypeString, OneOf: []string{"Hot", "Cool", "Cold"},
			Doc: "The access tier of new objects. Without it the account's default. Blobs of the archive tier cannot be read.",
		},
	}
}

func requestSettings() []backends.Setting {
	return append([]backends.Setting{
		{Name: keyHeader, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long the answer's header may take after the request was sent."},
		{Name: keyStall, Type: backends.TypeDuration, Default: "30s", Min: "1ms", Doc: "How long no byte may move, in either direction. In four times as long 1 KiB a second has to move on average: what is slower is ended too."},
		{Name: keyConnect, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long a connection may take."},
		{Name: keyAttempts, Type: backends.TypeInt, Default: "5", Min: "1", Max: "100", Doc: "How often a request is sent at most. Pauses between attempts grow."},
		{Name: keyRetryDelay, Type: backends.TypeDuration, Default: "5s", Min: "1ms", Doc: "How long the pause between two attempts becomes at most."},
		{Name: keyMaxConns, Type: backends.TypeInt, Default: "128", Min: "1", Max: "10000", Doc: "How many connections are open at the same time at most."},
		{Name: keyCAFile, Type: backends.TypeFile, Doc: "Certificates in PEM form that are trusted beside those of the system."},
		{Name: keyVerify, Type: backends.TypeBool, Default: "true", Doc: "Whether the server's certificate is checked. `false` lets anybody on the way read and change everything."},
	}, proxyurl.Settings()...)
}

func parse(c *backends.Config) (Options, error) {
	o := Options{
		Container: c.String(keyContainer), Account: c.String(keyAccount), Key: c.Secret(keyKey), SAS: c.Secret(keySAS),
		ConnectionString: c.Secret(keyConnection), Endpoint: c.String(keyEndpoint),
		BlockBytes: c.Bytes(keyBlockSize), Concurrency: int(c.Int(keyConcurrency)), Checksum: c.String(keyChecksum), Tier: c.String(keyTier),
		ResponseTimeout: c.Duration(keyHeader), StallTimeout: c.Duration(keyStall), ConnectTimeout: c.Duration(keyConnect),
		MaxAttempts: int(c.Int(keyAttempts)), RetryDelay: c.Duration(keyRetryDelay), MaxConns: int(c.Int(keyMaxConns)), CAFile: c.File(keyCAFile), SkipVerify: !c.Bool(keyVerify),
	}
	var proxyErr error
	o.Proxy, proxyErr = proxyurl.Parse(c)
	return o, errors.Join(proxyErr, checkEndpoint(o.Endpoint))
}

func checkEndpoint(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return settings.Problemf(keyEndpoint, text, "must be a URL such as https://account.blob.core.windows.net; a signature belongs in %s", keySAS)
	}
	return nil
}

// service returns the URL of the blob service, without a slash at its end.
func (o *Options) service() (string, error) {
	if o.Endpoint != "" {
		return strings.TrimRight(o.Endpoint, "/"), nil
	}
	if o.Account == "" {
		return "", settings.Missing(keyAccount, "is required (or %s, or %s)", keyConnection, keyEndpoint)
	}
	return "https://" + o.Account + ".blob.core.windows.net", nil
}
