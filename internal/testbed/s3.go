package testbed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Versions of the servers; scripts/tools.sh has the same ones.
const (
	MinIOVersion     = "v0.0.0-20260212201848-7aac2a2c5b7c"
	SeaweedFSVersion = "4.48"
	VersityGWVersion = "v1.8.0"
)

// MinIOKey is the one key of MinIO's key management, for SSE-KMS; SSE-S3 takes it too.
const MinIOKey = "testbed-key"

// S3 is a server that speaks S3.
type S3 struct {
	Name      string
	Endpoint  string // with the scheme
	AccessKey string
	SecretKey string
	CAFile    string // PEM of what signed its certificate; "" without TLS

	buckets atomic.Int64
	caPool  *x509.CertPool

	mu      sync.Mutex
	clients map[testing.TB]*minio.Client
}

// MinIO returns a running MinIO without TLS.
func MinIO(t testing.TB) *S3 { return startMinIO(t, "minio", false) }

// MinIOTLS returns a running MinIO with a certificate of an authority of its own.
func MinIOTLS(t testing.TB) *S3 { return startMinIO(t, "minio-tls", true) }

func startMinIO(t testing.TB, name string, secure bool) *S3 {
	t.Helper()
	path := program(t, "minio", MinIOVersion, "minio")
	return get(t, &all, name, func(dir string) (*S3, *process, error) {
		s := &S3{Name: name, AccessKey: "testaccess", SecretKey: "testsecret"}
		port, err := freePorts(1)
		if err != nil {
			return nil, nil, err
		}
		addr := "127.0.0.1:" + strconv.Itoa(port[0])
		argv := []string{path, "server", "--quiet", "--address", addr}
		s.Endpoint = "http://" + addr
		if secure {
			s.Endpoint = "https://" + addr
			certs := filepath.Join(dir, "certs")
			if err := s.makeCertificates(certs); err != nil {
				return nil, nil, err
			}
			argv = append(argv, "--certs-dir", certs)
		}
		p, err := start(dir, []string{
			"MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off",
			"MINIO_KMS_SECRET_KEY=" + MinIOKey + ":" + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		}, append(argv, filepath.Join(dir, "data"))...)
		if err != nil {
			return nil, nil, err
		}
		return s, p, p.ready(t.Context(), s.Endpoint+"/minio/health/ready")
	})
}

// SeaweedFS returns a running SeaweedFS: an S3 server that shares no code with MinIO.
func SeaweedFS(t testing.TB) *S3 {
	t.Helper()
	path := program(t, "seaweedfs", SeaweedFSVersion, "weed")
	return get(t, &all, "seaweedfs", func(dir string) (*S3, *process, error) {
		s := &S3{Name: "seaweedfs", AccessKey: "testaccess", SecretKey: "testsecret"}
		ports, err := freePorts(8)
		if err != nil {
			return nil, nil, err
		}
		conf := filepath.Join(dir, "s3.json")
		text := fmt.Sprintf(`{"identities":[{"name":"test","credentials":[{"accessKey":%q,"secretKey":%q}],"actions":["Admin","Read","Write","List","Tagging"]}]}`,
			s.AccessKey, s.SecretKey)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return nil, nil, err
		}
		flag := func(name string, i int) string { return "-" + name + "=" + strconv.Itoa(ports[i]) }
		p, err := start(dir, nil, path, "-logtostderr=true", "server", "-dir="+dir, "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
			"-master.volumeSizeLimitMB=64", "-volume.max=2000", "-master.volumePreallocate=false", "-master.telemetry=false", "-s3", "-s3.config="+conf,
			"-s3.port.iceberg=0", "-s3.port.lance=0", // on ports that two at a time cannot both have
			flag("s3.port", 0), flag("s3.port.grpc", 1), flag("master.port", 2), flag("master.port.grpc", 3),
			flag("volume.port", 4), flag("volume.port.grpc", 5), flag("filer.port", 6), flag("filer.port.grpc", 7))
		if err != nil {
			return nil, nil, err
		}
		for _, port := range ports { // its local sockets, wherever TMPDIR is
			p.sheds = append(p.sheds, fmt.Sprintf("/tmp/seaweedfs-*-%d.sock", port))
		}
		s.Endpoint = "http://127.0.0.1:" + strconv.Itoa(ports[0])
		return s, p, p.ready(t.Context(), s.Endpoint+"/healthz")
	})
}

// VersityGW returns a running Versity S3 Gateway over a directory. It is strict where the others are not (checksums of parts, access keys that it
// does not know), and lists unfinished uploads by any prefix.
func VersityGW(t testing.TB) *S3 {
	t.Helper()
	path := program(t, "versitygw", VersityGWVersion, "versitygw")
	return get(t, &all, "versitygw", func(dir string) (*S3, *process, error) {
		s := &S3{Name: "versitygw", AccessKey: "testaccess", SecretKey: "testsecret"}
		port, err := freePorts(1)
		if err != nil {
			return nil, nil, err
		}
		iam, data := filepath.Join(dir, "iam"), filepath.Join(dir, "data")
		if err := errors.Join(os.Mkdir(iam, 0o700), os.Mkdir(data, 0o700)); err != nil {
			return nil, nil, err
		}
		addr := "127.0.0.1:" + strconv.Itoa(port[0])
		s.Endpoint = "http://" + addr
		// Without --keep-alive each answer would close its connection, without --iam-dir an unknown access key would be "not found".
		p, err := start(dir, []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
			path, "--port", addr, "--health", "/health", "--quiet", "--keep-alive", "--iam-dir", iam, "posix", data)
		if err != nil {
			return nil, nil, err
		}
		return s, p, p.ready(t.Context(), s.Endpoint+"/health")
	})
}

// Client returns a client of minio-go: an eye that is independent of the driver under test. A test has one: each keeps its connections until the test ends, and
// some look every few milliseconds.
func (s *S3) Client(t testing.TB) *minio.Client {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[t]; c != nil {
		return c
	}
	host, secure := strings.CutPrefix(s.Endpoint, "https://")
	host = strings.TrimPrefix(host, "http://")
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.caPool, MinVersion: tls.VersionTLS12}}
	c, err := minio.New(host, &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Secure: secure, Region: "us-east-1", BucketLookup: minio.BucketLookupPath, Transport: tr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		delete(s.clients, t)
		s.mu.Unlock()
		tr.CloseIdleConnections()
	})
	if s.clients == nil {
		s.clients = make(map[testing.TB]*minio.Client)
	}
	s.clients[t] = c
	return c
}

// Bucket makes an empty bucket.
func (s *S3) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("b%d-%d", os.Getpid(), s.buckets.Add(1))
	if err := s.Client(t).MakeBucket(t.Context(), name, minio.MakeBucketOptions{Region: "us-east-1"}); err != nil {
		t.Fatalf("make bucket %s on %s: %v", name, s.Name, err)
	}
	return name
}

// Uploads returns the ids of the unfinished uploads of exactly this key, as seen from outside.
func (s *S3) Uploads(t testing.TB, bucket, key string) []string {
	t.Helper()
	var ids []string
	for up := range s.Client(t).ListIncompleteUploads(t.Context(), bucket, key, true) {
		if up.Err != nil {
			t.Fatalf("list uploads of %s: %v", key, up.Err)
		}
		if up.Key == key {
			ids = append(ids, up.UploadID)
		}
	}
	return ids
}

// Objects returns the keys that are in a bucket, as seen from outside.
func (s *S3) Objects(t testing.TB, bucket string) []string {
	t.Helper()
	var keys []string
	for o := range s.Client(t).ListObjects(context.WithoutCancel(t.Context()), bucket, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatalf("list %s: %v", bucket, o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// makeCertificates makes an authority and a certificate for 127.0.0.1.
func (s *S3) makeCertificates(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tierkit test authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	s.CAFile = filepath.Join(dir, "authority.pem")
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	s.caPool = x509.NewCertPool()
	s.caPool.AppendCertsFromPEM(caPEM)
	for name, data := range map[string][]byte{
		"authority.pem": caPEM,
		"public.crt":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		"private.key":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
