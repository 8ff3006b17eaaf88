package crypto_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/golden/aiven"
)

// keyFiles are two key pairs of the golden data: "a" has 2048 bits, "b" 4096, "wrong" 2048.
func keyFiles(t testing.TB, name string) (public, private string) {
	t.Helper()
	bits := map[string]string{"a": "2048", "b": "4096", "wrong": "2048"}[name]
	base := filepath.Join(aiven.Dir(t), "keys", "test-only-rsa"+bits+"-"+name)
	return base + ".public.pem", base + ".private.pem"
}

func testPair(t testing.TB, id, name string) crypto.KeyPair {
	t.Helper()
	public, private := keyFiles(t, name)
	p, err := crypto.LoadKeyPair(id, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func privateExponent(t testing.TB, name string) *big.Int {
	t.Helper()
	_, file := keyFiles(t, name)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*rsa.PrivateKey).D
}

func ring(t testing.TB, active string, pairs ...crypto.KeyPair) *crypto.KeyRing {
	t.Helper()
	r, err := crypto.NewKeyRing(active, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeyRing_RotationKeepsOldKeysReadable(t *testing.T) {
	a, b := testPair(t, "key1", "a"), testPair(t, "k 2/with-odd.chars", "b")
	old := ring(t, "key1", a)
	key := crypto.NewKey()
	wrapped, err := old.Wrap(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(wrapped, "key1:") || len(wrapped) != len("key1:")+344 || strings.Contains(wrapped, "\n") {
		t.Errorf("wrapped key is %q", wrapped)
	}
	rotated := ring(t, b.ID(), a, b)
	got, err := rotated.Unwrap(t.Context(), wrapped)
	if err != nil || !bytes.Equal(got.Bytes(), key.Bytes()) {
		t.Errorf("after the rotation: %v, same key %t", err, bytes.Equal(got.Bytes(), key.Bytes()))
	}
	rewrapped, err := rotated.Wrap(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := crypto.WrappingKeyID(rewrapped); err != nil || id != b.ID() || rotated.ActiveID() != b.ID() {
		t.Errorf("wrapped with %q, %v, want %q", id, err, b.ID())
	}
	if _, err := old.Unwrap(t.Context(), rewrapped); !errors.Is(err, crypto.ErrUnknownKey) || !strings.Contains(err.Error(), b.ID()) {
		t.Errorf("without the new pair: %v, want ErrUnknownKey that names it", err)
	}
}

func TestKeyRing_ErrorsTellConfigurationFromDamage(t *testing.T) {
	r := ring(t, "key1", testPair(t, "key1", "a"))
	wrapped, err := r.Wrap(t.Context(), crypto.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	_, b64, _ := strings.Cut(wrapped, ":")
	ct, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(ct)
	flipped[100] ^= 1
	text := func(b []byte) string { return "key1:" + base64.StdEncoding.EncodeToString(b) }
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"other id":            {"key2:" + b64, crypto.ErrUnknownKey},
		"flipped bit":         {text(flipped), crypto.ErrWrongKey},
		"size of another key": {text(make([]byte, 512)), crypto.ErrWrongKey},
		"cut":                 {wrapped[:len(wrapped)-4], crypto.ErrMalformed},
		"no colon":            {b64, crypto.ErrMalformed},
		"two colons":          {"a:key1:" + b64, crypto.ErrMalformed},
		"blank id":            {" :" + b64, crypto.ErrMalformed},
		"no id":               {":" + b64, crypto.ErrMalformed},
		"nothing behind id":   {"key1:", crypto.ErrMalformed},
		"not base64":          {"key1:***", crypto.ErrMalformed},
		"url-safe base64":     {"key1:" + strings.Repeat("-_-_", 86), crypto.ErrMalformed},
		"line break":          {"key1:" + b64[:76] + "\n" + b64[76:], crypto.ErrMalformed},
		"empty":               {"", crypto.ErrMalformed},
	} {
		_, err := r.Unwrap(t.Context(), c.text)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// The same id, another pair: data are fine, the configuration is not.
	if _, err := ring(t, "key1", testPair(t, "key1", "wrong")).Unwrap(t.Context(), wrapped); !errors.Is(err, crypto.ErrWrongKey) {
		t.Errorf("another pair: %v, want ErrWrongKey", err)
	}
	if _, err := ring(t, "key1", testPair(t, "key1", "b")).Unwrap(t.Context(), wrapped); !errors.Is(err, crypto.ErrWrongKey) {
		t.Errorf("another pair of another size: %v, want ErrWrongKey", err)
	}
	if _, err := r.Wrap(t.Context(), crypto.Key{}); !errors.Is(err, crypto.ErrMalformed) {
		t.Errorf("wrapping no key: %v, want ErrMalformed", err)
	}
}

func TestKeyRing_RefusesWhatCannotBeReadBack(t *testing.T) {
	a := testPair(t, "key1", "a")
	if _, err := crypto.NewKeyRing("key2", a); !errors.Is(err, crypto.ErrUnknownKey) || !strings.Contains(err.Error(), `"key1"`) {
		t.Errorf("active pair missing: %v, want ErrUnknownKey that says what there is", err)
	}
	if _, err := crypto.NewKeyRing("key1", a, a); err == nil {
		t.Error("two pairs under one id are accepted")
	}
	if _, err := crypto.NewKeyRing("", crypto.KeyPair{}); err == nil {
		t.Error("an empty pair is accepted")
	}
	public, private := keyFiles(t, "a")
	for _, id := range []string{"", "  ", "a:b"} {
		if _, err := crypto.LoadKeyPair(id, public, private); err == nil {
			t.Errorf("id %q is accepted", id)
		}
	}
}

// The least modulus that OAEP with SHA3-512 can wrap 32 bytes with is 1296 bits.
func TestKeyRing_LeastModulus(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1288)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := crypto.NewKeyPair("k", &small.PublicKey, small); err == nil || !strings.Contains(err.Error(), "1296") {
		t.Errorf("1288 bits: %v, want a refusal that says 1296", err)
	}
	least, err := rsa.GenerateKey(rand.Reader, 1296)
	if err != nil {
		t.Fatal(err)
	}
	p, err := crypto.NewKeyPair("k", &least.PublicKey, least)
	if err != nil {
		t.Fatal(err)
	}
	r, key := ring(t, "k", p), crypto.NewKey()
	wrapped, err := r.Wrap(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Unwrap(t.Context(), wrapped); err != nil || !bytes.Equal(got.Bytes(), key.Bytes()) {
		t.Errorf("1296 bits: %v", err)
	}
}

func TestLoadKeyPair_SaysWhichFileAndWhy(t *testing.T) {
	dir := t.TempDir()
	public, private := keyFiles(t, "a")
	otherPublic, _ := keyFiles(t, "wrong")
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asPEM := func(label string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
	}
	must := func(der []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encryptedOld := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte{1}})
	for name, c := range map[string]struct{ public, private, file, want string }{
		"public missing":      {filepath.Join(dir, "none"), private, "none", "no such file"},
		"private missing":     {public, filepath.Join(dir, "none"), "none", "no such file"},
		"a directory":         {dir, private, dir, "is a directory"},
		"not PEM":             {write("text", []byte("hello")), private, "text", "not PEM"},
		"empty":               {public, write("empty", nil), "empty", "not PEM"},
		"huge":                {write("huge", make([]byte, 2<<20)), private, "huge", "no key file"},
		"encrypted PKCS#8":    {public, write("enc8", asPEM("ENCRYPTED PRIVATE KEY", []byte{1})), "enc8", "password"},
		"encrypted old":       {public, write("enc1", encryptedOld), "enc1", "password"},
		"PKCS#1 private":      {public, write("p1", asPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(small))), "p1", "openssl pkcs8"},
		"PKCS#1 public":       {write("p1pub", asPEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&small.PublicKey))), private, "p1pub", "openssl rsa"},
		"certificate":         {write("cert", asPEM("CERTIFICATE", []byte{1})), private, "cert", "openssl x509"},
		"another kind":        {write("odd", asPEM("DH PARAMETERS", []byte{1})), private, "odd", "another kind"},
		"exchanged":           {private, public, "private.pem", "exchanged"},
		"EC public":           {write("ecpub", asPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&ec.PublicKey)))), private, "ecpub", "want an RSA key"},
		"EC private":          {public, write("ec", asPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(ec)))), "ec", "want an RSA key"},
		"damaged public":      {write("badpub", asPEM("PUBLIC KEY", []byte{1, 2})), private, "badpub", "asn1"},
		"damaged private":     {public, write("bad", asPEM("PRIVATE KEY", []byte{1, 2})), "bad", "asn1"},
		"small modulus":       {write("small", asPEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&small.PublicKey)))), private, "small", "1024 bits is too small"},
		"not the same pair":   {otherPublic, private, "wrong.public.pem", "do not belong together"},
		"text before the PEM": {write("bag", append([]byte("Bag Attributes\n  friendlyName: x\n"), must(os.ReadFile(public))...)), private, "", ""},
	} {
		_, err := crypto.LoadKeyPair("key1", c.public, c.private)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), `"key1"`) {
			t.Errorf("%s: %v, want an error with the pair, %q and %q", name, err, c.file, c.want)
			continue
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error has several lines: %q", name, err)
		}
	}
}
