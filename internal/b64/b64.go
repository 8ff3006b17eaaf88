// Package b64 reads base64 as java.util.Base64.getDecoder does, which is what Aiven's plug-in uses for wrapped data keys and
// chunk sizes: the standard alphabet only, no white space, padding optional. encoding/base64 alone would skip line breaks,
// which Java refuses, and insist on padding, which Java does not.
package b64

import (
	"encoding/base64"
	"errors"
	"strings"
)

var errLineBreak = errors.New("illegal line break in base64")

// Decode returns the bytes of s.
func Decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errLineBreak
	}
	if strings.HasSuffix(s, "=") {
		return base64.StdEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

// Encode is standard base64 with padding.
func Encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
