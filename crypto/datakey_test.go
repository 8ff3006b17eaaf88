package crypto_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/crypto"
)

func newDataKey(t testing.TB) *crypto.DataKey {
	t.Helper()
	k, err := crypto.NewDataKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestDataKey_OpensWhatItSealed(t *testing.T) {
	k := newDataKey(t)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "plain")
		front := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "front")
		sealed := k.Seal(bytes.Clone(front), plain)
		if len(sealed) != len(front)+len(plain)+crypto.Overhead || !bytes.HasPrefix(sealed, front) {
			t.Fatalf("sealed %d bytes behind %d to %d", len(plain), len(front), len(sealed))
		}
		got, err := k.Open(bytes.Clone(front), sealed[len(front):])
		if err != nil || !bytes.Equal(got, append(front, plain...)) {
			t.Fatalf("opened %x, %v, want %x behind %x", got, err, plain, front)
		}
	})
}

func TestDataKey_WorksInPlaceWithoutAllocating(t *testing.T) {
	k := newDataKey(t)
	plain := bytes.Repeat([]byte("0123456789"), 100_000)
	buf := make([]byte, len(plain), len(plain)+crypto.Overhead)
	copy(buf, plain)
	sealed := k.Seal(buf[:0], buf)
	if &sealed[0] != &buf[0] {
		t.Error("Seal did not work in place")
	}
	opened, err := k.Open(sealed[:0], sealed)
	if err != nil || !bytes.Equal(opened, plain) || &opened[0] != &buf[0] {
		t.Errorf("Open in place: %v, same bytes %t", err, bytes.Equal(opened, plain))
	}
	if n := testing.AllocsPerRun(20, func() {
		s := k.Seal(buf[:0], buf[:len(plain)])
		if _, err := k.Open(s[:0], s); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per piece, want 0", n)
	}
}

func TestDataKey_EveryChangedBitIsFound(t *testing.T) {
	k := newDataKey(t)
	sealed := k.Seal(nil, []byte("content"))
	for bit := range 8 * len(sealed) {
		b := bytes.Clone(sealed)
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := k.Open(nil, b); !errors.Is(err, crypto.ErrAuthentication) || got != nil {
			t.Fatalf("bit %d changed: %q, %v, want ErrAuthentication", bit, got, err)
		}
	}
	for n := range sealed {
		want := crypto.ErrAuthentication
		if n < crypto.Overhead {
			want = crypto.ErrMalformed
		}
		if got, err := k.Open(nil, sealed[:n]); !errors.Is(err, want) || got != nil {
			t.Fatalf("cut to %d bytes: %q, %v, want %v", n, got, err, want)
		}
	}
	other, err := crypto.OpenDataKey(k.Key(), append(k.AAD(), 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(nil, sealed); !errors.Is(err, crypto.ErrAuthentication) {
		t.Errorf("other additional data: %v, want ErrAuthentication", err)
	}
}

func TestDataKey_NoncesDiffer(t *testing.T) {
	k, seen := newDataKey(t), map[string]bool{}
	for range 1000 {
		nonce := string(k.Seal(nil, nil)[:12])
		if seen[nonce] {
			t.Fatal("a nonce came twice")
		}
		seen[nonce] = true
	}
	if bytes.Equal(k.AAD(), newDataKey(t).AAD()) || bytes.Equal(k.Key().Bytes(), newDataKey(t).Key().Bytes()) {
		t.Error("two data keys are alike")
	}
}

func TestOpenDataKey_RefusesWhatIsNoKey(t *testing.T) {
	if _, err := crypto.OpenDataKey(crypto.Key{}, nil); !errors.Is(err, crypto.ErrMalformed) {
		t.Errorf("no key: %v, want ErrMalformed", err)
	}
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := crypto.KeyFromBytes(make([]byte, n)); !errors.Is(err, crypto.ErrMalformed) {
			t.Errorf("%d bytes: %v, want ErrMalformed", n, err)
		}
	}
}

func TestKeys_AreNeverPrinted(t *testing.T) {
	raw := bytes.Repeat([]byte{0xa7}, crypto.KeySize)
	key, err := crypto.KeyFromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	dk, err := crypto.OpenDataKey(key, []byte("aad"))
	if err != nil {
		t.Fatal(err)
	}
	pair := testPair(t, "key1", "a")
	ring, err := crypto.NewKeyRing("key1", pair)
	if err != nil {
		t.Fatal(err)
	}
	type nested struct {
		inner any
		Outer any
		key   crypto.Key
		dk    *crypto.DataKey
		pair  crypto.KeyPair
	}
	secrets := []string{"a7a7", "A7A7", "167 167", "0xa7, 0xa7", `\xa7\xa7`, "p6en", "2812782503"} // base64, and words of the key schedule
	d := fmt.Sprint(privateExponent(t, "a"))
	secrets = append(secrets, d[:30], d[len(d)-30:])
	for _, v := range []any{key, &key, dk, *dk, pair, &pair, ring, *ring, nested{key, key, key, dk, pair}, &nested{dk, dk, key, dk, pair}, []any{key, dk, pair}} {
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		j, err := json.Marshal(v)
		fmt.Fprintln(&out, string(j), err)
		for _, s := range secrets {
			if strings.Contains(out.String(), s) {
				t.Errorf("%T shows its key (%q):\n%s", v, s, out.String())
			}
		}
	}
	if hex.EncodeToString(key.Bytes()) != strings.Repeat("a7", crypto.KeySize) {
		t.Error("Bytes is not the key")
	}
}
