package drivers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/internal/testbed"
)

// TestMain gives the process a directory for temp files of its own: what is in it was made here.
func TestMain(m *testing.M) {
	if os.Getenv(ownGCS) != "" {
		serveOwnGCS()
		return
	}
	dir, err := os.MkdirTemp("", "tierkit-drivers-")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("TMPDIR", dir)     // t.Setenv has no place here
	_ = os.Unsetenv("AWS_CA_BUNDLE") // each client would read it: a tenth of the time of a run
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		testbed.Stop()
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// short is what -short leaves of the suite: whether the driver and its server go together at all.
var short = regexp.MustCompile(`^(put/(read-after-write|part-boundaries)|get/(whole|middle)|list/prefix|delete/removes|fault/5xx-once/.*)/`)

// suite runs the cases at the scale, and with the seed, that the environment wants.
func suite(t *testing.T, h conformance.Harness) {
	t.Helper()
	if testing.Short() {
		h.Only = short
	}
	switch scale := os.Getenv("TIERKIT_CONFORMANCE_SCALE"); scale {
	case "", "quick":
	case "full":
		h.Scale = conformance.Full
	default:
		t.Fatalf("TIERKIT_CONFORMANCE_SCALE is %q, want quick or full", scale)
	}
	if text := os.Getenv("TIERKIT_CONFORMANCE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("TIERKIT_CONFORMANCE_SEED: %v", err)
		}
		h.Seed = seed
	}
	h.TempDir = os.TempDir()
	began := time.Now()
	conformance.Run(t, h)
	noteSeconds(t, time.Since(began))
}

// noteSeconds adds a line to the file that scripts/test.sh shows.
func noteSeconds(t *testing.T, took time.Duration) {
	t.Helper()
	path := os.Getenv("TIERKIT_CONFORMANCE_SECONDS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "   %-28s %4.0f s\n", t.Name(), took.Seconds())
	if err := errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
}

func TestMem(t *testing.T) {
	var mu sync.Mutex
	spaces := map[string]*mem.Space{}
	f := mem.Factory()
	suite(t, conformance.Harness{
		Factory: &f, Settings: map[string]string{}, Limits: conformance.Limits{HugeBytes: 64 << 20, HeapBytes: 128 << 20}, // it is all in memory
		Open: func(_ context.Context, o conformance.OpenOptions) (backends.Driver, error) {
			mu.Lock()
			defer mu.Unlock()
			if spaces[o.Namespace] == nil {
				spaces[o.Namespace] = new(mem.Space)
			}
			return spaces[o.Namespace].Client(mem.Options{Now: o.Env.Now}), nil
		},
	})
}

const keyRoot = "storage.root"

func TestFs(t *testing.T) { suite(t, onFs(t)) }

// tempRoot is a directory outside TMPDIR's top level: what is in that one is looked at.
func tempRoot(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "root")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree looks at the files of a store.
type tree string

func (root tree) Leftovers(_ context.Context, ns string, _ []string) ([]string, error) {
	var out []string
	dir := filepath.Join(string(root), ns)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile
			return nil
		case err != nil:
			return err
		case !d.IsDir() || name != "." && !strings.HasPrefix(name, backends.Reserved):
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

func TestS3OnMinIO(t *testing.T) {
	h := onS3(t, testbed.MinIO(t), map[string]string{"storage.s3.checksum": "crc32c"})
	knownOf(t, &h, "minio")
	suite(t, h)
}

// knownOf adds what is known of a server.
func knownOf(t *testing.T, h *conformance.Harness, server string) {
	t.Helper()
	k, err := conformance.KnownOf(server)
	if err != nil {
		t.Fatal(err)
	}
	k.Apply(h)
}

// TestS3OnMinIOTLS is the part of the suite in which a certificate could matter; what is left out costs time and cannot differ.
func TestS3OnMinIOTLS(t *testing.T) {
	srv := testbed.MinIOTLS(t)
	h := onS3(t, srv, map[string]string{"storage.s3.ca.file": srv.CAFile, "storage.s3.checksum": "crc32c"})
	h.Only = regexp.MustCompile(`^(put/(read|zero|part|single|binary|tiny)|get/(whole|middle|early|if-version)|atomic|ifabsent|sum|bulk|list/(page|prefix)|mpu|ctx|close)`)
	suite(t, h)
}

func TestS3OnSeaweedFS(t *testing.T) {
	h := onS3(t, testbed.SeaweedFS(t), map[string]string{"storage.s3.provider": "seaweedfs"})
	knownOf(t, &h, "seaweedfs")
	suite(t, h)
}

func onS3(t *testing.T, srv *testbed.S3, more map[string]string) conformance.Harness {
	t.Helper()
	f := s3.Factory()
	bucket := srv.Bucket(t)
	settings := map[string]string{
		"storage.s3.bucket.name": bucket, "storage.s3.endpoint.url": srv.Endpoint,
		"storage.aws.access.key.id": srv.AccessKey, "storage.aws.secret.access.key": srv.SecretKey,
	}
	maps.Copy(settings, more)
	knobs := conformance.KnobsOf(f)
	knobs.WrongCredentials = map[string]string{"storage.aws.secret.access.key": "wrong" + srv.SecretKey}
	knobs.NoCredentials = map[string]string{
		"storage.aws.access.key.id": "", "storage.aws.secret.access.key": "",
		"storage.aws.credentials.provider.class": "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
	}
	knobs.CredentialsFile = func(path string, good bool) (map[string]string, error) {
		secret := srv.SecretKey
		if !good {
			secret = "wrong" + secret
		}
		text := fmt.Sprintf("aws.access.key.id=%s\naws.secret.access.key=%s\n", srv.AccessKey, secret)
		over := map[string]string{"storage.aws.access.key.id": "", "storage.aws.secret.access.key": "", "storage.aws.credentials.file": path}
		return over, os.WriteFile(path, []byte(text), 0o600)
	}
	knobs.TokenServer = func(url string) (map[string]string, error) {
		return map[string]string{"storage.aws.role.arn": "arn:aws:iam::123456789012:role/suite", "storage.aws.sts.endpoint.url": url}, nil
	}
	knobs.TokenAnswer = func(w http.ResponseWriter, holds time.Duration) { // keys that the server knows: it would not know temporary ones
		w.Header().Set("Content-Type", "text/xml")
		_, _ = fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>`+
			`<SessionToken></SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, srv.AccessKey, srv.SecretKey, time.Now().Add(holds).UTC().Format(time.RFC3339))
	}
	knobs.Checksums = map[string]conformance.ChecksumMode{
		"crc32c": {Override: map[string]string{"storage.s3.checksum": "crc32c"}, Header: "X-Amz-Checksum-Crc32c"},
		"md5":    {Override: map[string]string{"storage.s3.checksum": "md5"}, Header: "Content-Md5"},
		"none":   {Override: map[string]string{"storage.s3.checksum": "none"}},
		"auto":   {Override: map[string]string{"storage.s3.checksum": "auto"}, Header: "Content-Md5"}, // of servers that it does not know
	}
	if strings.HasPrefix(srv.Name, "minio") { // what is recognised by its first answer is another matter: see TestS3_ChecksumsOfServers
		knobs.Checksums["auto"] = conformance.ChecksumMode{
			Override: map[string]string{"storage.s3.checksum": "auto", "storage.s3.provider": "minio"}, Header: "X-Amz-Checksum-Crc32c",
		}
	}
	return conformance.Harness{
		Factory: &f, Settings: settings, Raw: &s3Eye{srv.Client(t), bucket}, Knobs: knobs, Dialect: dialect.S3{},
	}
}

func TestGCS(t *testing.T) {
	srv := testbed.FakeGCS(t)
	bucket := srv.Bucket(t)
	h := onGCS(srv.Endpoint, bucket)
	h.Raw, h.Limits.HugeBytes = &gcsEye{srv, t, bucket}, 256<<20 // it keeps all in memory, several times
	knownOf(t, &h, "fake-gcs-server")
	suite(t, h)
}

// TestGCSOnOwnServer runs the cases with faults, too.
func TestGCSOnOwnServer(t *testing.T) {
	suite(t, onGCS(startOwnGCS(t), "box"))
}

func onGCS(url, bucket string) conformance.Harness {
	f := gcs.Factory()
	knobs := conformance.KnobsOf(f)
	key := sync.OnceValues(privateKey)
	knobs.TokenServer = func(url string) (map[string]string, error) {
		text, err := key()
		if err != nil {
			return nil, err
		}
		return serviceAccount(url, text)
	}
	return conformance.Harness{
		Factory: &f, Knobs: knobs, Dialect: dialect.GCS{},
		Settings: map[string]string{
			"storage.gcs.bucket.name": bucket, "storage.gcs.endpoint.url": url, "storage.gcs.credentials.default": "false",
		},
	}
}

// privateKey makes a key of an account, which takes long.
func privateKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// serviceAccount is a key file whose tokens come from a server of the suite's.
func serviceAccount(url string, key []byte) (map[string]string, error) {
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "test", "client_email": "suite@test.example", "token_uri": url,
		"private_key": string(key),
	})
	return map[string]string{"storage.gcs.credentials.default": "", "storage.gcs.credentials.json": string(text)}, err
}

func TestAzure(t *testing.T) { suite(t, onAzure(t)) }

func onAzure(t *testing.T) conformance.Harness {
	t.Helper()
	const block = 256 << 10 // more of them would take Azurite long
	srv := testbed.Azurite(t)
	f := azure.Factory()
	container := srv.Container(t)
	knobs := conformance.KnobsOf(f)
	knobs.SmallParts, knobs.PartBytes = map[string]string{"storage.azure.upload.block.size": strconv.Itoa(block)}, block
	knobs.WrongCredentials = map[string]string{"storage.azure.account.key": "AAAA" + testbed.AzuriteKey[4:]}
	knobs.ReadOnly = map[string]string{"storage.azure.account.key": "", "storage.azure.sas.token": srv.ReadOnly(t, container)}
	knobs.Endpoint = func(url string) map[string]string {
		return map[string]string{"storage.azure.endpoint.url": url + "/" + testbed.AzuriteAccount}
	}
	h := conformance.Harness{
		Factory: &f, Raw: azureEye(srv.Blobs(t, container)), Knobs: knobs, Dialect: dialect.Azure{},
		Settings: map[string]string{
			"storage.azure.container.name": container, "storage.azure.endpoint.url": srv.Endpoint,
			"storage.azure.account.name": testbed.AzuriteAccount, "storage.azure.account.key": testbed.AzuriteKey,
		},
	}
	knownOf(t, &h, "azurite")
	return h
}
