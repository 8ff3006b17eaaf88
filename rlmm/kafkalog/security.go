package kafkalog

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tierkit/tierkit/internal/settings"
)

// The SASL mechanisms.
const (
	mechPlain    = "PLAIN"
	mechScram256 = "SCRAM-SHA-256"
	mechScram512 = "SCRAM-SHA-512"
	mechOAuth    = "OAUTHBEARER"
)

func mechanisms() []string { return []string{mechPlain, mechScram256, mechScram512, mechOAuth} }

// maxPEMBytes bounds a file of certificates.
const maxPEMBytes = 4 << 20

// security reads how a client connects and authenticates.
func (r *configReader) security(client string, c *Client) {
	protocol := value(r, r.v.String, client, cProtocol)
	if r.key(client, cProtocol) == "" {
		protocol = r.o.SecurityProtocol
	}
	if protocol == "SSL" || protocol == "SASL_SSL" {
		c.TLS = r.tls(client)
	}
	if strings.HasPrefix(protocol, "SASL_") {
		c.SASL = r.sasl(client)
	}
}

func (r *configReader) tls(client string) *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: value(r, r.v.String, client, cServerName)}
	if allowed := value(r, r.v.List, client, cProtocols); len(allowed) > 0 {
		if !slices.Contains(allowed, "TLSv1.2") {
			conf.MinVersion = tls.VersionTLS13
		}
		if !slices.Contains(allowed, "TLSv1.3") {
			conf.MaxVersion = tls.VersionTLS12
		}
	}
	conf.RootCAs = r.roots(client)
	if cert, ok := r.certificate(client); ok {
		conf.Certificates = []tls.Certificate{cert}
	}
	if key := r.key(client, cEndpoint); key != "" && r.v.String(key) == "" {
		withoutName(conf)
	}
	return conf
}

// withoutName checks who signed a certificate, but not for whom.
func withoutName(conf *tls.Config) {
	roots := conf.RootCAs
	conf.InsecureSkipVerify = true // VerifyConnection checks the chain; the user has switched the name off
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		if _, err := cs.PeerCertificates[0].Verify(o); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
		return nil
	}
}

// roots returns the pool of trusted certificates, nil for the system's.
func (r *configReader) roots(client string) *x509.CertPool {
	r.storeType(client, cTrustType)
	key, b := r.pem(client, cTrustFile, cTrustPEM)
	if key == "" || b == nil {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		r.problem(key, "holds no certificate in PEM form")
	}
	return pool
}

// certificate returns the client's own.
func (r *configReader) certificate(client string) (cert tls.Certificate, ok bool) {
	r.storeType(client, cKeyType)
	if key := r.key(client, cKeyPassword); key != "" {
		r.problem(key, "encrypted private keys are not read: decrypt it (openssl pkcs8 -in KEY -out PLAIN) and keep it in a file that only this process can read")
	}
	key, b := r.pem(client, cKeyFile, cKeyPEM)
	chain := b
	if key != "" && strings.HasSuffix(key, cKeyPEM) {
		chain = []byte(value(r, r.v.Secret, client, cChainPEM).Reveal())
		if len(chain) == 0 {
			r.problem(key, "needs %s, too", cChainPEM)
			return cert, false
		}
	}
	if b == nil {
		return cert, false
	}
	if bytes.Contains(b, []byte("ENCRYPTED")) {
		r.problem(key, "the private key is encrypted, which is not read: decrypt it (openssl pkcs8 -in KEY -out PLAIN)")
		return cert, false
	}
	cert, err := tls.X509KeyPair(chain, b)
	if err != nil {
		r.problem(key, "is no private key with its certificate chain in PEM form: %v", err)
		return cert, false
	}
	return cert, true
}

// storeType refuses Java key stores by their name.
func (r *configReader) storeType(client, name string) {
	if key := r.key(client, name); key != "" && !strings.EqualFold(r.v.String(key), "PEM") {
		r.add(settings.Problemf(r.o.Prefix+key, r.v.String(key), "must be PEM: %s", javaStore))
	}
}

// javaStore is what is said of files that a JVM reads.
const javaStore = "Java key stores (JKS, PKCS12) are not read; " +
	"export to PEM (keytool -exportcert -rfc for certificates, openssl pkcs12 -nodes for a key with its chain)"

// pem returns what is in a file, or stands in the settings themselves, and the key that says so. It has reported what is wrong if
// there is a key and no text.
func (r *configReader) pem(client, fileName, textName string) (key string, b []byte) {
	text, file := r.key(client, textName), r.key(client, fileName)
	switch {
	case text != "" && file != "":
		r.problem(text, "cannot be set together with %s", r.o.Prefix+file)
		return text, nil
	case text != "":
		if s := r.v.Secret(text).Reveal(); s != "" {
			b = []byte(s)
		}
		return text, b
	case file == "":
		return "", nil
	}
	path := r.v.File(file)
	b, err := readPEM(path)
	if err != nil {
		r.add(settings.Problemf(r.o.Prefix+file, path, "%v", err))
		return file, nil
	}
	return file, b
}

func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	defer f.Close() // read only
	b, err := io.ReadAll(io.LimitReader(f, maxPEMBytes))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	for _, magic := range []string{"\xfe\xed\xfe\xed", "\xce\xce\xce\xce", "\x30\x82"} { // JKS, JCEKS, PKCS12 (DER)
		if bytes.HasPrefix(b, []byte(magic)) {
			return nil, fmt.Errorf("is of Java: %s", javaStore)
		}
	}
	return b, nil
}

func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// sasl returns how a client authenticates.
func (r *configReader) sasl(client string) sasl.Mechanism {
	mechanism := value(r, r.v.String, client, cMechanism)
	switch {
	case r.key(client, cMechanism) == "":
		r.problem(clientKey(forAll, cMechanism), "is required with SASL_PLAINTEXT and SASL_SSL: %s", strings.Join(mechanisms(), ", "))
		return nil
	case mechanism == "": // reported already
		return nil
	case mechanism == mechOAuth:
		return r.oauth(client)
	}
	user, password, ok := r.credentials(client, mechanism)
	if !ok {
		return nil
	}
	switch mechanism {
	case mechScram256:
		return scram.Auth{User: user, Pass: password.Reveal()}.AsSha256Mechanism()
	case mechScram512:
		return scram.Auth{User: user, Pass: password.Reveal()}.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: password.Reveal()}.AsMechanism()
}

// credentials are in two settings, or in Kafka's one.
func (r *configReader) credentials(client, mechanism string) (user string, password settings.Secret, ok bool) {
	jaas, own, pass := r.key(client, cJAAS), r.key(client, cSASLUser), r.key(client, cSASLPassword)
	switch {
	case jaas != "" && (own != "" || pass != ""):
		r.problem(jaas, "cannot be set together with %s and %s", cSASLUser, cSASLPassword)
	case jaas != "":
		secret := r.v.Secret(jaas)
		if secret.IsZero() { // reported already
			return "", password, false
		}
		user, word, err := parseJAAS(secret.Reveal(), mechanism)
		if err != nil {
			r.problem(jaas, "%v", err)
			return "", password, false
		}
		return user, settings.NewSecret(word), true
	case own == "" || pass == "":
		r.problem(clientKey(forAll, cJAAS), "is required with %s=%s, or %s and %s", cMechanism, mechanism, cSASLUser, cSASLPassword)
	case r.v.Secret(pass).IsZero(): // reported already
	case r.v.String(own) == "":
		r.problem(own, "is empty")
	default:
		return r.v.String(own), r.v.Secret(pass), true
	}
	return "", password, false
}

// oauth takes the token anew for each connection.
func (r *configReader) oauth(client string) sasl.Mechanism {
	key := r.key(client, cToken)
	if key == "" {
		r.problem(clientKey(forAll, cToken), "is required with %s=%s: file:PATH of a token that somebody keeps valid; token endpoints and %s are not supported with it",
			cMechanism, mechOAuth, cJAAS)
		return nil
	}
	table := []settings.Setting{{Name: cToken, Type: settings.TypeSecret, Doc: "The token."}}
	given, so := map[string]string{cToken: r.props[key]}, r.so
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		v, err := settings.Parse(table, given, so)
		if err != nil {
			return oauth.Auth{}, err
		}
		return oauth.Auth{Token: v.Secret(cToken).Reveal()}, nil
	})
}
