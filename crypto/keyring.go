package crypto

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha3"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/internal/b64"
)

// KeyWrapper turns data keys into text for a manifest and back. It is what an implementation over a key management service
// provides; KeyRing is the one over local key files.
//
// Wrap returns text that Unwrap of a later process understands; it MUST NOT contain the key in clear, and it is stored in a JSON
// string. Unwrap MUST fail with ErrUnknownKey, ErrWrongKey or ErrMalformed where one of them applies: the first two are shown as
// mistakes of configuration, the last as damage. Both MUST honour ctx and be safe for concurrent use.
type KeyWrapper interface {
	Wrap(ctx context.Context, key Key) (string, error)
	Unwrap(ctx context.Context, text string) (Key, error)
}

// KeyRing wraps data keys with RSA-OAEP, hash and MGF1 both SHA3-512, no label. The text is "<key pair id>:<base64>".
type KeyRing struct {
	active KeyPair
	pairs  map[string]KeyPair
}

var _ KeyWrapper = (*KeyRing)(nil)

// NewKeyRing returns a ring of the pairs. New data keys are wrapped with the pair named active; the others are for reading.
func NewKeyRing(active string, pairs ...KeyPair) (*KeyRing, error) {
	r := &KeyRing{pairs: make(map[string]KeyPair, len(pairs))}
	for _, p := range pairs {
		if p.public == nil {
			return nil, errors.New("key ring: empty key pair")
		}
		if _, ok := r.pairs[p.id]; ok {
			return nil, fmt.Errorf("key ring: two key pairs have the id %q", p.id)
		}
		r.pairs[p.id] = p
	}
	a, ok := r.pairs[active]
	if !ok {
		return nil, fmt.Errorf("%w: active key pair %q; the ring has %s", ErrUnknownKey, active, r.names())
	}
	r.active = a
	return r, nil
}

// ActiveID is the id of the pair that wraps new data keys.
func (r *KeyRing) ActiveID() string { return r.active.id }

// Wrap implements KeyWrapper.
func (r *KeyRing) Wrap(_ context.Context, key Key) (string, error) {
	if len(key.Bytes()) != KeySize {
		return "", fmt.Errorf("%w: no data key to wrap", ErrMalformed)
	}
	ct, err := rsa.EncryptOAEP(sha3.New512(), rand.Reader, r.active.public, key.Bytes(), nil)
	if err != nil {
		return "", fmt.Errorf("wrap data key with key pair %q: %w", r.active.id, err)
	}
	return r.active.id + ":" + b64.Encode(ct), nil
}

// Unwrap implements KeyWrapper.
func (r *KeyRing) Unwrap(_ context.Context, text string) (Key, error) {
	id, ct, err := splitWrapped(text)
	if err != nil {
		return Key{}, err
	}
	pair, ok := r.pairs[id]
	if !ok {
		return Key{}, fmt.Errorf("%w: data key was wrapped with %q; the ring has %s", ErrUnknownKey, id, r.names())
	}
	if n, want := len(ct), pair.public.Size(); n != want {
		// A whole number of 512-bit steps is the size of another modulus: key files were replaced under the same id.
		if n >= minModulusBytes && n%64 == 0 {
			return Key{}, fmt.Errorf("%w: %q on the ring has %d bits, the data key was wrapped with %d", ErrWrongKey, id, want*8, n*8)
		}
		return Key{}, fmt.Errorf("%w: wrapped data key has %d bytes, key pair %q makes %d", ErrMalformed, n, id, want)
	}
	plain, err := rsa.DecryptOAEP(sha3.New512(), nil, pair.private(), ct, nil)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %q is another pair than the one that wrapped it, or the wrapped key is damaged", ErrWrongKey, id)
	}
	return KeyFromBytes(plain)
}

// WrappingKeyID returns the id of the key pair named by a wrapped data key: the text before the only colon.
func WrappingKeyID(text string) (string, error) {
	id, _, err := splitWrapped(text)
	return id, err
}

func splitWrapped(text string) (id string, ct []byte, err error) {
	id, b, ok := strings.Cut(text, ":")
	switch {
	case !ok || strings.Contains(b, ":"):
		return "", nil, fmt.Errorf("%w: wrapped data key is not <key pair id>:<base64> with one colon", ErrMalformed)
	case strings.TrimSpace(id) == "":
		return "", nil, fmt.Errorf("%w: wrapped data key has no key pair id", ErrMalformed)
	}
	if ct, err = b64.Decode(b); err != nil {
		return "", nil, fmt.Errorf("%w: wrapped data key of key pair %q: %w", ErrMalformed, id, err)
	}
	if len(ct) == 0 {
		return "", nil, fmt.Errorf("%w: wrapped data key of key pair %q is empty", ErrMalformed, id)
	}
	return id, ct, nil
}

func (r *KeyRing) names() string {
	if len(r.pairs) == 0 {
		return "no key pair"
	}
	ids := slices.Sorted(maps.Keys(r.pairs))
	for i, id := range ids {
		ids[i] = fmt.Sprintf("%q", id)
	}
	return strings.Join(ids, ", ")
}
