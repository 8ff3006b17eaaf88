package kafkalog

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tierkit/tierkit/internal/props"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue makes a certificate, signed by the authority or, for its own, by itself.
func (a *authority) issue(tmpl *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl.SerialNumber = big.NewInt(time.Now().UnixNano())
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := tmpl, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a certificate for a name or address, as one PEM text of key and certificate.
func (a *authority) pair(name string, usage x509.ExtKeyUsage) (tls.Certificate, []byte) {
	a.t.Helper()
	tmpl := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	_, key, certPEM := a.issue(tmpl)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), certPEM...)
	cert, err := tls.X509KeyPair(both, both)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, both
}

func file(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// How long it is tried to connect: where that should come to an end by itself, and where any end will do.
const (
	patient = time.Minute
	hasty   = 2 * time.Second
)

// secured opens the log of a cluster with properties for all clients, writes and reads.
func (f *fake) secured(patience time.Duration, props map[string]string) error {
	f.t.Helper()
	full := map[string]string{common + "bootstrap.servers": strings.Join(f.addrs, ","), keyInitTimeout: patience.String(), keyInitRetry: "20ms"}
	for k, v := range props {
		full[common+k] = v
	}
	c, _, err := ParseConfig(full, ConfigOptions{})
	if err != nil {
		return err
	}
	l, err := Open(context.Background(), Options{Config: c})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if _, err := l.Append(ctx, 0, []byte("x")); err != nil {
		return err
	}
	_, err = collect(ctx, l, 1)
	return err
}

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	server, _ := ca.pair("127.0.0.1", x509.ExtKeyUsageServerAuth)
	named, _ := ca.pair("broker.example", x509.ExtKeyUsageServerAuth)
	_, client := ca.pair("client", x509.ExtKeyUsageClientAuth)
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	trust := map[string]string{"security.protocol": "SSL", "ssl.truststore.location": file(t, ca.pem), "ssl.truststore.type": "PEM"}
	with := func(kv ...string) map[string]string {
		m := map[string]string{}
		for k, v := range trust {
			m[k] = v
		}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	key, chain, _ := strings.Cut(string(client), "-----BEGIN CERTIFICATE-----")
	chain = "-----BEGIN CERTIFICATE-----" + chain
	t.Run("broker of 127.0.0.1", func(t *testing.T) {
		f := withTopic(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}}))
		if err := f.secured(patient, trust); err != nil {
			t.Error(err)
		}
		if err := f.secured(patient, map[string]string{"security.protocol": "SSL", "ssl.truststore.certificates": string(ca.pem), "ssl.enabled.protocols": "TLSv1.3"}); err != nil {
			t.Errorf("certificates as text: %v", err)
		}
		begun := time.Now()
		err := f.secured(patient, with("ssl.truststore.location", file(t, stranger.pem)))
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || time.Since(begun) > patient/2 {
			t.Errorf("another authority: %v after %v, want a certificate error at once", err, time.Since(begun))
		}
		if err := f.secured(hasty, map[string]string{"security.protocol": "PLAINTEXT"}); err == nil {
			t.Error("without TLS: no error")
		}
		if err := f.secured(hasty, with("ssl.server.name", "elsewhere.example")); err == nil {
			t.Error("with another server name: no error")
		}
	})
	t.Run("broker of another name", func(t *testing.T) {
		f := withTopic(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{named}}))
		err := f.secured(patient, trust)
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("%v, want a certificate error", err)
		}
		if err := f.secured(patient, with("ssl.server.name", "broker.example")); err != nil {
			t.Errorf("with its name: %v", err)
		}
		if err := f.secured(patient, with("ssl.endpoint.identification.algorithm", "")); err != nil {
			t.Errorf("names not compared: %v", err)
		}
		err = f.secured(patient, with("ssl.endpoint.identification.algorithm", "", "ssl.truststore.location", file(t, stranger.pem)))
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
			t.Errorf("names not compared, another authority: %v, want a certificate error", err)
		}
	})
	t.Run("client certificate", func(t *testing.T) {
		f := withTopic(t, 1, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}))
		if err := f.secured(patient, with("ssl.keystore.location", file(t, client))); err != nil {
			t.Errorf("from a file: %v", err)
		}
		if err := f.secured(patient, with("ssl.keystore.key", key, "ssl.keystore.certificate.chain", chain)); err != nil {
			t.Errorf("as text: %v", err)
		}
		if err := f.secured(hasty, trust); err == nil {
			t.Error("without: no error")
		}
	})
}

func TestSASL(t *testing.T) {
	password := file(t, []byte("s3cr3t\n"))
	for _, mechanism := range []string{mechPlain, mechScram256, mechScram512} {
		t.Run(mechanism, func(t *testing.T) {
			f := withTopic(t, 1, kfake.EnableSASL(), kfake.Superuser(mechanism, "tierkit", "s3cr3t"))
			base := func(kv ...string) map[string]string {
				m := map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
				for i := 0; i < len(kv); i += 2 {
					m[kv[i]] = kv[i+1]
				}
				return m
			}
			jaas := fmt.Sprintf("%s required username=\"tierkit\" password=\"s3cr3t\";", modules()[mechanism])
			if err := f.secured(patient, base("sasl.jaas.config", jaas)); err != nil {
				t.Errorf("sasl.jaas.config: %v", err)
			}
			if err := f.secured(patient, base("sasl.jaas.config", "file:"+file(t, []byte(jaas)))); err != nil {
				t.Errorf("sasl.jaas.config from a file: %v", err)
			}
			if err := f.secured(patient, base("sasl.username", "tierkit", "sasl.password", "file:"+password)); err != nil {
				t.Errorf("password from a file: %v", err)
			}
			err := f.secured(hasty, base("sasl.username", "tierkit", "sasl.password", "wrong"))
			if err == nil || strings.Contains(err.Error(), "wrong") {
				t.Errorf("wrong password: %v", err)
			}
			if err := f.secured(hasty, map[string]string{}); err == nil {
				t.Error("without authentication: no error")
			}
		})
	}
}

// The token is read for each connection.
func TestOAuth_TokenIsReadAgain(t *testing.T) {
	path := file(t, []byte("one\n"))
	c := parse(t, map[string]string{
		common + "bootstrap.servers": "a:1", common + "security.protocol": "SASL_SSL", common + "sasl.mechanism": "OAUTHBEARER",
		common + "sasl.oauthbearer.token": "file:" + path,
	}, ConfigOptions{})
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		_, first, err := c.Admin.SASL.Authenticate(t.Context(), "a")
		if err != nil || !strings.Contains(string(first), "Bearer "+token) {
			t.Errorf("%q, %v, want the token %s", first, err, token)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Admin.SASL.Authenticate(t.Context(), "a"); err == nil {
		t.Error("no token: no error")
	}
}

// Scenario 94: only keys with the prefix are ours, and it is cut off; also when the broker's file names another one.
func TestScenario94_PrefixOfABrokersFile(t *testing.T) {
	for prefix, line := range map[string]string{"rlmm.config.": "", "config.prefix.": "remote.log.metadata.manager.impl.prefix=config.prefix.\n"} {
		f, err := props.Parse("server.properties", []byte(line+"node.id=7\nlisteners=PLAINTEXT://a:1\n"+
			prefix+"remote.log.metadata.common.client.bootstrap.servers=b:2\n"+prefix+"remote.log.metadata.topic.num.partitions=5\n"+
			"remote.log.metadata.topic.replication.factor=9\nother.prefix.remote.log.metadata.topic.min.isr=9\n"))
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := ParseConfig(f.RLMM, ConfigOptions{Prefix: f.RLMMPrefix})
		if err != nil || c.Partitions != 5 || c.Admin.Bootstrap[0] != "b:2" || c.ReplicationFactor != 0 || c.MinISR != 2 {
			t.Errorf("%s: %+v, %v", prefix, c, err)
		}
	}
}
