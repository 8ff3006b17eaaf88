package crypto

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

const (
	// minModulusBytes is the least RSA modulus that OAEP with SHA3-512 can wrap a data key with: 32 + 2*64 + 2 bytes.
	minModulusBytes = KeySize + 2*64 + 2
	// maxPEMBytes bounds a key file; one of 16384 bits has 13 KB.
	maxPEMBytes = 1 << 20
)

// KeyPair is an RSA key pair with the id under which manifests name it. It never prints its keys.
type KeyPair struct {
	id      string
	public  *rsa.PublicKey
	private hidden[*rsa.PrivateKey]
}

// NewKeyPair checks that the two keys belong together and are large enough. The id must not be blank or contain a colon: Aiven's
// plug-in could not read such a manifest back.
func NewKeyPair(id string, public *rsa.PublicKey, private *rsa.PrivateKey) (KeyPair, error) {
	switch {
	case strings.TrimSpace(id) == "":
		return KeyPair{}, errors.New("key pair id is blank")
	case strings.Contains(id, ":"):
		return KeyPair{}, fmt.Errorf("key pair id %q contains a colon, which separates the id from the key in a manifest", id)
	case public == nil || private == nil:
		return KeyPair{}, fmt.Errorf("key pair %q: both a public and a private key are needed", id)
	case !private.PublicKey.Equal(public):
		return KeyPair{}, fmt.Errorf("key pair %q: public and private key do not belong together", id)
	}
	if err := checkSize(public); err != nil {
		return KeyPair{}, fmt.Errorf("key pair %q: %w", id, err)
	}
	return KeyPair{id: id, public: public, private: hide(private)}, nil
}

// LoadKeyPair reads a key pair from two PEM files: the public key as SubjectPublicKeyInfo ("PUBLIC KEY"), the private one as
// PKCS#8 without a password ("PRIVATE KEY"). Errors are one line and name the file and the reason.
func LoadKeyPair(id, publicFile, privateFile string) (KeyPair, error) {
	public, err := loadKey[*rsa.PublicKey](publicFile, publicPEM)
	if err != nil {
		return KeyPair{}, fmt.Errorf("key pair %q: public key file %w", id, err)
	}
	if err := checkSize(public); err != nil {
		return KeyPair{}, fmt.Errorf("key pair %q: public key file %s: %w", id, publicFile, err)
	}
	private, err := loadKey[*rsa.PrivateKey](privateFile, privatePEM)
	if err != nil {
		return KeyPair{}, fmt.Errorf("key pair %q: private key file %w", id, err)
	}
	if !private.PublicKey.Equal(public) {
		return KeyPair{}, fmt.Errorf("key pair %q: %s and %s do not belong together", id, publicFile, privateFile)
	}
	return NewKeyPair(id, public, private)
}

// ID is the id of the pair.
func (p KeyPair) ID() string { return p.id }

// Bits is the size of the modulus.
func (p KeyPair) Bits() int {
	if p.public == nil {
		return 0
	}
	return p.public.N.BitLen()
}

// String shows id and size.
func (p KeyPair) String() string { return fmt.Sprintf("key pair %q (RSA, %d bits)", p.id, p.Bits()) }

// Format implements fmt.Formatter: every verb prints what String does.
func (p KeyPair) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// MarshalText implements encoding.TextMarshaler (and with it JSON) without showing the keys.
func (p KeyPair) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue implements slog.LogValuer without showing the keys.
func (p KeyPair) LogValue() slog.Value { return slog.StringValue(p.String()) }

func checkSize(k *rsa.PublicKey) error {
	if k.Size() < minModulusBytes {
		return fmt.Errorf("RSA modulus of %d bits is too small: at least %d are needed, use 2048 or more", k.N.BitLen(), minModulusBytes*8)
	}
	return nil
}

// pemKind is one of the two PEM forms that key files have.
type pemKind struct {
	label string
	parse func(der []byte) (any, error)
	help  map[string]string // other labels that people use by mistake -> what to do
}

var (
	publicPEM = pemKind{
		label: "PUBLIC KEY",
		parse: x509.ParsePKIXPublicKey,
		help: map[string]string{
			"RSA PUBLIC KEY": "is PKCS#1; convert it: openssl rsa -RSAPublicKey_in -in FILE -pubout -out NEW",
			"CERTIFICATE":    "is a certificate; take its key: openssl x509 -in FILE -pubkey -noout",
			"PRIVATE KEY":    "holds a private key; are the two files exchanged?",
		},
	}
	privatePEM = pemKind{
		label: "PRIVATE KEY",
		parse: x509.ParsePKCS8PrivateKey,
		help: map[string]string{
			"ENCRYPTED PRIVATE KEY": "is encrypted with a password; store it without: openssl pkcs8 -topk8 -nocrypt -in FILE -out NEW",
			"RSA PRIVATE KEY":       "is PKCS#1; convert it: openssl pkcs8 -topk8 -nocrypt -in FILE -out NEW",
			"PUBLIC KEY":            "holds a public key; are the two files exchanged?",
		},
	}
)

func loadKey[K any](path string, kind pemKind) (K, error) {
	var none K
	data, err := readBounded(path)
	if err != nil {
		return none, err // os errors name the path
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return none, fmt.Errorf("%s is not PEM: no -----BEGIN %s----- in it", path, kind.label)
	}
	if _, ok := block.Headers["DEK-Info"]; ok {
		return none, fmt.Errorf("%s %s", path, privatePEM.help["ENCRYPTED PRIVATE KEY"])
	}
	if block.Type != kind.label {
		help, ok := kind.help[block.Type]
		if !ok {
			help = "is of another kind"
		}
		return none, fmt.Errorf("%s holds %q, want %q: it %s", path, block.Type, kind.label, help)
	}
	k, err := kind.parse(block.Bytes)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := k.(K)
	if !ok {
		return none, fmt.Errorf("%s holds %T, want an RSA key", path, k)
	}
	return key, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, maxPEMBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPEMBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes: no key file", path, maxPEMBytes)
	}
	return data, nil
}
