package remotelog

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// UUID is Kafka's 128-bit id (org.apache.kafka.common.Uuid): 16 bytes, the most significant long first.
type UUID [16]byte

// uuidTextLen is the length of the text form: 16 bytes in base64 without padding.
const uuidTextLen = 22

// uuidText is strict: the 4 bits that 22 characters have over 128 must be zero, so that one id has one text.
var uuidText = base64.RawURLEncoding.Strict()

// NewUUID returns a random id of the kind Kafka generates: version 4, never one of the reserved ids (all zero, or zero with
// a last bit of one), and never one whose text begins with a dash, which command lines would take for an option.
func NewUUID() UUID {
	for {
		var u UUID
		_, _ = rand.Read(u[:]) // never fails: crypto/rand aborts the program instead (Go 1.24)
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}

// ParseUUID reads Kafka's text form: 22 characters of URL-safe base64 without padding. Ids that begin with a dash are accepted
// although Kafka never generates one.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	if len(s) != uuidTextLen {
		return UUID{}, fmt.Errorf("%w: id %q has %d characters, want %d of URL-safe base64", ErrInvalidArgument, s, len(s), uuidTextLen)
	}
	if n, err := uuidText.Decode(u[:], []byte(s)); err != nil || n != len(u) { // line ends are skipped
		return UUID{}, fmt.Errorf("%w: id %q is not URL-safe base64 of 16 bytes", ErrInvalidArgument, s)
	}
	return u, nil
}

// String returns Kafka's text form, always 22 characters.
func (u UUID) String() string { return uuidText.EncodeToString(u[:]) }

// IsZero reports whether u is the all-zero id, which Kafka reserves for "none".
func (u UUID) IsZero() bool { return u == UUID{} }

// Compare orders ids by their bytes.
func (u UUID) Compare(v UUID) int { return bytes.Compare(u[:], v[:]) }

// MarshalText implements encoding.TextMarshaler with Kafka's text form.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *UUID) UnmarshalText(b []byte) error {
	v, err := ParseUUID(string(b))
	if err != nil {
		return err
	}
	*u = v
	return nil
}
