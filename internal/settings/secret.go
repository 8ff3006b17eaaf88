package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// Redacted is what a secret prints as.
const Redacted = "<redacted>"

// MaxSecretBytes bounds the file that a file:PATH secret is read from.
const MaxSecretBytes = 1 << 20

// Secret holds a secret that cannot be printed, logged or marshalled by accident: every text form of it is Redacted. It keeps
// the text behind a pointer, because package fmt reads unexported fields of a surrounding struct without asking for methods.
// The zero value is "no secret".
type Secret struct {
	v          *string
	referenced bool
}

// NewSecret returns a secret.
func NewSecret(text string) Secret { return Secret{v: &text} }

// Referenced reports whether the settings had only a reference to the secret, file:PATH or env:NAME, and not the secret itself.
func (s Secret) Referenced() bool { return s.referenced }

// Reveal returns the secret itself, "" for the zero value. Call it where it is handed to a client, nowhere else.
func (s Secret) Reveal() string {
	if s.v == nil {
		return ""
	}
	return *s.v
}

// IsZero reports whether there is no secret, or an empty one.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

func (s Secret) String() string { return Redacted }

// GoString serves %#v.
func (s Secret) GoString() string { return Redacted }

// Format serves every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue serves log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText serves encoding/json map keys, encoding/xml and others.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON serves encoding/json.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// secret reads the text of a Secret setting: the secret, file:PATH or env:NAME. A message never holds what was read.
func (o *Options) secret(text string) (v any, why string) {
	var err error
	given := text
	switch {
	case strings.HasPrefix(text, "file:"):
		text, err = o.fromFile(strings.TrimPrefix(text, "file:"))
	case strings.HasPrefix(text, "env:"):
		text, err = o.fromEnv(strings.TrimPrefix(text, "env:"))
	}
	if err != nil {
		return nil, err.Error()
	}
	if text == "" {
		return nil, "is empty: remove the line, or give the secret, file:PATH or env:NAME"
	}
	return Secret{v: &text, referenced: text != given}, ""
}

// fromFile reads a secret from a file; line ends at its end do not belong to it.
func (o *Options) fromFile(path string) (string, error) {
	read := o.ReadFile
	if read == nil {
		read = readSmall
	}
	b, err := read(path)
	if err != nil {
		return "", fmt.Errorf("file %q cannot be read: %w", path, cause(err))
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("file %q is empty", path)
	}
	return text, nil
}

func (o *Options) fromEnv(name string) (string, error) {
	if o.Getenv == nil {
		return "", errors.New("env: is not available here, use file:PATH")
	}
	text, ok := o.Getenv(name)
	if !ok || text == "" {
		return "", fmt.Errorf("environment variable %q is not set: it must be for this command and for whatever starts the daemon", name)
	}
	return text, nil
}

// cause drops operation and path, which the message names already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	b, err := io.ReadAll(io.LimitReader(f, MaxSecretBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxSecretBytes {
		return nil, fmt.Errorf("it holds more than %d bytes", MaxSecretBytes)
	}
	return b, nil
}
