package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tierkit/tierkit/internal/regular"
)

const (
	minToken = 16
	maxToken = 1024
)

// CheckToken refuses a token that can be guessed, or cannot stand in a header.
func CheckToken(token string) error {
	if len(token) < minToken || len(token) > maxToken {
		return fmt.Errorf("the token has %d characters, want %d to %d", len(token), minToken, maxToken)
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7f {
			return fmt.Errorf("the token has a character that is not printable ASCII, or a space")
		}
	}
	return nil
}

// ReadToken reads the token of a file; line ends at its end do not belong to it.
func ReadToken(path string) (string, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", keyTokenFile, err)
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, maxToken+3))
	if err != nil {
		return "", fmt.Errorf("%s: %w", keyTokenFile, err)
	}
	token := strings.TrimRight(string(data), "\r\n")
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("%s: %s: %w", keyTokenFile, path, err)
	}
	return token, nil
}

// tokenCheck compares tokens in a time that does not depend on what they have in common, or on their lengths.
type tokenCheck struct{ sum reloaded[[sha256.Size]byte] }

// init sets the token, which is read again when the file changes, if there is one, until ctx ends.
func (c *tokenCheck) init(ctx context.Context, token, file string, log *slog.Logger) {
	sum := sha256.Sum256([]byte(token))
	c.sum.what, c.sum.log = "token", log
	c.sum.value.Store(&sum)
	if file == "" {
		return
	}
	c.sum.files = []string{file}
	c.sum.read = func() ([sha256.Size]byte, error) {
		token, err := ReadToken(file)
		return sha256.Sum256([]byte(token)), err
	}
	c.sum.look() // it may have changed since
	go c.sum.follow(ctx)
}

func (c *tokenCheck) shown(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum, want := sha256.Sum256([]byte(got)), c.sum.get()
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && ok
}
