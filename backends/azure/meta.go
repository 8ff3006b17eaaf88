package azure

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/tierkit/tierkit/backends"
)

// metaToken is the key of the metadata that marks an object as one upload's. Info.Meta does not show it.
const metaToken = "tierkit-upload" //nolint:gosec // no secret

// Names of metadata in Azure are identifiers of C#: letters, digits and underscores, no digit in front. Ours may also have dashes and begin with
// a digit. "_" becomes "__", "-" becomes "_h", a digit in front gets "_n" before it.

func encodeName(key string) string {
	out := strings.NewReplacer("_", "__", "-", "_h").Replace(key)
	if out != "" && out[0] >= '0' && out[0] <= '9' {
		out = "_n" + out
	}
	return out
}

// decodeName is the inverse of encodeName. A name of another program, that encodeName would not make, is taken as it is. The SDK gives names in the
// form of HTTP headers, so case is lost.
func decodeName(name string) string {
	name = strings.ToLower(name)
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '_' {
			b.WriteByte(name[i])
			continue
		}
		if i++; i == len(name) {
			return name
		}
		switch {
		case name[i] == '_':
			b.WriteByte('_')
		case name[i] == 'h':
			b.WriteByte('-')
		case name[i] == 'n' && i == 1:
		default:
			return name
		}
	}
	if key := b.String(); encodeName(key) == name {
		return key
	}
	return name
}

func encodeMeta(meta map[string]string) map[string]*string {
	out := make(map[string]*string, len(meta))
	for k, v := range meta {
		out[encodeName(k)] = &v
	}
	return out
}

// decodeMeta returns the user's metadata and the token.
func decodeMeta(in map[string]*string) (meta map[string]string, token string) {
	for k, v := range in {
		key, value := decodeName(k), ""
		if v != nil {
			value = *v
		}
		if key == metaToken {
			token = value
			continue
		}
		if meta == nil {
			meta = make(map[string]string, len(in))
		}
		meta[key] = value
	}
	return meta, token
}

// newToken returns 128 random bits, or "" where metadata has no room for them.
func newToken(meta map[string]string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	size := len(metaToken) + 2*len(b)
	for k, v := range meta {
		size += len(k) + len(v)
	}
	if size > backends.MaxMetaBytes {
		return ""
	}
	return hex.EncodeToString(b[:])
}
