package s3

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/settings"
)

// aivens are the settings of Aiven's plug-in, each with a value that it takes.
func aivens() map[string]string {
	return map[string]string{
		"storage.backend.class":                 "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
		"storage.s3.bucket.name":                "bucket",
		"storage.s3.region":                     "eu-north-1",
		"storage.s3.endpoint.url":               "http://store.invalid:9000",
		"storage.s3.path.style.access.enabled":  "true",
		"storage.s3.multipart.upload.part.size": "5242880",
		"storage.s3.storage.class":              "STANDARD_IA",
		"storage.s3.api.call.timeout":           "60000",
		"storage.s3.api.call.attempt.timeout":   "20000",
		"storage.s3.legacy.md5.plugin.enabled":  "true",
		"storage.aws.access.key.id":             "id",
		"storage.aws.secret.access.key":         "secret",
		"storage.aws.session.token":             "token",
		"storage.aws.certificate.check.enabled": "false",
		"storage.aws.checksum.check.enabled":    "true",
		"storage.proxy.host":                    "127.0.0.1",
		"storage.proxy.port":                    "1080",
		"storage.proxy.username":                "user",
		"storage.proxy.password":                "pass",
	}
}

func openWith(t *testing.T, props map[string]string, w http.RoundTripper, log *slog.Logger) (*backends.Store, error) {
	t.Helper()
	reg := new(backends.Registry)
	if err := reg.Register(Factory()); err != nil {
		t.Fatal(err)
	}
	wrap := func(next http.RoundTripper) http.RoundTripper {
		if w == nil {
			return next
		}
		return w
	}
	s, err := reg.Open(t.Context(), props, backends.Options{Env: backends.Env{WrapTransport: wrap, Log: log}, Settings: settings.Options{Getenv: os.LookupEnv}})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// TestConfig_AivensNames: a request shows what each of them does.
func TestConfig_AivensNames(t *testing.T) {
	var got *http.Request
	w := &wire{do: func(r *http.Request) answer {
		got = r
		return answer{status: 200, header: http.Header{"Etag": {`"v"`}}}
	}}
	var text strings.Builder
	s, err := openWith(t, aivens(), w, slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", strings.NewReader("x"), backends.PutOptions{Size: 1}); err != nil {
		t.Fatal(err)
	}
	if got.URL.Host != "store.invalid:9000" || got.URL.Path != "/bucket/k" {
		t.Errorf("sent to %s", got.URL)
	}
	if got.Header.Get("X-Amz-Storage-Class") != "STANDARD_IA" || got.Header.Get("X-Amz-Security-Token") != "token" {
		t.Errorf("header %v", got.Header)
	}
	if auth := got.Header.Get("Authorization"); !strings.Contains(auth, "Credential=id/") || !strings.Contains(auth, "/eu-north-1/s3/") {
		t.Errorf("authorization %s", auth)
	}
	o := s.Driver().(*Driver).o
	if o.CallTimeout != time.Minute || o.AttemptTimeout != 20*time.Second || !o.SkipVerify || !o.CheckReads || o.PartBytes != minPart {
		t.Errorf("options %+v", o)
	}
	if o.Proxy == nil || o.Proxy.String() != "socks5://user:pass@127.0.0.1:1080" {
		t.Errorf("proxy %v", o.Proxy)
	}
	for _, want := range []string{"static keys", keyVerify, keyLegacyMD5} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log does not speak of %s: %s", want, text.String())
		}
	}
	for _, secret := range []string{"secret ", "=secret", "token ", "pass "} {
		if strings.Contains(text.String(), secret) {
			t.Errorf("the log shows %q: %s", secret, text.String())
		}
	}
}

// TestConfig_KeysBehindAReferenceAreNotInTheSettings: the warning about keys in the settings is not about those.
func TestConfig_KeysBehindAReferenceAreNotInTheSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		secret string
		warned bool
	}{{"file:" + file, false}, {"s", true}} {
		c, err := settings.Parse(Factory().Settings, map[string]string{
			keyBucket: "b", keyRegion: "r", keyAccessKey: "env:KEY", keySecretKey: tc.secret,
		}, settings.Options{Getenv: func(string) (string, bool) { return "id", true }})
		if err != nil {
			t.Fatal(err)
		}
		o, err := parse(c)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		d := &Driver{o: o, log: slog.New(slog.NewTextHandler(&text, nil))}
		d.warn(t.Context())
		if got := strings.Contains(text.String(), "static keys"); got != tc.warned {
			t.Errorf("secret key %q: warned %v, want %v: %s", tc.secret, got, tc.warned, text.String())
		}
	}
}

// TestConfig_EverySettingIsRead: what is documented has an effect.
func TestConfig_EverySettingIsRead(t *testing.T) {
	c, err := settings.Parse(Factory().Settings, map[string]string{keyBucket: "b"}, settings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(c); err != nil {
		t.Fatal(err)
	}
	if unread := c.Unread(); len(unread) > 0 {
		t.Errorf("not read: %v", unread)
	}
}

func TestConfig_Defaults(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-3")
	s, err := openWith(t, map[string]string{"storage.backend": "s3", keyBucket: "b"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Driver().(*Driver)
	if d.o.PartBytes != 25<<20 || d.o.Concurrency != 4 || d.o.MaxAttempts != 5 || d.provider.name != "aws" || d.checksum != checksumCRC32C || d.region() != "eu-west-3" {
		t.Errorf("got %+v, provider %s, checksum %s, region %s", d.o, d.provider.name, d.checksum, d.region())
	}
	if d.client.Options().UsePathStyle {
		t.Error("path style on AWS")
	}
	if least, want := s.PutMemory(backends.SizeUnknown); least != 25<<20 || want != 5*25<<20 {
		t.Errorf("memory %d, %d", least, want)
	}
}

func TestConfig_Mistakes(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	tests := []struct {
		name  string
		props map[string]string
		want  string
	}{
		{"no region", map[string]string{}, keyRegion},
		{"endpoint without a scheme", map[string]string{keyEndpoint: "localhost:9000"}, keyEndpoint},
		{"customer key without the mode", map[string]string{keyRegion: "r", keyCustomerKey: key}, keyCustomerKey},
		{"mode without the customer key", map[string]string{keyRegion: "r", keySSE: "customer"}, keyCustomerKey},
		{"a short customer key", map[string]string{keyRegion: "r", keySSE: "customer", keyCustomerKey: "c2hvcnQ="}, "32 bytes"},
		{"KMS key without the mode", map[string]string{keyRegion: "r", keyKMSKey: "k"}, keyKMSKey},
		{"unknown class", map[string]string{keyRegion: "r", keyClass: "com.example.Mine"}, javaPackage + "DefaultCredentialsProvider"},
		{"static class without keys", map[string]string{keyRegion: "r", keyClass: javaPackage + "StaticCredentialsProvider"}, keyAccessKey},
		{"a class and keys", map[string]string{keyRegion: "r", keyClass: javaPackage + "DefaultCredentialsProvider", keyAccessKey: "a", keySecretKey: "b"}, keyClass},
		{"keys and a file", map[string]string{keyRegion: "r", keyCredFile: "f", keyAccessKey: "a", keySecretKey: "b"}, keyCredFile},
		{"half of the keys", map[string]string{keyRegion: "r", keyAccessKey: "a"}, keySecretKey},
		{"no credentials file", map[string]string{keyRegion: "r", keyCredFile: "/does/not/exist"}, keyCredFile},
		{"no CA file", map[string]string{keyRegion: "r", keyCAFile: "/does/not/exist"}, keyCAFile},
		{"part too small", map[string]string{keyRegion: "r", keyPartSize: "5242879"}, keyPartSize},
		{"checksum", map[string]string{keyRegion: "r", keyChecksum: "sha1"}, keyChecksum},
		{"tags", map[string]string{keyRegion: "r", keyTags: "a=1,b"}, keyTags},
		{"a tag twice", map[string]string{keyRegion: "r", keyTags: "a=1,a=2"}, keyTags},
		{"proxy", map[string]string{keyRegion: "r", "storage.proxy.url": "ftp://x"}, "storage.proxy.url"},
		{"two proxies", map[string]string{keyRegion: "r", "storage.proxy.url": "http://x", "storage.proxy.host": "y", "storage.proxy.port": "1"}, "storage.proxy.host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.props["storage.backend"], tt.props[keyBucket] = "s3", "b"
			_, err := openWith(t, tt.props, nil, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") && len(settings.Problems(err)) == 0 {
				t.Errorf("got %v, want %s in it", err, tt.want)
			}
		})
	}
	_, err := openWith(t, map[string]string{"storage.backend": "s3", keyBucket: "b", keyEndpoint: "x", keyTags: "y", keySSE: "customer"}, nil, nil)
	for _, key := range []string{keyEndpoint, keyTags, keyCustomerKey} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not in %v", key, err)
		}
	}
}

func TestProvider_IsChosenByHost(t *testing.T) {
	for _, tt := range []struct{ name, endpoint, want string }{
		{"auto", "", "aws"}, {"auto", "https://s3.eu-west-1.amazonaws.com", "aws"}, {"auto", "https://abc.r2.cloudflarestorage.com", "r2"},
		{"auto", "https://storage.googleapis.com", "gcs"}, {"auto", "http://127.0.0.1:9000", "other"}, {"minio", "https://s3.amazonaws.com", "minio"},
		{"auto", "https://notamazonaws.com", "other"}, {"auto", "https://evilr2.cloudflarestorage.com.example", "other"},
	} {
		if got := chooseProvider(tt.name, tt.endpoint).name; got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.name, tt.endpoint, got, tt.want)
		}
	}
	for _, name := range providerNames()[1:] {
		if got := chooseProvider(name, "http://x").name; got != name {
			t.Errorf("%s gives %s", name, got)
		}
	}
}

// TestHeaders_OfUploads: what goes with a request, single and in parts.
func TestHeaders_OfUploads(t *testing.T) {
	seen := map[string]http.Header{}
	d, _ := forged(t, func(o *Options) {
		o.SSE, o.KMSKey, o.StorageClass, o.Tags, o.Checksum, o.RequesterPays = "kms", "key-1", "GLACIER_IR", map[string]string{"team": "a b"}, "crc32c", true
		style := true
		o.Provider, o.PathStyle = "aws", &style
	}, func(r *http.Request) answer {
		seen[r.Method+" "+operation(r)] = r.Header
		switch operation(r) {
		case "uploads":
			return answer{status: 200, body: strings.NewReader("<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>")}
		case "uploadId":
			return answer{status: 200, body: strings.NewReader(`<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)}
		}
		return answer{status: 200, header: http.Header{"Etag": {`"e"`}}}
	})
	put := func(n int) {
		t.Helper()
		if _, err := d.Put(t.Context(), "k", strings.NewReader(strings.Repeat("x", n)), backends.PutOptions{Size: int64(n), Meta: map[string]string{"m": "v"}}); err != nil {
			t.Fatal(err)
		}
	}
	put(3)
	put(minPart + 1)
	for _, request := range []string{"PUT object", "POST uploads"} {
		h := seen[request]
		for name, want := range map[string]string{
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key-1", "X-Amz-Storage-Class": "GLACIER_IR",
			"X-Amz-Tagging": "team=a+b", "X-Amz-Meta-M": "v", "X-Amz-Request-Payer": "requester",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", request, name, got, want)
			}
		}
	}
	for _, request := range []string{"PUT object", "PUT part"} {
		h := seen[request]
		if h.Get("X-Amz-Checksum-Crc32c") == "" || h.Get("Content-Encoding") != "" || h.Get("X-Amz-Trailer") != "" || strings.Contains(h.Get("X-Amz-Content-Sha256"), "STREAMING") {
			t.Errorf("%s: the checksum is no plain header: %v", request, h)
		}
	}
	h := seen["POST uploads"]
	if h.Get("X-Amz-Checksum-Algorithm") != "CRC32C" || h.Get("X-Amz-Checksum-Type") != "FULL_OBJECT" {
		t.Errorf("begin: %v", h)
	}
	if h := seen["POST uploadId"]; h.Get("X-Amz-Mp-Object-Size") != "5242881" || h.Get("X-Amz-Checksum-Crc32c") == "" {
		t.Errorf("commit: %v", h)
	}
}

func writeKeys(t *testing.T, path, id string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("rsm.config.storage.aws.access.key.id="+id+"\naws.secret.access.key=s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCredentials_FileIsReadAgain: after the time that it is taken as it was, and while it is broken the keys stay.
func TestCredentials_FileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.properties")
	writeKeys(t, path, "first")
	now := time.Unix(1000, 0)
	f := &fileProvider{path: path, every: credentialsEvery, log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }}
	want := func(id string) {
		t.Helper()
		got, err := f.Retrieve(t.Context())
		if err != nil || got.AccessKeyID != id || got.SecretAccessKey != "s" || !got.CanExpire || !got.Expires.Equal(now.Add(credentialsEvery)) {
			t.Errorf("got %s until %s, %v, want %s", got.AccessKeyID, got.Expires, err, id)
		}
	}
	want("first")
	writeKeys(t, path, "second")
	want("second")
	if err := os.WriteFile(path, []byte("half="), 0o600); err != nil {
		t.Fatal(err)
	}
	want("second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("second")
	fresh := &fileProvider{path: path, log: f.log, now: f.now}
	if _, err := fresh.Retrieve(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestCredentials_ExpiredAreRenewedOnce: the answer ExpiredToken makes the driver read the file again, and a second one is final.
func TestCredentials_ExpiredAreRenewedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.properties")
	writeKeys(t, path, "old")
	n := 0
	open := func(accept string) *Driver {
		n = 0
		d, _ := forged(t, func(o *Options) { o.Credentials = Credentials{File: path} }, func(r *http.Request) answer {
			n++
			if r.Method == http.MethodPut && r.ContentLength != 1 {
				t.Errorf("a body of %d bytes is announced", r.ContentLength)
			}
			if accept != "" && strings.Contains(r.Header.Get("Authorization"), "Credential="+accept+"/") {
				return answer{status: 200, header: http.Header{"Etag": {`"e"`}}, body: strings.NewReader("<ListBucketResult></ListBucketResult>")}
			}
			writeKeys(t, path, "new")
			return xmlError(400, "ExpiredToken")
		})
		return d
	}
	if err := calls()["list"](t.Context(), open("new")); err != nil || n != 2 {
		t.Errorf("%v after %d requests", err, n)
	}
	writeKeys(t, path, "old")
	if err := calls()["put"](t.Context(), open("new")); err != nil || n != 2 {
		t.Errorf("put: %v after %d requests", err, n)
	}
	if err := calls()["list"](t.Context(), open("")); !errors.Is(err, backends.Unauthenticated) || n != 2 {
		t.Errorf("%v after %d requests", err, n)
	}
}

// TestCredentials_Classes: what stands for a Java class gives its keys.
func TestCredentials_Classes(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "from-env")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	shared := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(shared, []byte("[other]\naws_access_key_id=from-profile\naws_secret_access_key=s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	for _, tt := range []struct {
		c    Credentials
		want string
	}{
		{Credentials{}, "from-env"},
		{Credentials{Class: javaPackage + "DefaultCredentialsProvider"}, "from-env"},
		{Credentials{Class: javaPackage + "EnvironmentVariableCredentialsProvider"}, "from-env"},
		{Credentials{Class: javaPackage + "ProfileCredentialsProvider", Profile: "other"}, "from-profile"},
		{Credentials{AccessKey: backends.NewSecret("static"), SecretKey: backends.NewSecret("s")}, "static"},
		{Credentials{Class: javaPackage + "AnonymousCredentialsProvider"}, ""},
	} {
		auth := ""
		d, _ := forged(t, func(o *Options) { o.Credentials = tt.c }, func(r *http.Request) answer {
			auth = r.Header.Get("Authorization")
			return answer{status: 200, header: http.Header{"Etag": {`"e"`}}, body: strings.NewReader("<ListBucketResult></ListBucketResult>")}
		})
		if err := calls()["list"](t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if tt.want == "" && auth != "" || !strings.Contains(auth, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.c.Class, auth, tt.want)
		}
	}
}

// TestCredentials_TokensGoThroughTheSameTransport: a role, and with AWS_CA_BUNDLE set.
func TestCredentials_TokensGoThroughTheSameTransport(t *testing.T) {
	sts := 0
	d, _ := forged(t, func(o *Options) {
		o.Credentials.Role, o.Credentials.STSEndpoint = "arn:aws:iam::123456789012:role/r", "http://sts.invalid"
	}, func(r *http.Request) answer {
		if r.URL.Host == "sts.invalid" {
			sts++
			return answer{status: 200, header: http.Header{"Content-Type": {"text/xml"}}, body: strings.NewReader(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>assumed</AccessKeyId>` +
				`<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)}
		}
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=assumed/") {
			return xmlError(403, "AccessDenied")
		}
		return answer{status: 200, header: http.Header{"Etag": {`"e"`}}, body: strings.NewReader("<ListBucketResult></ListBucketResult>")}
	})
	for range 2 {
		if err := calls()["list"](t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if sts != 1 {
		t.Errorf("%d token requests", sts)
	}
}

func TestOpen_DeadContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{Bucket: "b"}, backends.Env{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
