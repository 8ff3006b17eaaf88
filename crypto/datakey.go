package crypto

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
)

const (
	// Overhead is what sealing adds to a piece: 12 bytes of nonce in front and 16 of tag behind.
	Overhead = 28
	// AADSize is the length of the additional data of a new data key. Those that are read may have any length.
	AADSize = 32
)

// DataKey seals and opens the pieces of one segment. It is safe for concurrent use.
type DataKey struct {
	key  Key
	aad  []byte
	aead hidden[cipher.AEAD] // its key schedule is as good as the key
}

// NewDataKey returns a random data key with random additional data.
func NewDataKey() (*DataKey, error) {
	aad := make([]byte, AADSize)
	_, _ = rand.Read(aad) // never fails: crypto/rand aborts the program instead (Go 1.24)
	return OpenDataKey(NewKey(), aad)
}

// OpenDataKey returns the data key with the key and the additional data that a manifest gave.
func OpenDataKey(key Key, aad []byte) (*DataKey, error) {
	block, err := aes.NewCipher(key.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: data key: %w", ErrMalformed, err)
	}
	// Nonce, ciphertext, tag in one piece is also Java's layout; the nonce comes from the system's random source each time.
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	return &DataKey{key: key, aad: slices.Clone(aad), aead: hide(aead)}, nil
}

// Key returns the key for wrapping.
func (k *DataKey) Key() Key { return k.key }

// AAD returns a copy of the additional data, which are no secret and belong into the manifest.
func (k *DataKey) AAD() []byte { return slices.Clone(k.aad) }

// Seal appends the sealed piece of plain to dst and returns the result. It allocates nothing if dst has room for len(plain) +
// Overhead bytes. The two may overlap exactly, Seal(buf[:0], buf), and in no other way: anything else panics.
func (k *DataKey) Seal(dst, plain []byte) []byte {
	return k.aead().Seal(dst, nil, plain, k.aad) //nolint:gosec // G407: the nonce is not nil, NewGCMWithRandomNonce makes it
}

// Open appends the content of the piece to dst. Exactly in place, Open(piece[:0], piece), is allowed; the piece is destroyed
// then, also when Open fails. It allocates nothing if dst has room. After an error, ErrAuthentication or ErrMalformed (too
// short), the returned slice is nil.
func (k *DataKey) Open(dst, piece []byte) ([]byte, error) {
	if len(piece) < Overhead {
		return nil, fmt.Errorf("%w: sealed piece of %d bytes, the least is %d", ErrMalformed, len(piece), Overhead)
	}
	out, err := k.aead().Open(dst, nil, piece, k.aad)
	if err != nil {
		return nil, ErrAuthentication // the only reason cipher.AEAD has
	}
	return out, nil
}

// String implements fmt.Stringer without showing the key.
func (k *DataKey) String() string { return redacted }

// Format implements fmt.Formatter without showing the key under any verb.
func (k *DataKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler (and with it JSON) without showing the key.
func (k *DataKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer without showing the key.
func (k *DataKey) LogValue() slog.Value { return slog.StringValue(redacted) }
