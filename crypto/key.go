package crypto

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
)

// KeySize is the length of a data key in bytes: AES-256.
const KeySize = 32

const redacted = "[redacted]"

// hidden keeps a value from fmt and reflection. fmt cannot call the methods of unexported fields and prints what they hold, with
// a wrong verb even behind pointers; of a function it never prints more than an address.
type hidden[T any] func() T

func hide[T any](v T) hidden[T] { return func() T { return v } }

// Key holds the 32 bytes of a data key in a form that cannot be printed. The zero value holds none. Copies share the bytes.
type Key struct {
	bytes hidden[[]byte]
}

// NewKey returns a random key.
func NewKey() Key {
	b := make([]byte, KeySize)
	_, _ = rand.Read(b) // never fails: crypto/rand aborts the program instead (Go 1.24)
	return Key{hide(b)}
}

// KeyFromBytes copies b, which must have KeySize bytes; else ErrMalformed.
func KeyFromBytes(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, fmt.Errorf("%w: data key has %d bytes, want %d", ErrMalformed, len(b), KeySize)
	}
	return Key{hide(slices.Clone(b))}, nil
}

// Bytes returns the key itself, for wrapping. It is nil for the zero value; it must not be modified.
func (k Key) Bytes() []byte {
	if k.bytes == nil {
		return nil
	}
	return k.bytes()
}

// String implements fmt.Stringer without showing the key.
func (k Key) String() string { return redacted }

// Format implements fmt.Formatter without showing the key under any verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler (and with it JSON) without showing the key.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer without showing the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }
