package gcs

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"

	"github.com/tierkit/tierkit/backends"
)

// metaToken is the key of the metadata that marks an object as one upload's. Info.Meta does not show it.
const metaToken = "tierkit-upload" //nolint:gosec // no secret

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

// userMeta is what the user gave. Names come in the form of HTTP headers after a Get.
func userMeta(in map[string]string) map[string]string {
	var out map[string]string
	for k, v := range in {
		key := strings.ToLower(k)
		if key == metaToken {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(in))
		}
		out[key] = v
	}
	return out
}

func versionOf(generation int64) string { return strconv.FormatInt(generation, 10) }

func infoOf(a *storage.ObjectAttrs) backends.Info {
	return backends.Info{Key: a.Name, Size: a.Size, ModTime: a.Updated.UTC(), Version: versionOf(a.Generation), Meta: userMeta(a.Metadata)}
}
