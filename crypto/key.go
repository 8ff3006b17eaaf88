package crypto

import (
	"crypto/rand"
	"fmt"
	"log/slog"
)

// KeySize is the length of a data key in bytes: AES-256.
const KeySize = 32

const redacted = "[redacted]"

// Key holds the 32 bytes of a data key in a form that cannot be printed. The zero value holds none. Copies share the bytes.
type Key struct {
	// p is a pointer so that fmt, which cannot call methods of unexported fields, prints an address and never the key.
	p *[KeySize]byte
}

// NewKey returns a random key.
func NewKey() Key {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the program instead (Go 1.24)
	return Key{&b}
}

// KeyFromBytes copies b, which must have KeySize bytes; else ErrMalformed.
func KeyFromBytes(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, fmt.Errorf("%w: data key has %d bytes, want %d", ErrMalformed, len(b), KeySize)
	}
	k := [KeySize]byte(b)
	return Key{&k}, nil
}

// Bytes returns the key itself, for wrapping. It is nil for the zero value; it must not be modified.
func (k Key) Bytes() []byte {
	if k.p == nil {
		return nil
	}
	return k.p[:]
}

// String implements fmt.Stringer without showing the key.
func (k Key) String() string { return redacted }

// Format implements fmt.Formatter without showing the key under any verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler (and with it JSON) without showing the key.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer without showing the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }
